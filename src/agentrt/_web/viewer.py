"""One viewer: what waits for it, and how much of that makes the next frame.

It has no socket. Whoever has one hands in each frame that arrives (`receive`, which never waits)
and sends what `next_frame` gives, until that raises the `Refusal` that ends the connection.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import trio

from .answers import pack, refusal
from .commands import Beat, Hello, Malformed, Refused, decode
from .feed import Feed
from .native import perform, welcome
from .refusal import Code, Refusal
from .security import Role

if TYPE_CHECKING:
    from .hub import Client, Hub

COUNT: Final = 100
SIZE: Final = 32 * 1024
"""How many events, and of how many bytes, are sent together: batches are eight times cheaper, and
larger ones gain nothing."""

PACE: Final = 0.00075
WEIGHT: Final = 1e-8
REST: Final = 0.5
"""Seconds that a viewer rests after a frame and for each of its bytes, times the viewers there are;
and the longest rest. A frame costs some 30 µs and a byte a nanosecond: so all viewers together
take a twentieth of the time, however small the agent's words are."""

FAR: Final = 2000
"""Events by which the log may be ahead of a viewer. Beyond that the viewer is *overtaken*: what it
has missed is better told by a snapshot, and that best when the agent pauses, since it would be old
before it was sent."""

HOLD: Final = 10.0
PAUSE: Final = 0.02
"""The longest that an overtaken viewer waits for a pause, however large the session; and a pause
that is long enough for a small one."""


class Viewer:
    """Made by `Hub.attach_viewer`. Close it when its socket is gone, or use it as a block."""

    def __init__(self, hub: Hub, role: Role) -> None:
        self.role: Role = role
        self.client: Client | None = None
        """Who it is; None before its `hello`."""
        self._hub = hub
        self._limits = hub.limits
        self._places: dict[Feed, int | None] = {}  # up to where each session is known
        self._replies: deque[bytes] = deque()
        self._unsent = 0
        self._sent = trio.lowlevel.ParkingLot()
        self._list_changed = False
        self._ended: Refusal | None = None
        self._closed = False
        self._lot = trio.lowlevel.ParkingLot()
        self._overtaken: dict[Feed, float] = {}  # since when each has been
        self._rested = 0.0
        self._hasty = False  # whether the last frame was there without a wait
        self._beat_at = trio.current_time() + hub.limits.beat

    # --- what arrives

    def receive(self, text: str) -> None:
        """Take one text frame of the client. Whatever is wrong with it is answered; it never
        raises."""
        if self._ended is not None or self._closed:
            return
        try:
            command = decode(text)
        except Malformed as error:
            self.reply(refusal(error.id, error))
            return
        if isinstance(command, Beat):
            return
        if isinstance(command, Hello):
            welcome(self._hub, self, command)
        elif self.client is None:
            self.reply(refusal(command.id, Refused("bad_request", "the first frame is `hello`")))
        else:
            perform(self._hub, self, self.client, command)

    # --- what is to be sent

    def reply(self, frame: bytes) -> None:
        """Send this ahead of all events."""
        if self._ended is not None:
            return
        self._replies.append(frame)
        self._unsent += len(frame)
        self._wake()

    async def caught_up(self) -> None:
        """Wait while more answers are unsent than `limits.viewer_outbox`, before the next frame of
        the client is taken. A client that reads none at all loses its connection meanwhile."""
        while self._unsent > self._limits.viewer_outbox:
            await self._sent.park()

    def next_reply(self) -> bytes:
        """Take the oldest answer that is unsent; there must be one."""
        frame = self._replies.popleft()
        self._unsent -= len(frame)
        self._sent.unpark_all()
        return frame

    def follow(self, feed: Feed, epoch: str | None, seq: int | None) -> bool:
        """Send a session from now on; True if the client gets just what it has missed, False if a
        snapshot. In the same step as `Feed.reaches`, so that nothing comes between."""
        # Followed already, it may have events under way that it does not know of yet.
        replay = feed not in self._places and feed.reaches(epoch, seq)
        self._places[feed] = seq if replay else None
        feed.viewers.add(self)
        self._wake()
        return replay

    def unfollow(self, feed: Feed) -> None:
        self._places.pop(feed, None)
        self._overtaken.pop(feed, None)
        feed.viewers.discard(self)
        feed.waiting.discard(self)

    def news(self) -> None:
        """There is more of what may wait."""
        self._wake()

    def list_changed(self) -> None:
        """The list of sessions is another one."""
        if self.client is not None and not self._list_changed:
            self._list_changed = True
            if trio.current_time() >= self._rested:
                self._wake()

    def end(self, code: Code, reason: str) -> None:
        """Have the connection ended when what is answered already is sent. Idempotent."""
        if self._ended is None:
            self._ended = Refusal(code, reason)
            self._leave()
            self._wake()

    def close(self) -> None:
        """The socket is gone. No turn ends by that; the calls of its client's tools do."""
        self._closed = True
        self._leave()
        self._hub.forget(self)
        self._wake()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def next_frame(self) -> bytes:
        """All that waits, as one frame: an object, or an array of up to 100 events or 32 KiB. When
        nothing waits for `limits.beat`, a beat.

        Raises `Refusal` behind the last frame, and `trio.ClosedResourceError` after `close`.
        Cancelling it loses nothing.
        """
        if self._hasty:  # the others' turn
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self._hasty = True
        while not self._due():
            await self._sleep()
            self._hasty = False
        if self._closed:
            raise trio.ClosedResourceError("the viewer is closed")
        if self._ended is not None and not self._replies:
            raise self._ended
        return self._frame()

    def _due(self) -> bool:
        """Whether something is to be sent now."""
        if self._replies or self._ended is not None or self._closed:
            return True
        now = trio.current_time()
        if now < self._rested:
            return now >= self._beat_at
        return (
            now >= self._beat_at
            or self._list_changed
            or any(self._may_take(feed, seq, now) for feed, seq in self._places.items())
        )

    def _behind(self) -> bool:
        """Whether there is something that may wait until the viewer has rested."""
        return self._list_changed or any(seq != feed.log.seq for feed, seq in self._places.items())

    def _may_take(self, feed: Feed, seq: int | None, now: float) -> bool:
        """Whether there is news of a session that should be sent now."""
        if seq is None or 0 < feed.log.seq - seq <= FAR:
            self._overtaken.pop(feed, None)
            return True
        if seq == feed.log.seq:
            return False
        since = self._overtaken.setdefault(feed, now)
        hold = self._hold(feed)
        return now - since >= hold or now - feed.changed_at >= _pause(hold)

    def _hold(self, feed: Feed) -> float:
        """For how long it is right to wait rather than to send a snapshot to every viewer. (One
        viewer alone takes as long to understand it as ten take to be sent it.)"""
        return min(HOLD, feed.weight * WEIGHT * max(10, len(self._hub.viewers)))

    async def _sleep(self) -> None:
        """Until something is due, or may be."""
        now = trio.current_time()
        quiet: list[Feed] = []
        if now < self._rested:
            until = self._rested  # whatever comes meanwhile is seen then
        else:
            quiet = [feed for feed, seq in self._places.items() if seq == feed.log.seq]
            until = self._look_again(now)
        for feed in quiet:
            feed.waiting.add(self)
        try:
            with trio.move_on_at(min(until, self._beat_at)):
                await self._lot.park()
        finally:
            for feed in quiet:
                feed.waiting.discard(self)

    def _look_again(self, now: float) -> float:
        """When to see whether a session pauses that has overtaken this viewer: seldom, if it has
        been going on for long."""
        if not self._overtaken:
            return math.inf
        return now + min(
            max(2 * _pause(self._hold(feed)), now - since)
            for feed, since in self._overtaken.items()
        )

    def _frame(self) -> bytes:
        parts: list[bytes] = []
        while self._replies and len(parts) < COUNT:
            parts.append(self.next_reply())
        if self._list_changed and not self._replies:
            self._list_changed = False
            parts.append(self._hub.list_frame())
        self._take_events(parts)
        now = trio.current_time()
        if now >= self._beat_at or not parts:
            self._beat_at = now + self._limits.beat
            parts.append(self._beat())
        return parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"

    def _take_events(self, parts: list[bytes]) -> None:
        """Events of one session after the other, until the frame is full."""
        now = trio.current_time()
        size = sum(map(len, parts))
        pauses = False  # who is behind an agent that pauses catches up without a rest
        for feed, seq in list(self._places.items()):
            if size >= SIZE or len(parts) >= COUNT:
                break
            if seq == feed.log.seq:
                if feed.over:
                    self.unfollow(feed)
            elif self._may_take(feed, seq, now):
                size += self._take(feed, seq, parts, size)
                pauses = now - feed.changed_at >= PAUSE
        if not pauses or (size < SIZE and len(parts) < COUNT):
            self._rested = now + min(REST, (PACE + size * WEIGHT) * len(self._hub.viewers))

    def _take(self, feed: Feed, seq: int | None, parts: list[bytes], size: int) -> int:
        """What follows `seq` in a session, as far as there is room; returns its bytes."""
        if seq is not None and feed.keeps(seq) and not (feed in self._overtaken and feed.long(seq)):
            known, added = feed.take(seq, parts, COUNT - len(parts), SIZE - size)
        else:
            now = trio.current_time()
            known, frame = feed.snapshot(seq, now, _pause(self._hold(feed)))
            if parts and len(frame) > SIZE:
                return SIZE  # alone in the next frame: nobody copies it
            parts.append(frame)
            added = min(len(frame), SIZE)
        self._overtaken.pop(feed, None)
        del self._places[feed]  # the next frame begins with the others
        self._places[feed] = known
        return added

    def _beat(self) -> bytes:
        known = {
            feed.log.session: {
                "epoch": feed.log.epoch,
                "seq": seq,
                "phase": feed.log.state.state.phase,
            }
            for feed, seq in self._places.items()
            if seq is not None
        }
        return pack(type="beat", sessions=known)

    def _leave(self) -> None:
        for feed in list(self._places):
            self.unfollow(feed)

    def _wake(self) -> None:
        self._lot.unpark_all()


def _pause(hold: float) -> float:
    """How long a session must be silent for its viewers to be sent what is worth `hold`."""
    return max(PAUSE, hold / 50)
