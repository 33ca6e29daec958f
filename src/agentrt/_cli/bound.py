"""`--timeout`: the time limit of a whole command."""

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
"""Seconds by which an operation with its own limit may be late."""


class TimedOut(AgentStartError):
    """The time limit was reached before there was a turn, which has outcomes of its own."""


class Bound:
    """The time limit of one command, starting now. Create and use it inside Trio."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._until = math.inf if seconds is None else trio.current_time() + seconds

    @property
    def left(self) -> float | None:
        """The remaining seconds, rounded to hundredths and at least 0.01; None without a limit."""
        if self.seconds is None:
            return None
        return max(0.01, round(self._until - trio.current_time(), 2))

    def applied(self, limits: Limits) -> Limits:
        """Return the limits with a handshake that ends in time.

        The error of a failed handshake contains the output of the agent.
        """
        left = self.left
        if left is None or left > limits.startup_timeout_s:
            return limits
        return structs.replace(limits, startup_timeout_s=left)

    @contextmanager
    def over(self, what: str) -> Iterator[trio.CancelScope]:
        """Limit the time of the block, or of the part before the scope's deadline is removed.

        Raises `TimedOut`, with the message that `what` took too long.
        """
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
