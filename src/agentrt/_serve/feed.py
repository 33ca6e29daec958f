"""One session's events as frames, encoded once for all viewers.

The feed keeps the newest frames, up to the size of a viewer's outbox. A viewer has no queue of its
own, only a position in the feed. So a viewer that does not read costs one number, and a viewer that
lacks frames that are not kept starts again from a snapshot.

Two costs are kept low. Encoding: an event is encoded when the first viewer takes it, and all
viewers get the same bytes; if they know the same, they even get the same frame (`common_frame`).
Waking: a session's viewers are notified together, after a pause in proportion to the cost of the
last time (`charge`) or to how long it took, so an agent that writes single letters does not cost a
frame for each.

A viewer that lacks too much is *overtaken*. Sending it a snapshot while the agent writes fast would
not help, because the snapshot is outdated before it is read; so it waits for the agent to pause, or
for a time that its cost justifies (`_hold`), and all overtaken viewers get the same snapshot.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, Protocol, TypeAlias

from .._public import Limits
from ..errors import EventsExpired
from ..events import Event, ItemDelta, ItemUpdated
from ..lowlevel import Log
from .answers import pack
from .previews import EncodedItems, Previews
from .transcript import ItemIndex

FRESH_EVENTS: Final = 100
"""Maximum age, in events, of a snapshot for an overtaken viewer. The later events follow in one
frame.
"""

EVENT_FRAME_BYTES: Final = 200
"""Bytes of the frame of an event, as estimated without encoding it."""

EVENT_FRAME: Final = b'%b%d%b,"event":%b}'
"""The frame of an event: its head, its number, `since` if it stands for several events, and the
event.
"""

MERGED_EVENTS: Final = 100
"""Number of events that are sent one by one if a viewer lacks no more. Of more events, the pieces
of a text are merged.
"""

KEPT_FRAMES: Final = 4096
"""Maximum number of frames that are kept, however small they are."""

UNENCODED_EVENTS: Final = 1000
"""Number of events after which they are merged although no viewer takes them yet. The log keeps
more than that.
"""

OVERTAKEN_EVENTS: Final = 2000
"""Number of events that a viewer may lack. A viewer that lacks more, and some that are not kept any
more, is *overtaken*: it needs a snapshot, best when the agent pauses, because otherwise the
snapshot would be outdated before it is sent.
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
        ...


class Feed:
    """The frames of one session, and its followers."""

    def __init__(self, log: Log, limits: Limits, schedule: Schedule) -> None:
        self.log = log
        self.previews = Previews(log, limits.preview_chars)
        self.viewers: set[FeedFollower] = set()
        self.waiting: set[FeedFollower] = set()
        """Viewers that know everything that was sent, and wait for more."""
        self.overtaken: set[FeedFollower] = set()
        """Viewers that lack many events, and wait for the agent to pause."""
        self.changed_at = self.left_at = -math.inf
        self.over = False
        """True when the session is closed: no more events follow."""
        self._keep = limits.viewer_outbox_bytes
        self._snapshot_bytes = limits.snapshot_bytes
        self._most_text_chars = max(self.previews.most_text_chars, self._snapshot_bytes)
        self._schedule = schedule
        self._due = self._notified_at = self._charged_at = -math.inf
        self._overtaken_at = 0.0
        # Each entry is a frame, or an event that no viewer has taken yet, with the number of the
        # last of the events that it stands for. `_before` is the number before the first one.
        self._frames: list[bytes | Event] = []
        self._seqs: list[int] = []
        self._before = log.seq
        self._newest = log.seq  # the number of the last event in the frames
        self._size = 0  # of the encoded frames, in bytes
        self._snapshot: tuple[int, float, bytes] | None = None  # number, time, frame
        self._weight = 0
        # The last frame for many viewers, and the position and the newest number it was made for.
        self._common = (0, b"")
        self._common_for = (-1, -1)
        self._head = pack(type="event", session=log.session, epoch=log.epoch)[:-1] + b',"seq":'

    @cached_property
    def transcript(self) -> ItemIndex:
        """The session's items, for viewers of other protocols."""
        return ItemIndex(self.log)

    def switch_log(self, log: Log) -> None:
        """Switch to another log object of the session: it was only stored and is open now, or the
        reverse. The new log begins where the old one ended, or earlier.
        """
        self.log = self.transcript.log = self.previews.log = log

    # --- notifications and their timing

    def publish(self, now: float) -> None:
        """Note new events: notify waiting viewers, immediately or after their common pause."""
        self.changed_at = now
        if self.waiting:
            due = max(self._due - EARLY_S, self._notified_at + MIN_PACE_S)
            if now >= due:
                self.notify(now)
                return
            self._schedule(self._notify_if_due, due)
        if self.viewers and self.log.seq - self._newest > UNENCODED_EVENTS:
            self._catch_up()

    def _notify_if_due(self, now: float) -> None:
        """Notify the waiting viewers, or schedule that again.

        A notification since this was scheduled, and each frame that it sent, have moved the time.
        """
        due = max(self._due - EARLY_S, self._notified_at + MIN_PACE_S)
        if now >= due:
            self.notify(now)
        elif self.waiting:
            self._schedule(self._notify_if_due, due)

    def notify(self, now: float) -> None:
        """Notify the waiting viewers."""
        waiting, self.waiting = self.waiting, set()
        self._notified_at = self._charged_at = now
        self._due = max(self._due, now)
        for viewer in waiting:
            viewer.changed(self)
        # It takes longer than estimated if other programs use the processor.
        took = self._charged_at - now
        self._due = max(self._due, now + min(MAX_PACE_S, took * PACE_RATIO))

    def charge(self, size: int, now: float) -> None:
        """Account for a frame of `size` bytes sent to a viewer."""
        cost = (FRAME_COST_S + size * BYTE_COST_S) * PACE_RATIO
        self._due = min(now + MAX_PACE_S, max(self._due, now) + cost)
        self._charged_at = now

    def has_to_wait(self, viewer: FeedFollower, now: float) -> bool:
        """True if a viewer that did not get everything in one frame must pause before the next. It
        need not while the agent pauses.
        """
        if now - self.changed_at >= AGENT_PAUSE_S:
            return False
        self.waiting.add(viewer)
        self._schedule(self._notify_if_due, self._due)
        return True

    def overtake(self, viewer: FeedFollower, now: float) -> None:
        """Note that a viewer lacks many events.

        It is notified in the agent's next pause, or after a wait that is reasonable for the cost of
        a snapshot.
        """
        if not self.overtaken:
            self._overtaken_at = now
            self._schedule(self._check_for_pause, now + self._pause())
        self.overtaken.add(viewer)

    def drop(self, viewer: FeedFollower, now: float) -> None:
        """Remove a viewer."""
        self.left_at = now
        for each in (self.viewers, self.waiting, self.overtaken):
            each.discard(viewer)

    def _check_for_pause(self, now: float) -> None:
        """Give overtaken viewers their snapshots, if the agent pauses or they have waited long
        enough.

        Otherwise look again later, less often the longer the agent has been active.
        """
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
        return self.keeps(seq) or self._restore_frames(seq)

    @property
    def weight(self) -> int:
        """The size of the last snapshot in bytes, or the maximum if there was none."""
        return self._weight or self._snapshot_bytes

    def long(self, seq: int) -> bool:
        """True if a snapshot would be smaller than the events after `seq`, which must be kept."""
        left = self._frames[bisect_right(self._seqs, seq) :]
        size = sum(len(frame) if isinstance(frame, bytes) else EVENT_FRAME_BYTES for frame in left)
        return self.weight < size

    def keeps(self, seq: int) -> bool:
        """True if the events after `seq` are still kept."""
        self._catch_up()
        place = bisect_right(self._seqs, seq)
        return seq == (self._seqs[place - 1] if place else self._before)

    def take(self, seq: int, frames: list[bytes], count: int, size: int) -> tuple[int, int]:
        """Append the frames of the events after `seq`, which must be kept, to `frames`.

        Adds up to `count` frames of `size` bytes together, but at least one. Returns the number of
        the last event, and the bytes added.
        """
        start = index = bisect_right(self._seqs, seq)
        end = min(len(self._frames), start + count)
        added = 0
        while index < end and (index == start or added < size):
            frame = self._frames[index]
            if not isinstance(frame, bytes):
                before = self._seqs[index - 1] if index else self._before
                number = self._seqs[index]
                # Most events stand for one number, and are sent without `since`.
                since = b"" if before == number - 1 else b',"since":%d' % before
                event = self.previews.event(frame)
                frame = self._frames[index] = EVENT_FRAME % (self._head, number, since, event)
                self._size += len(frame)
            frames.append(frame)
            added += len(frame)
            index += 1
        return (self._seqs[index - 1] if index else self._before), added

    def common_frame(self, seq: int, now: float) -> tuple[int, bytes] | None:
        """Return the next frame for viewers that know the session up to `seq`, and the number of
        its last event. They all get the same bytes, made once.

        None if they lack too much, nothing is new, or they must still learn that the session is
        over.
        """
        if self.over:
            return None
        newest = self.log.seq
        if (seq, newest) != self._common_for:
            if newest == seq or (not self.keeps(seq) and newest - seq > OVERTAKEN_EVENTS):
                return None
            if self.keeps(seq):
                parts: list[bytes] = []
                known, _ = self.take(seq, parts, BATCH_EVENTS, BATCH_BYTES)
                text = parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"
            else:
                known, text = self.snapshot(seq, now)
            self._common_for, self._common = (seq, newest), (known, text)
        self.charge(len(self._common[1]), now)
        return self._common

    def snapshot(self, seq: int | None, now: float) -> tuple[int, bytes]:
        """Return the last turns as a frame, and its number.

        For a viewer that was overtaken at `seq` it may be some events old, or have been made a
        moment ago: many viewers are overtaken at the same time, and all get the same bytes.
        """
        if self._snapshot is not None and seq is not None:
            known, made, frame = self._snapshot
            fresh = known >= self.log.seq - FRESH_EVENTS and self.keeps(known)
            if known > seq and (fresh or now - made < self._pause()):
                return known, frame
        elif self._snapshot is not None and self._snapshot[0] == self.log.seq:
            return self.log.seq, self._snapshot[2]
        self._catch_up()  # the events after the snapshot are not merged with earlier ones
        items = EncodedItems(self.previews, self._snapshot_bytes)
        frame = self.previews.snapshot(self.log.recent(items), items.encoded)
        self._snapshot = (self.log.seq, now, frame)
        self._weight = len(frame)
        return self.log.seq, frame

    def _catch_up(self) -> None:
        """Take the events logged since the last call."""
        last = self._newest
        try:
            events = self.log.since(last)
        except EventsExpired:  # no viewer has read for long
            self._frames.clear()
            self._seqs.clear()
            self._size = 0
            self._before = self._newest = self.log.seq
            return
        if not events:
            return
        self._newest = last + len(events)
        seqs: Sequence[int] = range(last + 1, self._newest + 1)
        if len(events) > MERGED_EVENTS:
            events, seqs = merged(events, seqs)
        self._frames += self._shortened(events)
        self._seqs += seqs
        if self._size > self._keep or len(self._frames) > KEPT_FRAMES:
            self._cut()

    def _shortened(self, events: Sequence[Event]) -> Sequence[Event]:
        """Replace long pieces of text, the last of which were just added, by the text's end."""
        most = self._most_text_chars
        for event in events:
            if isinstance(event, ItemDelta) and len(event.text) > most:
                break
        else:
            return events
        ends: dict[str, int] = {}
        short: list[Event] = []
        for event in reversed(events):
            if isinstance(event, ItemDelta) and (length := self.log.state.length(event.item)):
                end = ends.get(event.item, length)
                ends[event.item] = end - len(event.text)
                if len(event.text) > most:
                    text, cut = self.previews.end_of_text(event.item, end)
                    event = ItemUpdated(event.item, {"text": text, "_cut": {"text": cut}})
            short.append(event)
        short.reverse()
        return short

    def _cut(self) -> None:
        """Drop the oldest frames, which are too large or too many, down to three quarters so that
        it is rare; never the last one.
        """
        drop, left, size = 0, len(self._frames), self._size
        while (size > self._keep * 3 // 4 or left > KEPT_FRAMES * 3 // 4) and left > 1:
            frame = self._frames[drop]
            size -= len(frame) if isinstance(frame, bytes) else 0
            drop += 1
            left -= 1
        if drop:
            self._before, self._size = self._seqs[drop - 1], size
            del self._frames[:drop], self._seqs[:drop]

    def _restore_frames(self, seq: int) -> bool:
        """Keep older frames again, if the log has their events and they are not too large."""
        try:
            events = self.log.since(seq)
        except EventsExpired:
            return False
        wanted = self._shortened(events)[: self._before - seq]
        if not wanted:
            return False  # `seq` is among merged events
        older = [
            EVENT_FRAME % (self._head, n, b"", self.previews.event(event))
            for n, event in enumerate(wanted, seq + 1)
        ]
        size = sum(map(len, older))
        if self._size + size > self._keep:
            return False
        self._frames[:0] = older
        self._seqs[:0] = range(seq + 1, self._before + 1)
        self._before = seq
        self._size += size
        return True


def merged(events: Sequence[Event], seqs: Sequence[int]) -> tuple[list[Event], list[int]]:
    """Merge neighbouring pieces of the same text. Returns the events with the numbers of the last
    ones that they stand for.
    """
    kept: list[Event] = []
    numbers: list[int] = []
    texts: list[str] = []  # of the deltas like the last kept event
    for seq, event in zip(seqs, events, strict=True):
        last = kept[-1] if kept else None
        if (
            isinstance(event, ItemDelta)
            and isinstance(last, ItemDelta)
            and (type(last), last.item) == (type(event), event.item)
        ):
            texts.append(event.text)
            numbers[-1] = seq
            continue
        if len(texts) > 1 and isinstance(last, ItemDelta):
            kept[-1] = type(last)(last.item, "".join(texts))
        texts = [event.text] if isinstance(event, ItemDelta) else []
        kept.append(event)
        numbers.append(seq)
    if len(texts) > 1 and isinstance(last := kept[-1], ItemDelta):
        kept[-1] = type(last)(last.item, "".join(texts))
    return kept, numbers
