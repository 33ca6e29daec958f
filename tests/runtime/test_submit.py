"""Prompts that nobody waits for, and what may be done with those that wait in the queue."""

from __future__ import annotations

import pytest
import trio
from fakes import Incarnations, echo, kinds, log_of, obedient, session_with, unresponsive

import agentrt
from agentrt.effects import ToolCalled
from agentrt.testing import FakeAcpAgent


async def settled(session: agentrt.Session) -> None:
    """Until nothing runs or waits."""
    with trio.fail_after(60):
        await session.wait_idle()


def said(agents: Incarnations) -> list[str]:
    return [m["params"]["prompt"][0]["text"] for m in agents.sent("session/prompt")]


async def test_a_submitted_prompt_runs_without_anybody_waiting_for_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(echo) as (session, _):
        turn = session.submit("hello")
        assert (turn.id, turn.entry) == ("t1", "")
        await settled(session)
        assert turn.result.text == "hello"


async def test_a_submitted_prompt_waits_in_the_queue_behind_a_running_turn(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents):
        first, second = session.submit("one"), session.submit("two")
        assert (second.id, second.entry) == ("", "q1")
        first.cancel()
        await trio.sleep(1)
        assert said(agents) == ["one", "two"]


async def test_a_submitted_prompt_may_refuse_to_wait(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(obedient) as (session, _):
        session.submit("one")
        with pytest.raises(agentrt.Busy):
            session.submit("two", when="reject")
        assert session.snapshot().queue == []


async def test_a_prompt_that_may_not_wait_restarts_a_dead_agent(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def dies(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.process.exit(1)

    async with session_with(dies, echo) as (session, agents):
        session.submit("one")
        await settled(session)
        turn = session.submit("two", when="reject")
        await settled(session)
        assert turn.result.text == "two"
        assert len(agents.processes) == 2


async def test_a_full_queue_refuses_with_the_limit_s_name(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(obedient, limits=agentrt.Limits(queued_prompts=1)) as (session, _):
        session.submit("one")
        session.submit("two")
        with pytest.raises(agentrt.errors.LimitExceeded, match=r"limits\.queue"):
            session.submit("three")


async def test_prompts_that_wait_take_no_more_than_their_limit(
    autojump_clock: trio.abc.Clock,
) -> None:
    limits = agentrt.Limits(queued_prompts_bytes=1_000)
    async with session_with(obedient, limits=limits) as (session, _):
        running = session.submit("one")
        session.submit("a" * 2_000)  # one may always wait
        with pytest.raises(agentrt.errors.LimitExceeded, match=r"limits\.queued_prompts_bytes"):
            session.submit("b")
        [entry] = session.snapshot().queue
        session.queue.edit(entry.id, "c" * 700)
        session.submit("d" * 100)
        with pytest.raises(agentrt.errors.LimitExceeded):
            session.queue.edit(entry.id, "e" * 900)
        running.cancel()
        assert [e.content[0].text for e in session.snapshot().queue] == ["c" * 700, "d" * 100]


async def test_waiting_prompts_can_be_removed_edited_and_promoted(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents):
        running = session.submit("one")
        waiting = [session.submit(text) for text in ("two", "three", "four")]
        session.queue.remove(waiting[0].entry)
        session.queue.edit(waiting[1].entry, "drei")
        session.queue.promote(waiting[2].entry)
        assert [e.content[0].text for e in session.snapshot().queue] == ["four", "drei"]
        running.cancel()
        await trio.sleep(1)
        assert said(agents) == ["one", "four"]
        with pytest.raises(agentrt.LocalProtocolError):
            session.queue.remove(waiting[2].entry)


async def test_who_waits_for_a_prompt_learns_that_it_was_taken_out(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, _), trio.open_nursery() as nursery:
        session.submit("one")

        async def wait() -> None:
            with pytest.raises(agentrt.AgentrtError, match="removed from"):
                await session.run("two")
            session.cancel()

        nursery.start_soon(wait)
        await trio.sleep(1)
        session.queue.remove(session.snapshot().queue[0].id)


async def test_a_stop_before_the_prompt_is_on_its_way_holds_it_back(
    autojump_clock: trio.abc.Clock,
) -> None:
    """The process is just being started again."""

    async def dies(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.process.exit(1)

    async with session_with(dies, echo) as (session, agents):
        session.submit("one")
        await settled(session)
        session.submit("two")
        session.cancel()
        await trio.sleep(60)
        assert session.snapshot().paused
        assert [e.content[0].text for e in session.snapshot().queue] == ["two"]
        session.queue.resume()
        await settled(session)
        assert said(agents) == ["two"]


async def test_after_a_stop_a_new_prompt_goes_first_and_the_others_wait_for_resume(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient, echo) as (session, agents):
        session.submit("one")
        session.submit("deploy to production")
        session.cancel()
        session.submit("no, do something else")
        await trio.sleep(60)
        assert said(agents) == ["one", "no, do something else"]
        [left] = session.snapshot().queue
        assert left.paused
        session.cancel()
        session.queue.resume()
        await trio.sleep(1)
        assert said(agents)[-1] == "deploy to production"


async def test_a_submitted_prompt_that_cannot_be_sent_later_is_reported_in_the_log(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, _):
        running = session.submit("one")
        session.submit(agentrt.Image("aGk=", "image/png"))  # this agent takes none
        running.cancel()
        await settled(session)
        notices = [e for e in log_of(session) if isinstance(e, agentrt.Notice)]
        assert [n.code for n in notices] == ["prompt_dropped"]


async def test_an_idle_process_is_retired_and_the_next_prompt_resumes_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    fake = {"capabilities": {"loadSession": True}}
    async with session_with(echo, fake=fake) as (session, agents):
        await session.run("one")
        assert session._host.core.retire()
        session.submit("two")  # while it is on its way out
        await settled(session)
        assert [p.returncode for p in agents.processes] == [0, None]
        assert len(agents.sent("session/load")) == 1
        assert kinds(log_of(session)).count("turn.ended") == 2


async def test_a_busy_process_is_not_retired(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(obedient) as (session, _):
        session.submit("one")
        assert not session._host.core.retire()


async def test_a_session_keeps_the_title_that_a_person_gave_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def names_itself(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.update("session_info_update", title=prompt.text)
            prompt.end()

    async with session_with(names_itself) as (session, _):
        await session.run("the agent's")
        assert session.snapshot().title == "the agent's"
        session.rename("mine")
        await session.run("again the agent's")
        assert session.snapshot().title == "mine"


async def test_a_call_that_waits_for_a_client_makes_the_session_wait(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(unresponsive) as (session, _):
        core = session._host.core
        session.submit("one")
        call = ToolCalled(id="c", opens=True, name="pick", owner="client", status="waiting")
        with core.step():
            item = core.conversation.call_client(call)
        assert session.state.phase == "waiting"
        with core.step():
            core.conversation.items.tool_called(ToolCalled(id="c", status="completed"))
        assert session.state.phase == "running"
        assert core.conversation.items.open_call("c") is None
        assert next(i for i in session.snapshot().items if i.id == item).status == "completed"


async def test_an_agent_s_own_turn_is_not_over_while_a_person_is_asked(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def asks_by_itself(agent: FakeAcpAgent) -> None:
        await trio.sleep(1)
        agent.say("by the way")
        agent.say(f" you chose {await agent.ask()}")
        await trio.sleep_forever()

    async with session_with(asks_by_itself, permissions=agentrt.ask) as (session, _):
        await trio.sleep(30)
        [request] = session.pending_permissions
        session.answer(request, "allow_once")
        await trio.sleep(30)
        assert session.snapshot().items[-1].text == " you chose yes"
        assert session.state.phase == "idle"
