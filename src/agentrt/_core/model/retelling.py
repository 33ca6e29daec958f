"""A conversation as text, for an agent that does not remember it."""

from __future__ import annotations

from typing import Final

from .content import plain_text
from .events import Item
from .state import SessionState

OPENING: Final = (
    "You do not remember this conversation, because the process that had it is gone. It went as"
    " follows. Do nothing about it now: say in one short sentence that you know it again."
)
"""The first sentences of such a prompt."""

OMITTED: Final = "(earlier messages are left out)"
"""Marks the place where earlier text is left out."""


def history_text(state: SessionState, most: int) -> str:
    """Return the last `most` characters of the finished turns as text.

    Empty if no turn has finished.
    """
    parts: list[str] = []
    left = most
    for item in reversed(state.items.values()):
        words = _words(state, item)
        if not words:
            continue
        if len(words) > left:
            parts += [words[len(words) - left :], OMITTED]
            break
        left -= len(words)
        parts.append(words)
    return "\n\n".join([OPENING, *reversed(parts)]) if parts else ""


def _words(state: SessionState, item: Item) -> str:
    turn = state.turns.get(item.turn or "")
    if item.parent is not None or turn is None or turn.outcome is None:
        return ""
    text = state.text(item.id) or plain_text(item.content)
    match item.type:
        case "user":
            return "" if OPENING in text else f"The user: {text}"
        case "text":
            return f"You: {text}" if text else ""
        case "tool":
            title = item.tool.title or item.tool.name if item.tool is not None else ""
            return f"(You used a tool: {title}; {item.status}.)"
        case _:
            return ""
