"""A stored session whose folder has moved continues in another one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from fakes import Incarnations, echo

import agentrt
from agentrt.config import Config
from agentrt.testing import open_fake_runtime

DEMO = agentrt.agents.acp([sys.executable, "-m", "agentrt.demo"], name="demo")


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Path]:
    """A store with a session of a folder that is gone, and the folder that it is now."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()

    async def fill() -> None:
        async with (
            agentrt.store.open_store(tmp_path / "store.db") as store,
            agentrt.open_session(DEMO, cwd=old, store=store) as session,
        ):
            await session.run("hello")

    trio.run(fill)
    old.rename(new)
    return tmp_path / "store.db", new


@pytest.mark.slow
async def test_a_session_continues_in_the_folder_that_it_is_given(moved: tuple[Path, Path]) -> None:
    file, new = moved
    with trio.fail_after(30):
        async with agentrt.store.open_store(file) as store:
            [entry] = await store.sessions()
            with pytest.raises(agentrt.LocalProtocolError, match="cwd=…, --cwd DIR"):
                async with agentrt.store.reopen_session(entry.session, store, agent=DEMO):
                    pass
            again = agentrt.store.reopen_session(entry.session, store, agent=DEMO, cwd=new)
            async with again as session:
                assert (await session.run("again")).outcome == "completed"
                assert len(session.snapshot().turns) == 2
            [entry] = await store.sessions(cwd=str(new))
            async with agentrt.store.reopen_session(entry.session, store, agent=DEMO) as session:
                assert (await session.run("once more")).outcome == "completed"


@pytest.mark.slow
async def test_a_missing_folder_is_no_place_to_move_to(
    moved: tuple[Path, Path], tmp_path: Path
) -> None:
    file, _ = moved
    async with agentrt.store.open_store(file) as store:
        [entry] = await store.sessions()
        nowhere = agentrt.store.reopen_session(
            entry.session, store, agent=DEMO, cwd=tmp_path / "no"
        )
        with pytest.raises(agentrt.LocalProtocolError, match=r"create it first$"):
            async with nowhere:
                pass


async def test_a_runtime_continues_a_session_in_the_folder_that_it_is_given(tmp_path: Path) -> None:
    agents = Incarnations(echo)
    async with agentrt.store.open_store(tmp_path / "store.db") as store:
        async with open_fake_runtime({"fake": agents.start}, store=store) as runtime:
            session = await runtime.create("fake", cwd=tmp_path / "old")
            await session.run("hello")
        async with open_fake_runtime({"fake": agents.start}, store=store) as runtime:
            again = await runtime.reopen(session.id, cwd=tmp_path / "new")
            await again.run("again")
            assert agents.sent("session/new")[0]["params"]["cwd"] == str(tmp_path / "new")
            assert [info.cwd for info in runtime.list()] == [str(tmp_path / "new")]
            assert await runtime.reopen(session.id, cwd=tmp_path / "other") is again
        [entry] = await store.sessions()
        assert entry.cwd == str(tmp_path / "new")


@pytest.mark.slow
async def test_a_runtime_of_real_agents_continues_it_there_too(moved: tuple[Path, Path]) -> None:
    file, new = moved
    config = Config(agents={"demo": DEMO})
    with trio.fail_after(30):
        async with (
            agentrt.store.open_store(file) as store,
            agentrt.open_runtime(config=config, store=store) as runtime,
        ):
            [entry] = await store.sessions()
            with pytest.raises(agentrt.LocalProtocolError, match="no folder"):
                await runtime.reopen(entry.session)
            session = await runtime.reopen(entry.session, cwd=new)
            assert (await session.run("again")).outcome == "completed"
