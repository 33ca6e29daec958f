"""What can be completed: `/` commands at the beginning, `@` files anywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ..text import one_line

FILES: Final = 20_000
"""Files that are looked at."""
OFFERED: Final = 200
"""Files that are offered."""
FRESH: Final = 5.0
"""Seconds for which a listing is believed."""
_BORING: Final = frozenset({"node_modules", "__pycache__", "target", "dist", "build", "venv"})


class Words(Completer):
    """The completer. `commands`: what each is called, with its slash, and what it does."""

    def __init__(self, cwd: str) -> None:
        self.commands: list[tuple[str, str]] = []
        self.arguments: dict[str, list[tuple[str, str]]] = {}
        """What a command can be given, with what each is."""
        self._cwd = cwd
        self._files: list[str] = []
        self._listed = float("-inf")

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
                yield Completion(f"@{path}", -len(word), display=one_line(path))

    def _matches(self, part: str) -> Iterator[str]:
        """The files that contain it, those whose name begins with it first."""
        wanted = part.casefold()
        found = [path for path in self._listing() if wanted in path.casefold()]
        found.sort(key=lambda path: _rank(path.casefold(), wanted))
        yield from found[:OFFERED]

    def _listing(self) -> list[str]:
        if time.monotonic() - self._listed > FRESH:
            self._files = list(_walk(self._cwd))
            self._listed = time.monotonic()
        return self._files


def _rank(path: str, wanted: str) -> tuple[int, int, str]:
    name = path.rstrip("/").rpartition("/")[2]
    if path.startswith(wanted):
        place = 0
    elif name.startswith(wanted):
        place = 1
    else:
        place = 2
    return place, path.count("/"), path


def _walk(top: str) -> Iterator[str]:
    """The files and folders below a folder, but for hidden and generated ones."""
    seen = 0
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _BORING)
        inside = os.path.relpath(folder, top)
        start = "" if inside == "." else f"{inside}/"
        for name in (*(f"{f}/" for f in folders), *sorted(files)):
            if name.startswith(".") or not name.isprintable():
                continue
            yield start + name
            seen += 1
            if seen >= FILES:
                return
