"""How fast the sessions of a tenant may go on together."""

from __future__ import annotations

import math

LOOK = 0.1
"""Seconds between two looks of one that waits: whether it still has to."""

LEAST = 1e-3
"""Seconds that are worth a wait."""


class Pace:
    """So many events a second, and a second's at once after a pause. What is above that was read
    already, and is owed: no agent of the tenant is read on until it is made up for."""

    def __init__(self) -> None:
        self.rate: float | None = None
        """None: no limit."""
        self.waited = 0.0
        """Seconds for which sessions have waited, all together."""
        self._left = 0.0
        self._at = -math.inf

    def charge(self, events: int, now: float) -> None:
        """There were so many more."""
        if self.rate is not None:
            self._left = min(self.rate, self._left + (now - self._at) * self.rate) - events
            self._at = now

    def owed(self, now: float) -> float:
        """Seconds until there may be more."""
        if self.rate is None or self._left >= 0:
            return 0.0
        left = -self._left / self.rate - (now - self._at)
        return left if left > LEAST else 0.0
