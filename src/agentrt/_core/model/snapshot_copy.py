"""A snapshot of a whole session that is made in short steps, while the session continues.

A step copies a few items and turns, from the oldest to the newest. Changes between two steps come
through a cursor of the log: the items and turns that they name are copied again at the end. So the
result is the state at one event, the newest one at the last step, and no step's work depends on the
length of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from .events import (
    TERMINAL,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    TurnEnded,
    TurnStarted,
)
from .log import Log
from .state import History, Snapshot, TurnRecord

T = TypeVar("T")

COPIED_PER_STEP: Final = 1024
"""Items that one step copies at most, and also turns; and the events that it processes."""


class SnapshotCopy:
    """The copying of everything in a log. Call `step` until it returns a snapshot, then `close`."""

    def __init__(self, log: Log, *, piece: int = COPIED_PER_STEP) -> None:
        """Start at the newest event of `log`.

        `piece`: the maximum number of items, turns and events that one step processes each.
        """
        self._log = log
        self._piece = piece
        self._cursor = log.cursor(log.seq, lossless=True)
        self._restart()

    def _restart(self) -> None:
        """Begin with the oldest item. Done again if earlier history is loaded from a store."""
        state = self._log.state
        self._ahead = state.ahead
        self._items = _Copied(state.complete_item, _is_final_item, self._piece)
        self._turns = _Copied(state.turn, _is_final_turn, self._piece)

    def step(self) -> Snapshot | None:
        """Copy the next piece. Returns the snapshot once everything is copied."""
        log, state = self._log, self._log.state
        if state.ahead is not self._ahead:
            self._restart()
        items, turns = self._items, self._turns
        item_ids, turn_ids = state.item_ids, state.turn_ids
        if not (
            self._follow()
            and items.copy(item_ids)
            and turns.copy(turn_ids)
            and items.refresh(item_ids)
            and turns.refresh(turn_ids)
        ):
            return None
        earlier = item_ids[0] if state.ahead is not None and item_ids else None
        page = History(turns=turns.values, items=items.values, earlier=earlier)
        return state.show(page, state.tasks.values(), log.session, log.epoch, log.seq)

    def close(self) -> None:
        """Stop following the log."""
        self._cursor.close()

    def _follow(self) -> bool:
        """Note the changes since the last step. Returns True if there are no more."""
        for _ in range(self._piece):
            match self._cursor.pop():
                case None:
                    return True
                case ItemDelta() | ItemUpdated() | ItemClosed() as event:
                    self._items.changed(event.item)
                case ItemOpened() as event:
                    self._items.changed(event.item.id)
                case TurnStarted() | TurnEnded() as event:
                    self._turns.changed(event.turn)
                case _:
                    pass
        return False


class _Copied(Generic[T]):
    """The copies of values with ids, in their order."""

    def __init__(self, copy: Callable[[str], T], is_final: Callable[[T], bool], piece: int) -> None:
        """`copy` returns a copy of the value with an id.

        `is_final` is true for values that hardly ever change. `piece` is the maximum number of
        values that are copied in one step.
        """
        self.values: list[T] = []
        self._places: dict[str, int] = {}  # of values that were not final
        self._changed: dict[str, None] = {}
        self._copy = copy
        self._is_final = is_final
        self._piece = piece

    def copy(self, ids: list[str]) -> bool:
        """Copy the next values. Returns True if no more are left."""
        start = len(self.values)
        for place, id in enumerate(ids[start : start + self._piece], start):
            value = self._copy(id)
            self.values.append(value)
            self._changed.pop(id, None)
            if not self._is_final(value):
                self._places[id] = place
        return len(self.values) == len(ids)

    def changed(self, id: str) -> None:
        """Note that a value has changed: it is copied again, if it is copied already."""
        self._changed[id] = None

    def refresh(self, ids: list[str]) -> bool:
        """Copy values again that have changed. Returns True if no more are left."""
        for _ in range(min(len(self._changed), self._piece)):
            id, _ = self._changed.popitem()
            place = self._places.get(id)
            if place is None:
                if id not in ids:
                    continue  # states ignore events about unknown items and turns
                place = ids.index(id)
            self.values[place] = self._copy(id)
        return not self._changed


def _is_final_item(item: Item) -> bool:
    return item.status in TERMINAL


def _is_final_turn(turn: TurnRecord) -> bool:
    return turn.outcome is not None
