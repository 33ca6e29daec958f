"""The numbered log of one session, and the cursors that read it.

Appending is synchronous and never waits. The log keeps a ring of recent events; their fold, the
state, keeps the content. A reader that is too slow for the ring is either *lossless* or must start
again from a snapshot (a browser). Lossless is a turn's Python iterator: its unread events are kept
for it, with neighbours joined and their text only in the state.

With a store there are two logs for a session. The conversation appends to the first, whose state is
ahead; its batches go to the persister, and once they are stored, `extend` appends them to the
second (`shown`), which all readers read. Without a store both are the same object.

An event costs an `append` to a plain list. Numbers, the state, the ring and the readers are updated
once per batch (`publish`), or when someone needs the state earlier (`_fold`).
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from ..errors import AgentrtError
from ..limits import Limits
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
from .state import History, PageRoom, SessionState, Snapshot, patched

JOINED_CHARS: Final = 256 * 1024
"""Characters of joined text after which a slow lossless reader gets the remaining text as another
event.
"""

EVENT_BYTES: Final = 256
"""Approximate size of an event without its content, in bytes."""

READ_AHEAD_EVENTS: Final = 16
"""Events that a reader fetches at a time: finding its position costs as much as reading two."""

GROUP_EVENTS: Final = 256
"""The number of events from which on whole batches of the ring form a group."""

RING_GROUPS: Final = 16
"""The ring is in at least about as many groups, because it is cut between two of them."""

PAUSED_SEQ: Final = sys.maxsize
"""The position of a paused reader."""


class EventsExpired(AgentrtError):
    """The requested events have been dropped; start again from a snapshot."""

    __module__ = "agentrt.errors"  # the public import path


class Persister(Protocol):
    """Stores the batches of a log before readers see them."""

    def put(self, first: int, events: list[Event], size: int) -> None:
        """Take the events from number `first`, made of messages of `size` bytes.

        Never waits and never raises. Stored events go to `Log.shown`, in order.
        """
        ...

    def check(self) -> None:
        """Raise `StoreUnavailable` while no new work may start."""
        ...

    def hurry(self) -> None:
        """Make the next batch survive a loss of power as well, because something waits for it."""
        ...

    @property
    def unread(self) -> bool:
        """True if reading from the agent has stopped, because its messages do not fit into the
        buffer.
        """
        ...

    @property
    def over(self) -> bool:
        """True if nothing waits any more for events that are not stored."""
        ...


class Log:
    """The event log of a session.

    `append` takes an event; `publish` gives the appended events to the readers and wakes them. They
    are separate so that a batch of events is numbered, folded into the state and kept in one step,
    and wakes readers once. Code that reads the state before `publish` already sees the appended
    events in it.
    """

    def __init__(
        self, session: str, epoch: str, limits: Limits, state: SessionState, *, seq: int = 0
    ) -> None:
        """Start a log after event `seq`, with `state` as the state at that event.

        Earlier events are not kept here.
        """
        self.session = session
        self.epoch = epoch
        self._shown: Log | None = None
        """The log that this one is read from, if a keeper takes the batches."""
        self._source: Log | None = None
        """The log that is read from this one, if any."""
        self.persister: Persister | None = None
        """Takes the batches, if set."""
        self._observers: tuple[Callable[[list[Event], int], None], ...] = ()
        self._new: list[Event] = []
        """Events that are not in the state yet."""
        self.append: Final[Callable[[Event], None]] = self._new.append
        """Append the next event."""
        self._state = state
        self._seq = seq
        """The number of the last event in the state."""
        self._events: list[Event] = []
        """The newest events of the ring, with those that are not published yet."""
        self._first = seq + 1
        """The number of the first of `_events`."""
        self._published = 0
        """The number of `_events` that are published."""
        self._bytes = 0
        """The size of those, in bytes."""
        self._groups: list[_Group] = []
        """The older events of the ring. The garbage collector looks through a list each time, and
        through a tuple of events only once.
        """
        self._group_bytes = 0
        self._limits = limits
        self._ring_events, self._ring_bytes = limits.recent_events, limits.recent_events_bytes
        self._group_events = min(GROUP_EVENTS, max(1, limits.recent_events // RING_GROUPS))
        self.arrived: int = 0
        """Bytes of the messages that the next events are made of, or 0. This bounds the size of the
        events without a look into each of them.
        """
        self._wakers: tuple[Callable[[], None], ...] = ()
        self._lossless: set[Cursor] = set()
        """The readers for which dropped events are kept."""

    @property
    def shown(self) -> Log:
        """The log to read from: this one or, if a keeper takes the batches, the one it forwards
        them to.
        """
        return self if self._shown is None else self._shown

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self._seq + len(self._new)

    @property
    def state(self) -> SessionState:
        """The fold of all events, always the same object."""
        if self._new:
            self._fold()
        return self._state

    def _fold(self) -> None:
        """Apply the new events to the state, and number them."""
        new, state = self._new, self._state
        take = state.HANDLERS
        for event in new:
            take[type(event)](state, event)
        self._events += new
        self._seq += len(new)
        new.clear()

    def publish(self) -> None:
        """Wake the waiting readers and keep the ring within its bounds."""
        if self._new:
            self._fold()
        arrived = self.arrived
        self.arrived = 0
        kept, published = len(self._events), self._published
        new = kept - published
        if not new:
            return
        for observer in self._observers:
            observer(self._events[-new:], arrived)
        if self.persister is not None:
            events, self._events = self._events, []
            self._first = self._seq + 1
            self.persister.put(self._first - new, events, arrived)
            return
        if published >= self._group_events or self._bytes * RING_GROUPS >= self._ring_bytes:
            self._close_group()
        self._published = len(self._events)
        self._bytes += arrived + EVENT_BYTES * new
        for wake in self._wakers:
            wake()
        if self._groups and (
            self._seq - self.kept_after > self._ring_events
            or self._bytes + self._group_bytes > self._ring_bytes
        ):
            self._cut()

    def persist_with(self, keeper: Persister, shown: Log) -> None:
        """Give all later batches to `keeper`.

        Stored batches go to `shown`, a log equal to this one, which is read instead of it.
        """
        self._fold()
        self.persister = keeper
        self._events, self._first = [], self._seq + 1
        self._groups.clear()
        self._published = self._bytes = self._group_bytes = 0
        self._shown = shown
        shown._stand_for(self)

    def _stand_for(self, source: Log | None) -> None:
        """Be read instead of this log; None to end that."""
        self._source = source

    def stop_persisting(self) -> None:
        """Give no more batches to the keeper."""
        self.persister = None
        if self._shown is not None:
            self._shown._stand_for(None)

    def extend(self, events: list[Event], size: int) -> None:
        """Append a whole batch, made of messages of `size` bytes, and publish it."""
        self._new += events
        self.arrived = size
        self.publish()

    @property
    def behind(self) -> bool:
        """True if there are events that are not shown yet."""
        return self.shown.seq != self.seq

    def observe(self, observer: Callable[[list[Event], int], None]) -> None:
        """Call `observer` with each later batch and the size of its messages in bytes.

        It gets a batch before readers see it, even if it is not stored yet. It must not block,
        raise or append.
        """
        self._observers += (observer,)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each batch. Returns the function that unsubscribes it.

        `wake` must not block, raise or append.
        """
        self._wakers = (*self._wakers, wake)
        return partial(self._leave, wake)

    def _leave(self, left: Callable[[], None]) -> None:
        """Stop calling `left`."""
        self._wakers = tuple(each for each in self._wakers if each is not left)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the whole session."""
        return self.state.snapshot(self.session, self.epoch, self.seq)

    def recent(self, room: PageRoom | None = None) -> Snapshot:
        """Return a snapshot of the last turns, in a time independent of their total number.

        `room`: the room for its items, whose texts may be incomplete then.
        """
        limits = self._limits
        turns, items = limits.snapshot_turns, limits.snapshot_items
        return self.state.snapshot(
            self.session, self.epoch, self.seq, turns=turns, items=items, room=room
        )

    def history(
        self, before: str, turns: int | None = None, room: PageRoom | None = None
    ) -> History:
        """Return up to `turns` turns before an item (default: as many as in a snapshot).

        `room`: as in `recent`. Raises `KeyError` if the item does not exist.
        """
        return self.state.history(before, self._most(turns), self._limits.snapshot_items, room)

    def lacks(self, before: str | None, turns: int | None = None) -> bool:
        """Return True if part of that history is only in a store. None means the whole history."""
        return self.state.lacks(before, self._most(turns), self._limits.snapshot_items)

    def _most(self, turns: int | None) -> int:
        """Return the number of turns of a page: at most as many as in a snapshot."""
        most = self._limits.snapshot_turns
        return most if turns is None else min(turns, most)

    def since(self, seq: int) -> list[Event]:
        """Return the events after `seq`; the caller may merge them. Raises `EventsExpired`."""
        if self._new:
            self._fold()
        if seq < self.kept_after or seq > self._seq:
            raise EventsExpired(seq)
        at = seq + 1 - self._first
        if at >= 0:
            return self._events[at:]
        found: list[Event] = []
        for group in self._groups:
            found += group.events[max(0, seq + 1 - group.first) :]
        return found + self._events

    def _read(self, seq: int) -> Sequence[Event]:
        """Return some of the events from `seq` on, which is in a group.

        Raises `EventsExpired`.
        """
        if seq <= self.kept_after:
            raise EventsExpired(seq - 1)
        group = self._groups[bisect_right(self._groups, seq, key=_first_of) - 1]
        return group.events[seq - group.first : seq - group.first + READ_AHEAD_EVENTS]

    @property
    def kept_after(self) -> int:
        """The events after this number are still kept."""
        return (self._groups[0].first if self._groups else self._first) - 1

    def cursor(self, after: int | None = None, *, lossless: bool = False) -> Cursor:
        """Return a reader that starts after event `after`.

        The default is the last event, whether or not it is shown yet. Raises `EventsExpired` if
        that position is not kept.
        """
        newest = self.seq if self._source is None else self._source.seq
        start = newest if after is None else after
        if start < self.kept_after or start > newest:
            raise EventsExpired(start)
        cursor = Cursor(self, start)
        if lossless:
            self._lossless.add(cursor)
        return cursor

    def _close_group(self) -> None:
        """Make a group of all events before the newest batch."""
        count, size = self._published, self._bytes
        self._groups.append(_Group(self._first, tuple(self._events[:count]), size))
        del self._events[:count]
        self._first += count
        self._group_bytes += size
        self._bytes = 0

    def _cut(self) -> None:
        """Drop the oldest groups down to three quarters of the bounds.

        Three quarters makes cuts rare. The newest batch is in no group and is never dropped.
        """
        groups, after = self._groups, self.kept_after
        most_events, most_bytes = self._ring_events * 3 // 4, self._ring_bytes * 3 // 4
        drop = count = 0
        while drop < len(groups) and (
            self._seq - after - count > most_events or self._bytes + self._group_bytes > most_bytes
        ):
            count += len(groups[drop].events)
            self._group_bytes -= groups[drop].size
            drop += 1
        late = [cursor for cursor in self._lossless if cursor.seq < after + count]
        if late:
            gone = self._placed(count)
            for cursor in late:
                cursor._keep(gone, after + 1)
        del groups[:drop]

    def _placed(self, count: int) -> list[Event | _Slice]:
        """Return the `count` oldest events, with their text as positions in the state's text."""
        ends: dict[str, int | None] = {}
        placed: list[Event | _Slice] = []
        for event in reversed(self.since(self.kept_after)):  # the state has the text of all of them
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


class _Group(Struct, frozen=True, gc=False):
    """Events that were published in whole batches."""

    first: int
    """The number of the first event."""
    events: tuple[Event, ...]
    size: int
    """Their size in bytes."""


def _first_of(group: _Group) -> int:
    return group.first


class _Slice(Struct):
    """A piece of an item's text, by its position: the state keeps the text only once."""

    kind: type[ItemDelta]
    item: str
    start: int
    end: int


class Cursor:
    """A reader's position in the log.

    Events are fetched into `ready`. Fast readers take them from there and call `more` when it is
    empty.
    """

    __slots__ = ("_end", "_kept", "_log", "ready")

    def __init__(self, log: Log, seq: int) -> None:
        """Create a reader that continues after event `seq`."""
        self._log = log
        self._end = seq  # the number of the last fetched event
        self._kept: deque[tuple[int, Event | _Slice]] | None = None
        self.ready: list[Event] = []
        """The fetched events, the next one last. Always the same list object."""

    @property
    def seq(self) -> int:
        """The number of the last event that was returned or skipped."""
        return self._log.seq if self._end == PAUSED_SEQ else self._end - len(self.ready)

    def pop(self) -> Event | None:
        """Return the next event, or None if it does not exist yet.

        Raises `EventsExpired`, unless lossless.
        """
        return self.ready.pop() if self.ready or self.more() else None

    def more(self) -> bool:
        """Fetch the next events; `ready` must be empty. Returns True if there were any.

        Raises `EventsExpired`, unless lossless.
        """
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
        ready, at = self.ready, end + 1 - log._first
        if at >= 0:  # most readers are not far behind
            ready += log._events[at : at + READ_AHEAD_EVENTS]
        else:
            ready += log._read(end + 1)
        ready.reverse()
        self._end = end + len(ready)
        return True

    def pause(self) -> None:
        """Return no events until `skip` sets the position to continue after."""
        self.skip(PAUSED_SEQ)

    def skip(self, seq: int) -> None:
        """Continue after event `seq`."""
        self._kept = None
        self.ready.clear()
        self._end = seq

    def close(self) -> None:
        """Stop keeping the unread events of this reader."""
        self._log._lossless.discard(self)
        self.skip(self.seq)

    def _keep(self, events: list[Event | _Slice], first: int) -> None:
        """Keep the unread ones of the events `first…`, which are leaving the ring.

        Neighbours are joined.
        """
        if self._kept is None:
            self._kept = deque()
        kept = self._kept
        if self._end < first:  # fetched events, if any, were kept before
            kept.extendleft((self._end, event) for event in self.ready)
        self._end = self.seq
        self.ready.clear()
        unread = max(0, self.seq - first + 1)
        for seq, event in enumerate(events[unread:], first + unread):
            both = _merged(kept[-1][1], event) if kept else None
            if both is not None:
                kept[-1] = (seq, both)
            else:
                kept.append((seq, event))


def _merged(last: Event | _Slice, event: Event | _Slice) -> Event | _Slice | None:
    """Merge two neighbours, if the result has a reasonable size; else return None."""
    if isinstance(event, _Slice):
        if (
            isinstance(last, _Slice)
            and last.item == event.item
            and last.end == event.start
            and last.end - last.start < JOINED_CHARS
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
"""Events that carry a complete new value, so that the later one replaces the earlier."""


def joined(last: Event, event: Event) -> Event | None:
    """Merge two neighbours that are not text, if possible; else return None."""
    if isinstance(event, ItemUpdated):
        if isinstance(last, ItemUpdated) and last.item == event.item:
            return ItemUpdated(event.item, patched(last.patch, event.patch))
    elif isinstance(event, TaskChanged):
        if isinstance(last, TaskChanged) and last.task.id == event.task.id:
            return event
    elif isinstance(event, _WHOLE) and type(last) is type(event):
        return event
    return None
