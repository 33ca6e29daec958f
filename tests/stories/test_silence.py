"""A broker asked every half minute whether its agent had said something, and took a healthy agent
that was thinking for a dead one. Silence alone is no death."""

from __future__ import annotations

import time

import pytest
import trio
from msgspec import structs

from hostile.bad_agent import Agent, Message
from hostile.kit import SHORT, bad_session, works

LONG = SHORT.kill_wait_s + 0.5
"""Longer than every limit of `SHORT` that has to do with waiting for an agent that runs."""


@pytest.mark.parametrize("silence", [LONG, pytest.param(40.0, marks=pytest.mark.slow)])
async def test_an_agent_that_is_silent_for_longer_than_any_interval_keeps_its_turn(
    silence: float,
) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("let me think")
        agent.update("tool_call", toolCallId="c", title="Long test", status="in_progress")
        time.sleep(agent.arg)
        agent.update("tool_call_update", toolCallId="c", status="completed")
        agent.say("... yes")
        agent.end(prompt)

    limits = structs.replace(SHORT, turn_timeout_s=silence + 10)
    async with bad_session(
        misbehave=misbehave, arg=silence, limits=limits, bound=silence + 10
    ) as session:
        pid = session.agent.pid
        result = await session.run("misbehave")
        assert (result.outcome, result.text) == ("completed", "let me think\n\n... yes")
        assert session.agent.pid == pid
        # Nobody asked it anything meanwhile.
        heard = (await session.run("report")).text
        assert heard == "initialize session/new session/prompt session/prompt"


@pytest.mark.slow
async def test_an_idle_session_is_left_alone() -> None:
    async with bad_session() as session:
        pid = session.agent.pid
        await works(session)
        with session.subscribe() as events:
            await trio.sleep(LONG)
            events.finish()
            assert [event async for event in events] == []
        await works(session)
        assert session.agent.pid == pid
