"""Connections that have not shown a token yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class PendingConnections:
    """Places for connections that have not shown a token. Each has its place for a short time;
    where all are taken, the newest is the most likely to be an honest one, and the oldest goes.

    `places`: how many there are; `patience`: seconds for which one may be held.
    """

    def __init__(self, places: int, patience: float) -> None:
        self.dropped = 0
        """How many had to go for another one."""
        self._places = places
        self._patience = patience
        self._scopes: dict[trio.CancelScope, None] = {}

    def __len__(self) -> int:
        return len(self._scopes)

    @contextmanager
    def place(self) -> Iterator[trio.CancelScope]:
        """The block in which a connection shows its token. It is left without an exception when the
        time is over or somebody else needs the place; its deadline may be moved."""
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
