"""`checkpoints`: a turn's files undone by a client."""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_kit import stage_with

from agentrt.testing import FakeAcpAgent
from runtime.fakes import obedient


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.py").write_text("first\n")
    return tmp_path / "project"


async def test_a_client_lists_compares_and_restores_the_files_of_a_turn(folder: Path) -> None:
    async def writing(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            (folder / "a.py").write_text(f"{prompt.text}\n")
            prompt.end()

    async with stage_with(writing) as stage:
        tab = stage.connect()
        session = await stage.runtime.create("fake", cwd=str(folder), checkpoints=True)
        [summary] = (await tab.ok("session", op="list"))["sessions"]
        assert summary["checkpoints"] is True
        turn = (await session.run("second")).turn
        listed = await tab.ok("checkpoints", op="list", session=session.id)
        before, after = listed["checkpoints"]
        assert (before["when"], after["when"], after["turn"]) == ("before", "after", turn)
        diff = await tab.ok("checkpoints", op="diff", session=session.id, old=before["number"])
        assert "-first\n+second\n" in diff["diff"]
        done = await tab.ok(
            "checkpoints", op="restore", session=session.id, checkpoint=before["number"]
        )
        assert (folder / "a.py").read_text() == "first\n"
        undo = done["restored"]["undo"]
        await tab.ok("checkpoints", op="restore", session=session.id, checkpoint=undo)
        assert (folder / "a.py").read_text() == "second\n"


async def test_a_restore_is_refused_while_a_turn_runs_and_without_checkpoints(folder: Path) -> None:
    async with stage_with(obedient) as stage:
        tab = stage.connect()
        session = await stage.runtime.create("fake", cwd=str(folder), checkpoints=True)
        async with session.prompt("work") as turn:
            restore = {"op": "restore", "session": session.id, "checkpoint": 1}
            assert await tab.refused("checkpoints", **restore) == "busy"
            turn.cancel()
        await session.wait_idle()
        restore["checkpoint"] = 99
        assert await tab.refused("checkpoints", **restore) == "unsupported"
        other = await stage.runtime.create("fake", cwd=str(folder))
        assert await tab.refused("checkpoints", op="list", session=other.id) == "unsupported"
