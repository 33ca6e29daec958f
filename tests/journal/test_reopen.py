"""Going on with a stored session: what it was, what was left open, and what the agent knows."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import agentrt
from agentrt.storage import backend_of, writing
from agentrt.store import open_store
from runtime.fakes import SETTABLE, Incarnations, asking, echo, settable, unresponsive

from .disk import another_boot
from .kit import RESUMES, abandoned, again, done_by_another, kept, left, prompts, whole
from .test_failures import until_stored


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


@pytest.mark.every_store
async def test_a_reopened_session_is_what_it_was(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            session.rename("mine")
            for text in ("first", "second", "third"):
                await session.run(text)
        before = whole(session.snapshot())
    async with open_store(path) as store:
        async with again(store, Incarnations(echo)) as session:
            after = whole(session.snapshot())
            assert session.id == "one"
            assert session.title == "mine"
    assert after.pop("state")["phase"] == "dead"
    assert after.pop("seq") == before.pop("seq") + 1
    assert before.pop("state")["phase"] == "closed"
    assert after == before


@pytest.mark.every_store
async def test_no_agent_is_started_before_the_next_prompt(path: Path) -> None:
    agents = Incarnations(echo)
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
        async with again(store, agents) as session:
            assert agents.processes == []
            assert (await session.run("again")).text == "again"
        assert len(agents.processes) == 1
        turns = (await store.snapshot("one")).turns
    assert [turn.id for turn in turns] == ["t1", "t2"]


@pytest.mark.every_store
async def test_the_agents_own_conversation_is_resumed_where_it_can_be(path: Path) -> None:
    agents = Incarnations(echo, **RESUMES)
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo, session="theirs", **RESUMES)) as session:
            await session.run("hello")
        async with again(store, agents) as session:
            assert session.agent_session == "theirs"
            await session.run("again")
    assert [m["params"]["sessionId"] for m in agents.sent("session/load")] == ["theirs"]
    assert len(agents.sent("session/prompt")) == 1


@pytest.mark.every_store
async def test_an_agent_that_cannot_resume_is_said_not_to_remember(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
        async with again(store, Incarnations(echo)) as session:
            await session.run("again")
            notices = [each for each in log_of_shown(session) if type(each) is agentrt.Notice]
    assert [each.data for each in notices if each.code == "agent_restarted"] == [{"resumed": False}]
    assert "does not remember" in notices[-1].message


@pytest.mark.every_store
async def test_an_agent_that_does_not_remember_can_be_told_what_was_said(path: Path) -> None:
    agents = Incarnations(echo)
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            with pytest.raises(agentrt.LocalProtocolError, match="there is nothing to repeat"):
                session.send_history()
            await session.run("the first word")
            await session.run("the second word")
        async with again(store, agents) as session:
            session.send_history()
            await session.run("go on")
            session.send_history(most=50)
            await session.run("and on")
    first, _, second, _ = prompts(agents)
    assert first.startswith("[agentrt] You do not remember this conversation")
    assert first.endswith(
        "The user: the first word\n\nYou: the first word\n\n"
        "The user: the second word\n\nYou: the second word"
    )
    assert second.endswith(
        "(earlier messages are left out)\n\nord\n\nYou: the second word\n\n"
        "The user: go on\n\nYou: go on"
    )
    assert "the first word" not in second


def log_of_shown(session: agentrt.Session) -> list[Any]:
    return session.log.since(session.log.kept_after)


@pytest.mark.every_store
async def test_the_title_that_a_person_gave_stays_against_the_agents(path: Path) -> None:
    async def naming(agent: Any) -> None:
        async for prompt in agent.prompts:
            agent.update("session_info_update", title="theirs")
            prompt.end()

    async with open_store(path) as store:
        async with kept(store, Incarnations(naming)) as session:
            session.rename("mine")
            await session.run("hello")
        async with again(store, Incarnations(naming)) as session:
            await session.run("again")
            assert session.title == "mine"


async def test_what_somebody_has_set_holds_although_the_host_was_killed_right_behind_it(
    path: Path, copy: Path
) -> None:
    agents = Incarnations(settable, **SETTABLE)
    async with open_store(path) as store:
        async with kept(store, Incarnations(settable, **SETTABLE)) as session:
            await session.run("hello")
            await session.set_mode("plan")
            await session.set_option("effort", "high")
            await until_stored(session)
            abandoned(path, copy)
    async with open_store(copy) as store, again(store, agents) as session:
        assert session.modes is not None
        assert session.modes.mode == "plan"
        await session.run("again")
        assert [m["params"]["modeId"] for m in agents.sent("session/set_mode")] == ["plan"]
        [option] = agents.sent("session/set_config_option")
        assert option["params"]["value"] == "high"


async def test_a_turn_that_was_interrupted_is_closed_with_a_word(path: Path, copy: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(asking)) as session:
            async with session.prompt("hello") as turn:
                async for event in turn:
                    if type(event) is agentrt.PermissionOpened:
                        abandoned(path, copy)
                        break
    async with open_store(copy) as store:
        async with again(store, Incarnations(echo)) as session:
            shown = session.snapshot()
            [turn_record] = shown.turns
            assert turn_record.outcome == "agent_died"
            assert turn_record.error is not None
            assert turn_record.error.code == "interrupted"
            assert shown.permissions == []
            [closed] = [
                e for e in log_of_shown(session) if type(e) is agentrt.events.PermissionClosed
            ]
            assert closed.outcome == "cancelled"
            assert "cannot resume its conversation" in closed.reason
            assert [item.status for item in shown.items] == ["completed", "orphaned"]
            assert (await session.run("again")).outcome == "completed"
            with pytest.raises(agentrt.LocalProtocolError):
                session.answer("r1", "yes")


@pytest.fixture
async def left_asking(path: Path, copy: Path) -> Path:
    """A store whose host was killed while an agent that can resume asked, and a prompt waited."""
    async with open_store(path) as store:
        async with kept(store, Incarnations(asking, **RESUMES)) as session:
            async with session.prompt("hello") as turn:
                session.submit("later")
                async for event in turn:
                    if type(event) is agentrt.PermissionOpened:
                        break
                await until_stored(session)
                abandoned(path, copy)
                session.cancel()
    return copy


async def test_a_question_outlives_the_agent_that_can_be_resumed(left_asking: Path) -> None:
    agents = Incarnations(asking, **RESUMES)
    for _ in range(2):
        async with open_store(left_asking) as store:
            async with again(store, agents) as session:
                [question] = session.snapshot().permissions
                assert question.orphaned
                assert question.title == "Run ls"
                assert [option.kind for option in question.options] == ["allow_once", "reject_once"]
                assert session.state.phase == "dead"
                assert session.snapshot().turns[-1].outcome == "agent_died"
    assert agents.processes == []


@pytest.mark.parametrize(("kind", "word"), [("allow_once", "allowed"), ("reject_once", "rejected")])
async def test_its_answer_is_told_to_the_resumed_agent_and_allows_nothing_by_itself(
    left_asking: Path, kind: str, word: str
) -> None:
    agents = Incarnations(asking, **RESUMES)
    async with open_store(left_asking) as store:
        async with again(store, agents, permissions=left) as session:
            [question] = session.pending_permissions
            seq = session.log.seq
            session.answer(question, kind)
            assert session.pending_permissions == {}
            async for event in session.subscribe(seq):
                if type(event) is agentrt.PermissionOpened:
                    session.answer(event.request, "no")  # it asks again, and is answered anew
                elif type(event) is agentrt.TurnEnded:
                    break
            [told] = prompts(agents)
            assert session.snapshot().paused
    assert len(agents.sent("session/load")) == 1
    assert told.startswith("[agentrt] ")
    assert "'Run ls'" in told
    assert f"{word} it" in told


async def test_a_dismissed_question_of_an_agent_that_is_gone_starts_none(left_asking: Path) -> None:
    agents = Incarnations(asking, **RESUMES)
    async with open_store(left_asking) as store:
        async with again(store, agents) as session:
            session.dismiss(next(iter(session.pending_permissions)))
            assert session.pending_permissions == {}
        async with again(store, agents) as session:
            assert session.pending_permissions == {}
    assert agents.processes == []


async def test_a_question_whose_asker_is_gone_waits_on_through_other_turns(
    left_asking: Path,
) -> None:
    async with open_store(left_asking) as store:
        async with again(store, Incarnations(echo, **RESUMES)) as session:
            assert (await session.run("and now")).outcome == "completed"
            assert len(session.pending_permissions) == 1


async def test_prompts_that_waited_wait_on_until_they_are_let_go(path: Path, copy: Path) -> None:
    limits = agentrt.Limits(cancel_grace_s=0, stdin_close_grace_s=0)
    async with (
        open_store(path) as store,
        kept(store, Incarnations(unresponsive), limits=limits) as session,
    ):
        for text in ("first", "second", "third"):
            session.submit(text)
        async for event in session.subscribe(after=0):
            if type(event) is agentrt.events.QueueChanged and len(event.queue) == 2:
                break
        abandoned(path, copy)
        await session.aclose()
    agents = Incarnations(echo)
    async with open_store(copy) as store, again(store, agents) as session:
        shown = session.snapshot()
        assert [entry.content[0].text for entry in shown.queue] == ["second", "third"]
        assert shown.paused
        session.queue.remove(shown.queue[0].id)
        assert agents.processes == []
        session.queue.resume()
        async for event in session.subscribe(shown.seq):
            if type(event) is agentrt.TurnEnded:
                break
    sent = [m["params"]["prompt"][0]["text"] for m in agents.sent("session/prompt")]
    assert sent == ["third"]


@pytest.mark.every_store
async def test_ids_go_on_where_they_were(path: Path) -> None:
    keys = []

    async with open_store(path) as store:
        for _ in range(3):
            agents = Incarnations(asking)
            opened = kept(store, agents) if not keys else again(store, agents)
            async with opened as session, session.prompt("hello") as turn:
                async for event in turn:
                    if type(event) is agentrt.PermissionOpened:
                        keys.append(event.request)
                        session.answer(event.request, "yes")
        shown = await store.snapshot("one")
    assert len(set(keys)) == 3
    assert [turn.id for turn in shown.turns] == ["t1", "t2", "t3"]
    ids = [item.id for item in shown.items]
    assert len(set(ids)) == len(ids)


@pytest.mark.every_store
async def test_an_open_session_is_not_opened_twice(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            with pytest.raises(agentrt.LocalProtocolError, match="is open"):
                async with again(store, Incarnations(echo)):
                    pass


@pytest.mark.parametrize(
    ("killed", "rebooted", "same"),
    [
        (False, True, True),
        (True, False, True),
        (True, True, False),
    ],
)
async def test_the_epoch_is_another_one_only_where_power_may_have_been_lost(
    path: Path,
    copy: Path,
    killed: bool,
    rebooted: bool,
    same: bool,
) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            abandoned(path, copy)
    if killed:
        abandoned(copy, path)
    with another_boot() if rebooted else nullcontext():
        for _ in range(2):
            async with open_store(path) as store:
                assert ((await store.snapshot("one")).epoch == session.log.epoch) is same


async def test_a_file_that_may_have_lost_something_hands_on_another_epoch(
    path: Path, tmp_path: Path
) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
    backend = backend_of(path)
    backend.open()
    backend.close()  # as if it were killed
    with another_boot(), writing(path) as source:
        packed = source.pack("one")
    assert packed is not None
    assert packed.row[0] == "one-epoch.1"
    async with open_store(tmp_path / "other.db") as store:
        await store.put(packed)
        assert (await store.snapshot("one")).epoch == "one-epoch.1"


@pytest.mark.parametrize(
    ("made", "killed", "put"),
    [  # One of a file that is open, written over it when that was killed, is not noticed.
        ("closed", False, "written over"),
        ("closed", True, "written over"),
        ("open", False, "written over"),
        ("closed", False, "put in its place"),
        ("closed", True, "put in its place"),
        ("open", False, "put in its place"),
        ("open", True, "put in its place"),
    ],
)
async def test_after_a_restored_backup_the_epoch_is_another_one(
    path: Path, tmp_path: Path, made: str, killed: bool, put: str
) -> None:
    """What was shown behind the backup is not there, and other things will have its numbers."""
    backup = tmp_path / "backup.db"
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("before the backup")
            epoch = session.log.epoch
    if made == "closed":
        shutil.copy(path, backup)
    async with open_store(path) as store:
        assert (await store.snapshot("one")).epoch == epoch
        async with again(store, Incarnations(echo)) as session:
            if made == "open":
                await done_by_another(path, "VACUUM INTO ?", str(backup))
            await session.run("behind it")
            if killed:
                after_kill = {each: each.read_bytes() for each in path.parent.iterdir()}
    if killed:
        for file, data in after_kill.items():
            file.write_bytes(data)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    if put == "written over":
        shutil.copyfile(backup, path)
    else:
        backup.replace(path)
    async with open_store(path) as store:
        shown = await store.snapshot("one")
        assert shown.epoch != epoch
        assert [turn.outcome for turn in shown.turns] == ["completed"]
        restored = shown.epoch
    async with open_store(path) as store:
        assert (await store.snapshot("one")).epoch == restored
