"""What an agent in the background asks and calls belongs to no turn, whichever runs."""

from __future__ import annotations

import sys

import trio

import agentrt

from .test_fakecli import FAKE
from .test_query import NEVER


async def test_no_turn_s_end_touches_what_an_agent_in_the_background_asks_and_calls() -> None:
    go_on, contexts = trio.Event(), []

    @agentrt.tool
    async def record(context: agentrt.ToolContext, summary: str) -> str:
        """Persist the outcome."""
        contexts.append(context)
        await go_on.wait()
        return "recorded"

    agent = agentrt.claude([sys.executable, FAKE, "asking_agent"])
    opening = agentrt.open_session(agent, limits=NEVER, tools=[record], permissions=agentrt.ask)
    with trio.fail_after(20):
        async with opening as session:
            told = session.subscribe(after=0)
            assert (await session.run("dig")).text == "Agent started."
            assert (await session.run("and?")).text == "Meanwhile."
            async with session.prompt("stop") as turn:
                turn.cancel()
            assert session.state.phase == "idle"
            [question] = session.permissions.values()
            assert (question.title, question.background, question.item) == ("dig", True, None)
            session.answer(question.request, "allow_once")
            go_on.set()
    assert [context.turn for context in contexts] == [None]
    last = [item.text for item in session.snapshot().items if item.type == "text"][-1]
    assert '"behavior": "allow"' in last
    assert "recorded" in last
    closed = [event async for event in told if isinstance(event, agentrt.PermissionClosed)]
    assert [(event.outcome, event.by) for event in closed] == [("selected", "user")]


async def test_a_question_of_the_background_ends_with_the_session() -> None:
    @agentrt.tool
    async def record(summary: str) -> str:
        """Persist the outcome."""
        await trio.sleep_forever()
        return ""

    agent = agentrt.claude([sys.executable, FAKE, "asking_agent"])
    opening = agentrt.open_session(agent, limits=NEVER, tools=[record], permissions=agentrt.ask)
    with trio.fail_after(20):
        async with opening as session:
            await session.run("dig")
            assert session.permissions
            await session.aclose()
    assert session.permissions == {}
