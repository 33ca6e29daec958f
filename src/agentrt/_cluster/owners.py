"""The right of a process to own sessions of a shared store: a lease, which it renews.

This is a state machine without a database: the clock and the answers of the database go in, the
actions to take come out. All times are of a clock of this process that advances also while the
process, or the whole machine, is stopped. The database has its own clock; the two are never
compared. A lease counts here from the moment when it was requested, and in the database from the
later moment when it was granted, so that it ends here first.

Before a lease ends, everything that it allowed must have ended: agents change files, and no
database can prevent that. So a lease is *held* only until some time before its end, and one that is
no longer held is never renewed, whatever the database answers later: a new one is requested when
everything of the previous one has ended.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from msgspec import Struct

MARGIN_FRACTION: Final = 0.3
"""The fraction of a lease that is reserved for ending everything it allowed."""

BEATS_PER_LEASE: Final = 5
"""Number of renewals during the length of a lease."""


class Join(Struct, frozen=True):
    """Request a new lease."""

    asked: float


class Renew(Struct, frozen=True):
    """Request an extension of this lease."""

    num: int
    asked: float


class End(Struct, frozen=True):
    """End everything that this lease allowed, immediately; then call `Owner.ended`."""

    num: int


class Leave(Struct, frozen=True):
    """Give the lease back: nothing that it allowed is left."""

    num: int


Ask: TypeAlias = Join | Renew
Action: TypeAlias = Ask | End | Leave


class Owner:
    """The lease of one process. `length`: seconds of a lease."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.num: int | None = None
        """The number in the database of the lease that is held; None if none is held."""
        self.until = -math.inf
        """Time at which it stops being held."""
        self._asking: Ask | None = None
        self._failed = False  # the last request
        self._next = -math.inf  # time of the next request
        self._ending: set[int] = set()

    def tick(self, now: float) -> list[Action]:
        """Return the actions to take. Call this at `due`, and first of all whenever the process
        resumes: it may have been stopped for long."""
        actions: list[Action] = []
        if self.num is not None and now >= self.until:
            actions.append(self._lose())
        if self._asking is None and not self._ending and now >= self._next:
            self._asking = Join(now) if self.num is None else Renew(self.num, now)
            self._next = now + self.length / BEATS_PER_LEASE
            actions.append(self._asking)
        return actions

    @property
    def due(self) -> float:
        """Time of the next action, if nothing happens before."""
        asks = math.inf if self._asking is not None or self._ending else self._next
        return asks if self.num is None else min(asks, self.until)

    def hurry(self, now: float) -> list[Action]:
        """Renew the lease now, so that others see the data that is written with it."""
        self._next = now
        return self.tick(now)

    def holds(self, num: int | None, now: float) -> bool:
        """True if the work that lease `num` allows may be done now."""
        return num is not None and num == self.num and now < self.until

    def unanswered(self, now: float) -> bool:
        """True if the last request failed, or is unanswered for too long. The lease may still be
        held: this is known long before the lease is lost."""
        asking = self._asking
        return self._failed or (
            asking is not None and now - asking.asked > self.length / BEATS_PER_LEASE
        )

    def granted(self, ask: Ask, num: int, now: float) -> list[Action]:
        """Process a grant: the database has written the request."""
        self._asking, self._failed = None, False
        until = ask.asked + self.length * (1 - MARGIN_FRACTION)
        match ask:
            case Join():
                if now >= until:
                    return [Leave(num)]  # nothing was started under it
                self.num, self.until = num, until
            case Renew(num=renewed) if renewed == self.num:
                self.until = until
                return self.tick(now)
        return []

    def refused(self, ask: Ask) -> list[Action]:
        """Process a refusal: the database no longer has the lease."""
        self._asking, self._failed = None, False
        if isinstance(ask, Renew) and ask.num == self.num:
            return [self._lose()]
        return []

    def failed(self, ask: Ask) -> None:
        """Process a request with an unknown outcome. A lease that is not held ends by itself."""
        self._asking, self._failed = None, True

    def ended(self, num: int) -> list[Action]:
        """Report that nothing is left of the work that lease `num` allowed."""
        self._ending.discard(num)
        return [Leave(num)]

    def _lose(self) -> End:
        """Count the lease as lost, and return the action that ends its work."""
        assert self.num is not None
        num, self.num = self.num, None
        self._ending.add(num)
        return End(num)
