"""What an agent in the background asks and calls belongs to no turn, whichever runs."""

from __future__ import annotations

import sys
from typing import Any

import trio

import agentrt

from .test_fakecli import FAKE, session, texts, told
from .test_query import NEVER


async def test_no_turn_s_end_touches_what_an_agent_in_the_background_asks_and_calls() -> None:
    go_on, contexts = trio.Event(), []

    @agentrt.tool
    async def record(context: agentrt.ToolContext, summary: str) -> str:
        """Persist the outcome."""
        contexts.append(context)
        await go_on.wait()
        return "recorded"

    agent = agentrt.agents.claude([sys.executable, FAKE, "asking_agent"])
    opening = agentrt.open_session(agent, limits=NEVER, tools=[record], permissions=agentrt.ask)
    with trio.fail_after(20):
        async with opening as session:
            told = session.subscribe(after=0)
            assert (await session.run("dig")).text == "Agent started."
            assert (await session.run("and?")).text == "Meanwhile."
            async with session.prompt("stop") as turn:
                turn.cancel()
            assert session.state.phase == "idle"
            [question] = session.pending_permissions.values()
            assert (question.title, question.background) == ("dig", True)
            asked = session.snapshot().items
            [about] = [item for item in asked if item.id == question.item]
            assert (about.status, about.turn) == ("waiting", None)
            session.answer(question.request, "allow_once")
            go_on.set()
    assert [context.turn for context in contexts] == [None]
    last = [item.text for item in session.snapshot().items if item.type == "text"][-1]
    assert '"behavior": "allow"' in last
    assert "recorded" in last
    closed = [event async for event in told if isinstance(event, agentrt.events.PermissionClosed)]
    assert [(event.outcome, event.by) for event in closed] == [("selected", "user")]


async def test_a_question_of_the_background_ends_with_the_session() -> None:
    @agentrt.tool
    async def record(summary: str) -> str:
        """Persist the outcome."""
        await trio.sleep_forever()
        return ""

    agent = agentrt.agents.claude([sys.executable, FAKE, "asking_agent"])
    opening = agentrt.open_session(agent, limits=NEVER, tools=[record], permissions=agentrt.ask)
    with trio.fail_after(20):
        async with opening as session:
            await session.run("dig")
            assert session.pending_permissions
            await session.aclose()
    assert session.pending_permissions == {}


class Reporter:
    """A hook that takes its time, and knows of whom it reports."""

    def __init__(self) -> None:
        self.go_on = trio.Event()
        self.reported: list[agentrt.Turn | None] = []

        @agentrt.hook("StopFailure")
        async def report(
            input: dict[str, Any], context: agentrt.tools.HookContext
        ) -> dict[str, Any]:
            await self.go_on.wait()
            self.reported.append(context.turn)
            return {"systemMessage": "reported"}

        self.hook = report


async def test_a_hook_that_its_turn_does_not_wait_for_finishes_behind_it() -> None:
    reporter = Reporter()
    async with session("unawaited_hook", hooks=[reporter.hook]) as s:
        async with s.prompt("go") as turn:
            pass
        assert not reporter.reported
        reporter.go_on.set()
        await told(s, agentrt.TurnEnded, times=2)
        assert texts(s) == ['{"systemMessage": "reported"}']
    assert reporter.reported == [turn]


async def test_leaving_waits_for_a_hook_that_its_turn_did_not_wait_for() -> None:
    reporter = Reporter()

    async def later() -> None:
        await trio.sleep(0.2)
        reporter.go_on.set()

    async with (
        trio.open_nursery() as nursery,
        session("unawaited_hook", hooks=[reporter.hook]) as s,
    ):
        await s.run("go")
        nursery.start_soon(later)
    assert len(reporter.reported) == 1


async def test_a_hook_that_never_ends_is_cancelled_with_the_session() -> None:
    reporter = Reporter()
    async with session("unawaited_hook", hooks=[reporter.hook]) as s:
        await s.run("go")
        await s.aclose()
    assert not reporter.reported
