"""A snapshot of a whole session that is made in short steps, while the session continues.

A step copies a few items and turns, from the oldest to the newest. Changes between two steps come
through a cursor of the log: the items and turns that they name are copied again at the end. So the
result is the state at one event, the newest one at the last step, and no step's work depends on the
length of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
"""Items that one step copies at most, and also turns, in a session without new events."""


class SnapshotCopy:
    """The copying of everything in a log. Call `step` until it returns a snapshot, then `close`."""

    def __init__(self, log: Log, *, piece: int = COPIED_PER_STEP) -> None:
        """Start at the newest event of `log`.

        `piece`: the number of items, and of turns, that one step copies. A step copies one more for
        each event since the last one, so that a busy session does not grow faster than its copy.
        """
        self._log = log
        self._piece = piece
        self._cursor = log.cursor(log.seq, lossless=True)
        self._restart()

    def _restart(self) -> None:
        """Begin with the oldest item. Done again if earlier history is loaded from a store."""
        state = self._log.state
        self._ahead = state.ahead
        self._items = _Copied(state.complete_item, _is_final_item)
        self._turns = _Copied(state.turn, _is_final_turn)

    def step(self) -> Snapshot | None:
        """Copy the next piece. Returns the snapshot once everything is copied."""
        log, state = self._log, self._log.state
        if state.ahead is not self._ahead:
            self._restart()
        most = self._piece + self._follow()
        items, turns = self._items, self._turns
        item_ids, turn_ids = state.item_ids, state.turn_ids
        if not (
            items.copy(item_ids, most)
            and turns.copy(turn_ids, most)
            and items.refresh(item_ids, most)
            and turns.refresh(turn_ids, most)
        ):
            return None
        earlier = item_ids[0] if state.ahead is not None and item_ids else None
        page = History(turns=turns.values, items=items.values, earlier=earlier)
        return state.show(page, state.tasks.values(), log.session, log.epoch, log.seq)

    def close(self) -> None:
        """Stop following the log."""
        self._cursor.close()

    def _follow(self) -> int:
        """Note the changes since the last step, and return the number of their events."""
        count = 0
        while (event := self._cursor.pop()) is not None:
            count += 1
            match event:
                case ItemDelta() | ItemUpdated() | ItemClosed():
                    self._items.changed(event.item)
                case ItemOpened():
                    self._items.changed(event.item.id)
                case TurnStarted() | TurnEnded():
                    self._turns.changed(event.turn)
                case _:
                    pass
        return count


class _Copied(Generic[T]):
    """The copies of values with ids, in their order."""

    def __init__(self, copy: Callable[[str], T], is_final: Callable[[T], bool]) -> None:
        """`copy` returns a copy of the value with an id.

        `is_final` is true for values that hardly ever change.
        """
        self.values: list[T] = []
        self._places: dict[str, int] = {}  # of values that were not final
        self._changed: dict[str, None] = {}
        self._copy = copy
        self._is_final = is_final

    def copy(self, ids: Sequence[str], most: int) -> bool:
        """Copy the next values, at most `most`. Returns True if no more are left."""
        start = len(self.values)
        for place, id in enumerate(ids[start : start + most], start):
            value = self._copy(id)
            self.values.append(value)
            self._changed.pop(id, None)
            if not self._is_final(value):
                self._places[id] = place
        return len(self.values) == len(ids)

    def changed(self, id: str) -> None:
        """Note that a value has changed: it is copied again, if it is copied already."""
        self._changed[id] = None

    def refresh(self, ids: Sequence[str], most: int) -> bool:
        """Copy at most `most` changed values again. Returns True if no more are left."""
        for _ in range(min(len(self._changed), most)):
            id, _ = self._changed.popitem()
            place = self._places.get(id)
            if place is not None:
                self.values[place] = self._copy(id)
            elif id in ids:
                self.values[ids.index(id)] = self._copy(id)
                break  # such a change is rare, and a search is long: one in a step
        return not self._changed


def _is_final_item(item: Item) -> bool:
    return item.status in TERMINAL


def _is_final_turn(turn: TurnRecord) -> bool:
    return turn.outcome is not None
