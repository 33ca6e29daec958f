"""A session's items in their order, for everybody who tells them piece by piece.

What a reader has told it need not remember: what it told of a thing that can still change is its
own to know, everything else is behind its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from .._model.events import Event, Item, ItemClosed, ItemDelta, ItemOpened, ItemUpdated
from .._model.log import Log, Overrun

PIECE: Final = 256
"""Items that are told between two looks at what has changed meanwhile."""


class Transcript:
    """One session's items, shared by all its readers."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._ids: list[str] = []
        self._index: dict[str, int] = {}
        self._starts: dict[str, int] = {}

    def ids(self) -> list[str]:
        """All items there are now, in their order."""
        items = self.log.state.items
        if new := len(items) - len(self._ids):  # none ever goes
            for id in reversed(list(islice(reversed(items), new))):
                turn = items[id].turn
                if turn is not None:
                    self._starts.setdefault(turn, len(self._ids))
                self._index[id] = len(self._ids)
                self._ids.append(id)
        return self._ids

    def index(self, id: str) -> int:
        return self._index[id]

    def start(self, turn: str) -> int:
        """Where the items of a turn begin."""
        ids = self.ids()
        return self._starts.get(turn, len(ids))


class Reading:
    """One reader's way through the items, from the one of that number on."""

    def __init__(self, transcript: Transcript, start: int) -> None:
        self.events: list[Event] = []
        """What has happened since the piece before the last one, so far as it is known."""
        self._transcript = transcript
        self._next = start
        self._seq = transcript.log.seq

    @property
    def behind(self) -> bool:
        """Whether there is another piece."""
        log = self._transcript.log
        return self._seq != log.seq or self._next < len(log.state.items)

    def piece(self, unsettled: Callable[[], Iterable[str]]) -> list[tuple[str, bool]]:
        """The next items to be told: those behind the place that may be other ones than they were,
        and then (True) some that are new. `unsettled`: those of which the reader knows what it
        told, for when it is too long ago to say which ones have changed."""
        transcript, ids = self._transcript, self._transcript.ids()
        log = transcript.log
        self.events = []
        changed: Iterable[str] = ()
        if self._seq != log.seq:
            try:
                self.events = log.since(self._seq)
                changed = dict.fromkeys(filter(None, map(_item, self.events)))
            except Overrun:
                changed = list(unsettled())
            self._seq = log.seq
        items = log.state.items
        piece = [(id, False) for id in changed if id in items and transcript.index(id) < self._next]
        new = ids[self._next : self._next + PIECE]
        self._next += len(new)
        return piece + [(id, True) for id in new]

    def item(self, id: str) -> Item:
        """As it is now."""
        return self._transcript.log.state.items[id]


def _item(event: Event) -> str | None:
    match event:
        case ItemDelta() | ItemUpdated() | ItemClosed():
            return event.item
        case ItemOpened():
            return event.item.id
    return None
