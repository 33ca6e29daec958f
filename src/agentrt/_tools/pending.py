"""Connections that have not sent a token yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class PendingConnections:
    """A limited number of places for connections that have not sent a token.

    Each keeps its place for a short time. If all are taken, the oldest is closed, because the
    newest is the most likely to be legitimate. `places`: their number; `patience`: seconds for
    each.
    """

    def __init__(self, places: int, patience: float) -> None:
        self.dropped = 0
        """Number of connections closed for a newer one."""
        self._places = places
        self._patience = patience
        self._scopes: dict[trio.CancelScope, None] = {}

    def __len__(self) -> int:
        return len(self._scopes)

    @contextmanager
    def place(self) -> Iterator[trio.CancelScope]:
        """Reserve a place while a connection sends its token.

        The block ends without an exception when the time is over or another connection needs the
        place. Its deadline may be moved.
        """
        if len(self._scopes) >= self._places:
            oldest = next(iter(self._scopes))
            del self._scopes[oldest]
            oldest.cancel(reason="too many connections without a token")
            self.dropped += 1
        with trio.move_on_after(self._patience) as scope:
            self._scopes[scope] = None
            try:
                yield scope
            finally:
                self._scopes.pop(scope, None)

    def cancel(self, reason: str) -> None:
        """End all of them."""
        for scope in tuple(self._scopes):
            scope.cancel(reason=reason)
