"""Sessions opened and closed, one after the other and a few at a time: what the host holds is back
where it was. The quick form opens 60, `nox -s hygiene` 1,000.
"""

from __future__ import annotations

import itertools

import pytest
import trio

import agentrt
from faults.life import Protocol
from faults.quick import FULL
from faults.real import agent

from .kit import LIMITS, Holdings

SESSIONS = 1000 if FULL else 60
AT_ONCE = 4
WARM = 20
"""Sessions after which what is loaded or cached once has been."""

GROWTH = 4.0 if FULL else 3.0
"""MiB that the memory may have grown by: what an allocator keeps, not what a session leaves."""


@pytest.mark.slow
async def test_a_thousand_sessions_leave_what_was_there_before() -> None:
    numbers = itertools.count(1)
    protocols: itertools.cycle[Protocol] = itertools.cycle(["acp", "claude"])

    @agentrt.tool
    async def record(n: int) -> str:
        """Write a number down."""
        return f"recorded {n}"

    async def some(until: int) -> None:
        while next(numbers) <= until:
            async with agentrt.open_session(
                agent(next(protocols)),
                limits=LIMITS,
                tools=[record],
                permissions=agentrt.allow_all,
            ) as session:
                assert (await session.run("hello")).text == "hello"

    async def many(until: int) -> Holdings:
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(some, until)
        return Holdings.now()

    with trio.fail_after(60 + SESSIONS):
        first = await many(WARM)
        last = await many(WARM + SESSIONS)
    print(first, last)
    assert last.but_for_rss() == first.but_for_rss()
    assert last.rss - first.rss < GROWTH
