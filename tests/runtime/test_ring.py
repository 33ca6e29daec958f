"""What an agent writes, and what it weighs in the log's ring."""

from __future__ import annotations

import pytest
import trio
from fakes import log_of, session_with

from agentrt.errors import EventsExpired
from agentrt.testing import FakeAcpAgent

MIB = 1024 * 1024


async def test_what_became_no_event_pushes_nothing_out_of_the_ring(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def idle_talk(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for _ in range(8):
                agent.process.send(b" " * MIB + b"\n")
            agent.say(prompt.text)
            prompt.end()

    async with session_with(idle_talk) as (session, _):
        assert session.limits.recent_events_bytes < 8 * MIB
        for text in "abc":
            assert (await session.run(text)).text == text
        assert log_of(session)


async def test_a_message_that_came_in_pieces_weighs_what_all_of_them_do(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def long_winded(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.say("x" * 5 * MIB)
            prompt.end()

    async with session_with(long_winded) as (session, _):
        assert session.limits.recent_events_bytes < 5 * MIB
        await session.run("a")
        await session.run("b")
        with pytest.raises(EventsExpired):
            log_of(session)
