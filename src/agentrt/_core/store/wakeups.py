"""Calls from the writer's thread into Trio's thread."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import thread_time
from typing import Final

import trio

_READ_BYTES: Final = 4096

SLICE_S: Final = 0.002
"""Seconds of computing time after which other tasks run between two functions."""


class Wakeups:
    """A substitute for `TrioToken.run_sync_soon` with a pipe in place of a socket.

    Both threads are waiting when they use it, and it takes a quarter of the CPU of a round trip
    through the socket (measured with a thread that only writes and syncs a file).

    After `run` is cancelled, only `call_all` calls the remaining functions.
    """

    def __init__(self, reading: int, writing: int) -> None:
        """`reading` and `writing`: the ends of a pipe, neither of which blocks."""
        self._reading = reading
        self._writing = writing
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()

    def soon(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in Trio's thread, in order. From any thread; never waits."""
        self._calls.append((function, args))
        with suppress(BlockingIOError):  # the pipe is full, so that `run` wakes up anyway
            os.write(self._writing, b"w")

    async def run(self) -> None:
        """Call functions as they arrive, until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._reading)
            os.read(self._reading, _READ_BYTES)
            self._call_some()
            while self._calls:
                await trio.lowlevel.checkpoint()
                self._call_some()

    def _call_some(self) -> None:
        """Call functions for about `SLICE_S`.

        One transaction stores the batches of many sessions, each of which is shown by a function.
        """
        until = thread_time() + SLICE_S
        while self._calls:
            function, args = self._calls.popleft()
            function(*args)
            if thread_time() > until:
                break

    def call_all(self) -> None:
        """Call the functions that were given so far."""
        for _ in range(len(self._calls)):
            function, args = self._calls.popleft()
            function(*args)


@contextmanager
def open_wakeups() -> Iterator[Wakeups]:
    """Open wakeups for the block. The thread and `run` must have ended when the block is left."""
    pipe = os.pipe()
    try:
        for end in pipe:
            os.set_blocking(end, False)
        yield Wakeups(*pipe)
    finally:
        for end in pipe:
            os.close(end)
