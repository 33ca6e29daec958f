"""The example agents of the official SDKs: no model, each with a conversation of its own."""

from __future__ import annotations

import os
import signal

import pytest
import trio

import agentrt

from .lab import Lab
from .story import session_with

pytestmark = pytest.mark.real_agent

PATIENCE = 60.0
ECHOES = {"example-py": "Client sent:", "echo-py": ""}


@pytest.mark.parametrize("agent", ECHOES)
async def test_an_echo_has_the_whole_prompt(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            first = await session.run("one 😀")
            second = await session.run("two")
    assert first.text == f"{ECHOES[lab.agent]}one 😀"
    assert second.text == f"{ECHOES[lab.agent]}two"
    assert [end.stop_reason for end in story.all(agentrt.TurnEnded)] == ["end_turn", "end_turn"]


@pytest.mark.parametrize("agent", ECHOES)
async def test_a_cancelled_echo_does_not_reach_the_next_turn(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            async with session.prompt("one") as turn:
                turn.cancel()
            second = await session.run("two")
    assert turn.result.outcome == "cancelled"
    assert second.text == f"{ECHOES[lab.agent]}two"


@pytest.mark.parametrize("agent", [*ECHOES, "example-ts"])
async def test_after_a_kill_the_next_prompt_is_answered_by_a_new_agent(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            assert session.agent.pid is not None
            os.kill(session.agent.pid, signal.SIGSTOP)  # so that it is in the middle of its turn
            async with session.prompt("one", check=False) as turn:
                os.kill(session.agent.pid, signal.SIGKILL)
            second = await session.run("two")
    assert turn.result.outcome == "agent_died"
    assert second.outcome == "completed"
    [restarted] = story.notices("agent_restarted")
    assert restarted.data == {"resumed": False}


@pytest.mark.parametrize("agent", ["example-ts"])
@pytest.mark.parametrize(
    ("policy", "answer", "status"),
    [
        (agentrt.allow_all, "The changes have been applied.", "completed"),
        (agentrt.deny_all, "I'll skip the configuration update.", "denied"),
    ],
)
async def test_the_answer_to_its_question_decides(
    lab: Lab, policy: agentrt.Policy, answer: str, status: str
) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=policy) as (session, story):
            result = await session.run("Improve the configuration")
    assert answer in result.text
    assert [closed for _, closed in story.tools()] == ["completed", status]


@pytest.mark.parametrize("agent", ["example-ts"])
async def test_a_cancel_while_it_works_ends_the_turn(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            session_with(lab) as (session, story),
            session.prompt("Improve the configuration") as turn,
        ):
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
    assert (turn.result.outcome, turn.result.stop_reason) == ("cancelled", "cancelled")
    assert story.notices("cancel_ignored") == []


@pytest.mark.parametrize("agent", ["example-ts"])
async def test_a_cancel_at_its_question_does_not_hang(lab: Lab) -> None:
    """It waits for the answer to its question, for ever, before it looks at the cancel."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.ask) as (session, story):
            async with session.prompt("Improve the configuration") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.cancel()
            second = session.prompt("Improve it again")
            async with second:
                second.cancel()
    assert turn.result.outcome == "cancelled"
    assert story.notices("cancel_ignored") == []
