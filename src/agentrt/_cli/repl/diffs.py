"""Changes of files, as text for a person who has to allow them."""

from __future__ import annotations

import difflib
from itertools import takewhile
from typing import Final

from ...display import reveal
from ...events import Diff

COMPARED_LINES: Final = 2000
"""Lines above which a line-by-line comparison could take seconds."""


NO_NEWLINE: Final = "  ⟨no newline at the end⟩"
"""Follows a last line without a newline, if the last line of the other version has one."""
UNCHANGED_LINES: Final = 40
"""Lines up to which a question also shows the unchanged ones."""


def changes(diff: Diff) -> list[str]:
    """Return the lines of a unified diff after its head, each with its mark.

    They are the agent's own text.
    """
    return _compared(diff.old_text, diff.new_text, around=2)


def _compared(old_text: str | None, new_text: str, *, around: int) -> list[str]:
    old, new = _split(old_text or ""), _split(new_text)
    if old and new and old_text is not None and old_text[-1:] != new_text[-1:]:
        for lines, text in ((old, old_text), (new, new_text)):
            lines[-1] += "" if text.endswith("\n") else NO_NEWLINE
    if len(old) + len(new) <= COMPARED_LINES:
        return list(difflib.unified_diff(old, new, lineterm="", n=around))[2:]
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    return [f"@@ line {start + 1} @@", *(f"-{x}" for x in removed), *(f"+{x}" for x in added)]


def show_diff(path: str, new: str, old: str | None) -> list[str]:
    """Return a change for a person who decides on it: its file and lines, with all characters
    visible.
    """
    small = len(_split(new)) + len(_split(old or "")) <= UNCHANGED_LINES
    lines = _compared(old, new, around=UNCHANGED_LINES if small else 2)
    if not lines and new:
        lines = ["  (nothing changes)", *(f" {line}" for line in _split(new))]
    what = "new file" if old is None else "change of"
    first, *rest = reveal(path).expandtabs(4).split("\n")
    shown = [line for each in lines for line in [reveal(each).expandtabs(4)]]
    return [f"{what} {first}", *(f"    {line}" for line in rest), *shown]


def _split(text: str) -> list[str]:
    """Return the lines of a text.

    Only a newline ends a line; splitting at Python's other line ends would lose those characters.
    """
    return text.removesuffix("\n").split("\n") if text else []


def _common(one: list[str], other: list[str]) -> int:
    """Return the number of lines with which both begin."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
