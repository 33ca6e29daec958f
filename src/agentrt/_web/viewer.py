"""One viewer: what waits for it, and how much of that makes the next frame.

It has no socket. Whoever has one hands in each frame that arrives (`receive`, which never waits)
and sends what `next_frame` gives, until that raises the `Refusal` that ends the connection.
"""

from __future__ import annotations

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

PACE: Final = 0.0005
WEIGHT: Final = 1e-8
REST: Final = 0.25
"""Seconds that a viewer rests after a frame, or after each byte of a snapshot, times the viewers
there are; and the longest rest. A frame costs some 50 µs and a byte a nanosecond: so all viewers
together take a tenth of the time, however small the agent's words are."""

FAR: Final = 10 * COUNT
"""Events by which a viewer may be behind and still get full frames without a rest."""


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
        self._list_changed = False
        self._ended: Refusal | None = None
        self._closed = False
        self._lot = trio.lowlevel.ParkingLot()
        self._awaits_news = False
        self._rested = 0.0
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
        if self._unsent > self._limits.viewer_outbox:
            self._replies.clear()
            self.end(Code.STALLED, "the answers are not read")
        self._wake()

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
        feed.viewers.discard(self)

    def news(self) -> None:
        """There is more of what may wait."""
        if self._awaits_news:
            self._wake()

    def list_changed(self) -> None:
        """The list of sessions is another one."""
        if self.client is not None:
            self._list_changed = True
            self.news()

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
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._due():
            await self._sleep()
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
        return now >= self._beat_at or (now >= self._rested and self._behind())

    def _behind(self) -> bool:
        """Whether there is something that may wait until the viewer has rested."""
        return self._list_changed or any(seq != feed.log.seq for feed, seq in self._places.items())

    def _far_behind(self) -> bool:
        """Whether the agent is faster than this viewer: a snapshot will serve it better."""
        return any(
            seq is not None and feed.log.seq - seq > FAR for feed, seq in self._places.items()
        )

    async def _sleep(self) -> None:
        """Until something is due, or may be."""
        resting = self._behind()
        self._awaits_news = not resting
        with trio.move_on_at(min(self._beat_at, self._rested) if resting else self._beat_at):
            await self._lot.park()
        self._awaits_news = False

    def _frame(self) -> bytes:
        parts: list[bytes] = []
        while self._replies and len(parts) < COUNT:
            parts.append(self._replies.popleft())
            self._unsent -= len(parts[-1])
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
        size = sum(map(len, parts))
        for feed, seq in list(self._places.items()):
            if size >= SIZE or len(parts) >= COUNT:
                break
            if seq != feed.log.seq:
                del self._places[feed]  # the next frame begins with the others
                self._places[feed], added = feed.take(seq, parts, COUNT - len(parts), SIZE - size)
                size += added
            elif feed.over:
                self.unfollow(feed)
        full = size >= SIZE or len(parts) >= COUNT
        if full and size <= 2 * SIZE and not self._far_behind():
            return  # this is what is cheap: go on
        weight = size * WEIGHT if size > 2 * SIZE else PACE
        self._rested = trio.current_time() + min(REST, weight * len(self._hub.viewers))

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
