"""Sessions on agents in memory, for programs on asyncio."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import psutil

import agentrt
from agentrt.aio.block import TrioBlock
from agentrt.testing import MemoryAgent, open_fake_session
from faults.quick import FULL

T = TypeVar("T")
PATIENCE = 20
PROGRAMS = 100 if FULL else 5
"""How many end one after the other, each with nothing left of it."""


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


def processes() -> list[list[str]]:
    """What runs of all that the tests have started, whosever child it is by now."""
    found, mark = [], "AGENTRT_TEST_RUN"
    for each in psutil.process_iter():
        try:
            if each.pid != os.getpid() and each.environ().get(mark) == os.environ[mark]:
                found.append(each.cmdline())
        except psutil.Error:
            continue  # gone meanwhile, or somebody else's
    return found


def fake_session(
    start: Callable[[], MemoryAgent], **options: Any
) -> AbstractAsyncContextManager[agentrt.Session]:
    return TrioBlock(open_fake_session, (start,), options)
