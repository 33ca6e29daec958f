"""The events between a reader's known state of a session and a snapshot of it.

A reader that shows a session event by event, and has missed more events than are kept, gets a
snapshot. These events lead to it. They are fewer than the original ones: a text comes in one piece,
and a question that was opened and closed in the meantime is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, structs

from .content import JsonObject
from .events import (
    TERMINAL,
    CommandsChanged,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    ModesChanged,
    PermissionClosed,
    PlanChanged,
    QueueChanged,
    StateChanged,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TitleChanged,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UsageChanged,
)
from .state import SessionState, Snapshot, TurnRecord

_DELTAS: Final[dict[str, type[ItemDelta]]] = {"text": TextDelta, "thought": ThoughtDelta}
_KEPT: Final = frozenset({"id", "type", "status", "text", "tool", "cut"})
"""Fields of an item that do not change, or are not patched directly."""


def difference(known: SessionState, now: Snapshot) -> list[Event]:
    """Return the events that lead from the known state to the snapshot.

    A known item that is not in the snapshot stays unchanged if it is closed. Otherwise it is closed
    as `orphaned`, because its later events are missing.
    """
    return [*_closed(known, now), *_turns(known, now), *_opened(known, now), *_values(known, now)]


def _closed(known: SessionState, now: Snapshot) -> Iterator[Event]:
    """Return events for the known questions and items that the snapshot does not have."""
    asked = {question.request for question in now.permissions}
    for request in known.permissions:
        if request not in asked:
            yield PermissionClosed(request=request, outcome="cancelled")
    shown = {item.id for item in now.items}
    for item in known.items.values():
        if item.id not in shown and item.status not in TERMINAL:
            yield ItemClosed(item.id, "orphaned")


def _opened(known: SessionState, now: Snapshot) -> Iterator[Event]:
    """Return events for new questions, and for new or changed tasks."""
    for question in now.permissions:
        if question.request not in known.permissions:
            yield question
    for task in now.tasks:
        if known.tasks.get(task.id) != task:
            yield TaskChanged(task)


def _values(known: SessionState, now: Snapshot) -> Iterator[Event]:
    """Return events for the values that are replaced as a whole."""
    if (known.queue, known.paused) != (now.queue, now.paused):
        yield QueueChanged(now.queue, now.paused)
    if known.plan != now.plan:
        yield PlanChanged(now.plan)
    if now.usage is not None and known.usage != now.usage:
        yield UsageChanged(now.usage)
    if now.modes is not None and known.modes != now.modes:
        yield ModesChanged(now.modes)
    if known.commands != now.commands:
        yield CommandsChanged(now.commands)
    if known.title != now.title:
        yield TitleChanged(now.title)
    if known.state != now.state:
        yield StateChanged(now.state)


def _turns(known: SessionState, now: Snapshot) -> Iterator[Event]:
    """Return events for the turns that have begun or ended, each around its items."""
    last = {item.turn: item.id for item in now.items}
    prompts = {item.turn: list(item.content) for item in reversed(now.items) if item.type == "user"}
    turns = {turn.id: turn for turn in now.turns}
    waiting = dict(turns)

    def begun(turn: TurnRecord) -> Iterator[Event]:
        """Return the event that begins a turn, unless the reader knows the turn."""
        if turn.id not in known.turns:
            yield TurnStarted(turn.id, turn.origin, prompts.get(turn.id))

    for item in now.items:
        while item.turn in waiting:  # earlier turns without items
            turn = waiting.pop(next(iter(waiting)))
            yield from begun(turn)
            if turn.id not in last:
                yield from _ended(known, turn)
        yield from _item(known, item)
        if item.turn in turns and last[item.turn] == item.id:
            yield from _ended(known, turns[item.turn])
    for turn in waiting.values():
        yield from begun(turn)
        yield from _ended(known, turn)


def _ended(known: SessionState, turn: TurnRecord) -> Iterator[Event]:
    """Return the event that ends a turn, unless the reader knows the end."""
    before = known.turns.get(turn.id)
    if turn.outcome is not None and (before is None or before.outcome is None):
        yield TurnEnded(
            turn=turn.id,
            outcome=turn.outcome,
            by=turn.by,
            who=turn.who,
            via=turn.via,
            stop_reason=turn.stop_reason,
            usage=turn.usage,
            error=turn.error,
            structured_output=turn.structured_output,
        )


def _item(known: SessionState, item: Item) -> Iterator[Event]:
    """Return events for the changes of an item. Its text only grows."""
    before, over = known.items.get(item.id), item.status in TERMINAL
    start = _start(item)
    if before is None:
        status = "running" if over else item.status
        yield ItemOpened(structs.replace(item, text="", status=status))
        shown, was_over = start, False
    else:
        shown = _start(before) + len(known.text(item.id))
        was_over = before.status in TERMINAL
    if shown < start:  # the text between is not in the snapshot
        yield ItemUpdated(item.id, {"text": item.text, "_cut": item.cut})
    elif rest := item.text[shown - start :]:
        yield _DELTAS.get(item.type, ItemDelta)(item.id, rest)
    if before is not None and (patch := _patch(before, item)):
        yield ItemUpdated(item.id, patch)
    if over and not was_over:
        yield ItemClosed(item.id, item.status)


def _start(item: Item) -> int:
    """Return the index of the first known character of an item's text."""
    cut = None if item.cut is UNSET else item.cut.get("text")
    return 0 if cut is None else cut.start


def _patch(before: Item, item: Item) -> JsonObject:
    """Return the changed fields of an item that the reader knows; empty if there are none.

    Text, and a final status, have separate events.
    """
    patch: JsonObject = {
        name: value
        for name in Item.__struct_fields__
        if name not in _KEPT and (value := getattr(item, name)) != getattr(before, name)
    }
    if item.status not in TERMINAL and item.status != before.status:
        patch["status"] = item.status
    if "content" in patch and item.cut is not UNSET and "content" in item.cut:
        patch["_cut"] = {"content": item.cut["content"]}
    if item.tool is not None and item.tool != before.tool:
        old = before.tool or ToolCall()
        patch["tool"] = {
            name: value
            for name in ToolCall.__struct_fields__
            if name != "cut" and (value := getattr(item.tool, name)) != getattr(old, name)
        }
        if item.tool.cut is not UNSET:
            patch["tool"]["_cut"] = item.tool.cut
    return patch
