"""Further oddities of the scripted CLI, each through a whole session."""

from __future__ import annotations

import pytest
import trio

import agentrt
from agentrt.events import ModesChanged

from .test_fakecli import items, session, texts, told, turns
from .test_query import NEVER, ask
from .test_query import texts as texts_of


async def test_an_older_cli_answers_prompt_after_prompt() -> None:
    async with session("older", limits=NEVER) as s:
        assert (await s.run("hello")).text == "You said: hello"
        async with s.prompt("stop") as turn:
            await told(s, agentrt.TurnStarted, times=2)
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert (await s.run("again")).text == "You said: again"
        assert [outcome for _, outcome in turns(s)] == ["completed", "cancelled", "completed"]


async def test_what_follows_a_background_agent_of_an_older_cli_is_waited_for() -> None:
    """Only silence can tell that nothing more comes, and only after the work has ended."""
    query = await ask("older", "dig", limits=agentrt.Limits(end_silence_s=0.5))
    assert texts_of(query) == ["You said: dig", "Agent finished."]
    assert [task.status for task in query.session.background_tasks.values()] == ["completed"]


async def test_a_reply_that_comes_after_its_caller_has_given_up_is_applied() -> None:
    async with session("late_reply") as s:
        with trio.move_on_after(0.2) as scope:
            await s.set_model("other")
        assert scope.cancelled_caught
        assert (await s.run("go")).text == "answer"
        shown = [event.modes for event in s.log.since(0) if isinstance(event, ModesChanged)]
        assert "other" in [modes.model for modes in shown]
        assert shown[-1].unconfirmed == []


async def test_a_tool_call_that_claude_gives_up_on_is_cancelled_and_not_answered() -> None:
    stopped = []

    @agentrt.tool
    async def record(summary: str) -> str:
        """Never ends by itself."""
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(summary)
        return ""

    async with session("mcp_given_up", tools=[record]) as s:
        result = await s.run("go")
    assert (result.outcome, result.text) == ("completed", "no answer came")
    assert stopped == ["x"]
    assert items(s, "tool")[0].status == "failed"


@pytest.mark.parametrize("reads", [True, False], ids=["read", "unread"])
async def test_a_flood_behind_half_a_line_is_complete(reads: bool) -> None:
    async with session("stalled") as s:
        async with s.prompt("go") as turn:
            if reads:
                said = [e.text async for e in turn if isinstance(e, agentrt.TextDelta)]
                assert len("".join(said)) == 200_000
        assert texts(s) == ["x" * 200_000]
