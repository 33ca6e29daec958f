"""Which sessions a runtime has: those that are open, and those that its store has beside them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, Protocol

import trio
from msgspec import Struct

from .._errors import LimitExceeded, SessionClosed
from .._journal.base import StoreEntry, no_room
from .._journal.keeper import was_prompted
from .._limits import Tenant
from .._model.events import Phase
from .._session.pace import Pace
from .._session.session import Session, host_of


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list. `phase` is `stored` for one that the runtime's store has and that is not
    open, neither here nor at another server that shares it: the next prompt opens it. `prompt` is
    the beginning of its first prompt. Times are seconds since the Unix epoch; `updated`: when
    a turn last began or ended or a question was asked, or when the session was opened; text does
    not change it. `forks`: where `Runtime.fork` can end a copy of it; None: the agent of one that
    is not open is to be asked.
    `steers`: whether words can be said into its running turn. `tenant`: whose it is, where several
    share a server. `roots`: its folders beside `cwd`."""

    session: str
    agent: str
    cwd: str
    title: str | None = None
    phase: Phase | Literal["stored"]
    created: float
    prompt: str = ""
    updated: float | None = None
    forks: Literal["turn", "end", "no"] | None = None
    steers: bool = False
    tenant: str = ""
    roots: tuple[str, ...] = ()


class Hosted(Protocol):
    """The host of an open session, as the register needs it."""

    tenant: str

    @property
    def agent(self) -> str: ...
    @property
    def session(self) -> Session: ...

    @property
    def is_whole(self) -> bool: ...

    @property
    def over(self) -> trio.Event: ...
    @property
    def is_leaving(self) -> bool: ...

    def info(self) -> SessionInfo: ...

    def entry(self) -> StoreEntry:
        """The session as its store has it now that it is closed."""
        ...

    async def close(self) -> int:
        """Close the session, and return how many waiting prompts were dropped by that. Raises
        `LocalProtocolError` if it is not the runtime's to end."""
        ...

    async def end(self) -> None:
        """End the session in this process; what waits in it stays stored. Raises as `close`."""


class Register:
    """The sessions of one runtime, and who looks at them."""

    def __init__(self, room: int, stored: Iterable[StoreEntry], *, has_store: bool) -> None:
        """`room`: how many may be open at once. `stored`: those of the store, the one that rests
        the longest first. Nobody else writes the store, so there is no need to ask it again, unless
        it is shared (`refresh`)."""
        self.draining = False
        """Whether no session may be opened any more."""
        self.runs = True
        """Whether sessions may be opened here at all; a gateway opens none."""
        self.hosts: dict[str, Hosted] = {}
        self.stored = {entry.session: entry for entry in stored}
        self.closed = False
        self.emptied = trio.Event()
        """Set when a session was unloaded; see `memory.py`."""
        self.has_store = has_store
        self.paces: dict[str, Pace] = {}
        self._rooms: dict[str, int | None] = {}  # of tenants
        self._room = room
        self._starting: set[Hosted] = set()
        self._busy: dict[str, trio.Event] = {}  # stored ones that are being opened, read or deleted
        self._listeners: set[Callable[[], None]] = set()
        self._lookers: set[Callable[[str], float]] = set()

    # --- who looks

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._listeners.add(changed)
        return lambda: self._listeners.discard(changed)

    def show(self, looked_at: Callable[[str], float]) -> Callable[[], None]:
        self._lookers.add(looked_at)
        return lambda: self._lookers.discard(looked_at)

    def looked_at(self, id: str) -> float:
        """When somebody looked at a session last, by Trio's clock."""
        return max((looked_at(id) for looked_at in self._lookers), default=-math.inf)

    def _changed(self) -> None:
        for changed in tuple(self._listeners):
            changed()

    # --- coming and going

    async def left(self, id: str) -> None:
        """Wait for the end of a session that is over, and still among those that are open: nothing
        can be done with it until then."""
        host = self.hosts.get(id)
        if host is not None and host.is_leaving:
            await host.over.wait()

    def know(self, tenant: Tenant) -> None:
        """That is what counts for a tenant from now on."""
        self._rooms[tenant.name] = tenant.sessions
        self.pace(tenant.name).rate = tenant.events

    def pace(self, tenant: str) -> Pace:
        return self.paces.setdefault(tenant, Pace())

    def count(self, tenant: str) -> int:
        """How many sessions of a tenant are open here, or will be."""
        return sum(each.tenant == tenant for each in (*self.hosts.values(), *self._starting))

    def check_room(self, tenant: str = "") -> None:
        if self.closed:
            raise SessionClosed("the runtime is closed")
        if not self.runs:
            raise LimitExceeded("this process is a gateway, which runs no sessions itself")
        if self.draining:
            raise LimitExceeded("this process takes no more sessions: it is being drained")
        if not self.room:
            raise LimitExceeded(
                f"{self._room} sessions are open (limits.sessions): close one first"
            )
        room = self._rooms.get(tenant)
        if room is not None and (open := self.count(tenant)) >= room:
            raise no_room(tenant, open, room)

    @property
    def room(self) -> int:
        """How many sessions more may be opened here now."""
        if self.closed or self.draining or not self.runs:
            return 0
        return max(0, self._room - len(self.hosts) - len(self._starting))

    @contextmanager
    def starting(self, host: Hosted) -> Iterator[None]:
        """A session that starts has its place already."""
        self._starting.add(host)
        try:
            yield
        finally:
            self._starting.discard(host)

    def add(self, host: Hosted) -> None:
        self._starting.discard(host)
        self.hosts[host.session.id] = host
        self.stored.pop(host.session.id, None)
        self._changed()

    def remove(self, host: Hosted) -> None:
        """A session is not open any more, or not shown."""
        session = host.session
        if self.hosts.get(session.id) is host:
            del self.hosts[session.id]
            inside = host_of(session)
            over = inside.closed.is_set() and inside.keeper is not None
            if over and self.has_store and was_prompted(session.log.state):
                self.stored[session.id] = host.entry()
            self._changed()

    def unload(self, host: Hosted) -> None:
        """Close a session that rests to its row: whoever wants it next waits until that is done
        (`unloaded`), and opens it again."""
        entry = host.entry()
        del self.hosts[entry.session]
        self._busy[entry.session] = trio.Event()
        later = [each for each in self.stored.values() if each.updated > entry.updated]
        for each in (entry, *later):  # which are few: it goes to its place among them
            self.stored.pop(each.session, None)
            self.stored[each.session] = each
        self._changed()

    def unloaded(self, host: Hosted) -> None:
        self._busy.pop(host.session.id).set()
        self.emptied.set()

    def add_stored(self, entry: StoreEntry) -> None:
        if entry.session not in self.hosts:
            self.stored[entry.session] = entry
            self._changed()

    def refresh(self, entries: Sequence[StoreEntry], limit: int) -> None:
        """Others have changed what is stored: these are the sessions in which something happened
        last, the latest first, up to so many."""
        since = entries[-1].updated if len(entries) == limit else -math.inf
        there = {entry.session for entry in entries}
        changed = False
        for id, entry in list(self.stored.items()):
            if entry.updated > since and id not in there and id not in self._busy:
                del self.stored[id]
                changed = True
        for entry in reversed(entries):
            id = entry.session
            if id not in self.hosts and id not in self._busy and self.stored.get(id) != entry:
                self.stored.pop(id, None)
                self.stored[id] = entry
                changed = True
        if changed:
            self._changed()

    def remove_stored(self, id: str) -> None:
        del self.stored[id]
        self._changed()

    # --- one at a time

    def is_busy(self, id: str) -> bool:
        return id in self._busy

    @asynccontextmanager
    async def alone(self, id: str) -> AsyncIterator[None]:
        """Nobody else opens, reads or deletes that session meanwhile."""
        await trio.lowlevel.checkpoint()
        while (busy := self._busy.get(id)) is not None:
            await busy.wait()
        self._busy[id] = trio.Event()
        try:
            yield
        finally:
            self._busy.pop(id).set()


def stored_info(entry: StoreEntry) -> SessionInfo:
    return SessionInfo(
        session=entry.session,
        agent=entry.agent,
        cwd=entry.cwd,
        title=entry.title,
        phase=entry.phase if entry.phase not in (None, "closed") else "stored",
        created=entry.created,
        prompt=entry.prompt,
        updated=entry.updated,
        tenant=entry.tenant,
        roots=entry.roots,
    )
