"""A session's items in order, for readers that show them piece by piece.

A reader need not remember everything that it has shown: `ItemReader` keeps the shown part of items
that can still change, and everything else is before its position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from ..errors import EventsExpired
from ..events import TERMINAL, Event, Item, ItemClosed, ItemDelta, ItemOpened, ItemUpdated, Notice
from ..lowlevel import Log

T = TypeVar("T")

ITEMS_PER_PIECE: Final = 256
"""Items that are shown between two checks for changes."""
ITEMS_PER_STEP: Final = 4096
"""Items that are numbered together."""


class ItemIndex:
    """One session's items, shared by all its readers."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._ids: list[str] = []
        self._index: dict[str, int] = {}
        self._starts: dict[str, int] = {}

    def piece(self, start: int, count: int) -> list[str]:
        """Return up to `count` ids of items, beginning with number `start`."""
        self._number(start + count)
        return self._ids[start : start + count]

    def is_before(self, id: str, end: int) -> bool:
        """True if an item is one of the first `end` items."""
        self._number(end)
        return self._index.get(id, end) < end

    def start(self, turn: str) -> int:
        """Return the number of a turn's first item."""
        self._number(len(self.log.state.items))
        return self._starts.get(turn, len(self._ids))

    def _number(self, end: int) -> None:
        """Number the items up to `end`; items are never removed. In a long session this is done
        piece by piece, because doing it in one step would block all tasks.
        """
        items, known = self.log.state.items, len(self._ids)
        if known >= min(end, len(items)):
            return
        end = min(max(end, known + ITEMS_PER_STEP), len(items))
        if known < len(items) // 2:
            new = list(islice(items.values(), known, end))
        else:
            new = list(islice(reversed(items.values()), len(items) - end, len(items) - known))[::-1]
        ids, turns = [item.id for item in new], [item.turn for item in new]
        places = range(known, end)
        self._ids += ids
        self._index.update(zip(ids, places, strict=True))
        for turn, place in dict(zip(reversed(turns), reversed(places), strict=True)).items():
            if turn is not None:
                self._starts.setdefault(turn, place)


class ItemReader(Generic[T]):
    """One reader's progress through the items, beginning with number `start`."""

    def __init__(self, transcript: ItemIndex, start: int) -> None:
        # The shown part of items that may still change: the characters of texts, and any data that
        # the reader keeps about tools.
        self.texts: dict[str, int] = {}
        self.tools: dict[str, T] = {}
        self._transcript = transcript
        self._ended: list[str] = []
        self._next = start
        self._seq = transcript.log.seq

    def pending(self) -> Iterator[tuple[Item, bool] | Notice]:
        """Yield the items and notices to show, until there are no more.

        Each item is as current as when it is requested. First come items that may have changed,
        then new ones (with True), then the notices that the log still has.
        """
        log = self._transcript.log
        while self._seq != log.seq or self._next < len(log.state.items):
            ended, self._ended = self._ended, []
            events, piece = self._piece()
            for id, new in piece:
                item = log.state.items[id]
                yield item, new
                if item.status in TERMINAL:
                    self._ended.append(id)
            for id in ended:  # their changes while being shown are handled
                self.texts.pop(id, None)
                self.tools.pop(id, None)
            yield from [event for event in events if isinstance(event, Notice)]

    def _piece(self) -> tuple[list[Event], list[tuple[str, bool]]]:
        """Return the events since the last call, and the next items to show."""
        transcript, log = self._transcript, self._transcript.log
        events: list[Event] = []
        changed: Iterable[str] = ()
        if self._seq != log.seq:
            try:
                events = log.since(self._seq)
                changed = dict.fromkeys(filter(None, map(_item, events)))
            except EventsExpired:  # too long ago to know which ones have changed
                changed = [*self.texts, *self.tools]
            self._seq = log.seq
        items = log.state.items
        known = [id for id in changed if id in items and transcript.is_before(id, self._next)]
        new = transcript.piece(self._next, ITEMS_PER_PIECE)
        self._next += len(new)
        return events, [(id, False) for id in known] + [(id, True) for id in new]


def _item(event: Event) -> str | None:
    """Return the id of the item that an event changes, or None."""
    match event:
        case ItemDelta() | ItemUpdated() | ItemClosed():
            return event.item
        case ItemOpened():
            return event.item.id
    return None
