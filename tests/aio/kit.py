"""Sessions on agents in memory, for programs on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import agentrt
from agentrt.aio.block import Block
from agentrt.testing import MemoryAgent, open_fake_session

T = TypeVar("T")
PATIENCE = 20


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """A program on asyncio, which must end in time and leave no task and no thread at work."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            value = await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return value

    value = asyncio.run(bounded())
    assert threads() == set()
    return value


def threads() -> set[str]:
    """Threads beside this one; what Trio keeps for ten seconds, in case, is at rest."""
    names = {each.name for each in threading.enumerate() if each is not threading.current_thread()}
    return {name for name in names if not name.startswith(("Trio thread ", "asyncio_"))}


def fake_session(
    start: Callable[[], MemoryAgent], **options: Any
) -> AbstractAsyncContextManager[agentrt.Session]:
    return Block(open_fake_session, (start,), options)
