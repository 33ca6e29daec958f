"""A prompt was being written when its turn was cancelled: half a line stood in the pipe, and the
cancel was swallowed by it."""

from __future__ import annotations

import json
import os
import time

import pytest
import trio

from hostile.bad_agent import Agent, Message
from hostile.kit import PATIENT, bad_session, outcomes, works

LARGE = 300_000


def reads_slowly(agent: Agent) -> Message:
    """`receive`, 4 KiB at a time; a line that is none ends the agent."""
    while b"\n" not in agent._buffer:
        time.sleep(0.003)
        data = os.read(0, 4096)
        if not data:
            agent.eof()
        agent._buffer += data
    line, _, agent._buffer = agent._buffer.partition(b"\n")
    agent.heard.append(json.loads(line))
    return agent.heard[-1]


def reads_late(agent: Agent, prompt: Message) -> None:
    """Ends its turn, and leaves its input alone for a while."""
    agent.end(prompt)
    time.sleep(0.5)


async def test_the_cancel_behind_a_large_prompt_parses_on_an_agent_that_reads_slowly() -> None:
    async with bad_session(receive=reads_slowly, limits=PATIENT) as session:
        with trio.move_on_after(0.05) as scope:
            await session.run("x" * LARGE)
        assert scope.cancelled_caught
        heard = (await session.run("report")).text.split()
        assert heard[2:] == ["session/prompt", "session/cancel", "session/prompt"]
        assert await outcomes(session) == ["cancelled", "completed"]


@pytest.mark.parametrize("after", [0.0, 0.05])
async def test_the_cancel_behind_a_large_prompt_parses_on_an_agent_that_reads_late(
    after: float,
) -> None:
    async with bad_session(misbehave=reads_late, limits=PATIENT) as session:
        await session.run("misbehave")
        with trio.move_on_after(after):
            await session.run("x" * LARGE)
        heard = (await session.run("report")).text.split()
        assert heard.count("session/cancel") == heard.count("session/prompt") - 2
        await works(session)
