"""The store as the rest of agentrt uses it: reading in threads, writing through the writer's queue.

`StoreService` is the object that `open_store` yields. It reads through a `StoreReader` and writes
by giving items to the `StoreWriter`, which commits them in order. Calls such as `create` and
`claim` also go through that queue (`_call`), so each follows everything that was written before it.

Three conditions of the store are distinguished. `trouble` is set from the first failed commit until
one succeeds: no new work may start. `waited` is set after `limits.store_failure_timeout_s` of
trouble: nothing waits any more, and running turns fail (`_watch`). `slow` is a state for viewers
only (`_measure`).

If several processes share the store, this one owns its sessions only as long as its lease lasts. A
place taken under one lease must not be kept under the next (`_taken_under`), because another
process may have claimed the session between the two.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import trio

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
from ..model.log import Log
from ..model.state import SessionState
from .base import (
    Backend,
    CommandAnswer,
    ImportingBackend,
    Job,
    LoadedSession,
    Packed,
    SessionClaim,
    SessionDescription,
    SharedStatistics,
    StoreReader,
    StoreStatistics,
    StoreStatus,
)
from .persister import LogPersister, Persist, PersistedSession, was_prompted
from .shared import Cluster, StoreMembership
from .store import Store
from .writer import Batch, StoreWriter, WriterJob

logger = get_logger("store")

T = TypeVar("T")

SLOW_COMMIT_S: Final = 1.0
"""Seconds between giving the writer an item and its commit, above which a store is slow."""


class _AnswerSource:
    """The source of a client's answer that is stored without events of a session."""

    place = SessionClaim(0, 0)

    def __init__(self) -> None:
        """Begin without a stored answer."""
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
        """Begin without sessions."""
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


class StoreService(Store):
    """The object that `open_store` opens."""

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
        """Create the service of an open store. `open_store` runs its tasks and the writer's thread.

        `show_only_stored`: viewers see an event only when it is stored. `membership` and `cluster`
        are given together, for a store that is shared.
        """
        super().__init__(path, reader)
        self.backlog = 0
        self.trouble: StoreUnavailable | None = None
        self.waited: bool = False
        self.show_only_stored = show_only_stored
        self._limits = limits
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

    async def records(self, session: str, *, before: int | None = None, count: int) -> list[Record]:
        """Return the last `count` records of a session, in order.

        `before`: only records with a lower `number`. Raises `SessionNotFound`.
        """
        found = await self._read(partial(self._reader.records, session, before, count))
        if found is None:
            raise SessionNotFound(f"no session {session!r} is stored")
        return found

    async def delete(self, session: str) -> None:
        """Delete a session that is not open here. Raises also `StoreError`."""
        if session in self._open:
            raise LocalProtocolError(f"the session {session!r} is open: close it first")
        if not await self._call(lambda backend: backend.delete(session)):
            raise SessionNotFound(f"no session {session!r} is stored")

    async def _index(self) -> None:
        """Have the writer index everything that was committed."""
        await self._call(lambda backend: backend.catch_up())

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

        def job(backend: Backend) -> None:
            """Import the session, if the backend can do that."""
            if not isinstance(backend, ImportingBackend):
                raise StoreError(f"{self.path} does not take sessions from other stores")
            backend.put(packed)

        await self._call(job)

    async def load(self, session: str, *, last: int | None = None) -> LoadedSession:
        """Load a session with all of its records, or with the `last` ones only. Raises
        `SessionNotFound`."""
        return await self._load(session, last)

    async def state(self, stored: LoadedSession) -> SessionState:
        """Build an independent state from a loaded session, in a thread that blocks no task."""
        return await self._read(stored.state)

    # --- writing

    async def create(self, session: str, epoch: str, about: SessionDescription) -> SessionClaim:
        """Create a session and return its place. Raises `StoreError`, or `LimitExceeded` if its
        tenant has reached its number of open sessions."""
        lease = self._lease
        place = await self._call(lambda backend: backend.create(session, epoch, about))
        self._taken_under[session] = lease
        return place

    async def claim(
        self, session: str, *, last: int | None = None, reads: bool = False
    ) -> tuple[SessionClaim, LoadedSession]:
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
        shown: Log,
        checkpoints: Checkpoints,
    ) -> AsyncIterator[Persist]:
        """Let the log of a conversation be stored, and shown in `shown`, while the block runs.

        Yields the function that starts it; call it once, with the session and a function that
        describes it, before the log has new events. Leaving the block waits until everything is
        stored, for at most `limits.store_failure_timeout_s`. Raises `SessionMoved` if the lease
        under which the place was taken has ended.
        """
        log = conversation.log
        if self._taken_under.pop(log.session, self._lease) != self._lease:
            raise SessionMoved("the lease of the store ended while the session was being opened")
        started: LogPersister | None = None

        def persist(
            session: PersistedSession, about: Callable[[], SessionDescription]
        ) -> LogPersister:
            """Start storing. From now on the log's readers read `shown`."""
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
                log.stop_persisting()
                if started is not None:
                    started.close()
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
        """Run a job in the writer's thread, after everything queued before it, and return its
        result.

        Raises `StoreUnavailable` while the store fails. A job that was queued is done even if this
        call is cancelled.
        """
        if self.trouble is not None:
            raise self.trouble
        over = trio.Event()
        answer: list[Any] = []

        def done(result: Any, error: Exception | None) -> None:
            """Take the result, in Trio's thread."""
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
        """The state of the store."""
        return self._status

    def statistics(self) -> StoreStatistics:
        """Return the counts since the store was opened. `size` is that of a file, in bytes,
        else 0.
        """
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
        """Wake everything that waits for the store, and update the status."""
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
    """Return the size of a file in bytes; 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def service_of(store: Store) -> StoreService:
    """Return the service of a store. Raises `TypeError` for an object of another kind."""
    if not isinstance(store, StoreService):
        raise TypeError(f"`store` must be a Store from agentrt.store.open_store, not {store!r}")
    return store
