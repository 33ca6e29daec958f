"""One viewer: what waits for it, and how much of that makes the next frame.

It has no socket. Whoever has one hands in each frame that arrives (`receive`, which never waits)
and sends what `next_frame` gives, until that raises the `Refusal` that ends the connection.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

import trio

from .answers import pack, refusal
from .commands import Beat, Hello, Malformed, Refused, decode
from .feed import COUNT, SIZE, Feed
from .native import perform, welcome
from .refusal import Code, Refusal
from .security import Role

if TYPE_CHECKING:
    from .hub import Client, Hub

logger = logging.getLogger(__name__)

FAR: Final = 2000
"""Events by which the log may be ahead of a viewer. Beyond that the viewer is *overtaken*: what it
has missed is better told by a snapshot, and that best when the agent pauses, since it would be old
before it was sent."""


class Outlet(Protocol):
    """The way to a client that has a socket."""

    @property
    def written(self) -> bool:
        """Whether the network has taken all frames so far."""
        ...

    def put(self, text: bytes) -> None:
        """Send a text as a frame behind all others. Never waits."""


class Viewer:
    """Made by `Hub.attach_viewer`. Close it when its socket is gone, or use it as a block."""

    def __init__(self, hub: Hub, role: Role) -> None:
        self.role: Role = role
        self.client: Client | None = None
        """Who it is; None before its `hello`."""
        self._hub = hub
        self._limits = hub.limits
        self._outlet: Outlet | None = None
        self._places: dict[Feed, int | None] = {}  # up to where each session is known
        self._news: dict[Feed, bool] = {}  # those that have more; whether for an overtaken viewer
        self._replies: deque[bytes] = deque()
        self._unsent = 0
        self._sent = trio.lowlevel.ParkingLot()
        self._list_changed = False
        self._ended: Refusal | None = None
        self._closed = False
        self._receiving = False
        self._lot = trio.lowlevel.ParkingLot()
        self._hasty = False  # whether the last frame was there without a wait
        self._beat_at = trio.current_time() + hub.limits.beat

    def connect(self, outlet: Outlet) -> None:
        """Where frames go that can be sent at once; the others wait for `next_frame`."""
        self._outlet = outlet

    # --- what arrives

    def receive(self, text: str) -> None:
        """Take one text frame of the client. Whatever is wrong with it is answered; it never
        raises."""
        if self._ended is not None or self._closed:
            return
        self._receiving = True  # so that its answer goes ahead of all that comes of it
        try:
            self._receive(text)
        finally:
            self._receiving = False
            self._push()

    def _receive(self, text: str) -> None:
        try:
            command = decode(text, self.role)
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
        self._push()

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
        self.news(feed)
        return replay

    def unfollow(self, feed: Feed) -> None:
        self._places.pop(feed, None)
        self._news.pop(feed, None)
        feed.drop(self)

    def news(self, feed: Feed, *, overtaken: bool = False) -> None:
        """There is more of a session. `overtaken`: also for a viewer that is far behind."""
        if not self._push_events(feed):
            self._news[feed] = overtaken
            self._push()

    def list_changed(self) -> None:
        """The list of sessions is another one."""
        if self.client is not None:
            self._list_changed = True
            self._push()

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
        while True:
            while not self._due():
                with trio.move_on_at(self._beat_at):
                    await self._lot.park()
                self._hasty = False
            if self._closed:
                raise trio.ClosedResourceError("the viewer is closed")
            frame = self._frame()
            if frame is not None:
                return frame
            if self._ended is not None:
                raise self._ended

    def _push_events(self, feed: Feed) -> bool:
        """What `_push` does in the commonest case: many viewers that know the same get the same."""
        outlet = self._outlet
        if self._receiving or self._news or self._replies or self._list_changed or outlet is None:
            return False
        if not outlet.written or (text := feed.all_after(self._places[feed])) is None:
            return False
        self._places[feed] = feed.log.seq
        feed.waiting.add(self)
        outlet.put(text)
        return True

    def _push(self) -> None:
        """Send what is due at once if the network takes it: waking a task costs more. What cannot
        be sent, or is more than a frame, is the task's that asks for frames."""
        if self._receiving:
            return
        outlet = self._outlet
        if outlet is not None and outlet.written and self._ended is None:
            try:
                frame = self._frame()
            except Exception:
                logger.exception("a viewer's frame could not be made")
                self.end(Code.BROKEN, "a mistake of the server")
                return
            if frame is not None:
                outlet.put(frame)
        if self._due():
            self._wake()

    def _due(self) -> bool:
        """Whether something is to be sent now."""
        return bool(
            self._news
            or self._replies
            or self._list_changed
            or self._ended is not None
            or self._closed
            or trio.current_time() >= self._beat_at
        )

    def _frame(self) -> bytes | None:
        """What is due, as far as it makes one frame."""
        parts: list[bytes] = []
        if self._replies:  # what came of a command goes with its answer
            for feed, seq in self._places.items():
                if seq != feed.log.seq and self in feed.waiting:
                    self._news.setdefault(feed, False)
        while self._replies and len(parts) < COUNT:
            parts.append(self.next_reply())
        if self._list_changed and not self._replies:
            self._list_changed = False
            parts.append(self._hub.list_frame())
        if self._news:
            self._take_events(parts)
        now = trio.current_time()
        if now >= self._beat_at and self._ended is None:
            self._beat_at = now + self._limits.beat
            parts.append(self._beat())
        if len(parts) > 1:
            return b"[" + b",".join(parts) + b"]"
        return parts[0] if parts else None

    def _take_events(self, parts: list[bytes]) -> None:
        """Events of one session after the other, until the frame is full."""
        now = trio.current_time()
        size = sum(map(len, parts))
        for feed, overtaken in list(self._news.items()):
            if size >= SIZE or len(parts) >= COUNT:
                break
            del self._news[feed]
            seq = self._places[feed]
            if seq == feed.log.seq:
                pass
            elif seq is not None and feed.log.seq - seq > FAR and not overtaken:
                feed.overtake(self, now)
                continue
            else:
                known, added = self._take(feed, seq, parts, size, now, overtaken)
                self._places[feed] = known
                size += added
                if known != feed.log.seq:
                    if not feed.has_to_wait(self, now):
                        self._news[feed] = overtaken
                    continue
            if feed.over:
                self.unfollow(feed)
            else:
                feed.waiting.add(self)

    def _take(
        self,
        feed: Feed,
        seq: int | None,
        parts: list[bytes],
        size: int,
        now: float,
        overtaken: bool,
    ) -> tuple[int | None, int]:
        """What follows `seq` in a session, as far as there is room: up to where it goes, and its
        bytes."""
        if seq is not None and feed.keeps(seq) and not (overtaken and feed.long(seq)):
            known, added = feed.take(seq, parts, COUNT - len(parts), SIZE - size)
            feed.charge(added, now)
            return known, added
        known, frame = feed.snapshot(seq, now)
        if parts and len(frame) > SIZE:
            return seq, 0  # alone in the next frame: nobody copies it
        parts.append(frame)
        feed.charge(len(frame), now)
        return known, len(frame)

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
