"""Connections that have not sent a token yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class PendingConnections:
    """A limited number of places for connections that have not sent a token.

    If all places are taken, the oldest connection is closed, because the newest is the most likely
    to be legitimate. `places`: their number.
    """

    def __init__(self, places: int) -> None:
        self.dropped: int = 0
        """Number of connections closed for a newer one."""
        self._places = places
        self._scopes: dict[trio.CancelScope, None] = {}

    def __len__(self) -> int:
        return len(self._scopes)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Reserve a place while the block runs.

        The block ends without an exception when another connection needs the place. It must limit
        its own time, each step by itself: a limit that is over when a step is done must not end
        the next one.
        """
        if len(self._scopes) >= self._places:
            oldest = next(iter(self._scopes))
            del self._scopes[oldest]
            oldest.cancel(reason="too many connections without a token")
            self.dropped += 1
        with trio.CancelScope() as scope:
            self._scopes[scope] = None
            try:
                yield
            finally:
                self._scopes.pop(scope, None)

    def cancel(self, reason: str) -> None:
        """End all of them."""
        for scope in tuple(self._scopes):
            scope.cancel(reason=reason)
