"""The agents that speak version 2 of ACP: the scenarios of all agents, and what is new in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest
import trio

import agentrt

from . import test_scenarios as scenarios
from .lab import Lab
from .modelserver.scripts import Script, Shell, Status, Text, prompt_for
from .story import session_with, until
from .test_claude_background import sub_agent

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.parametrize("agent", ["claude-agent-acp", "codex-acp"]),
]

SCENARIOS: Final[list[Callable[[Lab], Awaitable[None]]]] = [
    scenarios.test_a_text_is_answered,
    scenarios.test_an_allowed_command_is_run,
    scenarios.test_a_denied_tool_call_does_nothing,
    scenarios.test_a_cancel_while_text_streams_ends_the_turn,
    scenarios.test_a_cancel_right_behind_the_prompt_ends_the_turn,
    scenarios.test_a_cancel_while_a_command_sleeps_ends_the_turn,
    scenarios.test_a_cancel_at_an_open_permission_ends_the_turn,
    scenarios.test_each_of_two_prompts_gets_its_own_answer,
    scenarios.test_after_a_kill_the_next_prompt_is_answered,
    scenarios.test_an_agent_calls_a_tool_of_this_process,
]
TITLELESS: Final = ("codex-acp", scenarios.test_an_agent_calls_a_tool_of_this_process)
PATIENCE: Final = 300.0
MANY: Final = 100


@pytest.fixture
def lab2(lab: Lab) -> Lab:
    """The lab, with version 2 of ACP."""
    return replace(lab, acp_version=2)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__[5:40])
async def test_a_scenario_holds_in_version_2(
    lab2: Lab,
    scenario: Callable[[Lab], Awaitable[None]],
    request: pytest.FixtureRequest,
) -> None:
    if (lab2.agent, scenario) == TITLELESS:
        reason = "codex-acp 2.6.0 refuses its own question about an MCP tool: it has no title"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    await scenario(lab2)


async def test_both_versions_are_negotiated(lab: Lab, lab2: Lab) -> None:
    for each, version in ((lab, 1), (lab2, 2)):
        with trio.fail_after(PATIENCE):
            async with session_with(each) as (session, _):
                assert session.capabilities["protocol_version"] == version
                assert scenarios.HELLO in (await session.run("Please [[text]]")).text


async def test_a_cancel_in_the_same_write_as_its_prompt_ends_the_turn_every_time(
    lab2: Lab,
) -> None:
    slowest_s = 0.0
    with trio.fail_after(PATIENCE):
        async with session_with(lab2) as (session, story):
            for _ in range(MANY):
                began = trio.current_time()
                async with session.prompt("Please [[slow]]") as turn:
                    turn.cancel()
                assert turn.result.outcome == "cancelled"
                slowest_s = max(slowest_s, trio.current_time() - began)
            result = await session.run("Please [[text]]")
    assert scenarios.HELLO in result.text
    assert not story.notices("cancel_ignored")
    assert not story.notices("agent_restarted")
    print(f"slowest cancel: {slowest_s:.3f} s")


async def test_the_prompt_right_after_a_cancelled_turn_is_answered_every_time(lab2: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab2) as (session, story):
            for _ in range(MANY // 4):
                async with session.prompt("Please [[slow]]") as turn:
                    async for event in turn:
                        if isinstance(event, agentrt.TextDelta):
                            turn.cancel()
                assert turn.result.outcome == "cancelled"
                assert scenarios.HELLO in (await session.run("Please [[text]]")).text
    assert not story.notices("agent_restarted")


async def test_a_resumed_session_shows_its_history_once(lab2: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab2, permissions=agentrt.allow_all) as (session, live):
            await session.run("Please [[shell]]")
            id = session.agent_session
        async with session_with(lab2, resume=id) as (session, again):
            assert "Another answer." in (await session.run("Please [[again]]")).text

    def items(story: object) -> list[str]:
        opened = story.all(agentrt.ItemOpened)  # type: ignore[attr-defined]
        return [event.item.type for event in opened]

    before = [each for each in items(live) if each != "thought"]
    replayed = [event.item.type for event in again.all(agentrt.ItemOpened) if event.item.replay]
    assert [each for each in replayed if each != "thought"] == before


async def test_a_failed_model_call_fails_the_turn_and_the_next_one_works(lab2: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab2) as (session, _):
            async with session.prompt(prompt_for([[Status(400)]]), check=False) as turn:
                pass
            result = await session.run("Please [[text]]")
    assert turn.result.outcome == "failed"
    assert scenarios.HELLO in result.text


async def test_a_background_command_is_a_task_that_can_be_stopped(lab2: Lab) -> None:
    if lab2.agent != "claude-agent-acp":
        pytest.skip("lists no background commands")
    script: Script = [
        [Shell("sleep 298", background=True)],
        [Text("It runs in the background.")],
        [Text("It has ended.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab2, permissions=agentrt.allow_all) as (session, _):
            await session.run(prompt_for(script))
            [task] = [each for each in session.snapshot().tasks if each.status == "running"]
            await session.stop_task(task.id)
            await until(lambda: all(t.status != "running" for t in session.snapshot().tasks))


async def test_a_sub_agent_is_a_task_below_which_its_text_is_shown(lab2: Lab) -> None:
    if lab2.agent != "claude-agent-acp":
        pytest.skip("starts no sub-agents by itself")
    script: Script = [[sub_agent([Text("Looked.")])], [Text("It looked.")], [Text("Done.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab2, permissions=agentrt.allow_all) as (session, story):
            result = await session.run(prompt_for(script))
    assert "It looked." in result.text
    opened = [event.item for event in story.all(agentrt.ItemOpened)]
    assert any(item.parent is not None and item.type == "text" for item in opened)
