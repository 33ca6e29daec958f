"""Changes of files, as a person wants to see them before allowing one."""

from __future__ import annotations

import difflib
from itertools import takewhile
from typing import Final

from .._model.content import Diff
from .text import one_line, plain

LARGE: Final = 2000
"""Lines from which on a line-by-line comparison could take seconds."""


def changes(diff: Diff) -> list[str]:
    """The lines of a unified diff behind its head, each with its mark. The agent's own text."""
    old, new = (diff.old_text or "").splitlines(), diff.new_text.splitlines()
    if len(old) + len(new) <= LARGE:
        return list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    return [f"@@ line {start + 1} @@", *(f"-{x}" for x in removed), *(f"+{x}" for x in added)]


def show_diff(diff: Diff) -> list[str]:
    """The same with the file's name, to be shown."""
    what = "new file" if diff.old_text is None else "change of"
    return [f"{what} {one_line(diff.path)}", *map(plain, changes(diff))]


def _common(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
