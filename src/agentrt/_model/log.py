"""The numbered log of one session, and the cursors through which everybody reads it.

Appending is synchronous and never waits. The log keeps a ring of recent events; the state, which
is their fold, keeps the content. A reader that falls behind the ring is either *lossless* (a
turn's Python iterator: what it has not read is kept for it, neighbours joined and their text only
in the state) or has to start again from a snapshot (a browser).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from .._limits import Limits
from .events import (
    CommandsChanged,
    Event,
    ItemDelta,
    ItemUpdated,
    ModesChanged,
    PlanChanged,
    QueueChanged,
    TaskChanged,
    TitleChanged,
    UsageChanged,
)
from .state import History, SessionState, Snapshot, patched

JOIN: Final = 256 * 1024
"""Characters of text from which on a slow lossless reader gets the rest as another event."""

EVENT: Final = 256
"""Roughly the bytes of an event beyond its content."""

AHEAD: Final = 16
"""Events that a reader has in hand at a time: to find where it is costs as much as to read two."""


FAR: Final = sys.maxsize
"""Where a reader is that is given nothing."""


class Overrun(Exception):
    """The events asked for are no longer kept: start again from a snapshot."""


class Keeper(Protocol):
    """Keeps the batches of a log before anybody sees them."""

    def put(self, first: int, events: list[Event], size: int) -> None:
        """Take the events `first…`, which are made of messages of `size` bytes. Never waits, and
        never raises. What is kept goes to `Log.shown`, in order."""
        ...

    def check(self) -> None:
        """Raises `StoreUnavailable` while nothing new should be begun."""
        ...

    def hurry(self) -> None:
        """Something waits for the next batch: it must survive the loss of power, too."""
        ...

    @property
    def unread(self) -> bool:
        """Whether the agent is not read, because there is no room for what it says."""
        ...

    @property
    def over(self) -> bool:
        """Whether nobody waits any more for what is not kept."""
        ...


class Log:
    """`append` takes an event, `publish` gives what was appended to the readers, and wakes them.

    The two are apart so that a batch of events costs one wake-up, and is numbered, folded into the
    state and kept in one go. Whoever looks at the state sooner sees them in it, too.
    """

    def __init__(
        self, session: str, epoch: str, limits: Limits, state: SessionState, *, seq: int = 0
    ) -> None:
        """`state` is that at event `seq`: what was logged before is not kept here."""
        self.session = session
        self.epoch = epoch
        self.shown = self
        """The log that is read: this one or, where a keeper takes the batches, the one that it
        gives them to."""
        self._source = self
        self.keeper: Keeper | None = None
        """What takes the batches, if anything does."""
        self.observer: Callable[[list[Event], int], None] | None = None
        """Called with each batch and its size before anybody sees it, also where it is not kept
        yet. It must not block, raise or append."""
        self._new: list[Event] = []
        """What is not in the state yet."""
        self.append: Final[Callable[[Event], None]] = self._new.append
        """Take the next event."""
        self._state = state
        self._seq = seq
        """The number of the last event that is in the state."""
        self._events: list[Event] = []
        self._first = seq + 1
        self._limits = limits
        self._ring_events, self._ring_bytes = limits.ring_events, limits.ring_bytes
        self._batches: deque[tuple[int, int]] = deque()  # (events, bytes) of each `publish`
        self._weighed = 0  # how many of `_events` are in `_batches`
        self._bytes = 0
        self.arrived = 0
        """Bytes of the messages that the next events are made of, if they are of any. That bounds
        what the events hold, and is known without looking into each of them."""
        self._lossless: set[Cursor] = set()
        self._wakers: tuple[Callable[[], None], ...] = ()

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self._seq + len(self._new)

    @property
    def state(self) -> SessionState:
        """The fold of all events."""
        if self._new:
            self._fold()
        return self._state

    def _fold(self) -> None:
        new, take = self._new, self._state.table
        for event in new:
            take[type(event)](event)
        self._events += new
        self._seq += len(new)
        new.clear()

    def publish(self) -> None:
        """Wake whoever waits for events, and keep the ring within its bounds."""
        if self._new:
            self._fold()
        arrived = self.arrived
        self.arrived = 0
        kept = len(self._events)
        new = kept - self._weighed
        if not new:
            return
        if self.observer is not None:
            self.observer(self._events[-new:], arrived)
        if self.keeper is not None:
            events, self._events = self._events, []
            self._first = self._seq + 1
            self.keeper.put(self._first - new, events, arrived)
            return
        size = arrived + EVENT * new
        self._batches.append((new, size))
        self._weighed = kept
        self._bytes = held = self._bytes + size
        for wake in self._wakers:
            wake()
        if kept > self._ring_events or held > self._ring_bytes:
            self._cut(self._ring_events, self._ring_bytes)

    def keep(self, keeper: Keeper, shown: Log) -> None:
        """Give all batches to `keeper` from now on, behind those that are published. What it keeps
        goes to `shown`, a log that is equal to this one and is read in its stead."""
        self._fold()
        self.keeper = keeper
        self._events, self._first = [], self._seq + 1
        self._batches.clear()
        self._weighed = self._bytes = 0
        self.shown = shown
        shown._source = self

    def extend(self, events: list[Event], size: int) -> None:
        """Append a whole batch, made of messages of so many bytes, and publish it."""
        self._new += events
        self.arrived = size
        self.publish()

    @property
    def behind(self) -> bool:
        """Whether there are events that are not shown yet."""
        return self.shown.seq != self.seq

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called after each batch; returns the function that ends it. `wake` must not
        block, raise or append."""
        self._wakers = (*self._wakers, wake)

        def leave() -> None:
            self._wakers = tuple(each for each in self._wakers if each is not wake)

        return leave

    def snapshot(self) -> Snapshot:
        """All of it."""
        return self.state.snapshot(self.session, self.epoch, self.seq)

    def recent(self) -> Snapshot:
        """The last turns, in a time that does not depend on how many there are."""
        limits = self._limits
        turns, items = limits.snapshot_turns, limits.snapshot_items
        return self.state.snapshot(self.session, self.epoch, self.seq, turns=turns, items=items)

    def history(self, before: str, turns: int | None = None) -> History:
        """The turns ahead of an item, so many or as a snapshot has. Raises `KeyError`."""
        return self.state.history(before, self._most(turns), self._limits.snapshot_items)

    def lacks(self, before: str | None, turns: int | None = None) -> bool:
        """Whether something of that is left in a store; None: of all."""
        return self.state.lacks(before, self._most(turns), self._limits.snapshot_items)

    def _most(self, turns: int | None) -> int:
        most = self._limits.snapshot_turns
        return most if turns is None else min(turns, most)

    def since(self, seq: int) -> list[Event]:
        """The events after `seq`, which may be merged by the caller. Raises `Overrun`."""
        self._fold()
        if seq < self._first - 1 or seq > self._seq:
            raise Overrun(seq)
        return self._events[seq - self._first + 1 :]

    @property
    def kept_after(self) -> int:
        """The events behind this number are still kept."""
        return self._first - 1

    def cursor(self, after: int | None = None, *, lossless: bool = False) -> Cursor:
        """A reader that starts behind event `after` (default: behind the last one, shown yet or
        not)."""
        newest = self._source.seq
        start = newest if after is None else after
        if start < self._first - 1 or start > newest:
            raise Overrun(start)
        cursor = Cursor(self, start)
        if lossless:
            self._lossless.add(cursor)
        return cursor

    def _cut(self, count: int, size: int) -> None:
        """Drop the oldest batches down to three quarters of the bounds (so that it is rare), but
        never the newest one."""
        batches = self._batches
        drop = 0
        while len(batches) > 1 and (
            self._weighed - drop > count * 3 // 4 or self._bytes > size * 3 // 4
        ):
            events, weight = batches.popleft()
            drop += events
            self._bytes -= weight
        late = [cursor for cursor in self._lossless if cursor.seq < self._first - 1 + drop]
        if late:
            gone = self._placed(drop)
            for cursor in late:
                cursor._keep(gone, self._first)
        del self._events[:drop]
        self._weighed -= drop
        self._first += drop

    def _placed(self, count: int) -> list[Event | _Slice]:
        """The oldest events, their text as places in the state's."""
        ends: dict[str, int | None] = {}
        placed: list[Event | _Slice] = []
        for event in reversed(self._events):  # the state has the text of all of them
            if isinstance(event, ItemDelta):
                end = ends[event.item] if event.item in ends else self.state.length(event.item)
                if end is None:
                    placed.append(event)
                else:
                    ends[event.item] = start = end - len(event.text)
                    placed.append(_Slice(type(event), event.item, start, end))
            else:
                placed.append(event)
        placed.reverse()
        return placed[:count]


class _Slice(Struct):
    """A piece of an item's text, as a place in it: the state keeps the text, once for all."""

    kind: type[ItemDelta]
    item: str
    start: int
    end: int


class Cursor:
    """One reader's place in the log.

    What comes next is in hand: who reads much takes it from `ready`, and calls `more` when that is
    empty.
    """

    __slots__ = ("_end", "_kept", "_log", "ready")

    def __init__(self, log: Log, seq: int) -> None:
        self._log = log
        self._end = seq  # the number of the last event in hand
        self._kept: deque[tuple[int, Event | _Slice]] | None = None
        self.ready: list[Event] = []
        """The events in hand, the next one last. Always the same list."""

    @property
    def seq(self) -> int:
        """The number of the last event it has given or passed over."""
        return self._log.seq if self._end == FAR else self._end - len(self.ready)

    def pop(self) -> Event | None:
        """The next event, or None when there is none yet. Raises `Overrun` (never if lossless)."""
        return self.ready.pop() if self.ready or self.more() else None

    def more(self) -> bool:
        """Take the next events in hand, where there are any: `ready` must be empty. Raises as
        `pop`."""
        log, end = self._log, self._end
        if self._kept:
            self._end, kept = self._kept.popleft()
            if isinstance(kept, _Slice):
                kept = kept.kind(kept.item, log.state.part(kept.item, kept.start, kept.end))
            self.ready.append(kept)
            return True
        if end >= log._seq:
            if not log._new:
                return False
            log._fold()
            if end >= log._seq:
                return False
        at = end + 1 - log._first
        if at < 0:
            raise Overrun(end)
        ready = self.ready
        ready += log._events[at : at + AHEAD]
        ready.reverse()
        self._end = end + len(ready)
        return True

    def pause(self) -> None:
        """Give nothing, whatever comes, until `skip` says what to go on behind."""
        self.skip(FAR)

    def skip(self, seq: int) -> None:
        """Give nothing up to event `seq` any more."""
        self._kept = None
        self.ready.clear()
        self._end = seq

    def close(self) -> None:
        """Stop keeping what this reader has not read."""
        self._log._lossless.discard(self)
        self.skip(self.seq)

    def _keep(self, events: list[Event | _Slice], first: int) -> None:
        """Events `first…` are about to leave the ring: keep the unread ones, neighbours joined."""
        if self._kept is None:
            self._kept = deque()
        kept = self._kept
        if self._end < first:  # what is in hand, if anything is, was kept before
            kept.extendleft((self._end, event) for event in self.ready)
        self._end = self.seq
        self.ready.clear()
        unread = max(0, self.seq - first + 1)
        for seq, event in enumerate(events[unread:], first + unread):
            both = _both(kept[-1][1], event) if kept else None
            if both is not None:
                kept[-1] = (seq, both)
            else:
                kept.append((seq, event))


def _both(last: Event | _Slice, event: Event | _Slice) -> Event | _Slice | None:
    """One for two neighbours, where there is one of reasonable size."""
    if isinstance(event, _Slice):
        if (
            isinstance(last, _Slice)
            and last.item == event.item
            and last.end == event.start
            and last.end - last.start < JOIN
        ):
            return _Slice(last.kind, last.item, last.start, event.end)
        return None
    return None if isinstance(last, _Slice) else joined(last, event)


_WHOLE: Final = (
    CommandsChanged,
    ModesChanged,
    PlanChanged,
    QueueChanged,
    TitleChanged,
    UsageChanged,
)
"""Events that carry the whole new value: the later one says it all."""


def joined(last: Event, event: Event) -> Event | None:
    """One event with the effect of two neighbours that are no text, where there is one."""
    if isinstance(event, ItemUpdated):
        if isinstance(last, ItemUpdated) and last.item == event.item:
            return ItemUpdated(event.item, patched(last.patch, event.patch))
    elif isinstance(event, TaskChanged):
        if isinstance(last, TaskChanged) and last.task.id == event.task.id:
            return event
    elif isinstance(event, _WHOLE) and type(last) is type(event):
        return event
    return None
