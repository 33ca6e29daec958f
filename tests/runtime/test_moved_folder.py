"""A stored session whose folder has moved continues in another one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

import agentrt

DEMO = agentrt.acp([sys.executable, "-m", "agentrt.demo"], name="demo")


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Path]:
    """A store with a session of a folder that is gone, and the folder that it is now."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()

    async def fill() -> None:
        async with (
            agentrt.open_store(tmp_path / "store.db") as store,
            agentrt.open_session(DEMO, cwd=old, journal=store) as session,
        ):
            await session.run("hello")

    trio.run(fill)
    old.rename(new)
    return tmp_path / "store.db", new


@pytest.mark.slow
async def test_a_session_continues_in_the_folder_that_it_is_given(moved: tuple[Path, Path]) -> None:
    file, new = moved
    with trio.fail_after(30):
        async with agentrt.open_store(file) as store:
            [entry] = await store.sessions()
            with pytest.raises(agentrt.LocalProtocolError, match="cwd=…, --cwd DIR"):
                async with agentrt.reopen_session(entry.session, store, agent=DEMO):
                    pass
            again = agentrt.reopen_session(entry.session, store, agent=DEMO, cwd=new)
            async with again as session:
                assert (await session.run("again")).outcome == "completed"
                assert len(session.snapshot().turns) == 2
            [entry] = await store.sessions(cwd=str(new))
            async with agentrt.reopen_session(entry.session, store, agent=DEMO) as session:
                assert (await session.run("once more")).outcome == "completed"


@pytest.mark.slow
async def test_a_missing_folder_is_no_place_to_move_to(
    moved: tuple[Path, Path], tmp_path: Path
) -> None:
    file, _ = moved
    async with agentrt.open_store(file) as store:
        [entry] = await store.sessions()
        nowhere = agentrt.reopen_session(entry.session, store, agent=DEMO, cwd=tmp_path / "no")
        with pytest.raises(agentrt.LocalProtocolError, match=r"create it first$"):
            async with nowhere:
                pass
