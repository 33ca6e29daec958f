"""Lines above the prompt that do not belong to the view: queued prompts, and the height limit."""

from __future__ import annotations

from collections.abc import Collection

from ..text import one_line, wrapped
from .style import Fragments


def queue_lines(prompts: Collection[str], *, paused: int, width: int) -> Fragments:
    """Draw the waiting prompts, and the keys that act on them.

    `paused`: the number of paused prompts, which are the last ones.
    """
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
    """Return the last complete lines that fit into `rows` rows of a terminal of this width."""
    lines: list[Fragments] = [[]]
    for look, text in fragments:
        for piece in text.splitlines(keepends=True):
            lines[-1].append((look, piece))
            if piece.endswith("\n"):
                lines.append([])
    left = max(1, rows)
    kept: list[Fragments] = []
    for line in reversed(lines):
        columns = sum(len(text.rstrip("\n")) for _, text in line)
        left -= max(1, -(-columns // max(1, width))) if line else 0
        if left < 0:
            break
        kept.append(line)
    return [fragment for line in reversed(kept) for fragment in line]
