"""A session's items in their order, for everybody who shows them piece by piece.

What a reader has shown it need not remember: what it showed of a thing that can still change is
kept (`Reading`), everything else is behind its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from .._model.events import (
    TERMINAL,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    Notice,
)
from .._model.log import Log, Overrun

T = TypeVar("T")

PIECE: Final = 256
"""Items that are shown between two looks at what has changed meanwhile."""


class Transcript:
    """One session's items, shared by all its readers."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._ids: list[str] = []
        self._index: dict[str, int] = {}
        self._starts: dict[str, int] = {}

    def ids(self) -> list[str]:
        """All items there are now, in their order."""
        items, known = self.log.state.items, len(self._ids)
        if new := len(items) - known:  # none ever goes
            newest = list(islice(reversed(items.values()), new))[::-1]
            ids = [item.id for item in newest]
            places = range(known, known + new)
            self._ids += ids
            self._index.update(zip(ids, places, strict=True))
            turns = [item.turn for item in newest]
            first = dict(zip(reversed(turns), reversed(places), strict=True))
            for turn, place in first.items():
                if turn is not None:
                    self._starts.setdefault(turn, place)
        return self._ids

    def index(self, id: str) -> int:
        return self._index[id]

    def start(self, turn: str) -> int:
        """Where the items of a turn begin."""
        ids = self.ids()
        return self._starts.get(turn, len(ids))


class Reading(Generic[T]):
    """One reader's way through the items, from the one of that number on."""

    def __init__(self, transcript: Transcript, start: int) -> None:
        # What was shown of the items that may still change: the characters of texts, and whatever
        # the reader wants to know of tools.
        self.texts: dict[str, int] = {}
        self.tools: dict[str, T] = {}
        self._transcript = transcript
        self._ended: list[str] = []
        self._next = start
        self._seq = transcript.log.seq

    def pending(self) -> Iterator[tuple[Item, bool] | Notice]:
        """What is to be shown, each item as it is when it is asked for, until there is no more:
        those that may have changed, and then (True) some that are new; and the notices, so far as
        the log has them."""
        log = self._transcript.log
        while self._seq != log.seq or self._next < len(log.state.items):
            ended, self._ended = self._ended, []
            events, piece = self._piece()
            for id, new in piece:
                item = log.state.items[id]
                yield item, new
                if item.status in TERMINAL:
                    self._ended.append(id)
            for id in ended:  # what happened while they were shown has been looked at
                self.texts.pop(id, None)
                self.tools.pop(id, None)
            yield from [event for event in events if isinstance(event, Notice)]

    def _piece(self) -> tuple[list[Event], list[tuple[str, bool]]]:
        """What has happened, and the next items to be shown."""
        transcript, ids = self._transcript, self._transcript.ids()
        log = transcript.log
        events: list[Event] = []
        changed: Iterable[str] = ()
        if self._seq != log.seq:
            try:
                events = log.since(self._seq)
                changed = dict.fromkeys(filter(None, map(_item, events)))
            except Overrun:  # it is too long ago to say which ones have changed
                changed = [*self.texts, *self.tools]
            self._seq = log.seq
        items = log.state.items
        piece = [(id, False) for id in changed if id in items and transcript.index(id) < self._next]
        new = ids[self._next : self._next + PIECE]
        self._next += len(new)
        return events, piece + [(id, True) for id in new]


def _item(event: Event) -> str | None:
    match event:
        case ItemDelta() | ItemUpdated() | ItemClosed():
            return event.item
        case ItemOpened():
            return event.item.id
    return None
