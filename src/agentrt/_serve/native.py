"""`agentrt.v1`: a client's greeting and commands, and the composition of frames.

A frame is made when the network can take it, from the events that the client lacks at that moment.
So a client that reads slowly gets larger frames less often, and one that lacks too much gets a
snapshot instead of events. Two rules keep the order that a client relies on:

- The answer to a command is sent before the events that the command causes, or in one frame with
  them. While `_receiving` is set, nothing is pushed.
- A page of history is sent when the client knows the session up to the number that the page was
  made at (`_looks_back`), so that it never mentions items that the client does not know.

Commands that concern only the connection (`_LOOKS`) are answered to it directly. All others belong
to the client: if it sends one again on its next connection, the answer goes there.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import trio
from msgspec.structs import asdict

from .._version import __version__
from ..errors import AgentrtError
from ..jsonrpc import encode_json
from ..lowlevel import CommandFields, CommandRefused, Steps
from . import commands as c
from .answers import ack, as_refusal, refusal
from .client import Client, encoded_offers
from .commands import Beat, Hello, Malformed, decode
from .feed import BATCH_BYTES, BATCH_EVENTS, OVERTAKEN_EVENTS, Feed
from .frames import largest
from .hub import Hub, ServedDialect
from .native_frames import BeatFrame, FrameLimits, Position, ReadyFrame
from .operations import answer
from .previews import EncodedItems, item_at
from .refusal import CloseCode
from .security import Role
from .viewer import Outlet, Viewer

logger = logging.getLogger("agentrt.server")

_LOOKS: Final = (c.Attach, c.Detach, c.LookBack, c.ReadContent, c.ListSessions, c.ShowWire)
"""The commands that concern only the connection that sent them."""


class NativeViewer(Viewer):
    """One connection of a client that speaks `agentrt.v1`."""

    protocol = "agentrt.v1"

    def __init__(self, hub: Hub, role: Role) -> None:
        super().__init__(role, hub.limits, hub.forget)
        self._hub = hub
        self._client: Client | None = None  # set once it has sent `hello`
        self._outlet: Outlet | None = None
        self._list_changed = False
        # A client that requests history must know all newer events first, or the answer would
        # mention items whose events are still to come.
        self._looks_back: dict[Feed, c.LookBack] = {}
        self._receiving = False
        self._beat_at = trio.current_time() + hub.limits.position_interval_s

    def connect(self, outlet: Outlet) -> None:
        """Use the connection's outlet, so that due frames are sent without waking a task."""
        self._outlet = outlet

    # --- received frames

    def _receive(self, text: str) -> None:
        """Decode a frame and carry it out; a malformed one is refused and the connection stays
        open.
        """
        self._receiving = True  # its answer goes before the resulting events
        try:
            command = decode(text, self.role)
            if isinstance(command, Hello):
                self._welcome(command)
            elif not isinstance(command, Beat):
                self._perform(command)
        except Malformed as error:
            self.reply(refusal(error.id, error))
        finally:
            self._receiving = False
            self._push()

    def _welcome(self, hello: Hello) -> None:
        """Handle the first frame: the client's name, its tools, and the sessions it views."""
        if self._client is not None:
            raise Malformed(hello.id, "bad_request", "`hello` was sent already")
        if hello.tools and self.role == "viewer":
            raise Malformed(hello.id, "forbidden", "a viewer offers no tools")
        if len({offer.name for offer in hello.tools}) < len(hello.tools):
            raise Malformed(hello.id, "bad_request", "two of the tools have the same name")
        try:
            encoded_offers(hello.tools)
        except CommandRefused as error:
            raise Malformed(hello.id, error.code, error.message) from None
        self.identify(hello.name)
        self._client = self._hub.recognise(self, hello.client)
        self._client.offer(hello.tools)
        self.reply(self._ready())
        if (frame := self._hub.store_frame()) is not None:
            self.reply(frame)
        given: dict[str, str] = {}
        unread: list[c.Known] = []
        for known in hello.sessions:
            if self._is_late(known.session, known.epoch, known.seq):
                unread.append(known)
            else:
                self._follow_known(known, given)
        self._client.serve(self._greet(self._client, hello.id, unread, given), looks=True)

    def _greet(
        self, client: Client, id: str, unread: list[c.Known], given: dict[str, str]
    ) -> Steps[None]:
        """Answer `hello`, after the sessions that are unread have been read."""
        try:
            if unread:
                yield from client.wait(partial(self._read, unread, given), always=True)
            self.reply(ack(id, {"sessions": given}))
        except Exception as error:
            self.reply(refusal(id, as_refusal(error)))

    def _follow_known(self, known: c.Known, given: dict[str, str]) -> None:
        """Follow a session from the position that the client named in `hello`, and note in `given`
        how: `replay`, `snapshot`, or `unknown_session`.
        """
        feed = self._hub.feeds.get(known.session)
        there = feed is not None and self._follow(feed, known.epoch, known.seq)
        given[known.session] = there or "unknown_session"

    async def _read(self, sessions: list[c.Known], given: dict[str, str]) -> CommandFields:
        """Read the sessions of a `hello` that are not in memory, and follow each of them.

        One that cannot be read does not keep the client from the others. It is reported as
        `unavailable` if the store is, because the client would forget a session that is reported as
        unknown.
        """
        for known in sessions:
            try:
                await self._catch_up(known.session, known.epoch, known.seq)
            except AgentrtError as error:  # the others are there
                logger.warning("the session %s cannot be read: %s", known.session, error)
                if as_refusal(error).code == "unavailable":  # it may well exist
                    given[known.session] = "unavailable"
                    continue
                if self._hub.is_behind(known.session, known.epoch, known.seq):
                    given[known.session] = "unknown_session"
                    continue
            # Without a checkpoint: sessions without viewers are dropped when the next one is read.
            self._follow_known(known, given)
        return {}

    def _is_late(self, session: str, epoch: str | None, seq: int | None) -> bool:
        """True if this server does not have the requested events yet."""
        return self._hub.is_unread(session) or self._hub.is_behind(session, epoch, seq)

    async def _catch_up(self, session: str, epoch: str | None, seq: int | None) -> CommandFields:
        """Wait until this server knows the events that the client saw on another server.

        The session may leave this server while it waits; then it is read again.
        """
        await self._hub.read(session)
        while seq is not None and self._hub.is_behind(session, epoch, seq):
            if await self._hub.reach(session, seq):
                break
            await self._hub.read(session)
        return {}

    def _ready(self) -> bytes:
        """Return the answer to `hello`."""
        return encode_json(
            ReadyFrame(
                server=f"agentrt/{__version__}",
                role=self.role,
                sessions=self._hub.sessions(),
                agents=self._hub.agents(),
                beat_s=self._limits.position_interval_s,
                limits=FrameLimits(largest(self._limits, self.role)),
            )
        )

    def _looked(self, client: Client, command: c.ViewerCommand) -> Steps[CommandFields | None]:
        """Carry out a command that concerns only this connection, and return its result; None if
        it is answered later. Raises `CommandRefused`.
        """
        match command:
            case c.Attach(session=session, epoch=epoch, seq=seq):
                if self._is_late(session, epoch, seq):
                    yield from client.wait(partial(self._catch_up, session, epoch, seq))
                shown = self._follow(self._hub.feed(session), epoch, seq)
                return {"session": session, "answer": shown}
            case c.Detach(session=session):
                self.unfollow(self._hub.feed(session))
                return {"session": session}
            case c.LookBack(session=session, before=item, count=count):
                self._look_back(
                    command, (yield from self._hub.known(client, session, item, turns=count))
                )
                return None
            case c.ReadContent(session=session, at=at, start=start, count=count):
                if self._hub.is_unread(session):
                    yield from client.wait(partial(self._hub.read, session))
                feed = self._hub.feed(session)
                place = item_at(at)
                if place is not None and feed.log.state.item(place) is None:
                    feed = yield from self._hub.known(client, session, place, turns=1)
                return asdict(feed.previews.content(at, start, count))
            case c.ListSessions(query=query, before=before, limit=limit):
                if query:
                    return (yield from client.wait(partial(self._hub.search, query, limit)))
                return self._hub.page(before, limit)
            case c.ShowWire(session=session):
                return self._hub.live_traces.latest_rows(self._hub.session(session))
        raise TypeError(f"{command} concerns more than this connection")

    def _look(self, client: Client, command: c.ViewerCommand) -> Steps[None]:
        """Carry out a command about this connection, and answer it to this connection only."""
        try:
            fields = yield from self._looked(client, command)
            if fields is not None:
                self.reply(ack(command.id, fields))
        except Exception as error:
            self.reply(refusal(command.id, as_refusal(error)))

    def _perform(self, command: c.ViewerCommand) -> None:
        """Carry out a command, unless it was carried out before, and answer it."""
        client = self._client
        if client is None:
            raise Malformed(command.id, "bad_request", "the first frame must be `hello`")
        if isinstance(command, _LOOKS):  # repeated on another connection, it is carried out there
            client.serve(self._look(client, command), looks=True)
        elif not client.seen(command, self.reply):
            client.serve(answer(self._hub, client, command))

    def _look_back(self, command: c.LookBack, feed: Feed) -> None:
        """Answer once the client knows the session up to the log's current number."""
        if feed in self._looks_back:
            raise CommandRefused("limit", "another `history` of this session waits for its answer")
        if self._places.get(feed, feed.log.seq) == feed.log.seq:
            self.reply(self._history(feed, command))
        else:
            self._looks_back[feed] = command

    def _history(self, feed: Feed, command: c.LookBack) -> bytes:
        """Return the answer with a page of history, the size of which is limited as that of a
        snapshot.
        """
        log, before = feed.log, command.before
        items = EncodedItems(feed.previews, self._limits.snapshot_bytes)
        try:
            page = log.history(before, command.count, items)
        except KeyError:
            message = f"no item {before!r} in this session"
            return refusal(command.id, CommandRefused("unknown_request", message))
        about = {"session": log.session, "epoch": log.epoch, "seq": log.seq, "before": before}
        answer = {"type": "ack", "id": command.id, "ok": True, **about}
        return feed.previews.history(page, items.encoded, **answer)

    # --- sent frames

    def follow(self, feed: Feed, epoch: str | None, seq: int | None) -> bool:
        """Send a session from now on.

        Returns True if the client gets only the events that it missed, False if it gets a snapshot.
        Nothing can happen between this check and `Feed.reaches`, as there is no checkpoint.
        """
        if self._closed or self._ended is not None:  # it left while the session was read
            return False
        # If followed already, events may be under way that the client does not know yet.
        replay = feed not in self._places and feed.reaches(epoch, seq)
        self._places[feed] = seq if replay else None
        feed.viewers.add(self)
        self.changed(feed)
        return replay

    def _follow(self, feed: Feed, epoch: str | None, seq: int | None) -> str:
        """Follow a session and note that the client views it. Returns the word for the answer."""
        if self._client is not None:
            self._hub.arrived(self._client, feed.log.session)
        return "replay" if self.follow(feed, epoch, seq) else "snapshot"

    def changed(self, feed: Feed, *, overtaken: bool = False) -> None:
        """Send new events immediately if nothing else waits; otherwise note that the session has
        some.

        In the most common case, viewers that know the same get the same bytes.
        """
        outlet, seq, now = self._outlet, self._places[feed], trio.current_time()
        if (
            self._receiving
            or overtaken
            or self._changed
            or self._replies
            or self._list_changed
            or feed in self._looks_back
            or outlet is None
            or not outlet.written
            or seq is None
            or (found := feed.common_frame(seq, now)) is None
        ):
            super().changed(feed, overtaken=overtaken)
            return
        self._places[feed], frame = found
        outlet.put(frame)
        if self._places[feed] == feed.log.seq:
            feed.waiting.add(self)
        elif not feed.has_to_wait(self, now):
            super().changed(feed)

    def unfollow(self, feed: Feed, /) -> None:
        """Stop following a session, and answer a request for its history that still waits."""
        super().unfollow(feed)
        if (command := self._looks_back.pop(feed, None)) is not None:
            self.reply(self._history(feed, command))

    def end(self, code: int, reason: str) -> None:
        """End the connection, after answering the requests that wait: they would have no answer
        otherwise.
        """
        for feed in list(self._looks_back):
            self.unfollow(feed)
        super().end(code, reason)

    def list_changed(self) -> None:
        """Send the new list of sessions, unless the client has not introduced itself yet."""
        if self._client is not None:
            self._list_changed = True
            self._push()

    def store_changed(self, frame: bytes) -> None:
        """Send the store's new state, unless the client has not introduced itself yet."""
        if self._client is not None:
            self.reply(frame)

    def _push(self) -> None:
        """Send a due frame immediately if the network takes it, because waking a task costs more.
        The rest is left to the task that calls `next_frame`.
        """
        if self._receiving:
            return
        outlet = self._outlet
        if outlet is not None and outlet.written and self._ended is None:
            try:
                frame = self._frame()
            except Exception:
                logger.exception("a viewer's frame could not be made")
                self.end(CloseCode.BROKEN, "internal server error")
                return
            if frame is not None:
                outlet.put(frame)
        if self._changed or self._replies or self._list_changed:
            super()._push()

    def _frame(self) -> bytes | None:
        """Return an object, or an array of up to 100 events or 32 KiB; a beat if nothing was due
        for `limits.position_interval_s`.
        """
        parts: list[bytes] = []
        if self._replies:  # a command's events go with its answer
            for feed, seq in self._places.items():
                if seq != feed.log.seq and self in feed.waiting:
                    self._changed.setdefault(feed, False)
        while self._replies and len(parts) < BATCH_EVENTS:
            parts.append(self.next_reply())
        if self._list_changed and not self._replies:
            self._list_changed = False
            parts.append(self._hub.list_frame())
        if self._changed:
            self._take_events(parts)
        now = trio.current_time()
        if now >= self._beat_at and self._ended is None:
            self._beat_at = now + self._limits.position_interval_s
            parts.append(self._beat())
        if len(parts) > 1:
            return b"[" + b",".join(parts) + b"]"
        return parts[0] if parts else None

    def _take_events(self, parts: list[bytes]) -> None:
        """Add events, session by session, until the frame is full."""
        now = trio.current_time()
        size = sum(map(len, parts))
        for feed, overtaken in list(self._changed.items()):
            if size >= BATCH_BYTES or len(parts) >= BATCH_EVENTS:
                break
            del self._changed[feed]
            seq, newest = self._places[feed], feed.log.seq
            far = seq is not None and newest - seq > OVERTAKEN_EVENTS
            if seq is not None and far and not overtaken and not feed.keeps(seq):
                feed.overtake(self, now)
                continue
            if seq != newest:
                start = len(parts)
                seq = self._places[feed] = self._take(feed, seq, parts, size, now, overtaken)
                size += sum(map(len, parts[start:]))
            if seq == newest and (command := self._looks_back.pop(feed, None)) is not None:
                parts.append(self._history(feed, command))
                feed.charge(len(parts[-1]), now)
                size += len(parts[-1])
            if seq != newest:
                if not feed.has_to_wait(self, now):
                    self._changed[feed] = overtaken
            elif feed.over:
                self.unfollow(feed)
            else:
                feed.waiting.add(self)

    def _take(
        self, feed: Feed, seq: int | None, parts: list[bytes], size: int, now: float, far: bool
    ) -> int | None:
        """Append the frames that follow `seq` in a session, as far as there is room.

        Returns the number that the client knows then. `far`: the viewer was overtaken there.
        """
        if seq is not None and feed.keeps(seq) and not (far and feed.long(seq)):
            known, size = feed.take(seq, parts, BATCH_EVENTS - len(parts), BATCH_BYTES - size)
        else:
            known, frame = feed.snapshot(seq, now)
            size = len(frame)
            if parts and size > BATCH_BYTES:
                return seq  # alone in the next frame, so that it is not copied
            parts.append(frame)
        feed.charge(size, now)
        return known

    def _beat(self) -> bytes:
        """Return a beat with the position and phase of each session that the client knows, so that
        it can notice missing events.
        """
        known = {
            feed.log.session: Position(feed.log.epoch, seq, feed.log.state.state.phase)
            for feed, seq in self._places.items()
            if seq is not None
        }
        return encode_json(BeatFrame(known))


NATIVE: Final = ServedDialect("/ws", "agentrt.v1", NativeViewer, says_closing=True)
