"""Completions: `/` commands at the start of the prompt, `@` files anywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ..._base.listing import likeliest, walk
from ..text import one_line

OFFERED_FILES: Final = 200
"""The number of files that are offered."""
LISTING_LIFE_S: Final = 5.0
"""Seconds after which a directory listing is refreshed."""


class PromptCompleter(Completer):
    """The completer. `commands` has each command with its slash, and its description."""

    def __init__(self, cwd: str) -> None:
        self.commands: list[tuple[str, str]] = []
        self.arguments: dict[str, list[tuple[str, str]]] = {}
        """The possible arguments of commands, with descriptions."""
        self._cwd = cwd
        self._listed = float("-inf"), list[str]()
        """The time of the listing, and the listing."""

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield completions: commands, values of a command's argument, or files after `@`.

        Commands are completed only as the first word. Names with spaces are put into quotes.
        """
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

    def _matches(self, part: str) -> list[str]:
        """Return the files and directories that contain `part`.

        Hidden ones are included only if a name in `part` starts with a dot.
        """
        when, paths = self._listed
        if time.monotonic() - when > LISTING_LIFE_S:
            files = [path for path in walk(os.path.realpath(self._cwd)) if path.isprintable()]
            folders = {f"{folder}/" for path in files for folder in PurePosixPath(path).parents}
            paths = [*files, *(folders - {"./"})]
            self._listed = time.monotonic(), paths
        if not part.startswith(".") and "/." not in part:
            paths = [path for path in paths if not path.startswith(".") and "/." not in path]
        return likeliest(paths, part, OFFERED_FILES)
