"""Many sessions in one process, on agents in memory."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.lowlevel
from fakes import Incarnations, Script, asking, echo, log_of, obedient, unresponsive
from trio.testing import MockClock

import agentrt
from agentrt import Runtime, open_runtime
from agentrt.config import Config
from agentrt.hosting import limits_for
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_runtime

pytestmark = pytest.mark.usefixtures("forked_demo")

RESUMES = {"capabilities": {"loadSession": True}}


@asynccontextmanager
async def runtime_with(
    *scripts: Script, fake: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Runtime, Incarnations]]:
    """A runtime whose one agent, `fake`, runs these scripts, a process each."""
    agents = Incarnations(*scripts, **(fake or {}))
    async with open_fake_runtime({"fake": agents.start}, **options) as runtime:
        yield runtime, agents


def notices(session: agentrt.Session) -> list[str]:
    return [e.code for e in log_of(session) if isinstance(e, agentrt.Notice)]


async def refuses(agent: FakeAcpAgent) -> None:
    agent.process.complain("no licence")
    agent.process.exit(3)


async def test_a_session_is_created_found_listed_renamed_and_closed(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(echo) as (runtime, agents):
        session = await runtime.create("fake", cwd="/tmp", title="first")
        assert runtime.get(session.id) is session
        [info] = runtime.list()
        assert (info.session, info.agent, info.cwd) == (session.id, "fake", "/tmp")
        assert (info.title, info.phase) == ("first", "idle")
        assert (await session.run("hello")).text == "hello"
        runtime.rename(session.id, "renamed")
        assert runtime.list()[0].title == "renamed"
        await runtime.close(session.id)
        assert session.state.phase == "closed"
        assert runtime.list() == []
        assert agents.processes[0].returncode is not None
        with pytest.raises(agentrt.errors.SessionNotFound):
            runtime.get(session.id)
        with pytest.raises(agentrt.errors.SessionNotFound):
            await runtime.close(session.id)


async def streaming(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        for number in range(5):
            agent.say(f"{number} ")
            await trio.sleep(1)
        prompt.end()


async def test_turns_change_when_an_open_session_was_updated_and_text_does_not(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(streaming, echo) as (runtime, _):
        first = await runtime.create("fake")
        second = await runtime.create("fake")

        def updated(session: agentrt.Session) -> float:
            [found] = [each for each in runtime.list_open() if each.session == session.id]
            assert found.updated is not None
            return found.updated

        assert updated(first) < updated(second)
        async with first.prompt("write") as turn:
            during = [updated(first) async for _ in turn]
        assert during[0] > updated(second)
        assert len(set(during)) <= 2  # it began, and ended
        ended = updated(first)
        assert during[0] < ended
        await second.run("hello")
        assert updated(second) > ended == updated(first)


async def test_who_subscribes_is_notified_of_sessions_that_come_and_go(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(echo) as (runtime, _):
        heard: list[int] = []
        stop = runtime.listen(lambda: heard.append(len(runtime.list())))
        session = await runtime.create("fake")
        await runtime.close(session.id)
        stop()
        await runtime.create("fake")
        assert heard == [1, 0]


async def test_one_session_too_many_is_refused_and_a_closed_one_makes_room(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(echo, limits=agentrt.Limits(open_sessions=2)) as (runtime, _):
        first = await runtime.create("fake")
        refusals: list[str] = []

        async def create() -> None:
            try:
                await runtime.create("fake")
            except agentrt.errors.LimitExceeded as error:
                refusals.append(str(error))

        async with trio.open_nursery() as nursery:  # also those that are starting count
            nursery.start_soon(create)
            nursery.start_soon(create)
        assert refusals == ["2 sessions are open (limits.open_sessions): close one first"]
        await runtime.close(first.id)
        await runtime.create("fake")


async def test_an_agent_that_does_not_start_is_its_caller_s_error_alone(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(echo, refuses) as (runtime, _):
        session = await runtime.create("fake")
        with pytest.raises(agentrt.AgentStartError, match="no licence"):
            await runtime.create("fake")
        with pytest.raises(agentrt.errors.AgentNotFound):
            await runtime.create("nobody")
        assert len(runtime.list()) == 1
        assert (await session.run("hello")).text == "hello"


async def mute(process: MemoryAgent) -> None:
    """Never says a word."""
    while await process.receive_line() is not None:
        pass


async def test_a_start_that_nobody_waits_for_any_more_is_ended(autojump_clock: MockClock) -> None:
    async with open_fake_runtime({"mute": lambda: MemoryAgent(mute)}) as runtime:
        with trio.move_on_after(5) as scope:
            await runtime.create("mute")
        assert scope.cancelled_caught
        assert runtime.list() == []


async def test_a_slow_session_does_not_delay_another(autojump_clock: MockClock) -> None:
    agents = {"slow": Incarnations(unresponsive).start, "fast": Incarnations(echo).start}
    async with open_fake_runtime(agents) as runtime:
        slow, fast = await runtime.create("slow"), await runtime.create("fast")
        slow.submit("work")
        start = trio.current_time()
        for n in range(10):
            assert (await fast.run(f"{n}")).text == f"{n}"
        assert trio.current_time() == start
        assert slow.state.phase == "running"


async def test_a_session_that_breaks_is_lost_and_nothing_else(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime_with(echo) as (runtime, _):
        broken, whole = await runtime.create("fake"), await runtime.create("fake")

        async def bug() -> None:
            raise KeyError("a bug in a service")

        broken._host.nursery.start_soon(bug)
        await trio.sleep(10)
        assert [info.session for info in runtime.list()] == [whole.id]
        assert broken.state.phase == "closed"
        assert (await whole.run("hello")).text == "hello"
        assert "broke" in caplog.text


async def test_cancel_all_cancels_every_running_turn(autojump_clock: MockClock) -> None:
    async with runtime_with(obedient) as (runtime, _):
        sessions = [await runtime.create("fake") for _ in range(3)]
        turns = [session.submit("work") for session in sessions[:2]]
        assert runtime.cancel_all() == 2
        await trio.sleep(1)
        assert [turn.result.outcome for turn in turns] == ["cancelled", "cancelled"]


async def test_leaving_the_block_ends_every_session_in_bounded_time(
    autojump_clock: MockClock,
) -> None:
    fake = {"ignores": frozenset({"eof", "terminate"})}
    async with runtime_with(unresponsive, fake=fake) as (runtime, agents):
        sessions = [await runtime.create("fake") for _ in range(5)]
        for session in sessions:
            session.submit("work")
        start = trio.current_time()
    limits = agentrt.Limits()
    ladder = limits.stdin_close_grace_s + limits.terminate_grace_s + limits.kill_wait_s + 2
    assert trio.current_time() - start <= ladder  # all at once, not one after the other
    assert all(process.returncode is not None for process in agents.processes)
    assert {session.state.phase for session in sessions} == {"closed"}


async def test_an_error_in_the_block_is_raised_bare(autojump_clock: MockClock) -> None:
    with pytest.raises(KeyError):  # noqa: PT012
        async with runtime_with(obedient) as (runtime, _):
            (await runtime.create("fake")).submit("work")
            raise KeyError("mine")


async def test_questions_are_left_to_the_viewers(autojump_clock: MockClock) -> None:
    async with runtime_with(asking) as (runtime, _):
        session = await runtime.create("fake")
        turn = session.submit("go")
        await trio.sleep(60)
        [request] = session.pending_permissions
        session.answer(request, "allow_once", note="fine")
        await trio.sleep(1)
        assert turn.result.text == "yes"


async def test_a_resting_session_s_process_is_ended_and_the_next_prompt_resumes_it(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(echo, fake=RESUMES) as (runtime, agents):
        session = await runtime.create("fake")
        await session.run("one")
        await trio.sleep(1000)
        assert session.state.phase == "dead"
        assert agents.processes[0].returncode == 0
        assert [info.session for info in runtime.list()] == [session.id]
        assert notices(session) == ["suspended"]
        assert (await session.run("two")).text == "two"
        assert len(agents.sent("session/load")) == 1
        assert len(session.snapshot().turns) == 2
        await trio.sleep(2000)
        assert session.state.phase == "dead"  # and once more


async def test_a_session_that_works_is_not_suspended(autojump_clock: MockClock) -> None:
    async def long(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(1700)
            prompt.end()

    async with runtime_with(long, fake=RESUMES) as (runtime, agents):
        session = await runtime.create("fake")
        assert (await session.run("work")).outcome == "completed"
        await trio.sleep(800)
        assert len(agents.processes) == 1
        assert session.state.phase == "idle"


async def test_a_conversation_that_cannot_be_resumed_is_not_suspended(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(echo) as (runtime, _):
        session = await runtime.create("fake")
        await session.run("one")
        await trio.sleep(80_000)
        assert session.state.phase == "idle"


async def test_a_turn_that_hangs_is_ended_and_its_process_replaced(
    autojump_clock: MockClock,
) -> None:
    limits = agentrt.Limits(turn_timeout_s=None, busy_silence_timeout_s=600)
    async with runtime_with(unresponsive, echo, limits=limits, fake=RESUMES) as (runtime, agents):
        session = await runtime.create("fake")
        turn = session.submit("work")
        await trio.sleep(1000)
        assert turn.result.outcome == "timed_out"
        assert turn.result.error is not None
        assert "hang" in turn.result.error.message
        assert (await session.run("two")).text == "two"
        assert agents.processes[0].returncode is not None


async def test_a_turn_that_waits_for_a_person_does_not_hang(autojump_clock: MockClock) -> None:
    limits = agentrt.Limits(turn_timeout_s=None, busy_silence_timeout_s=600)
    async with runtime_with(asking, limits=limits) as (runtime, _):
        session = await runtime.create("fake")
        session.submit("go")
        await trio.sleep(10_000)
        assert session.state.phase == "waiting"


async def test_a_conversation_is_loaded_once_however_many_want_it(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(echo, fake=RESUMES) as (runtime, agents):
        found: list[agentrt.Session] = []

        async def load() -> None:
            found.append(await runtime.load("fake", "old"))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(load)
        assert len(agents.processes) == 1
        assert found == [found[0]] * 3
        assert found[0].agent_session == "old"


async def test_a_closed_runtime_opens_nothing() -> None:
    async with runtime_with(echo) as (runtime, _):
        pass
    with pytest.raises(agentrt.SessionClosed):
        await runtime.create("fake")


@pytest.mark.slow
async def test_real_sessions_are_opened_by_their_names_with_the_settings_of_a_configuration() -> (
    None
):
    mine = agentrt.Agent(name="mine", command=(sys.executable, "-m", "agentrt.demo"))
    config = Config(agents={"mine": mine}, limits={"turn_timeout_s": 7.0})
    async with open_runtime(config=config) as runtime:
        assert "mine" in [agent.name for agent in runtime.agents() if agent.available]
        with trio.fail_after(30):
            session = await runtime.create("mine", cwd=".")
        assert session.limits.turn_timeout_s == 7.0
        assert session.limits.write_timeout_s == limits_for(mine, None).write_timeout_s
        assert session.state.phase == "idle"
