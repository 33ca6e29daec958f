"""Real agents on a scripted model: the same scenarios for each, with its expectations."""

from __future__ import annotations

import os
import signal

import pytest
import trio

import agentrt

from .expectations import EXPECTATIONS
from .lab import Lab
from .story import running, session_with, until

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", EXPECTATIONS)]

HELLO = "Hello from the scripted model."
SLEEP = "sleep 297"
PATIENCE = 240.0
"""Seconds for a whole scenario; the slowest agent takes 40 to start on a busy machine."""
UNDER_WAY = 1.0
"""Seconds a command has run when it is cancelled: codex ends one that has only just begun, and
leaves an older one running."""


async def test_a_text_is_answered(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            result = await session.run("Please [[text]]")
    assert result.outcome == "completed"
    assert HELLO in result.text
    assert story.tools() == []


async def test_an_allowed_command_is_run(lab: Lab) -> None:
    expected = EXPECTATIONS[lab.agent]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            result = await session.run("Please [[shell]]")
    assert result.outcome == "completed"
    assert "The command is finished." in result.text
    assert (lab.work / "ran.txt").read_text() == "marker-42\n"
    assert [status for _, status in story.tools()] == ["completed"]
    asked = story.all(agentrt.events.PermissionClosed)
    assert [question.by for question in asked] == ["policy"] * expected.asks


async def test_a_denied_tool_call_does_nothing(lab: Lab) -> None:
    expected = EXPECTATIONS[lab.agent]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.deny_all) as (session, story):
            result = await session.run("Please [[shell]]")
            again = await session.run("Please [[again]]")
    assert result.outcome == "completed"
    assert result.stop_reason == expected.stop_reason_when_denied
    assert [status for _, status in story.tools()] == ["denied" if expected.asks else "completed"]
    assert (lab.work / "ran.txt").exists() is not expected.asks
    assert "Another answer." in again.text


async def test_a_cancel_while_text_streams_ends_the_turn(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            async with session.prompt("Please [[slow]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta) and "word" in event.text:
                        turn.cancel()
            result = await session.run("Please [[text]]")
    assert turn.result.outcome == "cancelled"
    assert turn.result.by == "caller"
    assert HELLO in result.text
    assert "word" not in result.text
    assert story.notices("cancel_ignored") == []


async def test_a_cancel_right_behind_the_prompt_ends_the_turn(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            async with session.prompt("Please [[slow]]") as turn:
                turn.cancel()
            result = await session.run("Please [[text]]")
    assert turn.result.outcome == "cancelled"
    assert HELLO in result.text
    assert "word" not in result.text
    assert story.notices("cancel_ignored") == []


async def test_a_cancel_while_a_command_sleeps_ends_the_turn(lab: Lab) -> None:
    expected = EXPECTATIONS[lab.agent]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            async with session.prompt("Please [[sleep]]") as turn:
                await until(lambda: running(lab, SLEEP), PATIENCE)
                await trio.sleep(UNDER_WAY)
                turn.cancel()
            if expected.command_survives_cancel:
                assert running(lab, SLEEP)
            else:
                await until(lambda: not running(lab, SLEEP))
            result = await session.run("Please [[text]]")
    assert turn.result.outcome == "cancelled"
    assert [status for _, status in story.tools()] == ["cancelled"]
    assert HELLO in result.text


async def test_a_cancel_at_an_open_permission_ends_the_turn(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.ask) as (session, story):
            async with session.prompt("Please [[shell]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.cancel()
            result = await session.run("Please [[text]]")
    assert HELLO in result.text
    questions = story.all(agentrt.events.PermissionClosed)
    if not EXPECTATIONS[lab.agent].asks:
        assert (turn.result.outcome, questions) == ("completed", [])
        return
    assert turn.result.outcome == "cancelled"
    [question] = questions
    assert (question.outcome, question.by) == ("cancelled", "turn")
    assert not (lab.work / "ran.txt").exists()


async def test_each_of_two_prompts_gets_its_own_answer(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            first = await session.run("Please [[text]]")
            second = await session.run("Please [[again]]")
    assert HELLO in first.text
    assert HELLO not in second.text
    assert "Another answer." in second.text
    assert len(story.all(agentrt.TurnEnded)) == 2


async def test_after_a_kill_the_next_prompt_is_answered(lab: Lab) -> None:
    expected = EXPECTATIONS[lab.agent]
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            await session.run("Please [[text]]")
            async with session.prompt("Please [[slow]]", check=False) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta) and "word" in event.text:
                        assert session.agent.pid is not None
                        os.kill(session.agent.pid, signal.SIGKILL)
                        break
            result = await session.run("Please [[again]]")
    assert turn.result.outcome == "agent_died"
    assert "Another answer." in result.text
    assert "word" not in result.text
    [restarted] = story.notices("agent_restarted")
    assert expected.remembers_after_kill in (None, restarted.data["resumed"])
    [*_, asked] = [ask for ask in lab.model.asks() if ask.marker == "[[again]]"]
    assert ("[[text]]" in asked.history) == restarted.data["resumed"]


async def test_an_agent_calls_a_tool_of_this_process(lab: Lab) -> None:
    expected = EXPECTATIONS[lab.agent]
    recorded: list[str] = []

    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        recorded.append(summary)
        return f"recorded: {summary}"

    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, tools=[record_result]) as (
            session,
            story,
        ):
            while expected.finds_tools_late and not offered(lab, "record_result"):
                await session.run("Please [[text]]")
            result = await session.run("Please [[record]]")
    assert recorded == ["done"] * expected.takes_tools
    if expected.takes_tools:
        assert result.outcome == "completed"
        assert "Recorded." in result.text
    status = "completed" if expected.takes_tools else "failed"
    assert [each for _, each in story.tools()] == [status]


def offered(lab: Lab, tool: str) -> bool:
    """Whether the agent has told its model of a tool."""
    return any(name.endswith(tool) for ask in lab.model.asks() for name in ask.tools)
