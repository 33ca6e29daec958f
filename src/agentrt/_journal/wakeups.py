"""How the writer's thread has something done in Trio's."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio


class Wakeups:
    """What `TrioToken.run_sync_soon` does, by a counter of the kernel's in place of a socket: both
    threads come to it from a wait, and that takes a quarter of the CPU of such a way there and back
    (measured with a thread that does no more than write and sync a file).

    Nothing is called any more when `run` is cancelled: `call_all` does it then.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()

    def soon(self, function: Callable[..., object], *args: object) -> None:
        """Have it called in Trio's thread, in this order. From any thread; never waits."""
        self._calls.append((function, args))
        os.eventfd_write(self._descriptor, 1)

    async def run(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._descriptor)
            os.eventfd_read(self._descriptor)
            self.call_all()

    def call_all(self) -> None:
        """Call what was given so far."""
        for _ in range(len(self._calls)):
            function, args = self._calls.popleft()
            function(*args)


@contextmanager
def open_wakeups() -> Iterator[Wakeups]:
    """The thread must be over by the end of the block, and `run`, too."""
    descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        yield Wakeups(descriptor)
    finally:
        os.close(descriptor)
