"""Viewers that speak a protocol of somebody else's.

Such a protocol has no numbered events, and its clients take each message by itself. So nothing is
queued for them: when the network has taken the last message, what changed since is looked up in the
log, and messages are made of the session's state as it is then. A slow client gets fewer and larger
ones, and one that fell behind what the log keeps misses nothing but what was told once (notices).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from .._model.events import (
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
)
from .._model.log import Log, Overrun
from .native import carry_out
from .viewer import PACE, REST, Viewer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .commands import Command, Refused
    from .feed import Feed
    from .hub import Hub
    from .native import Fields
    from .security import Role


class Changes:
    """What happened to a session behind a number: the items that are other ones now, in their
    order, and the events. Without the number, or if it is too long ago: all items, no events."""

    def __init__(self, log: Log, after: int | None) -> None:
        self.events: list[Event] = []
        self.all = after is None
        if after is not None:
            try:
                self.events = log.since(after)
            except Overrun:
                self.all = True
        known = log.state.items
        self.items: list[Item] = (
            list(known.values())
            if self.all
            else [known[id] for id in dict.fromkeys(map(_item, self.events)) if id in known]
        )


def _item(event: Event) -> str:
    match event:
        case ItemDelta() | ItemUpdated() | ItemClosed():
            return event.item
        case ItemOpened():
            return event.item.id
    return ""


class ForeignViewer(Viewer, ABC):
    """What such viewers share. `receive` and `project` are the protocol's."""

    def __init__(self, hub: Hub, role: Role) -> None:
        super().__init__(hub, role)
        self.client = self._client = hub.recognise(self, None)
        self._ready: deque[bytes] = deque()
        self._beat_at = math.inf  # these protocols have no such message; there are pings

    @abstractmethod
    def project(self, feed: Feed, changes: Changes) -> Iterable[bytes]:
        """The messages that tell a change."""

    def carry_out(self, command: Command, tell: Callable[[Fields | Refused], None]) -> None:
        """As in the native protocol, for a client that may do it."""
        carry_out(self._hub, self._client, command, tell)

    def follow(self, feed: Feed, epoch: str | None = None, seq: int | None = None) -> bool:
        """Look at a session, and that again from its beginning; unless the connection is gone, as
        it may be when a session is open at last."""
        if self._closed or self._ended is not None:
            return False
        return super().follow(feed, epoch, seq)

    def list_changed(self) -> None:
        """It is not told."""

    async def next_frame(self) -> bytes:
        await trio.lowlevel.checkpoint()  # a long history is many messages
        while True:
            if self._closed:
                raise trio.ClosedResourceError("the viewer is closed")
            if self._ready:
                return self._ready.popleft()
            if self._replies:
                return self.next_reply()
            if self._ended is not None:
                raise self._ended
            if self._behind() and trio.current_time() >= self._rested:
                self._look()
            else:
                await self._sleep()

    def _look(self) -> None:
        for feed, seq in list(self._places.items()):
            if seq != feed.log.seq:
                self._places[feed] = feed.log.seq
                self._ready.extend(self.project(feed, Changes(feed.log, seq)))
            elif feed.over:
                self.unfollow(feed)
        rest = min(REST, PACE * len(self._hub.viewers))
        self._rested = trio.current_time() + rest
