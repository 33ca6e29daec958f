"""The thread that writes a store: it commits everything that waits together, then acknowledges it.

No session waits for it while it runs. While one flush is being committed, the next one is gathered;
text, which arrives in quick succession, is gathered a little longer.
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

from .._errors import SessionMoved, StoreUnavailable
from .._limits import Limits
from .._logging import get_logger
from .._model.checkpoint import Head, Record
from .._model.events import Event
from .base import Answer, Backend, Fenced, Flush, Job, Part, Place, Row, Unusable

logger = get_logger("store")

RETRY: Final = (0.1, 2.0)
"""Seconds between a failed commit and the next attempt: initially, and at most."""

IDLE: Final = 1.0
"""Seconds without a flush after which postponed work is done."""

TIDY: Final = 60.0
"""Seconds between two searches for data that need not be kept any longer."""


class Source(Protocol):
    """The session, or answer, whose batches are written."""

    place: Place

    def kept(self, last: int) -> None:
        """Everything up to event `last` is committed. Called in Trio's thread."""
        ...

    def fenced(self, error: SessionMoved) -> None:
        """Nothing more of the session will be committed. Called in Trio's thread."""
        ...


class Batch(Struct):
    """Consecutive events, and the session's row, head and record after them. `events` is empty if
    there are only `answers` to store."""

    source: Source
    first: int
    events: list[Event]
    size: int
    firm: bool = False
    row: Row | None = None
    head: Head | None = None
    record: Record | None = None
    answers: list[Answer] = []


class Call(Struct):
    """Another job for the thread, done in queue order. `done` is called in Trio's thread, with the
    result or the error."""

    job: Job[Any]
    done: Callable[[Any, Exception | None], None]


class Observer(Protocol):
    """Receives the state of the store, in Trio's thread."""

    def failing(self, error: Exception, *, final: bool) -> None:
        """A commit has failed, and is retried unless `final`."""
        ...

    def well(self) -> None:
        """The store can be written again."""
        ...


class Writer(trio.abc.Instrument):
    """The writer of a store. `run` is the thread's function; all other methods are called in Trio's
    thread. The thread is woken at the end of a pass of Trio's loop: earlier, it would compete for
    the interpreter with tasks that still have items to put."""

    def __init__(
        self,
        backend: Backend,
        tell: Callable[..., None],
        observer: Observer,
        limits: Limits,
    ) -> None:
        """`tell` calls a function, with arguments, in Trio's thread."""
        self._backend = backend
        self._tell = tell
        self._observer = observer
        self._limits = limits
        self._queue: deque[Batch | Call | None] = deque()
        self._put = self._firm = False  # in this pass: any items, and items that are waited for
        self._more, self._hurry = threading.Lock(), threading.Lock()
        """Released when something is queued, and when a task waits for it."""
        self._more.acquire()
        self._hurry.acquire()
        self._stopping = threading.Event()
        self._unusable: Exception | None = None
        self._tidied = 0.0
        self.commits = 0
        self.commit_seconds = 0.0
        self.failures = 0
        """Number of failed commits. Can be read from any thread."""
        self.fenced: set[Place] = set()
        """Sessions that were found to belong to another process."""
        self._behind = False
        """True if there was a flush since the backend did its postponed work."""

    @property
    def takeovers(self) -> int:
        """Number of sessions claimed from a process that is gone."""
        return self._backend.takeovers

    def put(self, item: Batch | Call | None) -> None:
        """Queue an item. Never waits."""
        self._queue.append(item)
        self._put = True
        if not isinstance(item, Batch) or item.firm:
            self._firm = True

    def before_io_wait(self, timeout: float) -> None:
        """Wake the thread if items were put in this pass of Trio's loop."""
        if self._put:
            self._put = False
            if self._more.locked():
                self._more.release()
            if self._firm:
                self._firm = False
                if self._hurry.locked():
                    self._hurry.release()

    def stop(self) -> None:
        """Let the thread end when it has written the queue. Items that cannot be written now are
        retried once, and then lost."""
        self._stopping.set()
        self.put(None)

    def run(self) -> bool:
        """Run until `stop`. Returns true if everything that was queued is stored."""
        stored = True
        while (item := self._next()) is not None:
            if isinstance(item, Call):
                self._call(item)
            else:
                begun = time.monotonic()
                self._hurry.acquire(blocking=False)  # clear it for the items queued so far
                batches = self._gather(item)
                waits = bool(self._queue)  # a call, or more than fits in one flush, waits for this
                stored = self._flush(batches) and stored
                del batches  # as `item` below
                self._behind = True
                self._rest(begun, gathers=not waits)
                if not self._queue:
                    self._tidy()
            del item  # its session may be freed while nothing else is written
        if stored and self._unusable is None:
            self._tidied = 0.0
            self._tidy()
            self._try(lambda backend: backend.finish())
        return stored

    def _next(self) -> Batch | Call | None:
        while not self._queue:
            self._more.acquire(blocking=False)  # clear it for items that were taken already
            if self._queue:
                break
            if not self._more.acquire(timeout=IDLE if self._behind else -1):
                self._behind = False
                self._try(lambda backend: backend.catch_up())
        return self._queue.popleft()

    def _rest(self, begun: float, *, gathers: bool) -> None:
        """Wait for items that follow directly after a flush that started at `begun`. Waiting here,
        and not on the first new item, wakes the thread only once for all of them."""
        backend = self._backend
        if gathers and (left := begun + backend.gather - time.monotonic()) > 0:
            self._hurry.acquire(timeout=left)
        if (left := begun + backend.rest - time.monotonic()) > 0:
            self._stopping.wait(left)

    def _gather(self, batch: Batch) -> list[Batch]:
        """Take queued batches, up to the size of a flush."""
        batches, size = [batch], batch.size
        queue = self._queue
        while queue and size < self._limits.store_flush and isinstance(item := queue[0], Batch):
            queue.popleft()
            batches.append(item)
            size += item.size
        return batches

    def _flush(self, batches: Sequence[Batch]) -> bool:
        flush = gathered(batches)
        failing = False
        delay, most = RETRY
        while self._unusable is None:
            begun = time.monotonic()
            try:
                self._backend.commit(flush)
            except Fenced as error:
                places = error.places
                self.fenced |= places
                self._tell(_fence, {b.source for b in batches if b.source.place in places})
                batches = [b for b in batches if b.source.place not in places]
                flush = gathered(batches)
            except Exception as error:
                self.failures += 1
                final = isinstance(error, Unusable) or self._stopping.is_set()
                if final:
                    self._unusable = error
                if final or not failing:
                    logger.exception("the store cannot be written")
                    self._tell(partial(self._observer.failing, error, final=final))
                failing = True
                self._stopping.wait(delay)
                delay = min(delay * 2, most)
            else:
                self.commits += 1
                self.commit_seconds += time.monotonic() - begun
                if failing:
                    self._tell(self._observer.well)
                self._tell(_acknowledge, {b.source: b.first + len(b.events) - 1 for b in batches})
                return True
        return False

    def _call(self, call: Call) -> None:
        try:
            if self._unusable is not None:
                raise StoreUnavailable(f"the store cannot be written: {self._unusable}")
            result = call.job(self._backend)
        except Exception as error:
            self._tell(call.done, None, error)
        else:
            self._tell(call.done, result, None)

    def _tidy(self) -> None:
        now = time.monotonic()
        if self._unusable is None and now - self._tidied > TIDY:
            self._tidied = now
            limits = self._limits
            self._try(lambda backend: backend.tidy(limits.store_events, limits.store_answers))

    def _try(self, job: Job[None]) -> None:
        """Run work that can be postponed: a failure is only logged."""
        try:
            job(self._backend)
        except Exception as error:
            logger.warning("the store could not be tidied: %s", error)


def gathered(batches: Sequence[Batch]) -> Flush:
    """Combine batches, which are in order, into one flush."""
    parts: dict[Place, Part] = {}
    firm = False
    answers: list[Answer] = []
    for batch in batches:
        firm = firm or batch.firm
        answers += batch.answers
        if not batch.events:
            continue
        part = parts.get(batch.source.place)
        if part is None:
            events = batch.events
            part = parts[batch.source.place] = Part(batch.source.place, batch.first, list(events))
        else:
            part.events += batch.events
        part.row = batch.row or part.row
        part.head = batch.head or part.head
        if batch.record is not None:
            part.records[batch.record.number] = batch.record
    return Flush(list(parts.values()), firm, answers)


def _fence(sources: Collection[Source]) -> None:
    for source in sources:
        source.fenced(
            SessionMoved(
                "another process goes on with this session, or has deleted it: nothing more of it"
                " is stored here"
            )
        )


def _acknowledge(kept: dict[Source, int]) -> None:
    for source, last in kept.items():
        source.kept(last)
