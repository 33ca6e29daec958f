"""Detects that this program did not run for a while.

Reasons are a paused container, a debugger, a sleeping machine, or code that blocked Trio. The agent
may not have run either, and its output was not read, so a limit that expired in that time means
nothing. The time is measured between the steps of Trio's loop, before it checks its deadlines, so
that they can be moved by the gap first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import trio

TICK_S: Final = 5.0
"""The maximum sleep of a session with a turn, in seconds. A sleep that takes longer shows a gap."""

GAP_S: Final = 5.0
"""Seconds by which the loop must be late. A program that is less late was busy."""

Listener = Callable[[float], None]
"""Called with the seconds during which the program stood still."""


class Standstill(trio.abc.Instrument):
    """Watches the loop of one Trio run. `clock` must advance while the program does not run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.listeners: set[Listener] = set()
        self._clock = clock
        self._seen_at = clock()

    def after_io_wait(self, timeout: float) -> None:
        """Report a gap to the listeners, if there was one."""
        now = self._clock()
        # The time at which the program stopped is unknown: the whole sleep may be the gap.
        gap_s, self._seen_at = now - self._seen_at, now
        if gap_s - timeout >= GAP_S:
            for listener in tuple(self.listeners):
                listener(gap_s)


_current: trio.lowlevel.RunVar[Standstill | None] = trio.lowlevel.RunVar("agentrt still", None)


@contextmanager
def on_standstill(listener: Listener) -> Iterator[None]:
    """Call `listener` after each standstill of the program, as long as the block runs.

    `listener` must not block. It is called outside of any task.
    """
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
