"""The garbage collector has little to do for what a session keeps: it would stop all sessions."""

from __future__ import annotations

import gc

import pytest
from trio.testing import MockClock

from agentrt.testing import FakeAcpAgent
from runtime.fakes import session_with

CALLS = 1000


async def calling(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        for n in range(CALLS):
            id = f"{prompt.text}{n}"
            agent.update("tool_call", toolCallId=id, title="ls", rawInput={"command": "ls"})
            output = [{"type": "content", "content": {"type": "text", "text": str(n)}}]
            agent.update("tool_call_update", toolCallId=id, status="completed", content=output)
            agent.think(f"hmm {n}")
            agent.say(f"so {n}")
        prompt.end()


@pytest.mark.slow
async def test_a_tool_call_with_its_texts_leaves_one_object_to_the_collector(
    autojump_clock: MockClock,
) -> None:
    async with session_with(calling) as (session, _):
        await session.run("first")
        gc.collect()
        before = len(gc.get_objects())
        await session.run("second")
        gc.collect()
        assert len(session.snapshot().items) >= 2 * 3 * CALLS
        assert len(gc.get_objects()) - before < 1.2 * CALLS
