"""Copies of conversations that end at a turn, by the real agents: what the model is sent."""

from __future__ import annotations

import pytest
import trio

import agentrt
from agentrt import Session

from .lab import Lab
from .modelserver.scripts import Shell, Text, prompt_for
from .story import agent_of, session_with

pytestmark = pytest.mark.real_agent

FORKING = ["claude", "claude-2.1.165", "claude-agent-acp", "codex", "codex-acp"]
"""Those that fork at a turn."""
PATIENCE = 120.0
COMMAND = "sleep 5"


def remembered(lab: Lab) -> list[str]:
    """The prompts that the last request to the model was sent with."""
    [*_, asked] = lab.model.asks()
    return asked.history


def shown(session: Session) -> list[str]:
    """What was said, as viewers see it, without what was done."""
    said = []
    for item in session.snapshot().items:
        words = item.text + "".join(getattr(block, "text", "") for block in item.content)
        if item.type in ("user", "text"):
            said.append(words)
    return said


@pytest.mark.parametrize("agent", FORKING)
async def test_the_model_is_sent_what_was_said_up_to_the_turn_and_no_more(lab: Lab) -> None:
    """The second of three turns; its words were also those of the first."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, _):
            await session.run("Please [[text]]")
            middle = await session.run("Please [[text]] twice")
            await session.run("Please [[shell]]")
            first = session.agent_session
            point = session.fork_point(middle.turn)
        async with session_with(lab, resume=first, fork=True, fork_at=point) as (fork, _):
            assert fork.capabilities["fork_at"]
            await fork.run("Please [[again]]")
            assert fork.agent_session not in (None, first)
        assert remembered(lab) == ["[[text]]", "[[text]]", "[[again]]"]
        async with session_with(lab, resume=first) as (session, _):
            await session.run("Please [[thinking]]")
    assert remembered(lab) == ["[[text]]", "[[text]]", "[[shell]]", "[[thinking]]"]


@pytest.mark.parametrize("agent", FORKING)
async def test_a_session_is_forked_at_a_turn_while_a_later_one_runs(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, _):
            await session.run("Please [[text]]")
            called = await session.run("Please [[shell]]")
            async with session.prompt("Please [[slow]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        break
                point = session.fork_point(called.turn)
                first = session.agent_session
                opening = agentrt.open_session(
                    agent_of(lab),
                    cwd=lab.work,
                    env=lab.env,
                    trust="yes",
                    resume=first,
                    fork=True,
                    fork_at=point,
                )
                async with opening as fork:
                    await fork.run("Please [[again]]")
                turn.cancel()
            assert turn.result.outcome == "cancelled"
        [last, *_] = [ask for ask in lab.model.asks() if ask.marker == "[[again]]"]
        assert last.history == ["[[text]]", "[[shell]]", "[[again]]"]


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_what_another_process_said_is_forked_at_and_shown(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, _):
            for prompt in ("Please [[shell]]", "Please [[text]]"):
                await session.run(prompt)
            first = session.agent_session
        async with session_with(lab, resume=first) as (session, _):
            asked = next(item for item in session.snapshot().items if item.type == "user")
            point = session.fork_point(asked.id)
        async with session_with(lab, resume=first, fork=True, fork_at=point) as (fork, _):
            words = ["Please [[shell]]", "I will run a command.", "The command is finished."]
            assert shown(fork) == words
            await fork.run("Please [[again]]")
    assert remembered(lab) == ["[[shell]]", "[[again]]"]


@pytest.mark.parametrize("agent", ["codex-acp-zed", "kimi"])
async def test_an_agent_that_does_not_fork_at_a_turn_says_so(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            result = await session.run("Please [[text]]")
            assert not session.capabilities["fork_at"]
            point = agentrt.events.ForkPoint(messages=("m",))
            first, turn = session.agent_session, result.turn
            assert turn
        with pytest.raises(
            agentrt.AgentStartError, match=r"cannot fork|can fork a session only at"
        ):
            async with session_with(lab, resume=first, fork=True, fork_at=point):
                pytest.fail("it was opened")


@pytest.mark.parametrize("agent", ["claude-agent-acp", "codex", "codex-acp"])
async def test_words_are_taken_into_the_running_turn(lab: Lab) -> None:
    """While a command runs: it takes as long as an agent may need to read the words."""
    prompt = prompt_for([[Shell(COMMAND)], [Text("Done.")]])
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            assert session.capabilities["steer"]
            async with session.prompt(prompt) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                        break
                session.steer("And [[again]]")
            assert turn.result.outcome == "completed"
            assert "Another answer." in turn.result.text
        assert len(story.all(agentrt.TurnStarted)) == 1
        assert "[[again]]" in remembered(lab)
