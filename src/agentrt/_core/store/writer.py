"""The thread that writes a store: it commits everything that waits together, then acknowledges it.

No session waits for it while it runs. While one flush is being committed, the next one is gathered;
text, which arrives in quick succession, is gathered a little longer.

Items are put in Trio's thread and taken in the writer's. The queue is a `deque`, whose operations
are atomic; two locks serve as wake-up signals. `_more` is released when items are there, and
`_hurry` when a task waits for one of them. Both are released at the end of a pass of Trio's loop
(`before_io_wait`), once for all items of the pass.

A commit that fails is repeated until it succeeds, the store is found unusable, or the writer stops.
Nothing after it is written in the meantime, so the order of events is kept.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, Protocol

import trio
from msgspec import Struct

from ..errors import SessionMoved, StoreUnavailable
from ..limits import Limits
from ..logging import get_logger
from ..model.checkpoint import Head, Record
from ..model.events import Event
from .base import (
    Backend,
    CommandAnswer,
    Fenced,
    Flush,
    FlushPart,
    Job,
    SessionClaim,
    SessionRow,
    Unusable,
)

logger = get_logger("store")

RETRY_DELAYS_S: Final = (0.1, 2.0)
"""Seconds between a failed commit and the next attempt: initially, and at most."""

IDLE_S: Final = 1.0
"""Seconds without a flush after which postponed work is done."""

TIDY_INTERVAL_S: Final = 60.0
"""Seconds between two searches for data that need not be kept any longer."""


class BatchSource(Protocol):
    """The session, or the answer, that batches come from."""

    place: SessionClaim

    def committed(self, last: int) -> None:
        """Handle that everything up to event `last` is committed. Called in Trio's thread."""
        ...

    def fenced(self, error: SessionMoved) -> None:
        """Handle that nothing more of the session will be committed. Called in Trio's thread."""
        ...


class Batch(Struct):
    """Consecutive events, and the session's row, head and record after them. `events` is empty if
    there are only `answers` to store."""

    source: BatchSource
    first: int
    events: list[Event]
    size: int
    fsync: bool = False
    row: SessionRow | None = None
    head: Head | None = None
    record: Record | None = None
    answers: list[CommandAnswer] = []


class WriterJob(Struct):
    """Another job for the thread, done in queue order. `done` is called in Trio's thread, with the
    result or the error."""

    job: Job[Any]
    done: Callable[[Any, Exception | None], None]


class WriterObserver(Protocol):
    """Receives the state of the store, in Trio's thread."""

    def failing(self, error: Exception, *, final: bool) -> None:
        """A commit has failed, and is retried unless `final`."""
        ...

    def well(self) -> None:
        """The store can be written again."""
        ...


class StoreWriter(trio.abc.Instrument):
    """The writer of a store. `run` is the thread's function; all other methods are called in Trio's
    thread. The thread is woken at the end of a pass of Trio's loop: earlier, it would compete for
    the interpreter with tasks that still have items to put."""

    def __init__(
        self,
        backend: Backend,
        call_soon: Callable[..., None],
        limits: Limits,
    ) -> None:
        """`call_soon` calls a function, with arguments, in Trio's thread."""
        self._backend = backend
        self._call_soon = call_soon
        self._limits = limits
        self._queue: deque[Batch | WriterJob | None] = deque()
        self._put = self._fsync = False  # in this pass: any items, and items that are waited for
        self._more, self._hurry = threading.Lock(), threading.Lock()
        """Released when something is queued, and when a task waits for it."""
        self._more.acquire()
        self._hurry.acquire()
        self._stopping = threading.Event()
        self._used: trio.Event | None = None
        """Set by the next `put`; None if no task waits for that."""
        self._unusable: Exception | None = None
        self._tidied = 0.0
        self.commits: int = 0
        self.commit_seconds: float = 0.0
        self.failures: int = 0
        """Number of failed commits. Can be read from any thread."""
        self.fenced: set[SessionClaim] = set()
        """Sessions that were found to belong to another process."""
        self._has_postponed = False
        """True if there was a flush since the backend did its postponed work."""

    @property
    def takeovers(self) -> int:
        """Number of sessions claimed from a process that is gone."""
        return self._backend.takeovers

    def put(self, item: Batch | WriterJob | None) -> None:
        """Queue an item. Never waits."""
        self._queue.append(item)
        self._put = True
        if not isinstance(item, Batch) or item.fsync:
            self._fsync = True
        if self._used is not None:
            self._used.set()
            self._used = None

    async def wait_for_item(self) -> None:
        """Wait until the next item is put. For one task at a time."""
        self._used = trio.Event()
        await self._used.wait()

    def before_io_wait(self, timeout: float) -> None:
        """Wake the thread if items were put in this pass of Trio's loop."""
        if self._put:
            self._put = False
            if self._more.locked():
                self._more.release()
            if self._fsync:
                self._fsync = False
                if self._hurry.locked():
                    self._hurry.release()

    def stop(self) -> None:
        """Let the thread end when it has written the queue. Items that cannot be written now are
        retried once, and then lost."""
        self._stopping.set()
        self.put(None)

    def run(self, observer: WriterObserver) -> bool:
        """Run until `stop`. `observer` receives the state of the store.

        Returns true if everything that was queued is stored.
        """
        stored = True
        while (item := self._next()) is not None:
            if isinstance(item, WriterJob):
                self._call(item)
            else:
                begun = time.monotonic()
                self._hurry.acquire(blocking=False)  # clear it for the items queued so far
                batches = self._gather(item)
                waits = bool(self._queue)  # a call, or more than fits in one flush, waits for this
                stored = self._flush(batches, observer) and stored
                del batches  # as `item` below
                self._has_postponed = True
                self._wait_for_more(begun, gathers=not waits)
                if not self._queue:
                    self._tidy()
            del item  # its session may be freed while nothing else is written
        if stored and self._unusable is None:
            self._tidied = 0.0
            self._tidy()
            self._try(lambda backend: backend.finish())
        return stored

    def _next(self) -> Batch | WriterJob | None:
        """Wait for the next item; None means that the writer must stop.

        When nothing was written for `IDLE_S`, the backend does its postponed work.
        """
        while not self._queue:
            self._more.acquire(blocking=False)  # clear it for items that were taken already
            if self._queue:
                break
            if not self._more.acquire(timeout=IDLE_S if self._has_postponed else -1):
                self._has_postponed = False
                self._try(lambda backend: backend.catch_up())
        return self._queue.popleft()

    def _wait_for_more(self, begun: float, *, gathers: bool) -> None:
        """Wait for items that follow directly after a flush that started at `begun`. Waiting here,
        and not on the first new item, wakes the thread only once for all of them."""
        backend = self._backend
        if gathers and (left := begun + backend.gather_s - time.monotonic()) > 0:
            self._hurry.acquire(timeout=left)
        if (left := begun + backend.min_interval_s - time.monotonic()) > 0:
            self._stopping.wait(left)

    def _gather(self, batch: Batch) -> list[Batch]:
        """Take queued batches, up to the size of a flush."""
        batches, size = [batch], batch.size
        queue = self._queue
        while (
            queue and size < self._limits.store_flush_bytes and isinstance(item := queue[0], Batch)
        ):
            queue.popleft()
            batches.append(item)
            size += item.size
        return batches

    def _flush(self, batches: Sequence[Batch], observer: WriterObserver) -> bool:
        """Commit batches of several sessions, and report it to them. Runs in the writer's thread.

        Failed commits are repeated with growing delays until the writer stops or the store is
        unusable. Sessions that another server has taken over are fenced, and the others are
        committed without them. Returns False if nothing can be written any more.
        """
        flush = gathered(batches)
        failing = False
        delay, most = RETRY_DELAYS_S
        while self._unusable is None:
            begun = time.monotonic()
            try:
                self._backend.commit(flush)
            except Fenced as error:
                places = error.places
                self.fenced |= places
                self._call_soon(_fence, {b.source for b in batches if b.source.place in places})
                batches = [b for b in batches if b.source.place not in places]
                flush = gathered(batches)
            except Exception as error:
                self.failures += 1
                final = isinstance(error, Unusable) or self._stopping.is_set()
                if final:
                    self._unusable = error
                if final or not failing:
                    logger.exception("the store cannot be written")
                    self._call_soon(partial(observer.failing, error, final=final))
                failing = True
                self._stopping.wait(delay)
                delay = min(delay * 2, most)
            else:
                self.commits += 1
                self.commit_seconds += time.monotonic() - begun
                if failing:
                    self._call_soon(observer.well)
                self._call_soon(
                    _acknowledge, {b.source: b.first + len(b.events) - 1 for b in batches}
                )
                return True
        return False

    def _call(self, call: WriterJob) -> None:
        """Run a job and send its result or its error to Trio's thread."""
        try:
            if self._unusable is not None:
                raise StoreUnavailable(f"the store cannot be written: {self._unusable}")
            result = call.job(self._backend)
        except Exception as error:
            self._call_soon(call.done, None, error)
        else:
            self._call_soon(call.done, result, None)

    def _tidy(self) -> None:
        """Let the backend delete old data, once per `TIDY_INTERVAL_S` at most."""
        now = time.monotonic()
        if self._unusable is None and now - self._tidied > TIDY_INTERVAL_S:
            self._tidied = now
            limits = self._limits
            self._try(
                lambda backend: backend.tidy(
                    limits.store_events_lifetime_s, limits.store_answers_lifetime_s
                )
            )

    def _try(self, job: Job[None]) -> None:
        """Run work that can be postponed: a failure is only logged."""
        try:
            job(self._backend)
        except Exception as error:
            logger.warning("the store could not be tidied: %s", error)


def gathered(batches: Sequence[Batch]) -> Flush:
    """Combine batches, which are in order, into one flush."""
    parts: dict[SessionClaim, FlushPart] = {}
    fsync = False
    answers: list[CommandAnswer] = []
    for batch in batches:
        fsync = fsync or batch.fsync
        answers += batch.answers
        if not batch.events:
            continue
        part = parts.get(batch.source.place)
        if part is None:
            events = batch.events
            part = parts[batch.source.place] = FlushPart(
                batch.source.place, batch.first, list(events)
            )
        else:
            part.events += batch.events
        part.row = batch.row or part.row
        part.head = batch.head or part.head
        if batch.record is not None:
            part.records[batch.record.number] = batch.record
    return Flush(list(parts.values()), fsync, answers)


def _fence(sources: Collection[BatchSource]) -> None:
    """Report to sessions that they were taken over, in Trio's thread."""
    for source in sources:
        source.fenced(
            SessionMoved(
                "another process has continued or deleted this session: its new events are not"
                " stored here"
            )
        )


def _acknowledge(committed: dict[BatchSource, int]) -> None:
    """Report committed events to their sessions, in Trio's thread."""
    for source, last in committed.items():
        source.committed(last)
