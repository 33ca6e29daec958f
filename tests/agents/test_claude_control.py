"""What can be asked of the real Claude Code while a session goes on, by its own names."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import agentrt

from .lab import Lab
from .modelserver.scripts import Call, Script, Shell, Text, prompt_for
from .story import GATE, Story, open_gate, session_with, until
from .test_claude_hooks import shop

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0
BY_ITSELF = agentrt.Limits(cancel_grace_s=500, cancel_resend_s=500, end_silence_s=500)


def turns(story: Story) -> list[tuple[str, str]]:
    started = {event.turn: event.origin for event in story.all(agentrt.TurnStarted)}
    return [(started[end.turn], end.outcome) for end in story.all(agentrt.TurnEnded)]


# --- prompts sent into a running turn, and interrupts


def busy(lab: Lab) -> Script:
    """A turn that has begun to speak, and goes on when the gate is opened."""
    return [[Text("Working."), Shell(GATE)], [Text("Done.")]]


async def until_said(session: agentrt.Session, text: str) -> None:
    with session.subscribe(after=0) as events:
        async for event in events:
            if isinstance(event, agentrt.TextDelta) and text in event.text:
                return


async def test_a_prompt_that_comes_while_text_streams_runs_as_the_next_turn(lab: Lab) -> None:
    slow: Script = [[Text("word " * 30, chunk=5, pace=0.1)]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, limits=BY_ITSELF) as (session, story):
            async with session.prompt(prompt_for(slow)) as turn:
                await until_said(session, "word")
                session.steer("Please [[again]]")
                session.steer("And [[again]]")
            await session.wait_idle()
    assert turn.result.text == "word " * 30
    assert turns(story) == [("user", "completed"), ("agent", "completed")]
    said = [e.text for e in story.all(agentrt.TextDelta)]
    assert "".join(said).endswith("Another answer.")  # once: both were merged into one turn


async def test_a_cancel_takes_prompts_along_that_wait_in_claude(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, limits=BY_ITSELF) as (
            session,
            story,
        ):
            async with session.prompt("Please [[slow]]") as turn:
                await until_said(session, "word")
                session.steer("Please [[thinking]]")
                await trio.testing.wait_all_tasks_blocked(0.05)  # it has been written
                turn.cancel()
            again = await session.run("Please [[again]]")
    assert again.text == "Another answer."
    assert turns(story) == [("user", "cancelled"), ("user", "completed")]
    assert lab.model.asks()[-1].history[-1] == "[[again]]"


async def test_an_interrupt_by_its_own_name_reports_what_still_waits(lab: Lab) -> None:
    """Without `cancel_queued` what waits runs next: its turn is none of ours."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab, limits=BY_ITSELF) as (session, story):
            async with session.prompt("Please [[slow]]") as turn:
                await until_said(session, "word")
                session.steer("Please [[again]]")
                await trio.testing.wait_all_tasks_blocked(0.05)  # it has been written
                receipt = await session.call("interrupt")
            await session.wait_idle()
            idle = await session.call("interrupt", cancel_queued=True)
    assert turn.result.outcome == "cancelled"
    [waiting] = receipt["still_queued"]
    assert isinstance(waiting, str)
    assert idle == {"still_queued": [], "cancelled": []}
    assert turns(story) == [("user", "cancelled"), ("agent", "completed")]


# --- MCP servers


async def test_mcp_servers_are_added_switched_connected_anew_and_removed(lab: Lab) -> None:
    described = {name: value for name, value in shop(lab).items() if name != "name"}
    script: Script = [[Call("mcp__shop__order")], [Text("Ordered.")]]

    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            claude = agentrt.claude.ClaudeControl(session)
            added = await claude.set_mcp_servers(
                {"shop": {**described, "type": "stdio", "env": {}}}
            )
            assert added.added == ["shop"]

            async def status() -> str | None:
                return {each.name: each.status for each in await claude.mcp_servers()}.get("shop")

            async def becomes(wanted: str | None) -> None:
                while await status() != wanted:  # noqa: ASYNC110 - it sends no event
                    await trio.sleep(0.05)

            await becomes("connected")
            await claude.toggle_mcp_server("shop", enabled=False)
            await becomes("disabled")
            await claude.toggle_mcp_server("shop", enabled=True)
            await becomes("connected")
            await claude.reconnect_mcp_server("shop")
            await becomes("connected")
            async with session.prompt(prompt_for(script)) as turn:
                async for event in turn:
                    match event:
                        case agentrt.PermissionOpened(form=None):
                            turn.answer(event.request, "allow_once")
                        case agentrt.PermissionOpened():
                            session.submit_form(event.request, {"count": 3})
                        case _:
                            pass
            removed = await claude.set_mcp_servers({})
            assert removed.removed == ["shop"]
            await becomes(None)
            with pytest.raises(agentrt.errors.RequestError, match="not found"):
                await claude.reconnect_mcp_server("nobody")
    assert turn.result.text == "Ordered."


# --- work that is sent to the background


async def test_a_running_command_can_be_sent_to_the_background(lab: Lab) -> None:
    script: Script = [[Shell(GATE)], [Text("Left it.")], [Text("It is done.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, limits=BY_ITSELF) as (
            session,
            story,
        ):
            async with session.prompt(prompt_for(script)) as turn:
                await until(lambda: story_tools(session))
                while not session.background_tasks:
                    await agentrt.claude.ClaudeControl(session).send_to_background()
                    await trio.sleep(0.1)
            assert turn.result.text == "Left it."
            [task] = session.background_tasks.values()
            assert task.status == "running"
            output = await agentrt.claude.ClaudeControl(session).task_output(task.id)
            open_gate(lab)
            await session.wait_idle()
            assert session.background_tasks[task.id].status == "completed"
    assert output.total_bytes >= len(output.output) >= 0
    assert turns(story) == [("user", "completed"), ("agent", "completed")]


def story_tools(session: agentrt.Session) -> list[agentrt.events.Item]:
    return [item for item in session.snapshot().items if item.type == "tool"]


# --- an older Claude Code


@pytest.fixture
def no_state_frames(lab: Lab) -> None:
    """As before there were any: it never says that it rests."""
    lab.env["CLAUDE_CODE_SDK_READS_SESSION_STATE"] = "0"


@pytest.mark.usefixtures("no_state_frames")
async def test_without_its_word_that_it_rests_a_result_ends_the_turn(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, limits=BY_ITSELF) as (
            session,
            story,
        ):
            first = await session.run("Please [[shell]]")
            async with session.prompt("Please [[slow]]") as turn:
                await until_said(session, "word")
                turn.cancel()
            second = await session.run("Please [[again]]")
    assert first.text.endswith("The command is finished.")
    assert second.text == "Another answer."
    assert turns(story) == [("user", "completed"), ("user", "cancelled"), ("user", "completed")]


@pytest.mark.usefixtures("no_state_frames")
@pytest.mark.parametrize("case", ["case-a", "case-b", "case-c"])
async def test_without_that_word_tools_are_reached_after_the_last_prompt(
    lab: Lab, case: str
) -> None:
    calls: list[str] = []

    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        calls.append(summary)
        return "recorded"

    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, tools=[record_result]) as (
            session,
            story,
        ):
            await session.run(f"Please [[{case}]]")
    assert calls == ["done"]
    assert [status for _, status in story.tools()][-1] == "completed"
