"""What the garbage collector looks through does not grow: its pauses stop all sessions."""

from __future__ import annotations

import gc
import sys
from functools import partial
from typing import Any

import pytest
from trio.testing import MockClock

import agentrt
from agentrt.hosting import runtime_host
from agentrt.store import StoreEntry
from agentrt.testing import (
    FakeAcpAgent,
    FakeClaudeAgent,
    FakeCodexAgent,
    MemoryAgent,
    open_fake_runtime,
    open_fake_session,
)

MOST = 1000
"""Objects that a container may have if the collector looks through it."""

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="every dictionary is looked through there"
)


def large_containers() -> dict[int, object]:
    """The containers with more than `MOST` objects that a full collection looks through."""
    gc.collect()
    gc.collect()  # the first one leaves tuples alone that are full of what it need not see
    return {id(each): each for each in gc.get_objects() if len(gc.get_referents(each)) > MOST}


async def talk(fake: Any, process: MemoryAgent) -> None:
    """Say words and use tools, as many as the prompt says."""
    async with fake.serving(process) as agent:
        async for prompt in agent.prompts:
            for number in range(int(prompt.text)):
                agent.say(f"word {number} ")
                agent.use(f"{prompt.text}-{number}", f"ls {number}")
                agent.used(f"{prompt.text}-{number}", f"file {number}")
            prompt.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "fake"),
    [("acp", FakeAcpAgent), ("claude", FakeClaudeAgent), ("codex", FakeCodexAgent)],
)
async def test_no_large_container_of_a_long_turn_is_looked_through(
    protocol: Any, fake: Any, autojump_clock: MockClock
) -> None:
    limits = agentrt.Limits(recent_events=64)
    start = partial(MemoryAgent, partial(talk, fake))
    async with open_fake_session(start, protocol=protocol, limits=limits) as session:
        await session.run("2")
        before = large_containers()
        await session.run("3000")
        await session.run("1")  # what belongs to the long turn alone is gone
        assert len(session.log.state.items) > 6000
        assert [each for id, each in large_containers().items() if id not in before] == []


async def test_the_list_of_stored_sessions_is_not_looked_through() -> None:
    async with open_fake_runtime({}) as runtime:
        before = large_containers()
        tracked = len(gc.get_objects())
        for number in range(5000):
            entry = StoreEntry(session=f"s{number}", agent="a", cwd="/", created=0, updated=0)
            runtime_host(runtime).add_stored(entry)
        assert [each for id, each in large_containers().items() if id not in before] == []
        assert len(gc.get_objects()) - tracked < MOST
