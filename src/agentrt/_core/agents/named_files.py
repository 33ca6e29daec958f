"""The names of files in the text of a settings file, such as the script of a hook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from .projects import without_comments

MAX_NAMES: Final = 20_000
"""Number of words of a file that are looked up."""
MAX_NAME_CHARS: Final = 1024

_VARIABLE: Final = re.compile(r"\$\{[^{}$]*\}/?|\$\w+/?|%\w+%/?")
"""A variable, such as `$CLAUDE_PROJECT_DIR`. It is taken for the folder of the project."""
_QUOTES: Final = str.maketrans("", "", "\"'\\")
_BETWEEN: Final = re.compile(r"[\s\"'`;|&()<>,=\[\]{}:!]+")


def names_in(path: str, text: str) -> list[str]:
    """Return the words of a settings file that may be the path of a file, in order.

    In prose (Markdown), these are only the words that contain a slash. Strings of JSON are decoded,
    and each is also a name as a whole, since a path may contain spaces.
    Raises `ValueError` for too many words.
    """
    prose = path.endswith(".md")
    found: dict[str, None] = {}
    for piece in _strings(path, text):
        plain = _VARIABLE.sub("./", piece)
        unquoted = plain.translate(_QUOTES)
        for name in (plain, *_BETWEEN.split(plain), *_BETWEEN.split(unquoted)):
            usable = 0 < len(name) <= MAX_NAME_CHARS and "\0" not in name
            if usable and ("/" in name or not prose):
                found.setdefault(name)
        if len(found) > MAX_NAMES:
            raise ValueError(f"has more than {MAX_NAMES} different words")
    return list(found)


def _strings(path: str, text: str) -> Iterator[str]:
    """Yield the strings of a JSON file; of another file, all of its text."""
    if path.endswith((".json", ".jsonc")):
        try:
            yield from _strings_of(json.loads(without_comments(text)))
        except (ValueError, RecursionError):
            pass  # an agent may read it more leniently
        else:
            return
    yield text


def _strings_of(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, also the names of its members."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _strings_of(each)
        case dict():
            for name, each in value.items():
                yield name
                yield from _strings_of(each)
