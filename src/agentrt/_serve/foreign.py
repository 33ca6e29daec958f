"""Base of the viewers for protocols other than agentrt's own.

Such a protocol has no numbered events, and its clients take messages one by one. So nothing is
queued for them: when the network has taken the last message, the next one is made from the current
state of the session. A slow client gets fewer and larger messages, a long history is sent piece by
piece, and a client that lacks events that are not kept only misses notices, which are sent once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import trio

from .feed import Feed
from .hub import Hub
from .security import Role
from .viewer import Viewer


class ForeignViewer(Viewer):
    """The common part of such viewers. A protocol implements `_receive` and `project`."""

    def __init__(self, hub: Hub, role: Role) -> None:
        super().__init__(role, hub.limits, hub.forget)
        self._hub = hub
        self._client = hub.recognise(self, None)
        self._sending: dict[Feed, Iterator[bytes]] = {}

    @abstractmethod
    def project(self, feed: Feed) -> Iterator[bytes]:
        """Yield messages with everything that a session's client does not know yet, each made when
        it is requested.
        """

    def follow(self, feed: Feed) -> None:
        """View a session, again from its beginning if it is viewed already. Does nothing if the
        connection is gone, which can happen while a session is being opened.
        """
        if not self._closed and self._ended is None:
            self._places[feed] = None
            feed.viewers.add(self)
            self.changed(feed)

    def _frame(self) -> bytes | None:
        """Return one message."""
        if self._replies:
            return self.next_reply()
        while (message := self._next()) is None and self._changed:
            self._start_changed()
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
        changed, self._changed = self._changed, {}
        for feed in changed:
            seq = self._places[feed]
            if seq != feed.log.seq:
                self._places[feed] = feed.log.seq
                self._sending[feed] = self.project(feed)
            elif feed.over:
                self.unfollow(feed)
                continue
            feed.waiting.add(self)
            if feed.over:
                self._changed[feed] = False

    def unfollow(self, feed: Feed) -> None:
        super().unfollow(feed)
        self._sending.pop(feed, None)
