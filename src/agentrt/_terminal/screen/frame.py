"""What is drawn above the prompt beside the view: prompts that wait; and how much of it all."""

from __future__ import annotations

from collections.abc import Collection

from ..text import one_line, wrapped
from .style import Fragments


def queue_lines(prompts: Collection[str], *, paused: bool, width: int) -> Fragments:
    """The prompts that wait for their turn, and what can be done about them."""
    shown: Fragments = []
    for text in prompts:
        shown += [("you", "⏎ "), ("dim", f"{one_line(text, max(10, width - 4))}\n")]
    if prompts and paused:
        what = "  held back; Enter goes on with them, alt-up takes one back"
        shown.append(("dim", wrapped(what, width) + "\n"))
    elif prompts:
        shown.append(("dim", wrapped("  sent when it is done; alt-up takes it back", width) + "\n"))
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
