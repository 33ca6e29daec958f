"""The work that something is: calls of functions, whose number other programs on the machine do not
change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import trio

import agentrt
from agentrt.testing import FakeAcpAgent

LINES = 500


class Calls:
    """`count`: the calls of Python's functions in this thread while the block ran."""

    count = 0


@contextmanager
def counted() -> Iterator[Calls]:
    """Count calls while the block runs."""
    calls = Calls()

    def called(frame: object, event: str, argument: object) -> None:
        calls.count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield calls
    finally:
        sys.setprofile(before)


async def chatter(agent: FakeAcpAgent) -> None:
    """Answer each prompt with `LINES` lines."""
    async for prompt in agent.prompts:
        for _ in range(LINES):
            agent.say("x")
            await trio.lowlevel.checkpoint()
        prompt.end()


async def calls_per_line(session: agentrt.Session) -> float:
    """Return the calls for one line of `chatter`: whole ones, and a fraction for what is done now
    and then.
    """
    with counted() as calls:
        await session.run("go on")
    return calls.count / LINES
