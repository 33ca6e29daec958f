"""The thread that writes: what it commits together, and its way back into Trio's thread.

A writer gets batches in a chosen order, and a pipe is woken by two threads at one moment; neither
can be brought about through a store.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any

import pytest
import trio

from agentrt import Limits
from agentrt._core.store.wakeups import open_wakeups
from agentrt.errors import SessionMoved
from agentrt.events import Notice
from agentrt.lowlevel import Flush, SessionClaim
from agentrt.storage import address_of, backend_of
from inside.store import Batch, StoreWriter, WriterJob

PATIENCE = 20.0
"""Seconds."""
FLUSH = 5
"""Bytes: a batch has one."""


class Slowly:
    """A backend that has an hour between two flushes."""

    gather_s, min_interval_s, takeovers = 3600.0, 0.0, 0

    def __init__(self) -> None:
        self.flushes: queue.Queue[int] = queue.Queue()

    def commit(self, flush: Flush) -> None:
        self.flushes.put(sum(len(part.events) for part in flush.parts))

    def tidy(self, events: float, answers: float) -> None: ...
    def catch_up(self) -> None: ...
    def finish(self) -> None: ...


class Session:
    place = SessionClaim(1, 1)

    def committed(self, last: int) -> None: ...
    def fenced(self, error: SessionMoved) -> None: ...
    def failing(self, error: Exception, *, final: bool) -> None: ...
    def well(self) -> None: ...


@pytest.fixture
def backend() -> Slowly:
    return Slowly()


@pytest.fixture
def put(backend: Slowly) -> Iterator[Callable[..., None]]:
    session, count = Session(), 0
    limits = Limits(store_flush_bytes=FLUSH)
    writer = StoreWriter(backend, lambda *call: None, limits)  # type: ignore[arg-type]
    thread = threading.Thread(target=writer.run, args=(session,))

    def put(*, fsync: bool = False, call: Any = None) -> None:
        nonlocal count
        count += 1
        batch = Batch(session, count, [Notice("info", "here", "")], 1, fsync=fsync)
        writer.put(batch if call is None else WriterJob(call, lambda *over: None))
        writer.before_io_wait(0)

    thread.start()
    yield put
    writer.stop()
    writer.before_io_wait(0)
    thread.join(PATIENCE)
    assert not thread.is_alive()  # whatever it waited for


def test_text_gathers_behind_a_flush_until_somebody_waits(backend: Slowly, put: Any) -> None:
    put()
    assert backend.flushes.get(timeout=PATIENCE) == 1
    put()
    put()
    put(fsync=True)
    assert backend.flushes.get(timeout=PATIENCE) == 3


def test_a_call_behind_text_is_not_kept_waiting(backend: Slowly, put: Any) -> None:
    called = threading.Event()
    put()
    assert backend.flushes.get(timeout=PATIENCE) == 1
    put()
    put(call=lambda backend: called.set())
    assert called.wait(PATIENCE)


def test_a_flush_has_no_more_than_its_size(backend: Slowly, put: Any) -> None:
    put()
    assert backend.flushes.get(timeout=PATIENCE) == 1
    for _ in range(FLUSH + 1):
        put()
    put(fsync=True)
    assert [backend.flushes.get(timeout=PATIENCE) for _ in range(2)] == [FLUSH, 2]


def test_what_gathers_is_written_at_the_end(backend: Slowly, put: Any) -> None:
    put()
    assert backend.flushes.get(timeout=PATIENCE) == 1
    put()


def test_who_waits_is_not_kept_waiting_by_a_long_time_for_text() -> None:
    address = address_of("postgresql:///db")
    said = backend_of(address, Limits(store_gather_s=0.05))
    assert (said.gather_s, said.min_interval_s) == (0.05, 0.005)
    at_once = backend_of(address, Limits(store_gather_s=0.0))
    assert (at_once.gather_s, at_once.min_interval_s) == (0.0, 0.0)


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


async def test_other_tasks_run_between_long_calls() -> None:
    """One transaction stores what many sessions wait for."""
    rounds: list[int] = [0]  # of another task, at each call

    def call() -> None:
        until = thread_time() + 0.01
        while thread_time() < until:
            pass
        rounds.append(rounds[0])

    with open_wakeups() as wakeups:
        for _ in range(3):
            wakeups.soon(call)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wakeups.run)
            while len(rounds) <= 3:
                rounds[0] += 1
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert rounds[1] < rounds[3]


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
