"""Text search in files, in a thread. Files that git ignores are skipped."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from .._base.listing import MAX_FILES, walk
from .files import MAX_FILE_BYTES

MAX_HITS = 100
MAX_LINE_CHARS = 200
"""Characters of a line that are shown."""


class SearchHit(Struct, frozen=True):
    """One line that contains the text. If `line` is 0, the file's name contains it."""

    path: Path
    line: int
    text: str


class SearchMatches(Struct):
    """The hits of a search. `complete` is false if it stopped at a limit."""

    hits: list[SearchHit]
    files: int
    complete: bool


def search(folder: Path, text: str, alive: Callable[[], None]) -> SearchMatches:
    """Search for `text` below `folder`. Case matters only if `text` has upper-case letters.

    `alive` is called now and then and may raise to stop the search.
    """
    flags = 0 if text != text.lower() else re.IGNORECASE
    in_name = re.compile(re.escape(text), flags)
    in_line = re.compile(re.escape(text.encode()), flags)
    found = SearchMatches([], 0, True)
    for path in [folder] if folder.is_file() else map(folder.joinpath, walk(folder, alive)):
        if len(found.hits) >= MAX_HITS:
            found.complete = False
            break
        found.files += 1
        if in_name.search(path.name):
            found.hits.append(SearchHit(path, 0, ""))
        found.hits += _hits(path, in_line, MAX_HITS - len(found.hits))
    found.complete &= found.files < MAX_FILES
    return found


def _hits(path: Path, pattern: re.Pattern[bytes], limit: int) -> list[SearchHit]:
    """Return the lines of a file that match, at most `limit`.

    Large and binary files have no hits, and neither have files that cannot be read.
    """
    try:
        if os.path.getsize(path) > MAX_FILE_BYTES:
            return []
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES)
    except OSError:
        return []
    if b"\0" in data[:8192] or not pattern.search(data):
        return []
    hits: list[SearchHit] = []
    for number, line in enumerate(data.splitlines(), 1):
        if len(hits) < limit and pattern.search(line):
            hits.append(
                SearchHit(path, number, line.decode(errors="replace").strip()[:MAX_LINE_CHARS])
            )
    return hits


def as_markdown(found: SearchMatches, text: str, relative: Callable[[Path], str]) -> str:
    """Return the hits as a list of `path:line: text`."""
    if not found.hits:
        return f"`{text}` does not occur in the {found.files} files I looked at."
    rows = [
        f"- `{relative(hit.path)}:{hit.line}` {_code(hit.text)}"
        if hit.line
        else f"- `{relative(hit.path)}` (its name)"
        for hit in found.hits
    ]
    if not found.complete:
        rows.append(f"\n… and perhaps more: I stopped after {found.files} files.")
    return "\n".join(rows)


def _code(text: str) -> str:
    """Return text as Markdown code, also if it contains a backtick."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
