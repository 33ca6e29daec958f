"""Agents that end prompts as cancelled although nobody has cancelled them, in each protocol."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest
import trio

import agentrt
from agentrt.testing import (
    FakeAcpAgent,
    FakeClaudeAgent,
    FakeCodexAgent,
    MemoryAgent,
    open_fake_session,
)
from runtime.fakes import log_of

AGENTS: Final[dict[str, tuple[Any, dict[str, Any], dict[str, Any]]]] = {
    "acp": (FakeAcpAgent, {}, {}),
    "acp 2": (FakeAcpAgent, {"version": 2}, {"acp_version": 2}),
    "claude": (FakeClaudeAgent, {}, {"protocol": "claude"}),
    "codex": (FakeCodexAgent, {}, {"protocol": "codex"}),
}
"""The fake of each protocol, its options, and those of a session with it."""
SAID: Final = ("nothing", "text", "white space", "thoughts", "tool", "open tool", "answered")
"""What an agent may say before the end."""

each_protocol = pytest.mark.parametrize("protocol", AGENTS)


def say(agent: Any, kind: str) -> None:
    match kind:
        case "text":
            agent.say("I will look.")
        case "white space":
            agent.say(" \n")
        case "thoughts":
            agent.think("The user wants something.")
        case "tool":
            agent.use("c1", "Read a file")
            agent.used("c1", "nothing in it")
        case "open tool":
            agent.use("c1", "Read a file")


def session_of(protocol: str, **options: Any) -> Any:
    """A session with an agent that obeys.

    `brick KIND` ends that prompt and each one behind it as cancelled, `cancel KIND` only that
    prompt, `wait` ends when it is cancelled, and `ask` does when its permission is denied.
    """
    fake, fake_options, session_options = AGENTS[protocol]

    async def script(process: MemoryAgent) -> None:
        bricked = ""
        async with fake.serving(process, **fake_options) as agent:
            async for prompt in agent.prompts:
                word, _, kind = prompt.text.partition(" ")
                if word == "brick":
                    bricked = kind
                if bricked or word == "cancel":
                    kind = bricked or kind
                    if kind == "answered":
                        await agent.ask()
                    say(agent, kind)
                    prompt.end("cancelled")
                elif word == "wait":
                    agent.say("waiting")
                    await prompt.cancelled.wait()
                    prompt.end("cancelled")
                elif word == "ask":
                    allowed = await agent.ask() in ("allow", "accept", "yes")
                    prompt.end("end_turn" if allowed else "cancelled")
                else:
                    agent.say(f"{prompt.text}!")
                    prompt.end()

    options.setdefault("permissions", agentrt.allow_all)
    return open_fake_session(partial(MemoryAgent, script), **session_options, **options)


def stuck(session: agentrt.Session) -> list[Any]:
    """The data of the notices so far about an agent that is replaced."""
    told = [e for e in log_of(session) if isinstance(e, agentrt.Notice)]
    return [notice.data for notice in told if notice.code == "cancel_stuck"]


async def lose(session: agentrt.Session, prompt: str) -> None:
    result = await session.run(prompt, check=False)
    assert (result.outcome, result.by) == ("cancelled", "agent")


async def works(session: agentrt.Session) -> None:
    result = await session.run("hello", check=False)
    assert (result.outcome, result.text) == ("completed", "hello!")


@each_protocol
@pytest.mark.parametrize("said", SAID)
async def test_a_second_prompt_in_a_row_is_reported(
    autojump_clock: trio.abc.Clock, protocol: str, said: str
) -> None:
    async with session_of(protocol) as session:
        await works(session)
        await lose(session, f"brick {said}")
        assert stuck(session) == []
        await lose(session, "are you there?")
        assert stuck(session) == [{"end": "cancelled"}]
        await works(session)  # on another process


@each_protocol
@pytest.mark.parametrize("said", SAID)
async def test_the_prompt_behind_a_cancel_is_reported(
    autojump_clock: trio.abc.Clock, protocol: str, said: str
) -> None:
    async with session_of(protocol) as session:
        async with session.prompt("wait", check=False) as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
        assert turn.result.by == "caller"
        await lose(session, f"brick {said}")
        assert stuck(session) == [{"end": "cancelled"}]
        await works(session)


@each_protocol
@pytest.mark.parametrize("said", SAID)
async def test_an_agent_that_answers_in_between_is_kept(
    autojump_clock: trio.abc.Clock, protocol: str, said: str
) -> None:
    async with session_of(protocol) as session:
        for _ in range(3):
            await lose(session, f"cancel {said}")
            await works(session)
        assert stuck(session) == []


@each_protocol
async def test_a_denied_turn_may_end_so(autojump_clock: trio.abc.Clock, protocol: str) -> None:
    """Some agents end a turn as cancelled when a permission is denied, however often."""
    async with session_of(protocol, permissions=agentrt.deny_all) as session:
        for _ in range(3):
            result = await session.run("ask", check=False)
            assert (result.outcome, len(result.denials)) == ("completed", 1)
        assert stuck(session) == []
