"""One session's events as frames, encoded once for all viewers.

The feed keeps the newest frames, up to the size of a viewer's outbox. A viewer has no queue of its
own, only a position in the feed. So a viewer that does not read costs one number, and a viewer that
lacks frames that are not kept starts again from a snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final, Protocol, TypeAlias

from .._core.wire.json import encode_line
from ..errors import EventsExpired
from ..events import Event, Snapshot
from ..lowlevel import Log
from .answers import pack
from .transcript import ItemIndex

FRESH_EVENTS: Final = 100
"""Maximum age, in events, of a snapshot for an overtaken viewer. The later events follow in one
frame.
"""

SNAPSHOT_EVENT_BYTES: Final = 64
EVENT_FRAME_BYTES: Final = 200
"""Bytes that an event adds to a snapshot, and bytes of its frame, as estimated without encoding
it.
"""


STALE_EVENTS: Final = 20_000
"""Events after which the size of a snapshot is measured again, because it does not grow with
them.
"""

BATCH_EVENTS: Final = 100
BATCH_BYTES: Final = 32 * 1024
"""Maximum events and bytes of one batch: batches are eight times cheaper than single events, and
larger ones gain nothing.
"""

FRAME_COST_S: Final = 1e-5
BYTE_COST_S: Final = 1e-9
"""Seconds that sending takes, per frame and per byte."""

PACE_RATIO: Final = 10
MIN_PACE_S: Final = 0.004
MAX_PACE_S: Final = 0.5
EARLY_S: Final = 0.02
"""Pacing of notifications, in seconds except `PACE_RATIO`.

A session's viewers pause for ten times the duration of notifying them, within `MIN_PACE_S` and
`MAX_PACE_S`, so notifying takes at most an eleventh of the time, however small the agent's messages
are. Messages that are rarer than that are sent immediately, even if they come up to `EARLY_S`
early.
"""

MAX_SNAPSHOT_WAIT_S: Final = 10.0
AGENT_PAUSE_S: Final = 0.02
"""Seconds: the maximum time that an overtaken viewer waits for a pause, however large the session;
and the length of a pause that suffices for a small session.
"""

Schedule: TypeAlias = Callable[[Callable[[float], None], float], None]
"""Schedules a call of a function at a time; the function gets the time."""


class FeedFollower(Protocol):
    """A follower of sessions, as their feeds see it."""

    def changed(self, feed: Feed, *, overtaken: bool = False) -> None:
        """Note new events of a session. `overtaken`: also send them to an overtaken viewer."""


class Feed:
    """The frames of one session, and its followers."""

    def __init__(self, log: Log, keep: int, schedule: Schedule) -> None:
        self.log = log
        self.viewers: set[FeedFollower] = set()
        self.waiting: set[FeedFollower] = set()
        """Viewers that know everything that was sent, and wait for more."""
        self.overtaken: set[FeedFollower] = set()
        """Viewers that lack many events, and wait for the agent to pause."""
        self.changed_at = self.left_at = -math.inf
        self.over = False
        """True when the session is closed: no more events follow."""
        self._keep = keep
        self._schedule = schedule
        self._due = self._notified_at = -math.inf
        self._overtaken_at = 0.0
        self._frames: list[bytes] = []
        self._first = log.seq + 1
        self._size = 0
        self._snapshot: tuple[int, float, bytes] | None = None  # number, time, frame
        self._weight = (0, 0)
        self._common: tuple[int | None, int, bytes] = (None, 0, b"")
        self._head = pack(type="event", session=log.session, epoch=log.epoch)[:-1] + b',"seq":'

    @cached_property
    def transcript(self) -> ItemIndex:
        """The session's items, for viewers of other protocols."""
        return ItemIndex(self.log)

    def switch_log(self, log: Log) -> None:
        """Switch to another log object of the session: it was only stored and is open now, or the
        reverse. The new log begins where the old one ended, or earlier.
        """
        self.log = self.transcript.log = log

    # --- notifications and their timing

    def publish(self, now: float) -> None:
        """Note new events: notify waiting viewers, immediately or after their common pause."""
        self.changed_at = now
        if not self.waiting:
            return
        due = max(self._due - EARLY_S, self._notified_at + MIN_PACE_S)
        if now >= due:
            self.notify(now)
        else:
            self._schedule(self.notify, due)

    def notify(self, now: float) -> None:
        """Notify the waiting viewers."""
        waiting, self.waiting = self.waiting, set()
        self._notified_at = now
        self._due = max(self._due, now)
        for viewer in waiting:
            viewer.changed(self)

    def charge(self, size: int, now: float) -> None:
        """Account for a frame of `size` bytes sent to a viewer."""
        cost = (FRAME_COST_S + size * BYTE_COST_S) * PACE_RATIO
        self._due = min(now + MAX_PACE_S, max(self._due, now) + cost)

    def has_to_wait(self, viewer: FeedFollower, now: float) -> bool:
        """True if a viewer that did not get everything in one frame must pause before the next. It
        need not while the agent pauses.
        """
        if now - self.changed_at >= AGENT_PAUSE_S:
            return False
        self.waiting.add(viewer)
        self._schedule(self.notify, self._due)
        return True

    def overtake(self, viewer: FeedFollower, now: float) -> None:
        """Note that a viewer lacks many events.

        It is notified in the agent's next pause, or after a wait that is reasonable for the cost of
        a snapshot.
        """
        if not self.overtaken:
            if self.log.seq - self._weight[0] > STALE_EVENTS:
                self.snapshot(None, now)
            self._overtaken_at = now
            self._schedule(self._check_for_pause, now + self._pause())
        self.overtaken.add(viewer)

    def drop(self, viewer: FeedFollower, now: float) -> None:
        """Remove a viewer."""
        self.left_at = now
        for each in (self.viewers, self.waiting, self.overtaken):
            each.discard(viewer)

    def _check_for_pause(self, now: float) -> None:
        waited = now - self._overtaken_at
        if now - self.changed_at >= self._pause() or waited >= self._hold():
            overtaken, self.overtaken = self.overtaken, set()
            for viewer in overtaken:
                viewer.changed(self, overtaken=True)
        elif self.overtaken:  # look less often if the agent has been active for long
            self._schedule(self._check_for_pause, now + max(2 * self._pause(), waited))

    def _hold(self) -> float:
        """Seconds to wait rather than send a snapshot to every viewer. (One viewer needs as long to
        process a snapshot as sending it to ten takes.)
        """
        return min(MAX_SNAPSHOT_WAIT_S, self.weight * BYTE_COST_S * 10 * max(10, len(self.viewers)))

    def _pause(self) -> float:
        """Seconds for which the session must be silent before its viewers get a snapshot."""
        return max(AGENT_PAUSE_S, self._hold() / 50)

    # --- frames

    def reaches(self, epoch: str | None, seq: int | None) -> bool:
        """True if a viewer that knows the session up to `seq` can get only the events after it."""
        if epoch != self.log.epoch or seq is None or seq > self.log.seq:
            return False
        self._catch_up()
        return seq >= self._first - 1 or self._restore_frames(seq)

    @property
    def weight(self) -> int:
        """The approximate size of a snapshot in bytes."""
        seq, size = self._weight
        return size + (self.log.seq - seq) * SNAPSHOT_EVENT_BYTES

    def long(self, seq: int) -> bool:
        """True if a snapshot would be smaller than the events after `seq`."""
        return self.weight < (self.log.seq - seq) * EVENT_FRAME_BYTES

    def keeps(self, seq: int) -> bool:
        """True if the events after `seq` are still kept."""
        self._catch_up()
        return seq >= self._first - 1

    def take(self, seq: int, frames: list[bytes], count: int, size: int) -> tuple[int, int]:
        """Append the frames of the events after `seq`, which must be kept, to `frames`.

        Adds up to `count` events of `size` bytes together, but at least one. Returns the number of
        the last one, and the bytes added.
        """
        start = index = seq - self._first + 1
        end = min(len(self._frames), start + count)
        added = 0
        while index < end and (index == start or added < size):
            added += len(self._frames[index])
            index += 1
        frames += self._frames[start:index]
        return seq + index - start, added

    def all_after(self, seq: int | None) -> bytes | None:
        """Return the events after `seq` as one frame. None if they are too many, or the viewers
        must still learn that the session is over.
        """
        if self.over:
            return None
        if seq != self._common[0] or self._common[1] != self.log.seq:
            if seq is None or not self.keeps(seq):
                return None
            parts: list[bytes] = []
            known, _ = self.take(seq, parts, BATCH_EVENTS, BATCH_BYTES)
            if known != self.log.seq or not parts:
                return None
            text = parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"
            self._common = (seq, known, text)
        text = self._common[2]
        self._due += (FRAME_COST_S + len(text) * BYTE_COST_S) * PACE_RATIO
        return text

    def snapshot(self, seq: int | None, now: float) -> tuple[int, bytes]:
        """Return the last turns as a frame, and its number.

        For a viewer that was overtaken at `seq` it may be some events old, or have been made a
        moment ago: many viewers are overtaken at the same time, and all get the same bytes.
        """
        if self._snapshot is not None and seq is not None:
            known, made, frame = self._snapshot
            fresh = known >= max(self.log.seq - FRESH_EVENTS, self._first - 1)
            if known > seq and (fresh or now - made < self._pause()):
                return known, frame
        elif self._snapshot is not None and self._snapshot[0] == self.log.seq:
            return self.log.seq, self._snapshot[2]
        frame = b'{"type":"snapshot",' + _json(self.log.recent())[1:]
        self._snapshot = (self.log.seq, now, frame)
        self._weight = (self.log.seq, len(frame))
        return self.log.seq, frame

    def _catch_up(self) -> None:
        """Encode the events logged since the last call."""
        last = self._first + len(self._frames) - 1
        if last == self.log.seq:
            return
        try:
            events = self.log.since(last)
        except EventsExpired:  # no viewer has read for long
            self._frames.clear()
            self._size = 0
            self._first = self.log.seq + 1
            return
        for seq, event in enumerate(events, last + 1):
            frame = self._encode(seq, event)
            self._frames.append(frame)
            self._size += len(frame)
        if self._size > self._keep:
            self._cut()

    def _cut(self) -> None:
        """Drop the oldest frames, down to three quarters so that it is rare; never the last one."""
        drop = 0
        while self._size > self._keep * 3 // 4 and drop < len(self._frames) - 1:
            self._size -= len(self._frames[drop])
            drop += 1
        del self._frames[:drop]
        self._first += drop

    def _restore_frames(self, seq: int) -> bool:
        """Keep older frames again, if the log has their events and they are not too large."""
        try:
            events = self.log.since(seq)
        except EventsExpired:
            return False
        wanted = events[: self._first - 1 - seq]
        older = [self._encode(number, event) for number, event in enumerate(wanted, seq + 1)]
        size = sum(map(len, older))
        if self._size + size > self._keep:
            return False
        self._frames[:0] = older
        self._first = seq + 1
        self._size += size
        return True

    def _encode(self, seq: int, event: Event) -> bytes:
        return b'%b%d,"event":%b}' % (self._head, seq, _json(event))


def _json(value: Snapshot | Event) -> bytes:
    return encode_line(value)[:-1]
