"""The rate limit for a tenant's sessions together."""

from __future__ import annotations

import math

CHECK_INTERVAL_S = 0.1
"""Seconds between two checks by a waiting session."""

MIN_WAIT_S = 1e-3
"""The shortest wait in seconds."""


class TenantRateLimit:
    """A limit in events per second, with a burst of one second's worth after a pause.

    Events above the limit have already been read and are owed: no agent of the tenant is read until
    the debt is paid.
    """

    def __init__(self) -> None:
        self.events_per_s: float | None = None
        """Events per second; None means no limit."""
        self.waited_s: float = 0.0
        """The total time in seconds that sessions have waited."""
        self._left = 0.0
        self._at = -math.inf

    def charge(self, events: int, now: float) -> None:
        """Count further events."""
        if self.events_per_s is not None:
            self._left = (
                min(self.events_per_s, self._left + (now - self._at) * self.events_per_s) - events
            )
            self._at = now

    def wait_s(self, now: float) -> float:
        """Return the seconds until more events may be read."""
        if self.events_per_s is None or self._left >= 0:
            return 0.0
        left = -self._left / self.events_per_s - (now - self._at)
        return left if left > MIN_WAIT_S else 0.0
