"""Changes of files in colours: removed and added lines, and in them the words that differ.

The looks are names of `screen/style.py`: `added`, `removed`, `added_word`, `removed_word`, `place`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from ..command_output import Run

COMPARED_WORDS: Final = 200
"""Words of a line above which it is not compared word by word."""
MIN_SIMILARITY: Final = 0.4
"""The ratio of equal words below which a line counts as rewritten, without marked words."""

_WORD: Final = re.compile(r"\w+|\s+|.")


def look_of(line: str) -> str:
    """Return the look of a line of a change."""
    if line.startswith("@@"):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "dim")


def worded(lines: Iterable[str]) -> Iterator[list[Run]]:
    """Yield the lines of a change in their looks.

    Where as many lines were added as removed, each pair is compared word by word.
    """
    removed: list[str] = []
    for mark, group in groupby(lines, key=lambda line: line[:1]):
        block = list(group)
        if mark == "-" and not removed:
            removed = block
            continue
        if mark == "+" and len(block) == len(removed):
            pairs = [_compared(old, new) for old, new in zip(removed, block, strict=True)]
            yield from (old for old, _ in pairs)
            yield from (new for _, new in pairs)
        else:
            yield from _whole(removed)
            yield from _whole(block)
        removed = []
    yield from _whole(removed)


def _whole(lines: Sequence[str]) -> Iterator[list[Run]]:
    for line in lines:
        yield [(look_of(line), line)]


def _compared(old: str, new: str) -> tuple[list[Run], list[Run]]:
    """Return a removed and an added line with the words that differ."""
    ours, theirs = _WORD.findall(old[1:]), _WORD.findall(new[1:])
    shown: tuple[list[Run], list[Run]] = [("removed", "-")], [("added", "+")]
    if max(len(ours), len(theirs)) > COMPARED_WORDS:
        return [("removed", old)], [("added", new)]
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    if matcher.ratio() < MIN_SIMILARITY:
        return [("removed", old)], [("added", new)]
    for what, a, b, c, d in matcher.get_opcodes():
        changed = "_word" if what != "equal" else ""
        shown[0].append((f"removed{changed}", "".join(ours[a:b])))
        shown[1].append((f"added{changed}", "".join(theirs[c:d])))
    return [f for f in shown[0] if f[1]], [f for f in shown[1] if f[1]]


def patched(patch: str) -> Iterator[list[Run]]:
    """Yield the lines of a git patch in their looks; the text must be safe to display."""
    for file in re.split(r"^(?=diff --git )", patch, flags=re.MULTILINE):
        lines = file.splitlines()
        head = next((n for n, line in enumerate(lines) if line.startswith("@@")), len(lines))
        yield from ([("bold", line)] for line in lines[:head])
        yield from worded(lines[head:])
