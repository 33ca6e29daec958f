"""The points at which a copy of a conversation may end."""

from __future__ import annotations

from ..._model.state import Snapshot
from .attaching import text_of


def fork_ends(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return the shown turns, newest first: the id of an item of each, and its prompt."""
    found: dict[str, tuple[str, str]] = {}
    for item in snapshot.items:
        if item.type == "user" and item.parent is None:
            words = item.text or text_of(item.content)
            found.setdefault(item.turn or item.id, (item.id, words))
    return list(reversed(found.values()))
