"""No step of these operations does more work in a longer session.

A step is the time between two checkpoints of a task, in which all other tasks wait. Its work is
counted, not timed: in executed lines of agentrt and, because a copy of a long list is one line, in
the bytes that it needs at most. With a store, the lines alone count: its thread needs bytes, too.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio

import agentrt
from agentrt.store import open_store
from agentrt.testing import FakeAgent, ScriptedAgents

PACKAGE = str(Path(agentrt.__file__).parent)
CALLS = 60
"""Tool calls of a turn, which has two more items."""
SHORT, LONG = 18, 40
"""Turns of the sessions that are compared."""
assert SHORT * CALLS > 1024  # the items of one step of `full_snapshot`
ROUNDS = 3
"""Each operation is counted so often, since a dictionary that grows is copied now and then."""

Operation = Callable[[agentrt.Session], Awaitable[object]]


class Work(trio.abc.Instrument):
    """The work of the largest step of any task."""

    def __init__(self) -> None:
        self.lines = self.bytes = 0
        self._begin()

    def _begin(self) -> None:
        self._lines = 0
        tracemalloc.reset_peak()
        self._base = tracemalloc.get_traced_memory()[0]

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.lines = max(self.lines, self._lines)
        self.bytes = max(self.bytes, tracemalloc.get_traced_memory()[1] - self._base)

    def count(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        self._lines += event == "line"
        return self.count


async def works(agent: FakeAgent) -> None:
    count = 0
    async for prompt in agent.prompts:
        for _ in range(1 if prompt.text == "short" else CALLS):
            count += 1
            agent.use(f"c{count}", f"ls {count}")
            agent.used(f"c{count}", f"output {count}")
        agent.say("done")
        prompt.end()


async def prompted(session: agentrt.Session) -> None:
    await session.run("short")


async def read(session: agentrt.Session) -> None:
    async with session.prompt("short") as turn:
        async for _ in turn:
            pass


async def submitted(session: agentrt.Session) -> None:
    session.submit("short")
    session.submit("short")
    session.cancel()
    session.queue.resume()
    await session.wait_idle()


async def renamed(session: agentrt.Session) -> None:
    session.rename("a title")
    await trio.lowlevel.checkpoint()


async def shown(session: agentrt.Session) -> None:
    session.log.recent()
    await trio.lowlevel.checkpoint()


async def looked_back(session: agentrt.Session) -> None:
    earlier = session.log.recent().earlier
    assert earlier is not None
    session.log.history(earlier)
    await trio.lowlevel.checkpoint()


async def subscribed(session: agentrt.Session) -> None:
    with session.subscribe() as events:
        session.rename("another title")
        async for _ in events:
            break


async def repeated(session: agentrt.Session) -> None:
    session.send_history(most=1000)
    await session.wait_idle()


async def copied(session: agentrt.Session) -> None:
    assert len((await session.full_snapshot()).items) >= SHORT * CALLS


OPERATIONS: list[Operation] = [
    prompted,
    read,
    submitted,
    renamed,
    shown,
    looked_back,
    subscribed,
    repeated,
    copied,
]


async def work_of(operation: Operation, session: agentrt.Session) -> tuple[int, int]:
    found: list[Work] = []
    for _ in range(ROUNDS):
        work = Work()
        trio.lowlevel.add_instrument(work)
        before = sys.gettrace()
        sys.settrace(work.count)
        try:
            await trio.lowlevel.checkpoint()
            await operation(session)
            await trio.lowlevel.checkpoint()
        finally:
            sys.settrace(before)
            trio.lowlevel.remove_instrument(work)
        found.append(work)
    return min(each.lines for each in found), min(each.bytes for each in found)


@asynccontextmanager
async def open_runtime(folder: Path | None) -> AsyncIterator[agentrt.Runtime]:
    """A runtime with small pages, and with a store if there is a folder for it."""
    limits = agentrt.Limits(snapshot_items=100)
    async with AsyncExitStack() as stack:
        store = None
        if folder is not None:
            store = await stack.enter_async_context(open_store(folder / "sessions.db"))
        yield await stack.enter_async_context(agentrt.open_runtime(store=store, limits=limits))


async def figures(turns: int, folder: Path | None) -> dict[str, tuple[int, int]]:
    """The lines and bytes of all operations in a session of so many turns."""
    found: dict[str, tuple[int, int]] = {}
    async with open_runtime(folder) as runtime:
        session = await runtime.create("gemini", cwd="/")
        for _ in range(turns):
            await session.run("long")
        tracemalloc.start()
        try:
            for operation in OPERATIONS:
                found[operation.__name__] = await work_of(operation, session)
        finally:
            tracemalloc.stop()
    return found


@pytest.mark.parametrize("stored", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_no_step_grows_with_the_session(
    scripted_agents: ScriptedAgents, tmp_path: Path, stored: bool
) -> None:
    scripted_agents["gemini"] = works
    (tmp_path / "long").mkdir()
    short = await figures(SHORT, tmp_path if stored else None)
    long = await figures(LONG, tmp_path / "long" if stored else None)
    for name, (lines, size) in short.items():
        more_lines, more_size = long[name]
        assert more_lines < 1.2 * lines + 50, name
        assert stored or more_size < 1.2 * size + 4096, name
