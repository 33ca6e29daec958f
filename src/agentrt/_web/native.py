"""`agentrt.v1`: a client's greeting and commands, and how much of what waits makes a frame."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from .._version import __version__
from . import commands as c
from .answers import ack, pack, refusal
from .commands import Beat, Hello, Malformed, Refused, decode
from .dialects import NATIVE
from .feed import COUNT, SIZE, Feed
from .frames import largest
from .operations import Fields, carry_out
from .refusal import Code
from .security import Role
from .viewer import Viewer

if TYPE_CHECKING:
    from .hub import Client, Hub
    from .stream import Wire

logger = logging.getLogger(__name__)

FAR: Final = 2000
"""Events by which the log may be ahead of a viewer. Beyond that the viewer is *overtaken*: what it
has missed is better told by a snapshot, and that best when the agent pauses, since it would be old
before it was sent."""


class NativeViewer(Viewer):
    """One connection of a client that speaks `agentrt.v1`."""

    def __init__(self, hub: Hub, role: Role) -> None:
        super().__init__(hub, role)
        self._wire: Wire | None = None
        self._list_changed = False
        self._receiving = False
        self._at_once = False  # whether the last frame was there without a wait
        self._beat_at = trio.current_time() + hub.limits.beat

    def connect(self, wire: Wire) -> None:
        self._wire = wire

    # --- what arrives

    def receive(self, text: str) -> None:
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
            self._welcome(command)
        elif self.client is None:
            self.reply(refusal(command.id, Refused("bad_request", "the first frame is `hello`")))
        else:
            self._perform(self.client, command)

    def _welcome(self, hello: c.Hello) -> None:
        """The first frame: who the client is, what it offers, and what it wants to see."""
        try:
            if self.client is not None:
                raise Refused("bad_request", "`hello` was said already")
            if hello.tools and self.role == "viewer":
                raise Refused("forbidden", "a viewer offers no tools")
            if len({offer.name for offer in hello.tools}) < len(hello.tools):
                raise Refused("bad_request", "two of the tools have the same name")
        except Refused as error:
            self.reply(refusal(hello.id, error))
            return
        self.client = client = self._hub.recognise(self, hello.client)
        client.offer(hello.tools)
        self.reply(self._ready())
        given: dict[str, str] = {}
        for known in hello.sessions:
            feed = self._hub.feeds.get(known.session)
            if feed is None:
                given[known.session] = "unknown_session"
            else:
                replay = self.follow(feed, known.epoch, known.seq)
                given[known.session] = "replay" if replay else "snapshot"
        self.reply(ack(hello.id, sessions=given))

    def _ready(self) -> bytes:
        """The answer to `hello`."""
        return pack(
            type="ready",
            server=f"agentrt/{__version__}",
            protocol=NATIVE.protocol,
            role=self.role,
            sessions=self._hub.runtime.list(),
            agents=self._hub.agents(),
            beat_s=self._limits.beat,
            limits={"frame": largest(self._limits, self.role)},
        )

    def _attach(self, command: c.Attach) -> Fields:
        replay = self.follow(self._hub.feed(command.session), command.epoch, command.seq)
        return {"session": command.session, "answer": "replay" if replay else "snapshot"}

    def _detach(self, command: c.Detach) -> Fields:
        self.unfollow(self._hub.feed(command.session))
        return {"session": command.session}

    def _list(self, command: c.ListSessions) -> Fields:
        return {"sessions": self._hub.runtime.list()}

    def _perform(self, client: Client, command: c.Command) -> None:
        """Carry out a command of a client that has said hello, if it was not yet, and answer."""
        id = command.id
        look = _LOOKS.get(type(command))
        try:
            if look is not None:  # of no other connection's concern: done again on another one
                self.reply(ack(id, **look(self, command)))
                return
        except Refused as error:
            self.reply(refusal(id, error))
            return
        if client.seen(command):
            return

        def tell(outcome: Fields | Refused) -> None:
            if isinstance(outcome, Refused):
                client.answer(id, refusal(id, outcome))
            else:
                client.answer(id, ack(id, **outcome))

        carry_out(self._hub, client, command, tell)

    # --- what is to be sent

    def follow(self, feed: Feed, epoch: str | None, seq: int | None) -> bool:
        """Send a session from now on; True if the client gets just what it has missed, False if a
        snapshot. In the same step as `Feed.reaches`, so that nothing comes between."""
        # Followed already, it may have events under way that it does not know of yet.
        replay = feed not in self._places and feed.reaches(epoch, seq)
        self._places[feed] = seq if replay else None
        feed.viewers.add(self)
        self.changed(feed)
        return replay

    def changed(self, feed: Feed, *, overtaken: bool = False) -> None:
        if not self._push_events(feed):
            super().changed(feed, overtaken=overtaken)

    def list_changed(self) -> None:
        if self.client is not None:
            self._list_changed = True
            self._push()

    async def next_frame(self) -> bytes:
        """All that waits, as one frame: an object, or an array of up to 100 events or 32 KiB. When
        nothing waits for `limits.beat`, a beat.

        Raises `Refusal` behind the last frame, and `trio.ClosedResourceError` after `close`.
        Cancelling it loses nothing.
        """
        if self._at_once:  # the others' turn
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self._at_once = True
        while True:
            while not self._due():
                with trio.move_on_at(self._beat_at):
                    await self._lot.park()
                self._at_once = False
            if self._closed:
                raise trio.ClosedResourceError("the viewer is closed")
            frame = self._frame()
            if frame is not None:
                return frame
            if self._ended is not None:
                raise self._ended

    def _push_events(self, feed: Feed) -> bool:
        """What `_push` does in the commonest case: many viewers that know the same get the same."""
        wire = self._wire
        if self._receiving or self._changed or self._replies or self._list_changed or wire is None:
            return False
        if not wire.written or (text := feed.all_after(self._places[feed])) is None:
            return False
        self._places[feed] = feed.log.seq
        feed.waiting.add(self)
        wire.put(text)
        return True

    def _push(self) -> None:
        """Send what is due at once if the network takes it: waking a task costs more. What cannot
        be sent, or is more than a frame, is the task's that asks for frames."""
        if self._receiving:
            return
        wire = self._wire
        if wire is not None and wire.written and self._ended is None:
            try:
                frame = self._frame()
            except Exception:
                logger.exception("a viewer's frame could not be made")
                self.end(Code.BROKEN, "a mistake of the server")
                return
            if frame is not None:
                wire.put(frame)
        if self._due():
            self._wake()

    def _due(self) -> bool:
        """Whether something is to be sent now."""
        return bool(
            self._changed
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
                    self._changed.setdefault(feed, False)
        while self._replies and len(parts) < COUNT:
            parts.append(self.next_reply())
        if self._list_changed and not self._replies:
            self._list_changed = False
            parts.append(self._hub.list_frame())
        if self._changed:
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
        for feed, overtaken in list(self._changed.items()):
            if size >= SIZE or len(parts) >= COUNT:
                break
            del self._changed[feed]
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
                        self._changed[feed] = overtaken
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


_LOOKS: Final[dict[type[c.Command], Callable[[NativeViewer, Any], Fields]]] = {
    c.Attach: NativeViewer._attach,
    c.Detach: NativeViewer._detach,
    c.ListSessions: NativeViewer._list,
}
