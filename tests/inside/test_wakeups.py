"""The way from the writer's thread back into Trio's.

A pipe that is full or woken by two threads at one moment cannot be brought about through a store.
"""

from __future__ import annotations

import os
import threading

import pytest
import trio

from agentrt._core.store.wakeups import open_wakeups


async def test_what_other_threads_want_is_called_in_trio_s_in_its_order() -> None:
    called: list[tuple[int, int]] = []
    over = trio.Event()
    with open_wakeups() as wakeups:

        def work() -> None:
            for number in range(1000):
                wakeups.soon(lambda n: called.append((n, threading.get_ident())), number)
            wakeups.soon(over.set)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wakeups.run)
            await trio.to_thread.run_sync(work)
            await over.wait()
            nursery.cancel_scope.cancel()
    assert called == [(number, threading.get_ident()) for number in range(1000)]


async def test_what_came_behind_the_end_of_its_task_can_be_called_then() -> None:
    called: list[str] = []
    with open_wakeups() as wakeups:
        wakeups.soon(called.append, "one")
        wakeups.soon(called.append, "two")
        wakeups.call_all()
        wakeups.call_all()
    assert called == ["one", "two"]


async def test_an_error_of_what_is_called_comes_out_of_its_task() -> None:
    with open_wakeups() as wakeups:
        wakeups.soon(int, "no number")
        with pytest.raises(ValueError, match="no number"):
            await wakeups.run()


async def test_nothing_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with open_wakeups() as wakeups, trio.move_on_after(0):
        await wakeups.run()
    assert len(os.listdir("/proc/self/fd")) == before
