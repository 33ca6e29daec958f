"""The real Claude Code when the model's API fails, hangs up or falls silent."""

from __future__ import annotations

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Cut, Pause, Script, Text, prompt_for
from .story import session_with

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0


@pytest.fixture(autouse=True)
def one_retry(lab: Lab) -> None:
    lab.env["CLAUDE_CODE_MAX_RETRIES"] = "1"


@pytest.mark.parametrize(
    ("status", "code", "retried"),
    [
        (400, "unknown", False),
        (401, "authentication_failed", True),
        (404, "model_not_found", False),
        (429, "rate_limit", True),
        (500, "server_error", True),
        (529, "server_error", True),
    ],
)
async def test_an_error_of_the_api_is_a_failed_turn(
    lab: Lab, status: int, code: str, retried: bool
) -> None:
    """Claude Code calls its subtype `success`."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            with pytest.raises(
                agentrt.errors.AgentFailed, match=str(status) if status != 404 else "model"
            ):
                await session.run(f"Please [[error-{status}]]")
            again = await session.run("Please [[again]]")
    failed, _ = story.all(agentrt.TurnEnded)
    assert (failed.outcome, failed.stop_reason) == ("failed", "api_error")
    assert failed.error is not None
    assert (failed.error.code, failed.error.data["status"]) == (code, status)
    assert bool(story.notices("api_retry")) is retried
    assert [e.item.type for e in story.all(agentrt.ItemOpened)] == ["user", "user", "text"]
    assert again.text == "Another answer."


@pytest.mark.parametrize(
    "status", [529, *(pytest.param(s, marks=pytest.mark.slow) for s in (429, 500))]
)
async def test_an_error_that_passes_is_a_notice(lab: Lab, status: int) -> None:
    lab.env["CLAUDE_CODE_MAX_RETRIES"] = "3"
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            result = await session.run(f"Please [[retry-{status}]]")
    assert result.text == f"After {status}."
    retries = story.notices("api_retry")
    assert [notice.data["attempt"] for notice in retries] == [1, 2]
    assert str(status) in retries[0].message


async def test_a_stream_that_is_cut_before_it_says_anything_is_a_failed_turn(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            result = await session.run(prompt_for([[Cut()]]), check=False)
            again = await session.run("Please [[again]]")
    assert (result.outcome, result.stop_reason) == ("failed", "api_error")
    assert story.notices("api_retry")
    assert again.text == "Another answer."


async def test_claude_has_the_model_go_on_behind_a_stream_that_is_cut(lab: Lab) -> None:
    script: Script = [[Text("Half of it."), Pause(2.0), Cut()], [Text("The rest.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            result = await session.run(prompt_for(script))
    assert result.text == "Half of it.\n\nThe rest."


async def test_nobody_listening_is_a_failed_turn(lab: Lab) -> None:
    lab.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            result = await session.run("Please [[text]]", check=False)
    assert result.outcome == "failed"
    assert result.error is not None
    assert "refused" in result.error.message


@pytest.mark.parametrize("script", ["mute", "silent", "stalled"])
async def test_silence_ends_a_turn_only_if_its_limit_says_so(lab: Lab, script: str) -> None:
    """Claude Code itself says nothing and never gives up."""
    limits = agentrt.Limits(idle_timeout_s=1.0)
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            pid = session.agent.pid
            result = await session.run(f"Please [[{script}]]", limits=limits, check=False)
            again = await session.run("Please [[again]]")
            assert session.agent.pid == pid
    assert result.outcome == "timed_out"
    assert result.error is not None
    assert result.error.data == {"limit": "idle"}
    assert again.text == "Another answer."


async def test_an_answer_without_an_end_meets_the_hard_limit(lab: Lab) -> None:
    limits = agentrt.Limits(idle_timeout_s=60.0, turn_timeout_s=4.0)
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            result = await session.run("Please [[slow]]", limits=limits, check=False)
            again = await session.run("Please [[again]]")
    assert result.outcome == "timed_out"
    assert result.error is not None
    assert result.error.data == {"limit": "hard"}
    assert result.text.startswith("word word")
    assert again.text == "Another answer."


async def test_a_budget_that_is_spent_is_a_limit_not_a_failure(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, options={"max_turns": 1}) as (
            session,
            _,
        ):
            result = await session.run("Please [[shell]]")
            again = await session.run("Please [[again]]")
    assert (result.outcome, result.stop_reason) == ("limit", "max_turns")
    assert again.text == "Another answer."
