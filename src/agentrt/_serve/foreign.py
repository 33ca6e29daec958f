"""Viewers for dialects, the protocols other than agentrt's own.

Such a protocol has no numbered events, and its clients take messages one by one. So nothing is
queued for them: when the network has taken the last message, the next one is made from the current
state of the session. A slow client gets fewer and larger messages, a long history is sent piece by
piece, and a client that lacks events that are not kept only misses notices, which are sent once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import trio

from .._public import SessionInfo
from ..lowlevel import (
    CommandFields,
    CommandRefused,
    Dialect,
    DialectHost,
    DialectViewer,
    Steps,
    ViewedSession,
)
from . import commands as c
from .answers import as_refusal, pack
from .client import Client
from .feed import Feed
from .hub import Hub, ServedDialect
from .operations import carry_out
from .refusal import CloseCode
from .remote_sessions import new_id
from .security import Role
from .viewer import Viewer

OF_A_CONNECTION: Final = (
    c.Hello,
    c.Beat,
    c.Attach,
    c.Detach,
    c.LookBack,
    c.ListSessions,
    c.ShowWire,
)
"""Commands that concern the connection of an `agentrt.v1` client, not a session."""

CLOSE_CODES: Final = frozenset((*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)))
"""The codes that a close frame may have."""


class ForeignViewer(Viewer):
    """The viewer of a connection in a dialect: implements `DialectHost` for the dialect's own
    viewer, `dialect_viewer`.
    """

    def __init__(self, dialect: Dialect, hub: Hub, role: Role) -> None:
        super().__init__(role, hub.limits, hub.forget)
        self.via = self.protocol = dialect.protocol.removeprefix("agentrt.")
        self.hub = hub
        self.client: Client = hub.recognise(self, None)
        self._sending: dict[Feed, Iterator[bytes]] = {}
        self.dialect_viewer: DialectViewer = dialect.open(self)

    def recognise(self, token: str) -> None:
        """Become the client of that name, which keeps its tools over reconnections."""
        self.client.leave()
        self.client = self.hub.recognise(self, token)

    # --- the dialect's host

    def send(self, message: bytes) -> None:
        """Queue a message. It goes before all messages about sessions that are not sent yet."""
        self.reply(message)

    def end(self, code: int = 1008, reason: str = "") -> None:
        """End the connection. Raises `ValueError` for a code that a close frame must not have."""
        if code not in CLOSE_CODES:
            raise ValueError(f"{code} is not a WebSocket close code; use one from 4000 to 4999")
        super().end(code, reason)

    def sessions(self) -> list[SessionInfo]:
        """Return the sessions that clients see in a list: the open ones and the newest
        stored ones.
        """
        return self.hub.sessions()

    def find(self, session: str) -> Steps[ViewedSession]:
        """Return a session with its complete history. Raises `CommandRefused`."""
        try:
            return (yield from self.hub.known(self.client, session, None))
        except Exception as error:
            raise as_refusal(error) from error

    def follow(self, session: ViewedSession, *, anew: bool = False) -> None:
        """View a session. Does nothing if the connection is gone, which can happen while a session
        is being opened.
        """
        feed = feed_of(session)
        if anew:
            self._sending.pop(feed, None)
        if not self._closed and self._ended is None:
            self._places[feed] = None
            feed.viewers.add(self)
            self.changed(feed)

    def unfollow(self, session: ViewedSession) -> None:
        """Stop viewing a session, and notify the dialect's viewer if it was viewed."""
        feed = feed_of(session)
        followed = feed in self._places
        super().unfollow(feed)
        self._sending.pop(feed, None)
        if followed:
            self.dialect_viewer.unfollowed(feed)

    def command(self, type: str, /, **fields: Any) -> Steps[CommandFields]:
        """Carry out a command of `agentrt.v1` for the client, and return the fields of its answer.

        It is decoded from its JSON form, so that a dialect's commands are checked exactly as those
        of a client. Raises `CommandRefused`.
        """
        try:
            text = pack(type=type, id=new_id(), **fields).decode()
            command = c.decode(text, self.role)
            if isinstance(command, OF_A_CONNECTION):
                raise CommandRefused("unknown_command", f"{type} is only for agentrt.v1 clients")
            return (yield from carry_out(self.hub, self.client, command))
        except Exception as error:
            raise as_refusal(error) from error

    def start(self, steps: Steps[None]) -> None:
        """Carry out steps until their first wait; a task continues them."""
        self.client.serve(self._guarded(steps))

    def _guarded(self, steps: Steps[None]) -> Steps[None]:
        """Carry out a request; close the connection if it raises."""
        try:
            yield from steps
        except Exception as error:
            refused = as_refusal(error)  # logs an unexpected error
            broken = refused.code == "internal"
            self.end(CloseCode.BROKEN if broken else CloseCode.BAD_REQUEST, refused.message)

    # --- frames

    def _receive(self, text: str) -> None:
        """Pass a message of the client to the dialect's viewer."""
        self.dialect_viewer.receive(text)

    def list_changed(self) -> None:
        """Notify the dialect's viewer that the list of sessions has changed."""
        self.dialect_viewer.sessions_changed()

    @property
    def unsent(self) -> bool:
        """True if there is something to send."""
        return bool(self._replies or self._sending or self._changed)

    async def wait_for_sending(self) -> None:
        """Wait until more has been taken for sending. Cancelling it changes nothing."""
        await self._sent.park()

    def _frame(self) -> bytes | None:
        """Return one message."""
        message = self.next_reply() if self._replies else self._next()
        while message is None and self._changed:
            self._start_changed()
            message = self._next()
        self._sent.unpark_all()
        return message

    def _next(self) -> bytes | None:
        """Return the next message being sent, taking the sessions in turn."""
        while self._sending:
            feed, messages = next(iter(self._sending.items()))
            del self._sending[feed]
            if (message := next(messages, None)) is not None:
                feed.charge(len(message), trio.current_time())
                if feed in self._places:
                    self._sending[feed] = messages
                return message
        return None

    def _start_changed(self) -> None:
        """Begin to send the sessions that have changed, each with a new iterator of messages.

        The viewer then waits for further changes of all of them. A session that is over and
        completely sent is unfollowed.
        """
        changed, self._changed = self._changed, {}
        for feed in changed:
            seq = self._places[feed]
            if seq != feed.log.seq:
                self._places[feed] = feed.log.seq
                self._sending[feed] = self.dialect_viewer.messages(feed)
            elif feed.over:
                self.unfollow(feed)
                continue
            feed.waiting.add(self)
            if feed.over:
                self._changed[feed] = False


def feed_of(session: ViewedSession) -> Feed:
    """Return the feed that a dialect was given as a session. Raises `TypeError`."""
    if not isinstance(session, Feed):
        raise TypeError(f"a session must come from `find`, not {session!r:.100}")
    return session


def foreign_viewer(host: DialectHost) -> ForeignViewer:
    """Return the viewer behind a host. The dialects of agentrt itself use more of it than
    `DialectHost` has.
    """
    assert isinstance(host, ForeignViewer)
    return host


def served(dialect: Dialect) -> ServedDialect:
    """Return the dialect as the server's connections use it."""
    return ServedDialect(
        dialect.path,
        dialect.protocol,
        partial(ForeignViewer, dialect),
        connection_header=dialect.connection_header,
    )
