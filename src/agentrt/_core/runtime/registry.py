"""The sessions of a runtime: the open ones and the other ones in its store.

A `TenantView` is a mapping restricted to one tenant.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, Protocol, TypeVar

import trio
from msgspec import Struct

from ..errors import LimitExceeded, SessionClosed
from ..limits import Tenant
from ..model.events import Phase
from ..session.session import Session, host_of
from ..session.waiters import TenantRateLimit
from ..store.base import StoreEntry, quota_reached
from ..store.persister import was_prompted


class HasTenant(Protocol):
    """An object that belongs to a tenant."""

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        ...


T = TypeVar("T", bound=HasTenant)


class TenantView(Mapping[str, T]):
    """Live view of `all`, restricted to one tenant."""

    def __init__(self, all: dict[str, T], tenant: str) -> None:
        """`tenant`: the name; an empty one selects the sessions without a tenant."""
        self._all = all
        self._tenant = tenant

    def __getitem__(self, id: str) -> T:
        """Return an entry. Raises `KeyError` for that of another tenant, as for an unknown one."""
        found = self._all[id]
        if found.tenant != self._tenant:
            raise KeyError(id)
        return found

    def __iter__(self) -> Iterator[str]:
        return (id for id, each in self._all.items() if each.tenant == self._tenant)

    def __reversed__(self) -> Iterator[str]:
        return (id for id in reversed(self._all) if self._all[id].tenant == self._tenant)

    def __len__(self) -> int:
        """Return the number of entries. It counts them, so its time grows with all tenants."""
        return sum(1 for _ in self)


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list.

    - `session`: its id. `agent`: the name of its agent. `cwd`: its working directory.
    - `title`: as the agent or a person named it; None if it has no title.
    - `phase`: `stored` for a session in the store that is not open, neither here nor at another
      server that shares the store; the next prompt opens it.
    - `prompt`: the start of its first prompt.
    - `created`, `updated`: seconds since the Unix epoch. `updated` is the time when a turn last
      started or ended, a question was asked, or the session was opened; text does not change it.
    - `forks`: the points where `Runtime.fork` can end a copy. None: unknown until the agent of a
      closed session is asked.
    - `steers`: True if messages can be sent into its running turn.
    - `checkpoints`: True if its files are saved around each turn (see `Session.checkpoints`).
    - `budget`: what is spent of its budgets, in words; empty without one.
    - `sandbox`: the sandbox around its agent, in words; empty without one.
    - `granted`: the permissions of the sandbox that were given for the session, each in words, such
      as `Network api.example.com:443`.
    - `tenant`: its tenant on a shared server.
    - `roots`: its folders in addition to `cwd`.
    """

    session: str
    """The session's id."""
    agent: str
    """The name of its agent."""
    cwd: str
    """Its working folder."""
    title: str | None = None
    """Its title, if it has one."""
    phase: Phase | Literal["stored"]
    created: float
    prompt: str = ""
    updated: float | None = None
    forks: Literal["turn", "end", "no"] | None = None
    steers: bool = False
    checkpoints: bool = False
    budget: str = ""
    sandbox: str = ""
    granted: tuple[str, ...] = ()
    tenant: str = ""
    roots: tuple[str, ...] = ()


class HostedSession(Protocol):
    """The interface of an open session's host that the register uses."""

    tenant: str

    @property
    def agent(self) -> str:
        """The agent's name."""
        ...

    @property
    def session(self) -> Session:
        """The open session."""
        ...

    @property
    def is_whole(self) -> bool:
        """True if a store has everything needed to reopen the session."""
        ...

    @property
    def over(self) -> trio.Event:
        """Set once the session has ended."""
        ...

    @property
    def is_leaving(self) -> bool:
        """True if the session is over and its end is pending."""
        ...

    def info(self) -> SessionInfo:
        """Return the session as an entry of a list."""
        ...

    def entry(self) -> StoreEntry:
        """Return the session's entry in the store, now that it is closed."""
        ...

    async def close(self) -> int:
        """Close the session, and return the number of dropped prompts.

        Raises `LocalProtocolError` if the runtime may not end it.
        """
        ...

    async def end(self) -> None:
        """End the session in this process; waiting prompts stay stored. Raises as `close`."""
        ...


class SessionRegistry:
    """The sessions of one runtime, and the listeners for changes."""

    def __init__(self, room: int, stored: Iterable[StoreEntry], *, has_store: bool) -> None:
        """Create a register.

        `room` is the maximum number of open sessions. `stored` are the sessions of the store, the
        one idle for the longest first. No other process writes to the store, so it is not read
        again, unless it is shared (`refresh`).
        """
        self.draining = False
        """True if no further session may be opened."""
        self.runs = True
        """True if sessions may be opened here at all; a gateway opens none."""
        self.hosts: dict[str, HostedSession] = {}
        self.stored = {entry.session: entry for entry in stored}
        self.closed = False
        self.emptied = trio.Event()
        """Set when a session was unloaded; see `memory.py`."""
        self.has_store = has_store
        self.rate_limits: dict[str, TenantRateLimit] = {}
        self._tenant_sessions: dict[str, int | None] = {}  # session limits of tenants
        self._room = room
        self._starting: set[HostedSession] = set()
        self._busy: dict[str, trio.Event] = {}  # stored ones being opened, read or deleted
        self._listeners: set[Callable[[], None]] = set()
        self._view_times: set[Callable[[str], float]] = set()

    # --- listeners

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """As `Runtime.listen`."""
        self._listeners.add(changed)
        return lambda: self._listeners.discard(changed)

    def show(self, viewed_at: Callable[[str], float]) -> Callable[[], None]:
        """As `RuntimeHost.show`."""
        self._view_times.add(viewed_at)
        return lambda: self._view_times.discard(viewed_at)

    def last_viewed_at(self, id: str) -> float:
        """Return the time when a session was last viewed, by Trio's clock."""
        return max((viewed_at(id) for viewed_at in self._view_times), default=-math.inf)

    def _changed(self) -> None:
        """Call the listeners. A listener may remove itself, so this iterates over a copy."""
        for changed in tuple(self._listeners):
            changed()

    # --- opening and closing

    async def wait_until_removed(self, id: str) -> None:
        """Wait for the end of a session that is over but still listed as open; it cannot be used
        before.
        """
        host = self.hosts.get(id)
        if host is not None and host.is_leaving:
            await host.over.wait()

    def set_tenant_limits(self, tenant: Tenant) -> None:
        """Set the limits of a tenant."""
        self._tenant_sessions[tenant.name] = tenant.sessions
        self.rate_limit(tenant.name).events_per_s = tenant.events

    def rate_limit(self, tenant: str) -> TenantRateLimit:
        """Return the rate limit of a tenant."""
        return self.rate_limits.setdefault(tenant, TenantRateLimit())

    def count(self, tenant: str) -> int:
        """Return the number of a tenant's sessions that are open here or starting."""
        return sum(each.tenant == tenant for each in (*self.hosts.values(), *self._starting))

    def check_room(self, tenant: str = "") -> None:
        """Raise `SessionClosed` or `LimitExceeded` if no session may be opened here now."""
        if self.closed:
            raise SessionClosed("the runtime is closed")
        if not self.runs:
            raise LimitExceeded("this process is a gateway, which runs no sessions itself")
        if self.draining:
            raise LimitExceeded("this process accepts no more sessions: it is being drained")
        if not self.room:
            raise LimitExceeded(
                f"{self._room} sessions are open (limits.open_sessions): close one first"
            )
        room = self._tenant_sessions.get(tenant)
        if room is not None and (open := self.count(tenant)) >= room:
            raise quota_reached(tenant, open, room)

    @property
    def room(self) -> int:
        """The number of further sessions that may be opened here now."""
        if self.closed or self.draining or not self.runs:
            return 0
        return max(0, self._room - len(self.hosts) - len(self._starting))

    @contextmanager
    def starting(self, host: HostedSession) -> Iterator[None]:
        """Reserve a place for a session that is starting."""
        self._starting.add(host)
        try:
            yield
        finally:
            self._starting.discard(host)

    def add(self, host: HostedSession) -> None:
        """Add a session that is now open."""
        self._starting.discard(host)
        self.hosts[host.session.id] = host
        self.stored.pop(host.session.id, None)
        self._changed()

    def remove(self, host: HostedSession) -> None:
        """Remove a session that is no longer open, or no longer shown."""
        session = host.session
        if self.hosts.get(session.id) is host:
            del self.hosts[session.id]
            inside = host_of(session)
            over = inside.closed.is_set() and inside.keeper is not None
            if over and self.has_store and was_prompted(session.log.state):
                self.stored[session.id] = host.entry()
            self._changed()

    def unload(self, host: HostedSession) -> None:
        """Reduce an idle session to its entry in the list.

        Callers that need it wait until it is closed (`unloaded`), and then open it again.
        """
        entry = host.entry()
        del self.hosts[entry.session]
        self._busy[entry.session] = trio.Event()
        later = [each for each in self.stored.values() if each.updated > entry.updated]
        for each in (entry, *later):  # inserted among these few by its time
            self.stored.pop(each.session, None)
            self.stored[each.session] = each
        self._changed()

    def unloaded(self, host: HostedSession) -> None:
        """Let others open the session after `unload`."""
        self._busy.pop(host.session.id).set()
        self.emptied.set()

    def add_stored(self, entry: StoreEntry) -> None:
        """Add a session of the store, unless it is open."""
        if entry.session not in self.hosts:
            self.stored[entry.session] = entry
            self._changed()

    def refresh(self, entries: Sequence[StoreEntry], limit: int) -> None:
        """Update the stored sessions after changes by others.

        `entries` are the most recently active sessions, latest first, at most `limit`.
        """
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
        """Remove a session that is no longer stored."""
        del self.stored[id]
        self._changed()

    # --- exclusive access

    def is_busy(self, id: str) -> bool:
        """Return True if the session is being opened, read or deleted."""
        return id in self._busy

    @asynccontextmanager
    async def alone(self, id: str) -> AsyncIterator[None]:
        """Keep other tasks from opening, reading or deleting the session in the meantime."""
        await trio.lowlevel.checkpoint()
        while (busy := self._busy.get(id)) is not None:
            await busy.wait()
        self._busy[id] = trio.Event()
        try:
            yield
        finally:
            self._busy.pop(id).set()


def stored_info(entry: StoreEntry) -> SessionInfo:
    """Return a stored session as an entry of a list."""
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
