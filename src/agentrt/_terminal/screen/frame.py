"""What is drawn above the prompt beside the view: prompts that wait; and how much of it all."""

from __future__ import annotations

from collections.abc import Collection

from ..text import one_line, wrapped
from .style import Fragments


def queue_lines(prompts: Collection[str], *, paused: int, width: int) -> Fragments:
    """Draw the prompts that wait, and the keys that act on them. `paused`: how many of them are,
    which are the last ones."""
    shown: Fragments = []
    for number, text in enumerate(prompts):
        mark = "⏎ " if number < len(prompts) - paused else "⏸ "
        shown += [("you", mark), ("dim", f"{one_line(text, max(10, width - 4))}\n")]
    if paused:
        what = f"  {paused} paused · Enter resumes · Alt-Up takes one back"
        shown.append(("dim", wrapped(what, width) + "\n"))
    elif prompts:
        shown.append(("dim", wrapped("  queued · Alt-Up takes it back", width) + "\n"))
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
