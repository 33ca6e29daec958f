"""Checkpoints of a session, so that it can continue without reading all its events.

A store keeps them in addition to the events. A `Head` describes the session at one event, without
its turns. `Record`s hold its turns and their items, each final. Together they are the state at that
event; later events lead to the current state. This module does not access a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct, structs

from .events import (
    TERMINAL,
    Command,
    Item,
    Modes,
    PermissionOpened,
    PlanEntry,
    QueueEntry,
    State,
    Task,
    TaskChanged,
    Usage,
)
from .state import SessionState, StoredHistory, TurnRecord

T = TypeVar("T")


class Head(Struct, kw_only=True, omit_defaults=True):
    """A session at event `seq`, without its turns."""

    seq: int = 0
    """The number of the event."""
    records: int = 0
    """The number of records that cover the events up to `seq`."""
    state: State | None = None
    """The state of the agent; None if there is none yet."""
    permissions: list[PermissionOpened] = []
    """The open questions."""
    queue: list[QueueEntry] = []
    """The prompts that wait."""
    paused: bool = False
    """True if the prompts wait for `SessionQueue.resume`."""
    plan: list[PlanEntry] = []
    """The agent's plan."""
    tasks: list[Task] = []
    """The background tasks."""
    usage: Usage | None = None
    """The tokens used so far, as reported last."""
    modes: Modes | None = None
    """The modes and models of the agent."""
    commands: list[Command] = []
    """The commands that the agent offers."""
    title: str | None = None
    """The title."""
    named: bool = False
    """True if a person gave the title; the agent's titles are not shown in that case."""
    ids: dict[str, int] = {}
    """The last number given to each kind of id."""


class Record(Struct):
    """Turns with the items in and between them, in order."""

    number: int
    """The number of the record, which counts from 0."""
    turns: list[TurnRecord]
    """The turns."""
    items: list[Item]
    """The items."""


class Checkpoints:
    """Takes checkpoints of a growing state.

    Final records are not processed again, so the cost of a checkpoint depends on the news since the
    last one and not on the length of the session.
    """

    def __init__(self, state: SessionState, records: Sequence[Record] = ()) -> None:
        """`records` are the ones that `state` was made from. Create this before adding to the
        state.
        """
        final = [record for record in records if _is_final(record)]
        self._state = state
        self._records = final[-1].number + 1 if final else 0
        self._turns = sum(len(record.turns) for record in final)
        self._items = sum(len(record.items) for record in final)

    def take(self, seq: int, ids: dict[str, int], *, named: bool) -> tuple[Head, Record | None]:
        """Return the head at event `seq` and a record of everything after the earlier records.

        `seq` must be the state's event. A record with unfinished content is taken again later,
        under the same number.
        """
        state = self._state
        turns = [structs.replace(t) for t in _last(state.turns, len(state.turns) - self._turns)]
        items = _last(state.items, len(state.items) - self._items)
        record = None
        records = self._records
        if turns or items:
            items = [
                item if item.status in TERMINAL else structs.replace(item, text=state.text(item.id))
                for item in items
            ]
            record = Record(records, turns, items)
            records += 1
            if _is_final(record):
                self._records = records
                self._turns, self._items = len(state.turns), len(state.items)
        head = Head(
            seq=seq,
            records=records,
            state=state.state,
            permissions=list(state.permissions.values()),
            queue=state.queue,
            paused=state.paused,
            plan=state.plan,
            tasks=list(state.tasks.values()),
            usage=state.usage,
            modes=state.modes,
            commands=state.commands,
            title=state.title,
            named=named,
            ids=ids,
        )
        return head, record


def _is_final(record: Record) -> bool:
    """Return True if nothing in a record can change any more."""
    return all(turn.outcome is not None for turn in record.turns) and all(
        item.status in TERMINAL for item in record.items
    )


def _last(values: dict[str, T], count: int) -> list[T]:
    """Return the last `count` values, in order, in a time that does not depend on the others."""
    last = list(islice(reversed(values.values()), count))
    last.reverse()
    return last


def restored(
    head: Head, records: Iterable[Record], ahead: StoredHistory | None = None
) -> SessionState:
    """Return the state at event `head.seq`, from all records or from those after `ahead`."""
    state = SessionState()
    state.ahead = ahead
    if head.state is not None:
        state.state = head.state
    for record in records:
        state.add_turns(record.turns)
        state.add_items(record.items)
    state.permissions = {each.request: each for each in head.permissions}
    state.queue = head.queue
    state.paused = head.paused
    state.plan = head.plan
    for task in head.tasks:
        state.apply(TaskChanged(task))
    state.usage = head.usage
    state.modes = head.modes
    state.commands = head.commands
    state.title = head.title
    return state


def prepend_records(state: SessionState, records: Sequence[Record]) -> None:
    """Insert the records that precede a state made from later ones."""
    left = state.ahead
    turns = [turn for record in records for turn in record.turns]
    items = [item for record in records for item in record.items]
    if left is not None and records and records[0].number > 0:
        left = StoredHistory(records[0].number, left.turns - len(turns), left.prompt)
    else:
        left = None
    state.prepend_history(turns, items, left)
