"""Whole sessions with a scripted CLI (`fakecli.py`): one oddity each, through the public API."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from msgspec import structs

import agentrt

FAKE = str(Path(__file__).parent / "fakecli.py")
QUICK = agentrt.Limits(
    startup_timeout_s=10,
    cancel_grace_s=3,
    cancel_resend_s=0.5,
    end_silence_s=0.3,
    stdin_close_grace_s=0.3,
    terminate_grace_s=0.3,
    kill_wait_s=1,
    drain_timeout_s=5,
)


@asynccontextmanager
async def session(scenario: str, **options: Any) -> AsyncIterator[agentrt.Session]:
    """A session with one scenario, and 20 s for all of it."""
    env = {"FAKECLI_LOG": str(options.pop("log"))} if "log" in options else {}
    env |= options.pop("agent_env", {})
    agent = agentrt.agents.claude(
        [sys.executable, FAKE, scenario], env=env, **options.pop("claude", {})
    )
    with trio.fail_after(20):
        limits = options.pop("limits", QUICK)
        async with agentrt.open_session(agent, limits=limits, **options) as session:
            yield session


def items(session: agentrt.Session, kind: str) -> list[agentrt.events.Item]:
    return [item for item in session.snapshot().items if item.type == kind]


def texts(session: agentrt.Session) -> list[str]:
    """What the main agent said."""
    return [item.text for item in items(session, "text") if item.parent is None]


def turns(session: agentrt.Session) -> list[tuple[str, str | None]]:
    return [(turn.origin, turn.outcome) for turn in session.snapshot().turns]


async def told(session: agentrt.Session, kind: type, times: int = 1) -> Any:
    """The event that is the so manieth of its kind in the session's log, past or future."""
    with session.subscribe(0) as events:
        async for event in events:
            times -= isinstance(event, kind)
            if not times:
                return event
    raise AssertionError("the log has ended")


@agentrt.tool
async def record(summary: str) -> str:
    """Persist the outcome."""
    await trio.lowlevel.checkpoint()
    return f"recorded: {summary}"


# --- the end of a turn


async def test_a_good_cli_answers_prompt_after_prompt() -> None:
    async with session("plain") as s:
        first = await s.run("hello")
        second = await s.run("again")
        assert (first.outcome, first.text) == ("completed", "You said: hello ")
        assert second.text == "You said: again "
        assert second.cost == pytest.approx(0.01)
        assert s.agent.version == "0.0.fake"
        assert s.modes is not None
        assert s.modes.model == "default"


@pytest.mark.slow
async def test_a_turn_waits_for_the_rest_after_its_result() -> None:
    async with session("result_before_idle") as s:
        assert (await s.run("hello")).outcome == "completed"
        assert (await s.run("again")).outcome == "completed"


async def test_rest_may_come_before_the_result() -> None:
    async with session("idle_before_result") as s:
        assert (await s.run("hello")).outcome == "completed"
        assert (await s.run("again")).outcome == "completed"


async def test_a_result_that_is_never_followed_by_rest_ends_the_turn_all_the_same() -> None:
    async with session("never_idle", limits=structs.replace(QUICK, drain_timeout_s=0.1)) as s:
        result = await s.run("hello")
        assert (result.outcome, result.text) == ("completed", "answer")


async def test_a_continuation_after_the_result_calls_a_tool_and_is_waited_for() -> None:
    calls = []

    @agentrt.tool
    async def record(summary: str) -> str:
        """Persist the outcome."""
        await trio.lowlevel.checkpoint()
        calls.append(summary)
        return "ok"

    async with session("case_c", tools=[record]) as s:
        result = await s.run("dig")
        assert result.text == "Agent started."
    assert calls == ["it"]
    assert turns(s) == [("user", "completed"), ("agent", "completed")]
    assert texts(s) == ["Agent started.", "Agent finished."]


async def test_a_background_agent_outlives_its_turn_and_is_waited_for() -> None:
    async with session("background_agent") as s:
        await s.run("dig")
        assert s.state.turn is None
        assert s.background_tasks["a1"].status == "running"
    assert s.background_tasks["a1"].status == "completed"
    assert turns(s) == [("user", "completed"), ("agent", "completed")]
    assert texts(s) == ["Agent started.", "Agent finished."]


async def test_claude_works_by_itself_while_nobody_asks() -> None:
    async with session("unsolicited_idle") as s:
        await s.run("hello")
        await told(s, agentrt.TurnEnded, times=2)
        assert turns(s) == [("user", "completed"), ("agent", "completed")]
        assert (await s.run("again")).text == "You said: again "


async def test_work_between_a_prompt_and_its_turn_does_not_end_the_turn() -> None:
    async with session("unsolicited_before") as s:
        assert (await s.run("hello")).outcome == "completed"
        assert texts(s) == ["By the way.", "The answer."]
        assert (await s.run("again")).text == "You said: again "


async def test_a_cli_that_skips_repeated_names_answers_every_prompt() -> None:
    async with session("duplicate_uuid") as s:
        for _ in range(3):
            assert (await s.run("the same words")).outcome == "completed"


async def test_a_prompt_steered_into_a_turn_shares_its_answer() -> None:
    async with session("fold_in") as s:
        async with s.prompt("make it") as turn:
            async for event in turn:
                if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                    s.steer("and test it")
        assert turn.result.text == "both answered"
        assert turns(s) == [("user", "completed")]
        assert (await s.run("again")).text == "You said: again "


async def test_prompts_that_came_too_late_run_together_as_the_next_turn() -> None:
    async with session("merged_queue") as s:
        async with s.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    s.steer("one more")
                    s.steer("and another")
        await told(s, agentrt.TurnEnded, times=2)
        assert turns(s) == [("user", "completed"), ("agent", "completed")]
        assert texts(s) == ["busy", "both answered"]
        assert (await s.run("again")).text == "You said: again "


# --- permissions, hooks, tools


async def test_a_permission_is_granted_with_another_input() -> None:
    def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        return agentrt.Allow(updated_input={"command": "ls"})

    async with session("permission", permissions=policy) as s:
        await s.run("clean")
        (tool,) = items(s, "tool")
        assert tool.status == "completed"
        assert tool.tool is not None
        assert tool.tool.content[0].content.text == "ran ls"  # type: ignore[union-attr]


async def test_a_permission_is_denied_with_a_reason() -> None:
    def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        return agentrt.Deny("not on Sundays")

    async with session("permission", permissions=policy) as s:
        assert (await s.run("clean")).text == "Not done."
        assert items(s, "tool")[0].status == "denied"


async def test_the_reader_of_a_turn_may_answer() -> None:
    async with session("permission") as s:
        async with s.prompt("clean") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.answer(event.request, "allow_once")
        assert turn.result.text == "Done."


async def test_a_withdrawn_request_stops_its_handler_and_is_not_answered(tmp_path: Path) -> None:
    stopped = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(request)

    log = tmp_path / "log"
    async with session("withdrawn", permissions=policy, log=log) as s:
        assert (await s.run("list")).text == "no answer came"
    assert stopped


async def test_a_cancel_answers_no_request_after_the_cli_took_it_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with session("permission", permissions=agentrt.ask, log=log) as s:
        async with s.prompt("clean") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert items(s, "tool")[0].status == "cancelled"
        async with s.prompt("clean") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.answer(event.request, "allow_once")
        assert turn.result.text == "Done."
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    answers = [m["response"]["request_id"] for m in lines if m["type"] == "control_response"]
    assert len(answers) == len(set(answers))


async def test_an_in_process_tool_is_called() -> None:
    async with session("tool", tools=[record]) as s:
        assert (await s.run("record it")).text == "Called."
        (tool,) = items(s, "tool")
        assert tool.tool is not None
        assert "recorded: x" in tool.tool.content[0].content.text  # type: ignore[union-attr]


async def test_a_cancelled_turn_cancels_the_tool_it_called() -> None:
    started, stopped = trio.Event(), []

    @agentrt.tool
    async def record(summary: str) -> str:
        """Never ends by itself."""
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(summary)
        return ""

    async with session("tool", tools=[record]) as s:
        async with s.prompt("record it") as turn:
            await started.wait()
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert stopped == ["x"]


async def test_a_hook_is_asked() -> None:
    @agentrt.hook("PreToolUse", matcher="Bash")
    async def no(input: dict[str, Any]) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"decision": "block", "reason": input["tool_name"]}

    async with session("hook", hooks=[no]) as s:
        assert json.loads((await s.run("go")).text) == {"decision": "block", "reason": "Bash"}


async def test_tools_are_served_before_the_handshake_is_over() -> None:
    async with session("mcp_before_reply", tools=[record]) as s:
        assert (await s.run("what tools?")).text == '["record"]'


# --- interrupts


@pytest.mark.parametrize("scenario", ["slow", "silent", "retry_401"])
async def test_a_cancel_interrupts_and_the_next_prompt_works(scenario: str) -> None:
    async with session(scenario) as s:
        async with s.prompt("go", check=False) as turn:
            await told(s, agentrt.TurnStarted)
            await trio.sleep(0.1)
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert turn.result.error is None
        assert s.agent.alive
        if scenario == "retry_401":
            assert (await s.run("hello")).text == "You said: hello "


async def test_a_cancelled_scope_around_a_turn_ends_it_by_an_interrupt() -> None:
    patient = structs.replace(QUICK, cancel_grace_s=60, cancel_resend_s=60)
    async with session("slow", limits=patient) as s:
        with trio.move_on_after(0.3):
            await s.run("go")
        assert turns(s) == [("user", "cancelled")]
        assert s.agent.alive


@pytest.mark.slow
async def test_a_cli_that_ignores_interrupts_is_replaced() -> None:
    async with session("unresponsive") as s:
        async with s.prompt("go", check=False) as turn:
            await told(s, agentrt.TurnStarted)
            turn.cancel()
        assert turn.result.outcome == "cancelled"


# --- broken output


async def test_a_line_of_ten_megabytes_is_an_answer() -> None:
    async with session("line_10mb") as s:
        assert len((await s.run("go")).text) == 10_000_000


async def test_lines_that_are_no_json_are_notices() -> None:
    async with session("non_json") as s:
        assert (await s.run("go")).text == "still here"
        assert (await told(s, agentrt.Notice)).code == "bad_line"


async def test_the_type_may_come_last_in_every_line() -> None:
    async with session("type_last") as s:
        assert (await s.run("hello")).text == "You said: hello "


async def test_a_flood_is_kept_up_with() -> None:
    async with session("flood") as s:
        assert len((await s.run("go")).text) == 200_000


async def test_a_heartbeat_is_no_sub_agent() -> None:
    async with session("heartbeat") as s:
        assert (await s.run("go")).text == "Made."
        assert len(items(s, "tool")) == 1


# --- the process


@pytest.mark.parametrize("scenario", ["eof_mid_turn", "half_line_at_eof"])
async def test_a_cli_that_dies_in_a_turn_ends_it(scenario: str) -> None:
    async with session(scenario) as s:
        result = await s.run("go", check=False)
        assert result.outcome == "agent_died"
        assert result.error is not None


async def test_what_a_dying_cli_wrote_to_stderr_is_quoted() -> None:
    async with session("eof_mid_turn") as s:
        with pytest.raises(agentrt.errors.AgentDied) as caught:
            await s.run("go")
        assert caught.value.result.error is not None
        assert "segmentation fault" in caught.value.result.error.data["stderr"]


async def test_exit_1_after_an_error_is_no_crash() -> None:
    async with session("exit_1_after_error") as s:
        result = await s.run("go", check=False)
        assert (result.outcome, result.stop_reason) == ("failed", "api_error")
        assert result.error is not None
        assert result.error.data["status"] == 529


async def test_a_last_result_without_its_newline_counts() -> None:
    async with session("last_line_without_newline") as s:
        result = await s.run("go", check=False)
        assert (result.outcome, result.text) == ("completed", "bye")


async def test_an_exit_before_the_handshake_quotes_stderr() -> None:
    with pytest.raises(agentrt.AgentStartError, match="unknown option"):
        async with session("exit_before_reply"):
            pytest.fail("there is no session")


async def test_a_refusal_to_start_says_why() -> None:
    with pytest.raises(agentrt.errors.SessionNotFound, match="No conversation found"):
        async with session("refuses_to_start"):
            pytest.fail("there is no session")


async def test_a_cli_that_ignores_eof_and_sigterm_is_gone_afterwards() -> None:
    async with session("ignores_eof_and_sigterm") as s:
        await s.run("go")
        pid = s.agent.pid
        assert pid is not None
    assert not psutil.pid_exists(pid)


@pytest.mark.slow
async def test_a_grandchild_in_a_session_of_its_own_does_not_survive() -> None:
    async with session("grandchild") as s, s.prompt("go", check=False) as turn:
        async for event in turn:
            if isinstance(event, agentrt.TextDelta):
                child = psutil.Process(int(event.text))
                turn.cancel()
    _, alive = psutil.wait_procs([child], timeout=2)
    assert not alive


@pytest.mark.slow
async def test_a_cli_that_does_not_read_its_input_is_ended() -> None:
    async with session("stdin_full") as s:
        limits = agentrt.Limits(cancel_grace_s=0.5, turn_timeout_s=0.5)
        result = await s.run("x" * 1_000_000, limits=limits, check=False)
        assert result.outcome in ("timed_out", "agent_died")


# --- the reverse-engineered protocol


@pytest.mark.parametrize(
    ("policy", "said", "status"),
    [(agentrt.allow_all, "approve", "completed"), (agentrt.deny_all, "deny", "denied")],
)
async def test_a_program_of_the_older_protocol_runs_what_is_approved(
    policy: agentrt.Policy, said: str, status: str
) -> None:
    async with session("legacy", permissions=policy, claude={"legacy": True}) as s:
        for _ in range(2):
            await s.run("go")
        assert texts(s)[:2] == ["I will run a command.", f"It was: {said}"]
        assert [item.status for item in items(s, "tool")] == [status, status]


async def test_a_program_of_the_older_protocol_is_aborted_by_a_signal_and_lives_on() -> None:
    async with session("legacy", permissions=agentrt.ask, claude={"legacy": True}) as s:
        async with s.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.cancel()
        assert turn.result.outcome == "cancelled"
        async with s.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.answer(event.request, "allow_once")
        assert "It was: approve" in turn.result.text
        assert turns(s) == [("user", "cancelled"), ("user", "completed")]
