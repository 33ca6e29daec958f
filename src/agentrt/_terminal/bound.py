"""`--timeout`: the time that a whole command may take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio
from msgspec import structs

from .._errors import AgentStartError
from .._limits import Limits

TIMED_OUT = 3
"""The exit status."""

SLACK = 0.2
"""Seconds by which what has a clock of its own may be late."""


class TimedOut(AgentStartError):
    """The time was over before there was a turn, which has outcomes of its own."""


class Bound:
    """The time of one command, from now on. Made and used inside Trio."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._until = math.inf if seconds is None else trio.current_time() + seconds

    @property
    def left(self) -> float | None:
        """What is left of it, in hundredths and at least one of them; None: no bound."""
        if self.seconds is None:
            return None
        return max(0.01, round(self._until - trio.current_time(), 2))

    def applied(self, limits: Limits) -> Limits:
        """These limits, with a handshake that is over in time: its error says what the agent wrote
        instead."""
        left = self.left
        if left is None or left > limits.handshake:
            return limits
        return structs.replace(limits, handshake=left)

    @contextmanager
    def over(self, what: str) -> Iterator[trio.CancelScope]:
        """Bound the block, or that part of it before the scope's deadline is taken away. Raises
        `TimedOut`, which says `what` took too long."""
        with trio.CancelScope(deadline=self._until + SLACK) as scope:
            try:
                yield scope
            except AgentStartError as error:
                if trio.current_time() < self._until:
                    raise
                why = str(error).partition("\n---")[0]
                raise TimedOut(f"{self._told(what)}: {why}", stderr=error.stderr) from error
        if scope.cancelled_caught:
            raise TimedOut(self._told(what))

    def _told(self, what: str) -> str:
        return f"{what} took over {self.seconds:g} s (--timeout)"
