"""One session's events as frames, encoded once for all viewers.

The feed keeps the newest frames, up to the size of a viewer's outbox; a viewer has no queue of its
own but a place in the feed. So a viewer that does not read costs a number, and one that falls
behind what is kept starts again from a snapshot.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Final

from .._model.events import Event
from .._model.log import Log, Overrun
from .._model.state import Snapshot
from .._wire.json import encode_line
from .answers import pack
from .transcript import Transcript

if TYPE_CHECKING:
    from .viewer import Viewer


FRESH: Final = 100
"""How many events old the snapshot may be that one gets who was overtaken. The events after it
follow in one frame."""

EVENT: Final = 64
FRAME: Final = 200
"""What an event adds to a snapshot, and what it takes as a frame: its bytes, as far as one can tell
without making them."""


class Feed:
    """The frames of one session, and who follows it."""

    def __init__(self, log: Log, keep: int) -> None:
        self.log = log
        self.viewers: set[Viewer] = set()
        self.waiting: set[Viewer] = set()
        """Those that are to be told of the next news."""
        self.changed_at = -math.inf
        self.over = False
        """True when the session is closed: nothing will come behind what there is."""
        self._keep = keep
        self._frames: list[bytes] = []
        self._first = log.seq + 1
        self._size = 0
        self._snapshot: tuple[int, float, bytes] | None = None  # its number, when it was made
        self._weight = (0, 0)
        self._head = pack(type="event", session=log.session, epoch=log.epoch)[:-1] + b',"seq":'

    @cached_property
    def transcript(self) -> Transcript:
        """For those who tell it in words of their own."""
        return Transcript(self.log)

    def reaches(self, epoch: str | None, seq: int | None) -> bool:
        """Whether a viewer that knows the session up to there can be given just what follows."""
        if epoch != self.log.epoch or seq is None or seq > self.log.seq:
            return False
        self._catch_up()
        return seq >= self._first - 1 or self._go_back(seq)

    def publish(self, now: float) -> None:
        """There is news: tell those that wait for it."""
        self.changed_at = now
        if self.waiting:
            waiting, self.waiting = self.waiting, set()
            for viewer in waiting:
                viewer.news()

    @property
    def weight(self) -> int:
        """About the bytes of a snapshot."""
        seq, size = self._weight
        return size + (self.log.seq - seq) * EVENT

    def long(self, seq: int) -> bool:
        """Whether a snapshot would tell in fewer bytes what happened behind `seq`."""
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

    def snapshot(self, seq: int | None, now: float, age: float = 0.0) -> tuple[int, bytes]:
        """All that a viewer shows, as a frame, and its number. For one that was overtaken at `seq`,
        it may be some events old, or have been made `age` seconds ago: many are overtaken at once,
        and all get the same bytes."""
        if self._snapshot is not None and seq is not None:
            known, made, frame = self._snapshot
            fresh = known >= max(self.log.seq - FRESH, self._first - 1)
            if known >= seq and (fresh or now - made < age):
                return known, frame
        elif self._snapshot is not None and self._snapshot[0] == self.log.seq:
            return self.log.seq, self._snapshot[2]
        frame = b'{"type":"snapshot",' + _json(self.log.snapshot())[1:]
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
