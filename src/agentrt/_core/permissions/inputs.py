"""Every string of a tool's input that may be a command or a path, whatever its key is called.

A rule that allows uses only the keys that agents are known to use. A rule that denies examines all
strings: an MCP server may call a command `cmdline`, or a path `dst`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from .paths import MAX_PATH_CHARS, containers

_COMMAND_KEY: Final = re.compile(
    r".*(?:command|commands|cmd|cmds|cmdline|commandline|argv|script|shell|exec|bash|code|run"
    r"|program|executable|stdin|chars)"
)
_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |(?:---|\+\+\+) (?:[ab]/)?)"
    r"([^\t\n]+)",
    re.MULTILINE,
)
"""The files of a patch."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*(?:localhost(?=/))?")
MAX_PATHS: Final = 100
"""Maximum number of strings of an input that are examined as paths."""


@dataclass(frozen=True)
class PossibleCommand:
    """A string that may be a command."""

    text: str
    is_command: bool
    """True if its key marks it as a command."""
    words: Sequence[str] = ()
    """The argument vector that it is part of."""


def folded_key(key: object) -> str:
    """Return a key in lower case, without spaces, `_` and `-`."""
    return re.sub("[_ -]", "", str(key)).casefold()


def find_possible_commands(input: Any) -> Iterator[PossibleCommand]:
    """Yield every string of an input as a command. Raises `TooLarge`."""
    if isinstance(input, str):
        yield PossibleCommand(input, False)
    for value in containers(input):
        if not isinstance(value, dict):
            continue
        for key, each in value.items():
            named = _COMMAND_KEY.fullmatch(folded_key(key)) is not None
            if isinstance(each, str):
                yield PossibleCommand(each, named)
            elif isinstance(each, list) and each and all(isinstance(one, str) for one in each):
                yield PossibleCommand(" ".join(each), named, tuple(each))
                yield from (PossibleCommand(one, False) for one in each)


def find_possible_paths(input: Any) -> Iterator[str]:
    """Yield every string of an input that may be a path. Raises `TooLarge`."""
    texts = [input] if isinstance(input, str) else []
    for value in containers(input):
        each = value.values() if isinstance(value, dict) else value
        texts += [one for one in each if isinstance(one, str)]
    for text in texts:
        if "\n" in text.strip() or len(text) > MAX_PATH_CHARS:
            yield from _PATCHED.findall(text)
        elif text.strip():
            yield text


def path_spellings(text: str, cwd: str) -> list[str]:
    """Return the ways to read a path: with its variables, as a URL, percent-encoded, with
    backslashes."""
    home = os.path.expanduser("~")
    text = text.strip().strip("'\"")
    for name, value in (("HOME", home), ("PWD", cwd)):
        text = re.sub(rf"\$(?:{name}(?![A-Za-z0-9_])|\{{{name}\}})", value.replace("\\", "/"), text)
    found = [text, unquote(text), text.replace("\\", "/"), unicodedata.normalize("NFKC", text)]
    for each in tuple(found):
        if begin := _SCHEME.match(each):
            rest = each[begin.end() :]
            # `file:///etc` and `x://host/etc`
            found += [f"/{rest}", "/" + rest.partition("/")[2]]
    return [each for each in dict.fromkeys(found) if each and "\0" not in each]
