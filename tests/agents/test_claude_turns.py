"""What the real Claude Code does in a turn: what it says, asks and calls.

What every agent can is in `test_scenarios.py`; here is what only Claude Code has.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Call, Script, Shell, Text, prompt_for
from .story import session_with

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0


async def test_thinking_is_distinguished_from_the_answer(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            result = await session.run("Please [[thinking]]")
    assert result.text == "Hello after thinking."
    thought = "".join(delta.text for delta in story.all(agentrt.ThoughtDelta))
    assert thought == "I should greet."
    shown = [event.item.type for event in story.all(agentrt.ItemOpened)]
    assert shown == ["user", "thought", "text"]


# --- permissions


async def test_a_permission_can_be_given_for_another_input(lab: Lab) -> None:
    def quieter(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        command = request.input["command"].replace("marker-42", "marker-43")
        return agentrt.Allow(updated_input={**request.input, "command": command})

    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=quieter) as (session, story):
            await session.run("Please [[shell]]")
    assert (lab.work / "ran.txt").read_text() == "marker-43\n"
    assert [status for _, status in story.tools()] == ["completed"]


async def test_a_denial_gives_the_model_its_reason(lab: Lab) -> None:
    def not_today(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        return agentrt.Deny("Not on a Sunday.")

    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=not_today) as (session, story):
            result = await session.run("Please [[shell]]")
    [(tool, status)] = story.tools()
    assert (status, result.outcome) == ("denied", "completed")
    assert "Not on a Sunday." in output_of(session, tool)


async def test_a_denial_can_end_the_turn(lab: Lab) -> None:
    def stop(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        return agentrt.Deny("Stop.", interrupt=True)

    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=stop) as (session, story):
            result = await session.run("Please [[shell]]")
            again = await session.run("Please [[again]]")
    assert (result.outcome, result.by) == ("cancelled", "caller")
    # The second one where the message that asks is not over yet when the answer is there.
    assert result.stop_reason in ("aborted_tools", "aborted_streaming")
    assert result.text == "I will run a command."
    assert [status for _, status in story.tools()] == ["denied"]
    assert again.text == "Another answer."


async def test_what_is_always_allowed_is_asked_once(lab: Lab) -> None:
    asked: list[agentrt.PermissionRequest] = []

    def always(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        asked.append(request)
        return agentrt.Allow(remember=True)

    script: Script = [[Shell("touch a")], [Shell("touch a")], [Text("Twice.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=always) as (session, story):
            result = await session.run(prompt_for(script))
    assert result.text == "Twice."
    assert [status for _, status in story.tools()] == ["completed", "completed"]
    assert len(asked) == 1


async def test_questions_to_a_person_are_a_form(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story), session.prompt("[[ask]]") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    assert event.form is not None
                    [(question, field)] = event.form["properties"].items()
                    assert [choice["const"] for choice in field["oneOf"]] == ["Red", "Blue"]
                    session.submit_form(event.request, {question: "Blue"})
    [(tool, status)] = story.tools()
    assert (status, turn.result.text) == ("completed", "Thank you.")
    assert "Which colour?" in output_of(session, tool)
    assert "Blue" in output_of(session, tool)


async def test_questions_that_nobody_answers_are_declined(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            result = await session.run("Please [[ask]]")
    assert result.text == "Thank you."
    assert [status for _, status in story.tools()] == ["denied"]


@pytest.mark.parametrize(
    ("option", "mode", "status"),
    [
        ("allow_always", "acceptEdits", "completed"),
        ("allow_once", "default", "completed"),
        ("reject_once", "plan", "denied"),
    ],
)
async def test_a_plan_is_approved_or_not(lab: Lab, option: str, mode: str, status: str) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, mode="plan") as (session, story):
            async with session.prompt("Please [[plan]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.answer(event.request, option)
            assert session.modes is not None
            assert session.modes.mode == mode
    assert [closed for _, closed in story.tools()] == [status]
    assert turn.result.text == "On it."


# --- in-process tools


def output_of(session: agentrt.Session, tool: agentrt.events.Item) -> str:
    """What a tool call shows in the end."""
    [item] = [item for item in session.snapshot().items if item.id == tool.id]
    assert item.tool is not None
    return "".join(str(getattr(part, "content", "")) for part in item.tool.content)


async def test_a_failing_tool_is_an_error_for_the_model_and_nobody_else(lab: Lab) -> None:
    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        raise agentrt.ToolError(f"the disk is full of {summary}")

    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[record_result], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            result = await session.run("Please [[record]]")
    [(tool, status)] = story.tools()
    assert (status, result.outcome) == ("failed", "completed")
    assert "the disk is full of done" in output_of(session, tool)
    assert story.notices("handler_failed") == []


async def test_a_broken_tool_is_an_error_and_a_notice(lab: Lab) -> None:
    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        raise KeyError(summary)

    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[record_result], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            await session.run("Please [[record]]")
            await session.run("Please [[record]]")
    assert [status for _, status in story.tools()] == ["failed", "failed"]
    assert len(story.notices("handler_failed")) == 2


async def test_a_tool_may_report_how_far_it_is(lab: Lab) -> None:
    """Nothing is shown of it by this CLI; it must not disturb the call either."""
    contexts: list[agentrt.ToolContext] = []

    @agentrt.tool
    async def record_result(context: agentrt.ToolContext, summary: str) -> str:
        """Persist the final outcome of a job."""
        contexts.append(context)
        for step in range(1, 4):
            context.report_progress(step, 3, f"step {step}")
            await trio.sleep(0.05)
        return "recorded"

    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[record_result], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            result = await session.run("Please [[record]]")
    [(tool, status)] = story.tools()
    assert status == "completed"
    [context] = contexts
    assert context.turn is not None
    assert context.turn.id == result.turn
    assert context.session is session
    assert tool.tool is not None
    assert context.tool_call == tool.tool.call


async def test_a_cancelled_turn_cancels_the_tool_that_it_called(lab: Lab) -> None:
    started, left = trio.Event(), trio.Event()

    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            left.set()
        return ""

    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[record_result], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            async with session.prompt("Please [[record]]") as turn:
                await started.wait()
                turn.cancel()
            assert left.is_set()
            result = await session.run("Please [[again]]")
    assert turn.result.outcome == "cancelled"
    assert [status for _, status in story.tools()] == ["cancelled"]
    assert result.text == "Another answer."


async def test_claudes_own_limit_for_tools_cancels_the_call_alone(lab: Lab) -> None:
    """It gives up on the call by `notifications/cancelled`, and the turn goes on."""
    contexts: list[agentrt.ToolContext] = []

    @agentrt.tool
    async def record_result(context: agentrt.ToolContext, summary: str) -> str:
        """Persist the final outcome of a job."""
        contexts.append(context)
        await trio.sleep_forever()
        return ""

    lab.env["MCP_TOOL_TIMEOUT"] = "500"
    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[record_result], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            result = await session.run("Please [[record]]")
    assert [context.cancel_scope.cancel_called for context in contexts] == [True]
    assert (result.outcome, result.text) == ("completed", "I will record it.\n\nRecorded.")
    assert [status for _, status in story.tools()] == ["failed"]


async def test_tools_that_change_in_a_session_are_announced_to_the_model(lab: Lab) -> None:
    @agentrt.tool
    async def first() -> str:
        """One."""
        await trio.lowlevel.checkpoint()
        return "one"

    @agentrt.tool
    async def second() -> str:
        """Two."""
        await trio.lowlevel.checkpoint()
        return "two"

    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[first], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            await session.run("Please [[text]]")
            session.set_tools([second])
            await session.run(prompt_for([[Call("second")], [Text("Called.")]]))
    assert [status for _, status in story.tools()] == ["completed"]
    first_offer, *_, last_offer = [ask.tools for ask in lab.model.asks()]
    assert "mcp__agentrt__first" in first_offer
    assert "mcp__agentrt__second" not in first_offer
    assert "mcp__agentrt__second" in last_offer


# --- structured output

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
}


async def test_structured_output_comes_with_the_result(lab: Lab) -> None:
    script: Script = [[Call("StructuredOutput", {"colour": "blue"})], [Text("Blue.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, options={"json_schema": SCHEMA}) as (session, _):
            result = await session.run(prompt_for(script))
    assert result.outcome == "completed"
    assert result.structured_output == {"colour": "blue"}


async def test_structured_output_that_is_missing_is_a_failure_with_a_reason(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, options={"json_schema": SCHEMA}) as (session, _):
            result = await session.run("Please [[text]]", check=False)
            with pytest.raises(agentrt.errors.AgentFailed, match="structured output"):
                await session.run("Please [[text]]")
    assert result.outcome == "failed"
    assert result.error is not None
    assert result.error.code == "structured_output_missing"
