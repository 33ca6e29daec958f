"""Notices that this program did not run for a while: its container was paused, a debugger held it,
the machine slept, or something blocked Trio.

The agent may not have run either, and nobody read it. A limit that is over by then says nothing
about the agent. The time is measured between the steps of Trio's loop, before it looks at its
deadlines, so that they can be moved by the gap first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import trio

TICK_S: Final = 5.0
"""Seconds for which a session with a turn sleeps at most: a gap is noticed when a sleep is longer
than it was to be."""

GAP_S: Final = 5.0
"""Seconds by which the loop must be late. A program that is less late was busy."""

Listener = Callable[[float], None]
"""Called with the seconds for which the program stood still."""


class Standstill(trio.abc.Instrument):
    """Watches the loop of one Trio run. `clock` goes on while the program does not run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.listeners: set[Listener] = set()
        self._clock = clock
        self._seen_at = clock()

    def after_io_wait(self, timeout: float) -> None:
        now = self._clock()
        # Where in its sleep the program was stopped is not known: all of it may be the gap.
        gap_s, self._seen_at = now - self._seen_at, now
        if gap_s - timeout >= GAP_S:
            for listener in tuple(self.listeners):
                listener(gap_s)


_current: trio.lowlevel.RunVar[Standstill | None] = trio.lowlevel.RunVar("agentrt still", None)


@contextmanager
def on_standstill(listener: Listener) -> Iterator[None]:
    """Have `listener` called when the program has stood still, while the block runs. It must not
    block, and is called outside of any task."""
    watch = _current.get()
    if watch is None:
        watch = Standstill()
        _current.set(watch)
        trio.lowlevel.add_instrument(watch)
    watch.listeners.add(listener)
    try:
        yield
    finally:
        watch.listeners.discard(listener)
        if not watch.listeners:
            with suppress(KeyError):  # Trio has removed it, because a listener failed
                trio.lowlevel.remove_instrument(watch)
            _current.set(None)
