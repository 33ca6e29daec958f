"""What is drawn above the prompt beside the story: prompts that wait; and how much of it all."""

from __future__ import annotations

from collections.abc import Collection

from ..conversation import Typed
from ..text import one_line
from .style import Fragments


def queue_lines(held: Collection[Typed], waiting: Collection[Typed], width: int) -> Fragments:
    """The prompts that wait for their turn, and what can be done about them."""
    shown: Fragments = []
    for typed in (*held, *waiting):
        shown += [("you", "⏎ "), ("dim", f"{one_line(typed.text, max(10, width - 4))}\n")]
    if held:
        shown.append(("dim", "  held back; Enter goes on with them, alt-up takes one back\n"))
    elif waiting:
        shown.append(("dim", "  sent when it is done; alt-up takes it back\n"))
    return shown


def last_lines(fragments: Fragments, rows: int, width: int) -> Fragments:
    """The end of it that fits into so many rows of a terminal of that width."""
    left = max(1, rows)
    kept: Fragments = []
    column = 0
    for look, text in reversed(fragments):
        left -= text.count("\n") + (column + len(text)) // max(1, width)
        column = 0 if "\n" in text else column + len(text)
        if left < 0:
            break
        kept.append((look, text))
    return kept[::-1]
