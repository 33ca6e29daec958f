"""The right of a process to own sessions of a store that several write: a lease, which it renews.

A machine without a database: the clock and what the database answered go in, what is to be done
comes out. All times are of a clock of this process that goes on while the process, or the whole
machine, is stopped. The database has one of its own; nobody compares the two. A lease counts here
from the moment when it was asked for, and in the database from the later one when it was granted,
so that it ends here first.

Before its end, what the lease allowed has to be over: agents change files, which no database can
keep them from. So a lease is *held* only until some time before its end, and one that is not held
any more is never renewed, whatever the database says later: another one is asked for, when
everything of the one before has ended.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from msgspec import Struct

MARGIN: Final = 0.3
"""The part of a lease that is left for ending what it allowed."""

BEATS: Final = 5
"""How often a lease is renewed while it lasts."""


class Join(Struct, frozen=True):
    """Ask for a new lease."""

    asked: float


class Renew(Struct, frozen=True):
    """Ask for more of this one."""

    num: int
    asked: float


class End(Struct, frozen=True):
    """End all that this lease allowed, at once; then say `ended`."""

    num: int


class Leave(Struct, frozen=True):
    """Give the lease back: nothing of it is left."""

    num: int


Ask: TypeAlias = Join | Renew
Action: TypeAlias = Ask | End | Leave


class Owner:
    """One process. `length`: seconds of a lease."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.num: int | None = None
        """The lease that is held, if one is: its number in the database."""
        self.until = -math.inf
        """Until when it is held."""
        self._asking: Ask | None = None
        self._failed = False  # what was asked for last
        self._next = -math.inf  # when there is something to ask for
        self._ending: set[int] = set()

    def tick(self, now: float) -> list[Action]:
        """What is to be done. To be called at `due`, and before anything else whenever the process
        goes on: it may have been stopped for long."""
        actions: list[Action] = []
        if self.num is not None and now >= self.until:
            actions.append(self._lose())
        if self._asking is None and not self._ending and now >= self._next:
            self._asking = Join(now) if self.num is None else Renew(self.num, now)
            self._next = now + self.length / BEATS
            actions.append(self._asking)
        return actions

    @property
    def due(self) -> float:
        """When something is to be done next, if nothing happens before."""
        asks = math.inf if self._asking is not None or self._ending else self._next
        return asks if self.num is None else min(asks, self.until)

    def hurry(self, now: float) -> list[Action]:
        """Have the lease renewed now: others are to see what goes with it."""
        self._next = now
        return self.tick(now)

    def holds(self, num: int | None, now: float) -> bool:
        """Whether what that lease allows may be done now."""
        return num is not None and num == self.num and now < self.until

    def unanswered(self, now: float) -> bool:
        """Whether the database did not take what it was asked last, or leaves it waiting. The lease
        may be held all the same: that is known long before it is lost."""
        asking = self._asking
        return self._failed or (asking is not None and now - asking.asked > self.length / BEATS)

    def granted(self, ask: Ask, num: int, now: float) -> list[Action]:
        """The database has written what was asked for."""
        self._asking, self._failed = None, False
        until = ask.asked + self.length * (1 - MARGIN)
        match ask:
            case Join():
                if now >= until:
                    return [Leave(num)]  # nothing was begun under it
                self.num, self.until = num, until
            case Renew(num=renewed) if renewed == self.num:
                self.until = until
                return self.tick(now)
        return []

    def refused(self, ask: Ask) -> list[Action]:
        """The database has no such lease any more."""
        self._asking, self._failed = None, False
        if isinstance(ask, Renew) and ask.num == self.num:
            return [self._lose()]
        return []

    def failed(self, ask: Ask) -> None:
        """Nobody knows what became of it. A lease that nobody holds ends by itself."""
        self._asking, self._failed = None, True

    def ended(self, num: int) -> list[Action]:
        """Nothing is left of what a lease had allowed."""
        self._ending.discard(num)
        return [Leave(num)]

    def _lose(self) -> End:
        assert self.num is not None
        num, self.num = self.num, None
        self._ending.add(num)
        return End(num)
