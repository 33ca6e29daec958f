"""The interfaces of a store that several processes share, and the values that they exchange.

`agentrt._cluster` implements them for PostgreSQL; it is imported only for such a store.
`StoreServer.share` returns the two objects of a process. With the `StoreMembership` it holds a
lease, and owns sessions only while it does. By the `Cluster` it reaches the sessions of the other
processes: it reads their logs as they are stored, and has commands carried out.

A command of a client for a session that runs in another process becomes a `StoredCommand` in the
database, addressed to the lease of the owner. That process carries it out by its `CommandHandler`
and stores the answer, which the first process finds by polling.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ..errors import StoreError
from ..limits import Limits
from ..model.log import Log
from .base import ImportingBackend, ReportingReader, StoreEntry

if TYPE_CHECKING:
    import trio


class StoreProcess(Struct, frozen=True, kw_only=True):
    """A process that shares a store with others."""

    name: str
    """The name that it was given."""
    host: str
    """The name of its machine."""
    pid: int
    """Its process id."""
    home: str
    """The set of files that its sessions need, equal for machines that share a file system."""
    role: str = "both"
    """`worker` runs sessions, `gateway` serves clients, `both` does both."""
    version: str = ""
    """Its version of agentrt."""


class NodeEntry(Struct, frozen=True):
    """A process that shares a store, as others see it."""

    num: int
    """The number of its lease."""
    name: str
    """The name that it was given."""
    host: str
    """The name of its machine."""
    pid: int
    """Its process id."""
    role: str
    """Its role: `both`, `gateway` or `worker`."""
    home: str
    """The set of files that its sessions need."""
    version: str
    """Its version of agentrt."""
    since: float
    """The time at which it began, in seconds since the Unix epoch."""
    lease: float
    """The remaining seconds of its lease."""
    draining: bool
    """True if it owns no new sessions."""
    load: bytes
    """The load that it has reported: JSON with the numbers `sessions`, `turns` and `room`."""
    sessions: int
    """The number of sessions that it owns."""


class SessionOwner(Struct, frozen=True):
    """The owner of a session."""

    node: int | None
    """The lease of the process that runs the session; None if none does."""
    home: str
    """The home in which the session was created."""


class StoredCommand(Struct, frozen=True, kw_only=True):
    """A client's command that another process must carry out."""

    client: str
    """The client."""
    id: str
    """The client's id of the command."""
    session: str
    """The session; empty to open a new one."""
    digest: bytes
    """The hash of the command: another command with its id is refused."""
    body: bytes
    """The command."""
    num: int = 0
    """The number of its row; 0 before it is posted."""
    asker: int = 0
    """The lease of the process that waits for the answer."""


class CommandStatus(Struct, frozen=True):
    """The state of a command that another process must carry out."""

    num: int
    """The number of its row."""
    node: int
    """The lease of the process that must carry it out."""
    answer: bytes | None
    """The answer; None if there is none yet. An empty one: the process does not have the session,
    and another process must carry it out."""
    alive: bool
    """True if the lease of the process is not over."""


class IdReused(Exception):
    """The id of a command is used by a different command."""


class CommandHandler(Protocol):
    """Carries out commands of other processes' clients in the sessions of this process."""

    async def carry_out(self, command: StoredCommand) -> bytes:
        """Carry out a command and return its answer; empty if the session is not this
        process's."""
        ...

    def on_leases_changed(self, alive: frozenset[int]) -> None:
        """Handle, at intervals, the leases that are not over."""
        ...


class PostedCommand(Protocol):
    """A command that another process is to carry out, while its answer is awaited."""

    @property
    def status(self) -> CommandStatus | None:
        """The state at the last poll; None if the command no longer existed."""
        ...

    @property
    def polls(self) -> int:
        """The number of polls so far."""
        ...

    async def wait(self, polls: int) -> None:
        """Wait until there were more than `polls` polls. Cancellation has no effect."""
        ...


class StoreMembership(Protocol):
    """A process among those that share a store: it owns sessions only while it holds a lease."""

    @property
    def process(self) -> StoreProcess:
        """The process, as the others see it."""
        ...

    @property
    def draining(self) -> bool:
        """True if this process should own no sessions any more."""
        ...

    @property
    def drained(self) -> trio.Event:
        """Set when `draining` becomes true."""
        ...

    @property
    def left(self) -> float:
        """Seconds until the work that the lease allows is ended, unless it is renewed; 0 without a
        lease."""
        ...

    @property
    def unanswered(self) -> bool:
        """True if the database does not answer at the moment."""
        ...

    def held(self) -> int | None:
        """Return the lease that is held now; None if none is held. May be called from any
        thread."""
        ...

    def drain(self) -> None:
        """Accept no new sessions; those that run may end."""
        ...

    def set_load(self, load: bytes) -> None:
        """Set the load that this process reports to the others with each renewal: JSON with the
        numbers `sessions`, `turns` and `room`."""
        ...

    def report(self) -> None:
        """Report the load of this process to the others immediately."""
        ...

    async def abandoned(self) -> list[str]:
        """Return some sessions whose owners are gone without having released them. Raises
        `StoreError`."""
        ...

    async def release(self, session: str) -> None:
        """Release a session whose owner is gone. Raises `StoreError`."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Keep a lease until cancelled; started when there is the first one."""
        ...


class Cluster(Protocol):
    """Access to the sessions of the other processes that share a store. Methods that wait raise
    `StoreError`."""

    @property
    def lag(self) -> float:
        """Seconds for which new events of followed sessions have been unread."""
        ...

    @property
    def waits(self) -> list[float]:
        """The seconds for which each command to other processes has waited."""
        ...

    @property
    def connections(self) -> tuple[int, int]:
        """The database connections of all users, and their maximum; 0 if unknown."""
        ...

    @property
    def served(self) -> trio.Event:
        """Set when this process begins to carry out commands of others."""
        ...

    @property
    def serves(self) -> bool:
        """True if this process carries out commands of others."""
        ...

    async def entries(self, limit: int) -> list[StoreEntry]:
        """Return the most recently active sessions, the latest first, with their current phases."""
        ...

    async def entry(self, session: str) -> StoreEntry | None:
        """Return one session, as `entries` does."""
        ...

    async def chat(self, name: str) -> str | None:
        """Return the session to which clients gave this name."""
        ...

    async def watch(self, session: str) -> int | None:
        """Subscribe to a session before its log is read. Returns its number; None if it does not
        exist."""
        ...

    def unwatch(self, num: int) -> None:
        """End the subscription to a session, unless it is followed."""
        ...

    def follow(self, num: int, log: Log, over: Callable[[], None]) -> Callable[[], None]:
        """Keep a log up to date that was read after `watch`; returns the function that ends this.

        `over` is called when this ends otherwise: the session was deleted, or part of it is
        missing."""
        ...

    async def caught_up(self, log: Log) -> bool:
        """Wait until everything that is stored of a session now is in its followed log. Returns
        False if it is not followed, or no longer."""
        ...

    async def owner(self, session: str) -> SessionOwner | None:
        """Return the owner of a session; None if the session does not exist."""
        ...

    async def worker(self, home: str | None) -> int | None:
        """Return the lease of the least busy other worker with room. `home`: the home that it must
        have; None: any."""
        ...

    def is_mine(self, node: int | None) -> bool:
        """True if this process has the lease."""
        ...

    async def post(self, command: StoredCommand, node: int) -> CommandStatus:
        """Have a command carried out by `node`. Raises `StoreError`, after which its row may exist
        or not, or `IdReused`."""
        ...

    async def pass_on(self, status: CommandStatus, node: int) -> CommandStatus:
        """Give a command to another process, if its process will not carry it out."""
        ...

    def give_back(self, num: int) -> None:
        """Answer a command that was given to this process, and that waits here for another one."""
        ...

    async def withdraw(self, status: CommandStatus) -> bool:
        """Withdraw a command. Returns False if its process has taken it and is alive."""
        ...

    def forget(self, num: int) -> None:
        """Delete the row of a command whose answer was read."""
        ...

    def wait_for(self, status: CommandStatus) -> PostedCommand:
        """Begin to wait for the answer to a command, until `wait_no_more`."""
        ...

    def wait_no_more(self, num: int, waiting: PostedCommand) -> None:
        """End waiting."""
        ...

    async def ask_all(self, command: StoredCommand) -> list[bytes]:
        """Have every other worker carry out a command that belongs to no session. Returns the
        answers of those that take it in time."""
        ...

    async def serve(self, handler: CommandHandler) -> None:
        """Have `handler` carry out commands of other processes, until cancelled."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run all tasks of this object, until cancelled."""
        ...


class StoreServer(Protocol):
    """A store in a database server, by its address. Its string form is a URL without a password.

    Methods raise `StoreError`.
    """

    @property
    def has_password(self) -> bool:
        """True if the address contains a password."""
        ...

    def backend(
        self,
        limits: Limits,
        *,
        membership: StoreMembership | None = None,
        tenant_quotas: Mapping[str, int | None] = {},
    ) -> ImportingBackend:
        """Return the writer of the store, not yet opened.

        - `membership`: this process among those that share the store, if it is shared.
        - `tenant_quotas`: maximum number of open sessions per tenant, over all these processes. It
          may change later.
        """
        ...

    def reader(self, *, writes: bool = False) -> ReportingReader:
        """Open a reader. `writes`: it is used alongside a writer."""
        ...

    def writing(self) -> AbstractContextManager[ImportingBackend]:
        """Open the store for changes in the block."""
        ...

    def share(
        self, process: StoreProcess, limits: Limits, end: Callable[[], Awaitable[None]]
    ) -> tuple[StoreMembership, Cluster]:
        """Return the membership of this process and its access to the others, neither running.

        `end`: ends everything that a lease had allowed, and returns when nothing is left of it.
        """
        ...

    def reach(self) -> None:
        """Check that the database can be reached."""
        ...

    def is_away(self, error: StoreError) -> bool:
        """True if the error says that the database cannot be reached now."""
        ...

    def nodes(self) -> list[NodeEntry]:
        """Return the processes that share the store and are alive."""
        ...

    def drain(self, name: str) -> int:
        """Have the processes of that name own no sessions any more. Returns their number."""
        ...
