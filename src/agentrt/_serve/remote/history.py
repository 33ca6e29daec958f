"""The history that a server returns for the time before a snapshot."""

from __future__ import annotations

import msgspec
from msgspec import structs

from ...events import History, Item, JsonObject, Snapshot


def earlier_of(answer: JsonObject) -> History:
    """Return the page in the answer to `history`. Raises `msgspec.ValidationError`."""
    return msgspec.convert(answer, History)


def with_earlier(now: Snapshot, page: History) -> Snapshot:
    """Return the snapshot with that page in front: the items before its first one."""
    shown = {item.id: item for item in now.items}
    older = {item.id: shown.get(item.id, item) for item in page.items}
    items: list[Item] = []
    for item in now.items:
        if item.id == now.earlier:
            items += older.values()
        if item.id not in older:
            items.append(item)
    turns = {turn.id: turn for turn in page.turns} | {turn.id: turn for turn in now.turns}
    return structs.replace(now, items=items, turns=list(turns.values()), earlier=page.earlier)
