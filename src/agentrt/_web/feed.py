"""One session's events as frames, encoded once for all viewers.

The feed keeps the newest frames, up to the size of a viewer's outbox; a viewer has no queue of its
own but a place in the feed. So a viewer that does not read costs a number, and one that falls
behind what is kept starts again from a snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final, Protocol, TypeAlias

from .._model.events import Event
from .._model.log import Log, Overrun
from .._model.state import Snapshot
from .._wire.json import encode_line
from .answers import pack
from .transcript import Transcript

FRESH: Final = 100
"""How many events old the snapshot may be that one gets who was overtaken. The events after it
follow in one frame."""

EVENT: Final = 64
FRAME: Final = 200
"""What an event adds to a snapshot, and what it takes as a frame: its bytes, as far as one knows
without making them."""


STALE: Final = 20_000
"""Events after which the weight of a snapshot is no longer guessed: it does not grow with them."""

COUNT: Final = 100
SIZE: Final = 32 * 1024
"""How many events, and of how many bytes, are sent together: batches are eight times cheaper, and
larger ones gain nothing."""

FRAME_COST: Final = 1e-5
BYTE_COST: Final = 1e-9
"""Seconds that a frame takes to be sent, and each of its bytes."""

SHARE: Final = 10
LEAST: Final = 0.004
MOST: Final = 0.5
GRACE: Final = 0.02
"""A session's viewers rest ten times as long as notifying them takes, within these bounds in
seconds: so that takes an eleventh of the time, however small the agent's words are. Words that come
more rarely than that are sent at once, also if they come a little together."""

HOLD: Final = 10.0
PAUSE: Final = 0.02
"""The longest that an overtaken viewer waits for a pause, however large the session; and a pause
that is long enough for a small one."""

Schedule: TypeAlias = Callable[[Callable[[float], None], float], None]
"""Has a function called at a time, with the time."""


class Follower(Protocol):
    """Who follows sessions, as far as their feeds know it."""

    def changed(self, feed: Feed, *, overtaken: bool = False) -> None:
        """There is more of a session. `overtaken`: also for one that is far behind."""


class Feed:
    """The frames of one session, and who follows it."""

    def __init__(self, log: Log, keep: int, schedule: Schedule) -> None:
        self.log = log
        self.viewers: set[Follower] = set()
        self.waiting: set[Follower] = set()
        """Those that know all that has been sent, and wait for more."""
        self.overtaken: set[Follower] = set()
        """Those that are far behind, and wait for a pause of the agent."""
        self.changed_at = self.left_at = -math.inf
        self.over = False
        """True when the session is closed: nothing will come behind what there is."""
        self._keep = keep
        self._schedule = schedule
        self._due = self._notified_at = -math.inf
        self._overtaken_at = 0.0
        self._frames: list[bytes] = []
        self._first = log.seq + 1
        self._size = 0
        self._snapshot: tuple[int, float, bytes] | None = None  # its number, when it was made
        self._weight = (0, 0)
        self._common: tuple[int | None, int, bytes] = (None, 0, b"")
        self._head = pack(type="event", session=log.session, epoch=log.epoch)[:-1] + b',"seq":'

    @cached_property
    def transcript(self) -> Transcript:
        """For those who send it in words of their own."""
        return Transcript(self.log)

    def go_on(self, log: Log) -> None:
        """The session is another object from now on: the one that is read was only stored, and is
        open now. Its log begins where the one before has ended, or earlier."""
        self.log = self.transcript.log = log

    # --- who is notified, and when

    def publish(self, now: float) -> None:
        """There is more: notify those that wait for it, now or when all have rested."""
        self.changed_at = now
        if not self.waiting:
            return
        due = max(self._due - GRACE, self._notified_at + LEAST)
        if now >= due:
            self.notify(now)
        else:
            self._schedule(self.notify, due)

    def notify(self, now: float) -> None:
        """Tell those that wait that there is more."""
        waiting, self.waiting = self.waiting, set()
        self._notified_at = now
        self._due = max(self._due, now)
        for viewer in waiting:
            viewer.changed(self)

    def charge(self, size: int, now: float) -> None:
        """A viewer is sent a frame with so many bytes of this session."""
        cost = (FRAME_COST + size * BYTE_COST) * SHARE
        self._due = min(now + MOST, max(self._due, now) + cost)

    def has_to_wait(self, viewer: Follower, now: float) -> bool:
        """Whether a viewer for whom there was more than a frame rests before the next one. It need
        not where the agent pauses."""
        if now - self.changed_at >= PAUSE:
            return False
        self.waiting.add(viewer)
        self._schedule(self.notify, self._due)
        return True

    def overtake(self, viewer: Follower, now: float) -> None:
        """A viewer is far behind: notify it in the agent's next pause, or when it has waited for as
        long as is right for what a snapshot costs."""
        if not self.overtaken:
            if self.log.seq - self._weight[0] > STALE:
                self.snapshot(None, now)
            self._overtaken_at = now
            self._schedule(self._look_for_pause, now + self._pause())
        self.overtaken.add(viewer)

    def drop(self, viewer: Follower, now: float) -> None:
        """A viewer follows no more."""
        self.left_at = now
        for each in (self.viewers, self.waiting, self.overtaken):
            each.discard(viewer)

    def _look_for_pause(self, now: float) -> None:
        waited = now - self._overtaken_at
        if now - self.changed_at >= self._pause() or waited >= self._hold():
            overtaken, self.overtaken = self.overtaken, set()
            for viewer in overtaken:
                viewer.changed(self, overtaken=True)
        elif self.overtaken:  # seldom, if the agent has been going on for long
            self._schedule(self._look_for_pause, now + max(2 * self._pause(), waited))

    def _hold(self) -> float:
        """For how long it is right to wait rather than to send a snapshot to every viewer. (One
        viewer alone takes as long to understand it as ten take to be sent it.)"""
        return min(HOLD, self.weight * BYTE_COST * 10 * max(10, len(self.viewers)))

    def _pause(self) -> float:
        """How long the session must be silent for its viewers to be sent a snapshot."""
        return max(PAUSE, self._hold() / 50)

    # --- what is sent

    def reaches(self, epoch: str | None, seq: int | None) -> bool:
        """Whether a viewer that knows the session up to there can be given just what follows."""
        if epoch != self.log.epoch or seq is None or seq > self.log.seq:
            return False
        self._catch_up()
        return seq >= self._first - 1 or self._go_back(seq)

    @property
    def weight(self) -> int:
        """About the bytes of a snapshot."""
        seq, size = self._weight
        return size + (self.log.seq - seq) * EVENT

    def long(self, seq: int) -> bool:
        """Whether a snapshot would say in fewer bytes what happened behind `seq`."""
        return self.weight < (self.log.seq - seq) * FRAME

    def keeps(self, seq: int) -> bool:
        """Whether what follows `seq` is still there."""
        self._catch_up()
        return seq >= self._first - 1

    def take(self, seq: int, frames: list[bytes], count: int, size: int) -> tuple[int, int]:
        """Add what follows `seq`, which must be kept, to `frames`: up to `count` events of `size`
        bytes together, at least one. Returns the number of the last one, and the bytes added."""
        start = index = seq - self._first + 1
        end = min(len(self._frames), start + count)
        added = 0
        while index < end and (index == start or added < size):
            added += len(self._frames[index])
            index += 1
        frames += self._frames[start:index]
        return seq + index - start, added

    def all_after(self, seq: int | None) -> bytes | None:
        """What follows `seq` as one frame, if there is a little, and not yet to be said that the
        session is over."""
        if self.over:
            return None
        if seq != self._common[0] or self._common[1] != self.log.seq:
            if seq is None or not self.keeps(seq):
                return None
            parts: list[bytes] = []
            known, _ = self.take(seq, parts, COUNT, SIZE)
            if known != self.log.seq or not parts:
                return None
            text = parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"
            self._common = (seq, known, text)
        text = self._common[2]
        self._due += (FRAME_COST + len(text) * BYTE_COST) * SHARE
        return text

    def snapshot(self, seq: int | None, now: float) -> tuple[int, bytes]:
        """The last turns, as a frame, and its number. For a viewer that was overtaken at `seq`,
        it may be some events old, or have been made a moment ago: many are overtaken at once, and
        all get the same bytes."""
        if self._snapshot is not None and seq is not None:
            known, made, frame = self._snapshot
            fresh = known >= max(self.log.seq - FRESH, self._first - 1)
            if known > seq and (fresh or now - made < self._pause()):
                return known, frame
        elif self._snapshot is not None and self._snapshot[0] == self.log.seq:
            return self.log.seq, self._snapshot[2]
        frame = b'{"type":"snapshot",' + _json(self.log.recent())[1:]
        self._snapshot = (self.log.seq, now, frame)
        self._weight = (self.log.seq, len(frame))
        return self.log.seq, frame

    def _catch_up(self) -> None:
        """Encode what was logged since the last time."""
        last = self._first + len(self._frames) - 1
        if last == self.log.seq:
            return
        try:
            events = self.log.since(last)
        except Overrun:  # nobody has read for long
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
        """Drop the oldest frames, down to three quarters so that it is rare; never the last."""
        drop = 0
        while self._size > self._keep * 3 // 4 and drop < len(self._frames) - 1:
            self._size -= len(self._frames[drop])
            drop += 1
        del self._frames[:drop]
        self._first += drop

    def _go_back(self, seq: int) -> bool:
        """Keep frames from further back again, if the log has them and they are not too much."""
        try:
            events = self.log.since(seq)
        except Overrun:
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
