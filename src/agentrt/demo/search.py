"""Text in files, in a thread: what `search` does, with `.gitignore` honoured in its basics."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from pathlib import Path

from msgspec import Struct

from .files import FILE

HITS = 100
FILES = 20_000
"""Files looked at: enough for a large checkout, and a bound for a home folder."""
SHOWN = 200
"""Characters of a line that are shown."""

SKIPPED = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".nox"))


class Hit(Struct, frozen=True):
    """One line that has the text. `line` 0: the file's name has it."""

    path: Path
    line: int
    text: str


class Found(Struct):
    """What a search found, and whether it ended because there was too much."""

    hits: list[Hit]
    files: int
    complete: bool


class Rule:
    """One line of a `.gitignore`."""

    def __init__(self, folder: str, line: str) -> None:
        self.ignores = not line.startswith("!")
        line = line.removeprefix("!")
        self._folders_only = line.endswith("/")
        line = line.rstrip("/")
        self._anchored = "/" in line
        self._folder = folder
        # `**` and `*` are one here: `fnmatch` lets a star cross a slash.
        self._matches = re.compile(translate(line.removeprefix("/").replace("**/", "*"))).match

    def covers(self, path: str, is_folder: bool) -> bool:
        if self._folders_only and not is_folder:
            return False
        name = os.path.relpath(path, self._folder) if self._anchored else os.path.basename(path)
        return self._matches(name) is not None


def rules_of(folder: str) -> list[Rule]:
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip() for line in file.readlines(64 * 1024)]
    except OSError:
        return []
    return [Rule(folder, line) for line in lines if line and not line.startswith("#")]


def walk(folder: str, rules: list[Rule], alive: Callable[[], None]) -> Iterator[str]:
    """The files below `folder`, in order, that are not ignored. Links are not followed."""
    alive()
    rules = rules + rules_of(folder)
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in SKIPPED or _ignored(entry.path, is_folder, rules):
            continue
        if is_folder:
            yield from walk(entry.path, rules, alive)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def _ignored(path: str, is_folder: bool, rules: list[Rule]) -> bool:
    """The last rule that covers the path decides."""
    return next((rule.ignores for rule in reversed(rules) if rule.covers(path, is_folder)), False)


def search(folder: Path, text: str, alive: Callable[[], None]) -> Found:
    """Look for `text` below `folder`; upper and lower case differ only if `text` has upper case.

    `alive` is called now and then and may raise to stop the search.
    """
    flags = 0 if text != text.lower() else re.IGNORECASE
    in_name = re.compile(re.escape(text), flags)
    in_line = re.compile(re.escape(text.encode()), flags)
    found = Found([], 0, True)
    for path in [os.fspath(folder)] if folder.is_file() else walk(os.fspath(folder), [], alive):
        if found.files == FILES or len(found.hits) >= HITS:
            found.complete = False
            break
        found.files += 1
        if in_name.search(os.path.basename(path)):
            found.hits.append(Hit(Path(path), 0, ""))
        found.hits += _hits(path, in_line, HITS - len(found.hits))
    return found


def _hits(path: str, pattern: re.Pattern[bytes], limit: int) -> list[Hit]:
    try:
        if os.path.getsize(path) > FILE:
            return []
        with open(path, "rb") as file:
            data = file.read(FILE)
    except OSError:
        return []
    if b"\0" in data[:8192] or not pattern.search(data):
        return []
    hits: list[Hit] = []
    for number, line in enumerate(data.splitlines(), 1):
        if len(hits) < limit and pattern.search(line):
            hits.append(Hit(Path(path), number, line.decode(errors="replace").strip()[:SHOWN]))
    return hits


def as_markdown(found: Found, text: str, relative: Callable[[Path], str]) -> str:
    """The hits as a list of `path:line: text`."""
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
    return f"`` {text} ``" if "`" in text else f"`{text}`"
