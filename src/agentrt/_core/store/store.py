"""The public interface of a session store: `Store` and `open_store`."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import trio

from ..._version import __version__
from ..errors import (
    LimitExceeded,
    LocalProtocolError,
    SessionElsewhere,
    SessionMoved,
    SessionNotFound,
    StoreError,
    StoreUnavailable,
)
from ..limits import Limits
from ..logging import get_logger
from ..model.checkpoint import Checkpoints, Record
from ..model.conversation import Conversation
from ..model.events import Event
from ..model.log import Log
from ..model.state import SessionState, Snapshot
from ..nesting import bare_errors, check_trio, open_service_nursery
from .address import StoreAddress, address_of
from .base import (
    About,
    CommandAnswer,
    Job,
    Packed,
    SessionClaim,
    SessionQuery,
    SharedStatistics,
    Stored,
    StoreEntry,
    StoreHit,
    StoreReader,
    StoreStatistics,
    StoreStatus,
)
from .opening import backend_of, reader_of, server
from .persister import LogPersister, Persist, PersistedSession, was_prompted
from .shared import Cluster, Process, StoreMembership
from .wakeups import Wakeups, open_wakeups
from .writer import Batch, StoreWriter, WriterJob

logger = get_logger("store")

T = TypeVar("T")

_INDEX_WAIT_S = 1.0  # seconds that a search waits for text that is not indexed yet

MAX_NODE_NAME_CHARS: Final = 200
"""Maximum length, in characters, of the name of a process that shares a store: people read it, and
type it to drain the process."""

SLOW_COMMIT_S: Final = 1.0
"""Seconds between giving the writer an item and its commit, above which a store is slow."""


class _AnswerSource:
    """The source of a client's answer that is stored without events of a session."""

    place = SessionClaim(0, 0)

    def __init__(self) -> None:
        self.stored = False
        self.progress = trio.Event()

    def committed(self, last: int) -> None:
        """Wake the waiting task: the answer is stored."""
        self.stored = True
        self.progress.set()

    def fenced(self, error: SessionMoved) -> None:
        """Never called, because an answer does not belong to a session."""
        raise AssertionError("an answer was fenced")


class OpenSessions:
    """The sessions that this process stores now, by id."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._persisters: dict[str, LogPersister] = {}

    def __contains__(self, session: str) -> bool:
        return session in self._persisters

    def add(self, session: str, persister: LogPersister) -> None:
        """Add a session that is being stored from now on."""
        self._persisters[session] = persister

    def release(self, session: str) -> None:
        """Remove a session, which can be claimed again."""
        if (persister := self._persisters.pop(session, None)) is not None:
            persister.released.set()

    def wake(self) -> None:
        """Wake the tasks that wait for any session to be stored."""
        for persister in self._persisters.values():
            persister.wake()

    def fail(self, error: StoreUnavailable) -> None:
        """Tell all sessions that they cannot be stored."""
        for persister in list(self._persisters.values()):
            persister.fail(error)

    async def end_all(self) -> None:
        """End every session immediately, because the lease is over. Returns when all have ended,
        after `limits.store_lease_s` seconds at most."""
        persisters = list(self._persisters.values())
        for persister in persisters:
            persister.fenced(
                SessionMoved(
                    "the store was not reached for so long that another process may continue this"
                    " session: its new events are not stored here"
                )
            )
        # The guard program has ended the agents; the blocks of the sessions may be the program's.
        with trio.move_on_after(self._limits.store_lease_s):
            for persister in persisters:
                await persister.released.wait()


class Store:
    """Sessions that outlive the process that runs them. Created by `open_store`.

    Pass the store to `open_session`: events of that session are stored before any viewer sees them.
    The methods of the store read stored sessions.
    """

    def __init__(
        self,
        path: str,
        reader: StoreReader,
        writer: StoreWriter,
        limits: Limits,
        *,
        sessions: OpenSessions | None = None,
        show_only_stored: bool = True,
        tenant_quotas: dict[str, int | None] | None = None,
        membership: StoreMembership | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.path = path
        """The path of the file, or the URL without its password."""
        self.backlog = 0
        self.trouble: StoreUnavailable | None = None
        self.waited: bool = False
        self.show_only_stored = show_only_stored
        self._reader = reader
        self._limits = limits
        self._limiter = trio.CapacityLimiter(1)  # one connection, one reader at a time
        self._writer = writer
        self.write: Callable[[Batch | WriterJob], None] = writer.put
        """Gives an item to the writer."""
        self._open = OpenSessions(limits) if sessions is None else sessions
        self._taken_under: dict[str, int | None] = {}
        """The leases under which places of sessions were taken that are not kept yet."""
        self._changed = trio.Event()
        self._status = StoreStatus(since=time.time())
        self._slow_since: float | None = None
        self._listeners: set[Callable[[], None]] = set()
        self._answering: set[_AnswerSource] = set()
        self.tenant_quotas: dict[str, int | None] = {} if tenant_quotas is None else tenant_quotas
        """Maximum number of open sessions per tenant, counted over all processes that share the
        store; only limits that were set in this process."""
        self.unkept: set[str] = set()
        """Sessions that this process may own without running them: it is not known whether they
        were claimed, or released."""
        self.membership = membership
        """This process among those that share the store; None if the store is not shared."""
        self.cluster = cluster
        """Access to the sessions of the other processes; None if the store is not shared."""

    # --- reading

    async def sessions(
        self,
        *,
        limit: int | None = None,
        before: tuple[float, str] | None = None,
        cwd: str | None = None,
    ) -> list[StoreEntry]:
        """List the sessions that were prompted, the latest first.

        Running sessions are included; a turn that has just begun is visible a second later.

        - `limit`: the maximum number of sessions.
        - `before`: only sessions that come after the one with this `updated` and `session`, the
          last one of the previous page.
        - `cwd`: only sessions of this folder.
        """
        query = SessionQuery(limit=limit, before=before, cwd=cwd)
        return await self._read(partial(self._reader.sessions, query))

    async def find(self, prefix: str) -> list[StoreEntry]:
        """Find the sessions with the id prefix `prefix`, or else those with this prefix in
        `agent_session`. Returns only a few if many match."""
        return await self._read(partial(self._reader.find, prefix))

    async def search(
        self, words: str, *, limit: int = 20, tenant: str | None = None
    ) -> list[StoreHit]:
        """Find the sessions that contain all of `words`, the latest first.

        Searches titles, and the prompts and answers of finished turns. Words match by prefix and
        regardless of case; the query has no syntax. `limit`: the maximum number of hits. `tenant`:
        only sessions of this tenant (`""`: sessions without one).
        """
        with trio.move_on_after(_INDEX_WAIT_S), suppress(StoreError):
            await self._call(lambda backend: backend.catch_up())
        return await self._read(partial(self._reader.search, words, limit, tenant))

    async def records(self, session: str, *, before: int | None = None, count: int) -> list[Record]:
        """Return the last `count` records of a session, in order.

        `before`: only records with a lower `number`. Raises `SessionNotFound`.
        """
        found = await self._read(partial(self._reader.records, session, before, count))
        if found is None:
            raise SessionNotFound(f"no session {session!r} is stored")
        return found

    async def snapshot(self, session: str) -> Snapshot:
        """Return everything a viewer shows of a session, as stored last. Raises
        `SessionNotFound`."""
        return snapshot_of(session, await self.load(session))

    async def events(self, session: str, after: int = 0) -> list[tuple[int, Event]]:
        """Return the events after number `after` that are still kept
        (`limits.store_events_lifetime_s`), with their numbers. Raises `SessionNotFound`."""
        found = await self._read(partial(self._reader.events, session, after))
        if found is None:
            raise SessionNotFound(f"no session {session!r} is stored")
        return found

    async def delete(self, session: str) -> None:
        """Delete a session. Raises `SessionNotFound`, or `LocalProtocolError` if it is open."""
        if session in self._open:
            raise LocalProtocolError(f"the session {session!r} is open: close it first")
        if not await self._call(lambda backend: backend.delete(session)):
            raise SessionNotFound(f"no session {session!r} is stored")

    async def chats(self) -> dict[str, str]:
        """Map the names that clients gave to sessions to the ids of these sessions."""
        return await self._read(self._reader.chats)

    def name_chat(self, chat: str, session: str) -> None:
        """Record a client's name for a session before the next prompt produces events.

        Never waits. If the name cannot be stored, it is lost when the process ends.
        """
        self.write(WriterJob(lambda backend: backend.name_chat(chat, session), lambda *over: None))

    async def answers(self) -> list[CommandAnswer]:
        """Return the answers that clients got to commands, the oldest first, for clients that
        repeat a command."""
        return await self._read(self._reader.answers)

    async def answer(self, client: str, id: str) -> CommandAnswer | None:
        """Return the answer to a client's command, whichever process that shares the store gave
        it."""
        return await self._read(partial(self._reader.answer, client, id), abandon=True)

    async def keep_answer(self, answer: CommandAnswer | None) -> None:
        """Wait until everything written so far is stored, together with `answer`, the answer to a
        client. Raises `StoreUnavailable` if the store has failed for
        `limits.store_failure_timeout_s`."""
        answered = _AnswerSource()
        self._answering.add(answered)
        try:
            answers = [] if answer is None else [answer]
            self.write(Batch(answered, 1, [], 0, fsync=True, answers=answers))
            while not answered.stored:
                if self.waited and self.trouble is not None:
                    raise self.trouble
                await answered.progress.wait()
                answered.progress = trio.Event()
        finally:
            self._answering.discard(answered)

    async def put(self, packed: Packed) -> None:
        """Import a session from another file. Raises `StoreError`."""
        await self._call(lambda backend: backend.put(packed))

    async def load(self, session: str, *, last: int | None = None) -> Stored:
        """Load a session with all of its records, or with the `last` ones only. Raises
        `SessionNotFound`."""
        found = await self._read(partial(self._reader.load, session, last))
        if found is None:
            raise SessionNotFound(f"no session {session!r} is stored")
        return found

    async def state(self, stored: Stored) -> SessionState:
        """Build an independent state from a loaded session, in a thread that blocks no task."""
        return await self._read(stored.state)

    async def _read(self, read: Callable[[], T], *, abandon: bool = False) -> T:
        return await trio.to_thread.run_sync(read, limiter=self._limiter, abandon_on_cancel=abandon)

    # --- writing

    async def create(self, session: str, epoch: str, about: About) -> SessionClaim:
        """Create a session and return its place. Raises `StoreError`, or `LimitExceeded` if its
        tenant has reached its number of open sessions."""
        lease = self._lease
        place = await self._call(lambda backend: backend.create(session, epoch, about))
        self._taken_under[session] = lease
        return place

    async def claim(
        self, session: str, *, last: int | None = None, reads: bool = False
    ) -> tuple[SessionClaim, Stored]:
        """Become the owner of a session and load it, as `load` does.

        `reads`: only to see how it was left, not to run it. Raises `SessionNotFound`,
        `LocalProtocolError` if it is open here, or `SessionElsewhere` if another process that
        shares the store owns it.
        """
        if session in self._open:
            raise LocalProtocolError(f"the session {session!r} is open")
        lease = self._lease
        with self.claiming(session):
            place = await self._call(lambda backend: backend.claim(session, reads=reads))
            if place is None:
                raise SessionNotFound(f"no session {session!r} is stored")
            self._taken_under[session] = lease
            return place, await self.load(session, last=last)

    @contextmanager
    def claiming(self, session: str) -> Iterator[None]:
        """Guard the steps from a claim until the session is kept: if they fail, it is `unkept`."""
        try:
            yield
        except (SessionElsewhere, SessionNotFound):
            raise
        except BaseException:
            self._taken_under.pop(session, None)
            self.unkept.add(session)
            raise

    async def release(self, session: str) -> None:
        """Give up the ownership of a session that is `unkept`. Raises `StoreError`."""
        with suppress(SessionElsewhere):
            place = await self._call(lambda backend: backend.claim(session, reads=True))
            if place is not None:
                await self._call(lambda backend: backend.release(place))
        self.unkept.discard(session)

    @asynccontextmanager
    async def keeping(
        self,
        place: SessionClaim,
        conversation: Conversation,
        about: Callable[[], About],
        shown: Log,
        checkpoints: Checkpoints,
    ) -> AsyncIterator[Persist]:
        """Let the log of a conversation be stored, and shown in `shown`, while the block runs.

        Yields the function that starts it; call it once, with the session, before the log has new
        events. Leaving the block waits until everything is stored, for at most
        `limits.store_failure_timeout_s`. Raises `SessionMoved` if the lease under which the place
        was taken has ended.
        """
        log = conversation.log
        if self._taken_under.pop(log.session, self._lease) != self._lease:
            raise SessionMoved("the lease of the store ended while the session was being opened")
        started: LogPersister | None = None

        def persist(session: PersistedSession) -> LogPersister:
            nonlocal started
            started = LogPersister(
                self, place, conversation, about, self._limits, checkpoints, session
            )
            log.persist_with(started, shown)
            self._open.add(log.session, started)
            self.unkept.discard(log.session)
            return started

        try:
            yield persist
        finally:
            try:
                with trio.move_on_after(self._limits.store_failure_timeout_s, shield=True):
                    if started is not None:
                        await started.wait_until_stored()
                    if started is None or started.moved is None:
                        await self._give_up(log, place)
            finally:
                self._open.release(log.session)

    async def _give_up(self, log: Log, place: SessionClaim) -> None:
        """Release a session, or delete it if it was never prompted."""
        self.unkept.add(log.session)
        with suppress(StoreError):
            if was_prompted(log.state) or self.membership is not None:
                # Clients of other processes may continue it.
                await self._call(lambda backend: backend.release(place))
            else:
                await self._call(lambda backend: backend.discard(place))
            self.unkept.discard(log.session)

    @property
    def _lease(self) -> int | None:
        """The lease under which this process owns its sessions, if it shares the store."""
        return None if self.membership is None else self.membership.held()

    def owns(self) -> bool:
        """True if this process may act on the stored sessions now."""
        return self.membership is None or self._lease is not None

    async def _call(self, job: Job[T]) -> T:
        if self.trouble is not None:
            raise self.trouble
        over = trio.Event()
        answer: list[Any] = []

        def done(result: Any, error: Exception | None) -> None:
            answer.extend((result, error))
            over.set()

        self.write(WriterJob(job, done))
        await over.wait()
        result, error = answer
        if error is not None:
            if isinstance(error, StoreError | LimitExceeded):
                raise error
            raise StoreUnavailable(f"the store cannot be written now: {error}") from error
        return result  # type: ignore[no-any-return]

    # --- status

    @property
    def status(self) -> StoreStatus:
        """The state of the store: whether events are stored, and without delay."""
        return self._status

    def statistics(self) -> StoreStatistics:
        """Return counts since the store was opened."""
        return StoreStatistics(
            backlog=self.backlog,
            size=sum(map(_size, (self.path, f"{self.path}-wal"))),
            commits=self._writer.commits,
            commit_seconds=self._writer.commit_seconds,
            failures=self._writer.failures,
        )

    def shared_statistics(self) -> SharedStatistics | None:
        """Return the figures of this process among those that share the store; None if the store
        is not shared. Must be called in Trio's thread."""
        membership, cluster = self.membership, self.cluster
        if membership is None or cluster is None:
            return None
        waits = cluster.waits
        return SharedStatistics(
            lease=membership.left,
            takeovers=self._writer.takeovers,
            fenced=len(self._writer.fenced),
            lag=cluster.lag,
            commands=len(waits),
            waits=max(waits, default=0.0),
            connections=cluster.connections[0],
            most_connections=cluster.connections[1],
        )

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever `status` changes. `changed` must not block or raise. Returns the
        function that ends it."""
        self._listeners.add(changed)
        return lambda: self._listeners.discard(changed)

    def failing(self, error: Exception, *, final: bool) -> None:
        """Record that a commit has failed."""
        self.trouble = StoreUnavailable(f"the store cannot be written: {error}")
        self.waited = self.waited or final
        self._trouble_changed()

    def well(self) -> None:
        """Record that the store can be written again."""
        self.trouble = None
        self.waited = False
        self._slow_since = None
        self._trouble_changed()

    def _trouble_changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        for answered in self._answering:
            answered.progress.set()
        self.wake()
        self._update_status()

    def wake(self) -> None:
        """Wake the tasks that wait for any session of the store."""
        self._open.wake()

    def _update_status(self) -> None:
        """Update the status, and notify the listeners if it has changed."""
        if self.trouble is not None:
            status = StoreStatus(state="failing", since=time.time(), message=str(self.trouble))
        elif self._slow_since is not None:
            status = StoreStatus(state="slow", since=self._slow_since)
        else:
            status = StoreStatus(since=time.time())
        before = self._status
        if (status.state, status.message) != (before.state, before.message):
            self._status = status
            level = logging.INFO if status.state == "ok" else logging.WARNING
            logger.log(level, "the store is %s", status.state, extra={"state": status.state})
            for changed in tuple(self._listeners):
                changed()

    async def _measure(self) -> None:
        """Measure the time from giving an item to the writer to its commit, while the writer is in
        use. This costs nothing while nothing is written."""
        while True:
            await self._writer.wait_for_item()
            while True:
                await self._measure_once()
                await trio.sleep(SLOW_COMMIT_S / 2)
                if not self.backlog:
                    break

    async def _measure_once(self) -> None:
        """Send a probe through the writer's queue, which is committed in order."""
        since, through = time.time(), trio.Event()
        self.write(WriterJob(lambda backend: None, lambda *over: through.set()))
        with trio.move_on_after(SLOW_COMMIT_S):
            await through.wait()
        if not through.is_set():
            self._slow_since = since
            self._update_status()
            await through.wait()
        self._slow_since = None
        self._update_status()

    async def _watch(self) -> None:
        """Make sure that no session waits forever for a store that fails."""
        while True:
            while self.trouble is None:
                await self._changed.wait()
            with trio.move_on_after(self._limits.store_failure_timeout_s):
                while self.trouble is not None and not self.waited:
                    await self._changed.wait()
            if (trouble := self.trouble) is not None:
                self.waited = True
                self._open.fail(trouble)
                self._trouble_changed()
            while self.trouble is not None:
                await self._changed.wait()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def snapshot_of(session: str, stored: Stored) -> Snapshot:
    """Build the viewers' snapshot of a session that was loaded."""
    state = stored.state()
    for event in stored.events:
        state.apply(event)
    return state.snapshot(session, stored.epoch, stored.next - 1)


@asynccontextmanager
async def open_store(
    path: str | os.PathLike[str],
    *,
    limits: Limits | None = None,
    show_only_stored: bool = True,
    node: str | None = None,
    home: str | None = None,
    role: Literal["both", "gateway", "worker"] = "both",
) -> AsyncIterator[Store]:
    """Open a store of sessions.

    The store is the SQLite file `path`, which is created if it is missing; or a PostgreSQL database
    if `path` is a URL (`postgresql://USER@HOST/DATABASE`, with the extra `postgres`)::

        async with agentrt.store.open_store("sessions.db") as store:
            async with agentrt.open_session("claude", journal=store) as session:
                ...

    - `limits`: the limits with the prefix `store_`.
    - `show_only_stored`: if false, events are shown immediately instead of when they are stored:
      the last ones that were seen may be missing after a kill. This is meant for a person who reads
      along at a terminal and should not wait for a slow disk. Input to the agent still waits.
    - `node`: for PostgreSQL, a name for this process, which then shares the store with other
      processes that have names. A session has one owner at a time, by a lease
      (`limits.store_lease_s`).
    - `home`: with `node`, a name that is equal on all machines that have the same files; by default
      the name of this machine. A session is continued only in the home in which it was created.
    - `role`: with `node`, the purpose of this process. A `gateway` opens no sessions: workers carry
      out the commands of its clients. A `worker` serves no clients.

    Leaving the block writes everything that is still buffered. Leave it after every session in it.

    Raises `StoreInUse` while another process writes the store, `StoreError` if it cannot be opened,
    `ValueError` for an invalid URL or name, and `StoreUnavailable` at the end if something could
    not be stored.
    """
    check_trio("open_store")
    address = address_of(path)
    process = None if node is None else process_of(node, home, role)
    async with open_address(
        address, limits=limits, show_only_stored=show_only_stored, process=process
    ) as store:
        yield store


def process_of(name: str, home: str | None = None, role: str = "both") -> Process:
    """Describe this process to the others that share a store. Raises `ValueError` for an invalid
    name."""
    for option, given in (("node", name), ("home", home)):
        if given is not None and not (
            0 < len(given) <= MAX_NODE_NAME_CHARS and given.isprintable()
        ):
            raise ValueError(
                f"{option} must have 1 to {MAX_NODE_NAME_CHARS} printable characters, got"
                f" {given[:40]!r}"
            )
    host = socket.gethostname()
    return Process(
        name=name, host=host, pid=os.getpid(), home=home or host, role=role, version=__version__
    )


@asynccontextmanager
async def open_address(
    address: StoreAddress,
    *,
    limits: Limits | None = None,
    show_only_stored: bool = True,
    process: Process | None = None,
) -> AsyncIterator[Store]:
    """Open a store by its address, as `open_store` does."""
    limits = limits or Limits()
    sessions, quotas = OpenSessions(limits), dict[str, int | None]()
    membership = cluster = None
    if process is None and isinstance(address, Path):
        backend = backend_of(address)
    else:
        shared = server(address)
        if process is not None:
            membership, cluster = shared.share(process, limits, sessions.end_all)
        backend = shared.backend(limits, membership=membership, tenant_quotas=quotas)
    await trio.to_thread.run_sync(backend.open)
    try:
        reader = await trio.to_thread.run_sync(partial(reader_of, address, writes=True))
        try:
            with open_wakeups() as wakeups:
                writer = StoreWriter(backend, wakeups.soon, limits)
                store = Store(
                    str(address),
                    reader,
                    writer,
                    limits,
                    sessions=sessions,
                    show_only_stored=show_only_stored,
                    tenant_quotas=quotas,
                    membership=membership,
                    cluster=cluster,
                )
                async with _writing(wakeups, writer, store), _sharing(store):
                    yield store
        finally:
            reader.close()  # before the writer: the last one to close tidies up
    finally:
        backend.close()
    if store.trouble is not None:
        raise store.trouble


@asynccontextmanager
async def _sharing(store: Store) -> AsyncIterator[None]:
    """If the store is shared, have a lease for the block, and ask for a new one whenever it is
    lost."""
    membership, cluster = store.membership, store.cluster
    if membership is None or cluster is None:
        yield
        return
    async with bare_errors(), trio.open_nursery() as nursery:
        await nursery.start(membership.run)
        await nursery.start(cluster.run)
        try:
            yield
        finally:
            with trio.move_on_after(SLOW_COMMIT_S, shield=True), suppress(StoreError):
                await store._call(lambda backend: None)  # after the releases of the sessions
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _writing(wakeups: Wakeups, writer: StoreWriter, store: Store) -> AsyncIterator[None]:
    """Run the writer's thread for the block, and wait for it to end."""
    trio.lowlevel.add_instrument(writer)
    try:
        async with open_service_nursery() as services:
            services.start_soon(wakeups.run)
            async with bare_errors(), trio.open_nursery() as nursery:
                # Items put before the thread runs wait for it.
                nursery.start_soon(_in_thread, partial(writer.run, store))  # noqa: ASYNC113
                nursery.start_soon(store._watch)
                nursery.start_soon(store._measure)
                try:
                    yield
                finally:
                    writer.stop()
                    nursery.cancel_scope.cancel()  # not the thread, which is awaited
    finally:
        trio.lowlevel.remove_instrument(writer)
        wakeups.call_all()


async def _in_thread(run: Callable[[], object]) -> None:
    await trio.to_thread.run_sync(run, limiter=trio.CapacityLimiter(1))
