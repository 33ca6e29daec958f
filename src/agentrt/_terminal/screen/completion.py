"""What can be completed: `/` commands at the beginning, `@` files anywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ..text import one_line

FILES: Final = 20_000
"""Files that are looked at."""
OFFERED: Final = 200
"""Files that are offered."""
FRESH: Final = 5.0
"""Seconds for which a listing is believed."""
IGNORING: Final = (".gitignore", ".ignore")
"""Files that say what is not to be offered, for their folder and those below."""
_BORING: Final = frozenset({"node_modules", "__pycache__", "target", "dist", "build", "venv"})
"""Folders that are generated, where no ignore file says so."""


class Words(Completer):
    """The completer. `commands`: what each is called, with its slash, and what it does."""

    def __init__(self, cwd: str) -> None:
        self.commands: list[tuple[str, str]] = []
        self.arguments: dict[str, list[tuple[str, str]]] = {}
        """What a command can be given, with what each is."""
        self._cwd = cwd
        self._files: dict[bool, tuple[float, list[str]]] = {}

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and not any(character.isspace() for character in text):
            for name, description in self.commands:
                if name.startswith(text):
                    yield Completion(
                        name, -len(text), display=name, display_meta=one_line(description)
                    )
            return
        if text.startswith("/") and text.count(" ") == 1:
            command, _, part = text.partition(" ")
            for value, description in self.arguments.get(command, ()):
                if value.startswith(part):
                    yield Completion(value, -len(part), display=value, display_meta=description)
            return
        word = text[max(text.rfind(" "), text.rfind("\n"), text.rfind("\t")) + 1 :]
        if word.startswith("@"):
            for path in self._matches(word[1:]):
                named = f'@"{path}"' if " " in path else f"@{path}"
                yield Completion(named, -len(word), display=one_line(path))

    def _matches(self, part: str) -> Iterator[str]:
        """The files that contain it, those whose name begins with it first; hidden ones where it
        has a name that begins with a dot."""
        wanted = part.casefold()
        hidden = any(name.startswith(".") for name in wanted.split("/"))
        found = [path for path in self._listing(hidden=hidden) if wanted in path.casefold()]
        found.sort(key=lambda path: _rank(path.casefold(), wanted))
        yield from found[:OFFERED]

    def _listing(self, *, hidden: bool) -> list[str]:
        listed, files = self._files.get(hidden, (float("-inf"), []))
        if time.monotonic() - listed > FRESH:
            files = list(_walk(self._cwd, hidden=hidden))
            self._files[hidden] = time.monotonic(), files
        return files


def _rank(path: str, wanted: str) -> tuple[int, int, str]:
    name = path.rstrip("/").rpartition("/")[2]
    if path.startswith(wanted):
        place = 0
    elif name.startswith(wanted):
        place = 1
    else:
        place = 2
    return place, path.count("/"), path


def _walk(top: str, *, hidden: bool) -> Iterator[str]:
    """The files and folders below a folder, but for ignored and generated ones and, unless they are
    wanted, hidden ones."""
    seen = 0
    rules: dict[str, list[tuple[str, GitIgnoreSpec]]] = {}
    for folder, folders, files in os.walk(top):
        inside = os.path.relpath(folder, top)
        start = "" if inside == "." else f"{inside}/"
        known = rules.pop(start.rpartition("/")[0], []) if start else _above(top)
        specs = known + _ignored_in(folder, files)

        def offered(
            name: str,
            folder: str = os.path.realpath(folder),
            specs: list[tuple[str, GitIgnoreSpec]] = specs,
        ) -> bool:
            if not name.isprintable() or name in (".git", ".git/"):
                return False
            return (hidden or not name.startswith(".")) and not _is_ignored(folder, name, specs)

        folders[:] = sorted(f for f in folders if f not in _BORING and offered(f + "/"))
        for name in folders:
            rules[start + name] = specs
        for name in (*(f"{f}/" for f in folders), *sorted(filter(offered, files))):
            yield start + name
            seen += 1
            if seen >= FILES:
                return


def _above(top: str) -> list[tuple[str, GitIgnoreSpec]]:
    """The rules of the folders above, up to the root of the repository."""
    found: list[tuple[str, GitIgnoreSpec]] = []
    folder = Path(os.path.realpath(top))
    while not (folder / ".git").exists() and folder != folder.parent:
        folder = folder.parent
        found = _ignored_in(str(folder), IGNORING) + found
    return found if (folder / ".git").exists() else []


def _ignored_in(folder: str, files: Iterable[str]) -> list[tuple[str, GitIgnoreSpec]]:
    """The rules that a folder's own files make, each with the folder."""
    found = []
    for name in IGNORING:
        if name in files:
            try:
                text = Path(folder, name).read_text(encoding="utf-8", errors="replace")
                found.append(
                    (os.path.realpath(folder), GitIgnoreSpec.from_lines(text.splitlines()))
                )
            except (OSError, ValueError):
                continue  # not to be read, or no rules
    return found


def _is_ignored(folder: str, name: str, specs: list[tuple[str, GitIgnoreSpec]]) -> bool:
    """Whether the last rule that is about it says so."""
    path = os.path.join(folder, name)
    for base, spec in reversed(specs):
        verdict = spec.check_file(os.path.relpath(path, base) + "/" * name.endswith("/")).include
        if verdict is not None:
            return verdict
    return False
