"""`Session.checkpoints`: the files before and after each turn, for any agent."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from msgspec import structs
from trio.testing import wait_all_tasks_blocked

import agentrt
from agentrt import Limits
from agentrt.events import Notice
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from runtime.fakes import Incarnations, echo, log_of, obedient, session_with


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.py").write_text("first")
    return tmp_path / "project"


def writing(project: Path):  # type: ignore[no-untyped-def]
    """An agent that writes each prompt to a.py, without asking, and deletes what it is told to."""

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "delete":
                (project / "a.py").unlink()
            elif prompt.text != "look":
                (project / "a.py").write_text(prompt.text)
            prompt.end()

    return script


def notices(session: agentrt.Session, code: str) -> list[Notice]:
    return [e for e in log_of(session) if isinstance(e, Notice) and e.code == code]


async def test_the_files_of_a_turn_are_undone_and_that_is_undone_as_well(project: Path) -> None:
    options = {"cwd": str(project), "checkpoints": True}
    async with session_with(writing(project), **options) as (session, _):
        await session.run("second")
        await session.run("third")
        undone = await session.checkpoints.undo()
        assert (project / "a.py").read_text() == "second"
        await session.checkpoints.restore(undone.undo)
        assert (project / "a.py").read_text() == "third"
        await session.checkpoints.undo(2)
        assert (project / "a.py").read_text() == "first"


async def test_the_log_names_the_files_that_a_turn_changed(project: Path) -> None:
    options = {"cwd": str(project), "checkpoints": True}
    async with session_with(writing(project), **options) as (session, _):
        await session.run("look")
        turn = (await session.run("delete")).turn
        await session.wait_idle()
        [notice] = notices(session, "files_changed")
        assert notice.data["turn"] == turn
        assert notice.data["files"] == [{"path": "a.py", "change": "deleted"}]
        before, after = notice.data["before"], notice.data["after"]
        assert "-first" in await session.checkpoints.diff(before, after)
        known = {c.number: c for c in await session.checkpoints.list()}
        assert (known[before].turn, known[after].turn) == (turn, turn)


async def test_the_prompt_is_sent_after_the_checkpoint_and_only_once(project: Path) -> None:
    options = {"cwd": str(project), "checkpoints": True}
    async with session_with(echo, **options) as (session, agents):
        first, second = session.submit("a"), session.submit("b")
        await session.wait_idle()
        assert (first.result.text, second.result.text) == ("a", "b")
        assert len(agents.sent("session/prompt")) == 2


async def test_files_cannot_be_restored_while_a_turn_runs(project: Path) -> None:
    options = {"cwd": str(project), "checkpoints": True}
    async with session_with(obedient, **options) as (session, _):
        async with session.prompt("work"):
            with pytest.raises(agentrt.Busy, match="a turn is running"):
                await session.checkpoints.undo()
            session.cancel()
        await session.wait_idle()
        assert (await session.checkpoints.undo()).changes == ()


async def test_a_prompt_waits_until_a_restore_is_over(project: Path) -> None:
    options = {"cwd": str(project), "checkpoints": True}
    async with session_with(writing(project), **options) as (session, _):
        await session.run("second")
        await session.wait_idle()
        first = (await session.checkpoints.list())[0]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.checkpoints.restore, first.number)
            await wait_all_tasks_blocked()  # git restores the files
            await session.run("third")
        assert (project / "a.py").read_text() == "third"


async def test_a_turn_runs_without_a_checkpoint_if_none_can_be_made(project: Path) -> None:
    limits = structs.replace(Limits(), checkpoint_files=0)
    options = {"cwd": str(project), "checkpoints": True, "limits": limits}
    async with session_with(writing(project), **options) as (session, _):
        assert (await session.run("second")).outcome == "completed"
        await session.wait_idle()
        assert "more than 0 files" in notices(session, "checkpoint_failed")[0].message
        with pytest.raises(agentrt.LocalProtocolError, match="checkpoints of 0 turns"):
            await session.checkpoints.undo()


async def test_a_file_that_is_left_out_is_reported_once(project: Path) -> None:
    limits = structs.replace(Limits(), checkpoint_file_bytes=5)
    (project / "big").write_text("123456")
    options = {"cwd": str(project), "checkpoints": True, "limits": limits}
    async with session_with(writing(project), **options) as (session, _):
        await session.run("x")
        await session.run("y")
        await session.wait_idle()
        [notice] = notices(session, "checkpoint_incomplete")
        assert notice.data == {"files": ["big"]}


async def test_without_the_option_there_are_no_checkpoints(project: Path, state: Path) -> None:
    async with session_with(echo, cwd=str(project)) as (session, _):
        await session.run("hello")
        with pytest.raises(agentrt.LocalProtocolError, match="checkpoints=True"):
            _ = session.checkpoints
    assert not await trio.Path(state).exists()


async def test_two_sessions_in_one_folder_undo_only_their_own_turns(project: Path) -> None:
    async with open_fake_runtime({"fake": Incarnations(writing(project)).start}) as runtime:
        options = {"cwd": str(project), "checkpoints": True}
        one = await runtime.create("fake", **options)  # type: ignore[arg-type]
        two = await runtime.create("fake", **options)  # type: ignore[arg-type]
        await one.run("of one")
        await two.run("of two")
        await two.wait_idle()
        await two.checkpoints.undo()
        assert (project / "a.py").read_text() == "of one"
        with pytest.raises(agentrt.LocalProtocolError, match="of 1 turns"):
            await two.checkpoints.undo(2)


async def test_checkpoints_of_a_wrong_type_are_refused() -> None:
    with pytest.raises(TypeError, match="`checkpoints` must be True or False"):
        async with agentrt.open_session("demo", checkpoints="yes"):  # type: ignore[arg-type]
            pass
