"""A whole session with the real Claude Code: its settings, many turns, very long lines."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Call, Edit, Script, Text, prompt_for
from .story import session_with

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0


# --- settings


async def test_the_model_can_be_changed_between_turns(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            await session.run("Please [[text]]")
            await session.set_model("haiku")
            assert session.modes is not None
            assert session.modes.model == "haiku"
            await session.run("Please [[again]]")
            assert session.modes.model == "haiku"  # still, by the turn's own word
    first, *_ = story.all(agentrt.events.ModesChanged)
    assert first.modes.model != "haiku"


async def test_the_permission_mode_decides_what_is_asked(lab: Lab) -> None:
    asked: list[agentrt.PermissionRequest] = []

    def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        asked.append(request)
        return agentrt.Deny()

    script: Script = [[Edit(str(lab.work / "note.txt"), "written\n")], [Text("Written.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=policy) as (session, story):
            await session.run(prompt_for(script))
            await session.set_mode("acceptEdits")
            assert session.modes is not None
            assert session.modes.mode == "acceptEdits"
            await session.run(prompt_for(script))
    assert [request.tool for request in asked] == ["Write"]
    assert [status for _, status in story.tools()] == ["denied", "completed"]
    assert (lab.work / "note.txt").read_text() == "written\n"


@pytest.mark.parametrize("mode", ["bypassPermissions", "no-such-mode"])
async def test_a_mode_that_cannot_be_had_is_refused(lab: Lab, mode: str) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            with pytest.raises(agentrt.errors.RequestError, match="permission mode"):
                await session.set_mode(mode)
            assert session.modes is not None
            assert session.modes.mode == "default"


async def test_a_session_that_may_bypass_asks_nothing_at_all(lab: Lab) -> None:
    lab.env["IS_SANDBOX"] = "1"  # a root user may bypass only there
    with trio.fail_after(PATIENCE):
        async with session_with(lab, mode="bypassPermissions", options={"allow_bypass": True}) as (
            session,
            story,
        ):
            await session.run("Please [[shell]]")
    assert story.all(agentrt.PermissionOpened) == []
    assert (lab.work / "ran.txt").exists()


async def test_claudes_own_requests_can_be_made_by_their_names(lab: Lab) -> None:
    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        return summary

    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[record_result]) as (session, _):
            await session.run("Please [[text]]")
            claude = agentrt.claude.ClaudeControl(session)
            status = await claude.mcp_servers()
            usage = await claude.context_usage()
            await claude.set_max_thinking_tokens(2048)
            await session.call("stop_task", task="nobody")
            with pytest.raises(agentrt.errors.RequestError, match="Unsupported"):
                await session.call("make_coffee")
            with pytest.raises(agentrt.errors.RequestError, match="no set_option"):
                await session.set_option("colour", "blue")
    assert [(s.name, s.status) for s in status] == [("agentrt", "connected")]
    assert usage.max_tokens > usage.total_tokens > 0


async def test_files_are_rewound_to_a_turn(lab: Lab) -> None:
    note = lab.work / "note.txt"
    note.write_text("before\n")
    script: Script = [
        [Call("Read", {"file_path": str(note)})],
        [Edit(str(note), "after\n")],
        [Text("Written.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(
            lab, permissions=agentrt.allow_all, options={"file_checkpoints": True}
        ) as (session, _):
            result = await session.run(prompt_for(script))
            assert note.read_text() == "after\n"
            claude = agentrt.claude.ClaudeControl(session)
            tried = await claude.rewind_files(result.turn, dry_run=True)
            assert note.read_text() == "after\n"
            rewound = await claude.rewind_files(result.turn)
            with pytest.raises(agentrt.errors.RequestError, match="no prompt started"):
                await claude.rewind_files("t99")
    assert tried.can_rewind
    assert rewound.can_rewind
    assert note.read_text() == "before\n"


async def test_slash_commands_are_turns(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            await session.run("Please [[text]]")
            context = await session.run("/context")
            compacted = await session.run("/compact")
            before = session.agent_session
            cleared = await session.run("/clear")
            again = await session.run("Please [[again]]")
            after = session.agent_session
    assert "tokens" in context.text.lower()
    assert compacted.outcome == cleared.outcome == "completed"
    assert [notice.code for notice in story.all(agentrt.Notice)].count("compacted") == 1
    assert story.notices("conversation_reset")
    assert after != before
    assert again.text == "Another answer."
    [*_, asked] = lab.model.asks()
    assert asked.history == ["[[again]]"]


async def test_a_command_that_is_none_is_a_prompt(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            result = await session.run("/nonsense [[again]]")
    assert result.text == "Another answer."


async def test_an_image_can_be_sent_beside_the_text(lab: Lab) -> None:
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
        "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    content: list[Any] = [
        agentrt.events.Text("Please [[again]]"),
        agentrt.Image(data=pixel, mime_type="image/png"),
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            result = await session.run(content)
    assert result.text == "Another answer."


async def test_a_prompt_can_be_steered_into_a_running_turn(lab: Lab) -> None:
    """Claude takes it in behind the running tool, and one result answers both."""

    async def slowly(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        session.steer("And one more thing.")
        await trio.sleep(0.2)
        return agentrt.Allow()

    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=slowly) as (session, story):
            result = await session.run("Please [[shell]]")
            again = await session.run("Please [[again]]")
    assert result.outcome == "completed"
    assert again.text == "Another answer."
    assert [end.outcome for end in story.all(agentrt.TurnEnded)] == ["completed", "completed"]
    prompts = [e.item for e in story.all(agentrt.ItemOpened) if e.item.type == "user"]
    assert len(prompts) == 3


# --- many turns, long lines


async def test_a_hundred_turns_on_one_process(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            pid = session.agent.pid
            for number in range(100):
                script: Script = [[Text(f"This is answer {number}.")]]
                result = await session.run(prompt_for(script))
                assert result.text == f"This is answer {number}."
                assert result.usage is not None
                assert result.usage.output_tokens
                assert result.cost is not None
            assert session.agent.pid == pid
    assert len(story.all(agentrt.TurnEnded)) == 100
    assert story.notices("stale") == []


LENGTHS = [3_000_000, pytest.param(20_000_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("partial", [True, False], ids=["in pieces", "as one line"])
@pytest.mark.parametrize("length", LENGTHS)
async def test_an_answer_of_megabytes_is_an_answer(lab: Lab, length: int, partial: bool) -> None:
    script: Script = [[Text("x", times=length, chunk=1_000_000)]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, options={"partial_messages": partial}) as (session, _):
            result = await session.run(prompt_for(script))
            again = await session.run("Please [[again]]")
    assert result.text == "x" * length
    assert again.text == "Another answer."


@pytest.mark.parametrize("length", LENGTHS)
async def test_a_tool_may_answer_with_megabytes(lab: Lab, length: int) -> None:
    """Claude Code puts them into a file of its own; the line that brings them is that long."""

    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        return "x" * length

    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[record_result], permissions=agentrt.allow_all) as (
            session,
            _,
        ):
            await session.run("Please [[record]]")
            [item] = [item for item in session.snapshot().items if item.type == "tool"]
            again = await session.run("Please [[again]]")
    assert item.tool is not None
    assert f"{length:,} characters" in str(item.tool.content)
    assert again.text == "Another answer."


async def test_a_command_may_print_megabytes(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            result = await session.run("Please [[big]]")
    assert result.text == "That was a lot."
    assert [status for _, status in story.tools()] == ["completed"]


async def test_a_prompt_may_have_megabytes(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            result = await session.run(f"{'y' * 3_000_000} [[again]]", check=False)
            again = await session.run("Please [[text]]")
    assert result.outcome in ("completed", "limit")
    assert again.text == "Hello from the scripted model."
