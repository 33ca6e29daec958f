"""A process among those that share a store: it renews its lease, and ends its sessions without
one.

The rules are in `owners.Owner`, a state machine without input or output: when a lease must be
renewed, when it counts as lost, and when its work must have ended. This module gives it the time
and the database's answers, and carries out its actions. The most important rule is that work ends
here before the lease ends in the database, so that two processes never run the same session.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import trio

from ..errors import StoreError
from ..process import let_agents_live
from ..store import NodeEntry, StoreProcess
from .owners import Action, Ask, End, Join, Leave, Owner, Renew
from .rows import Leases

T = TypeVar("T")

logger = logging.getLogger("agentrt.store")

LOOK_S: Final = 1.0
"""Seconds between two checks of the clock: Trio's clock stops while a machine sleeps."""

_LEFT_SESSIONS: Final = 10
"""Maximum number of sessions of dead owners that one query returns."""


def now() -> float:
    """Return the time of a clock that is never set, and that advances while the process or the
    machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Membership:
    """The membership of this process. `end`: ends everything that a lease had allowed, and returns
    when nothing is left of it."""

    def __init__(
        self,
        leases: Leases,
        process: StoreProcess,
        length: float,
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self.process = process
        self.draining: bool = False
        """True if this process should own no sessions any more."""
        self.drained: trio.Event = trio.Event()
        """Set when `draining` becomes true."""
        self._load = b"{}"
        self._leases = leases
        self._owner = Owner(length)
        self._end = end
        self._limiter = trio.CapacityLimiter(1)
        self._joined = trio.Event()
        self._moved = trio.Event()
        self._nursery: trio.Nursery

    def held(self) -> int | None:
        """Return the lease that is held now; None if none is held. May be called from any
        thread."""
        owner = self._owner
        num = owner.num
        return num if owner.holds(num, now()) else None

    @property
    def left(self) -> float:
        """Seconds until the work that the lease allows is ended, unless it is renewed; 0 without a
        lease."""
        return 0.0 if self.held() is None else max(0.0, self._owner.until - now())

    @property
    def unanswered(self) -> bool:
        """True if the database does not answer at the moment."""
        return self._owner.unanswered(now())

    def drain(self) -> None:
        """Accept no new sessions; those that run may end."""
        self.draining = True
        self.drained.set()

    def set_load(self, load: bytes) -> None:
        """Set the load that this process reports to the others with each renewal."""
        self._load = load

    def report(self) -> None:
        """Report the load of this process to the others immediately."""
        self._obey(self._owner.hurry(now()))
        self._moved.set()

    async def nodes(self) -> list[NodeEntry]:
        """Return all processes that are alive. Raises `StoreError`."""
        return await self._do(self._leases.nodes)

    async def abandoned(self) -> list[str]:
        """Return some sessions whose owners are gone without having released them. Raises
        `StoreError`."""
        return await self._do(partial(self._leases.left, _LEFT_SESSIONS))

    async def release(self, session: str) -> None:
        """Release a session whose owner is gone. Raises `StoreError`."""
        await self._do(partial(self._leases.release, session))

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Keep a lease until cancelled; started when there is the first one."""
        owner = self._owner
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._call_once_joined, lambda: task_status.started())
                while True:
                    self._obey(owner.tick(now()))
                    self._moved = trio.Event()
                    with trio.move_on_after(min(LOOK_S, max(0.0, owner.due - now()))):
                        await self._moved.wait()
        finally:
            let_agents_live(None)
            with trio.move_on_after(owner.length, shield=True):
                if owner.num is not None:
                    num, owner.num = owner.num, None
                    await self._leave(num)
            self._leases.close()

    async def _call_once_joined(self, joined: Callable[[], None]) -> None:
        """Call a function when there is the first lease."""
        await self._joined.wait()
        joined()

    def _obey(self, actions: list[Action]) -> None:
        """Carry out the actions of the state machine, each in a task."""
        for action in actions:
            match action:
                case Join() | Renew():
                    self._nursery.start_soon(self._ask, action)
                case End(num):
                    logger.error("the lease of the store has expired: all sessions end here")
                    self._nursery.start_soon(self._ended, num)
                case Leave(num):
                    self._nursery.start_soon(self._leave, num)

    async def _ask(self, ask: Ask) -> None:
        """Join or renew the lease, and give the outcome to the state machine.

        A lease that was renewed too late is refused: the sessions of this server then belong to
        others. An error of the database only counts as no answer; the machine decides when the
        lease is over.
        """
        owner, leases = self._owner, self._leases
        try:
            if isinstance(ask, Join):
                num = await self._do(partial(leases.join, self.process, owner.length))
            else:
                num = ask.num
                drains = await self._do(partial(leases.renew, num, owner.length, self._load))
                if drains is None:
                    self._obey(owner.refused(ask))
                    return
                if drains and not self.draining:
                    self.drain()
            self._obey(owner.granted(ask, num, now()))
            if owner.num is not None:
                let_agents_live(owner.until)
                self._joined.set()
            if isinstance(ask, Join):
                self.report()
        except StoreError as error:
            logger.warning("the lease of the store could not be renewed: %s", error)
            owner.failed(ask)
        finally:
            self._moved.set()

    async def _ended(self, num: int) -> None:
        """End everything that a lost lease had allowed, then continue with the state machine."""
        await self._end()
        self._obey(self._owner.ended(num))
        self._moved.set()

    async def _leave(self, num: int) -> None:
        """Give a lease back. A failure is harmless: it ends by itself."""
        try:
            await self._do(partial(self._leases.leave, num))
        except StoreError as error:  # it ends by itself
            logger.warning("the lease of the store could not be released: %s", error)

    async def _do(self, job: Callable[[], T]) -> T:
        """Run a query in a thread, one at a time."""
        return await trio.to_thread.run_sync(job, limiter=self._limiter)
