"""Programs with their own language, as far as their arguments show that they run nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .script import ShellWord
from .table import SED_SAFE

_HARMLESS: Final = re.compile(r"-[uBsISEOWq]+|--(?:no-warnings|test|watch)")
_SED_FLAGS: Final = frozenset({"-n", "-E", "-r", "-s", "-u", "-z", "--quiet", "--silent"})
_SED_IN_PLACE: Final = ("-i", "-ni", "-Ei", "-ri")
_MAX_SED_CHARS: Final = 1000


def runs_code(arguments: Sequence[ShellWord]) -> bool:
    """True if python, node and the like run, or may run, code from the line. Otherwise they run a
    script or a module of the project, or nothing."""
    for word in arguments:
        if not word.plain or word.text == "-":
            return True
        if word.text == "-m" or not word.text.startswith("-"):
            return False
        if not _HARMLESS.fullmatch(word.text):
            return not _only_tells(arguments)
    return True


def runs_project(arguments: Sequence[ShellWord]) -> bool:
    """True if they run a script or a module."""
    return not _only_tells(arguments)


def _only_tells(arguments: Sequence[ShellWord]) -> bool:
    texts = [word.text for word in arguments]
    return len(texts) == 1 and texts[0] in ("--version", "-V", "--help", "-h")


def awk_runs_nothing(arguments: Sequence[ShellWord]) -> bool:
    """True if an awk program is readable and runs nothing."""
    options = iter(arguments)
    for word in options:
        if not word.plain:
            return False
        if re.fullmatch(r"-[Fv]", word.text):
            next(options, None)
        elif re.fullmatch(r"-[Fv].+", word.text, re.DOTALL):
            continue
        elif word.text.startswith("-"):
            return False
        else:
            return not re.search(r"system|getline|[|@]", word.text)
    return True


def sed_runs_nothing(arguments: Sequence[ShellWord]) -> bool:
    """True if all sed scripts are readable, and run and write nothing."""
    scripts = _sed_scripts(arguments)
    if scripts is None or sum(map(len, scripts)) >= _MAX_SED_CHARS:
        return False
    return all(SED_SAFE.fullmatch(part.strip()) for each in scripts for part in _parts(each))


def _parts(script: str) -> list[str]:
    return [script] if SED_SAFE.fullmatch(script.strip()) else script.split(";")


def _sed_scripts(arguments: Sequence[ShellWord]) -> list[str] | None:
    """Return the scripts among the arguments; None if an option or a script is not known."""
    explicit: list[str] = []
    others: list[ShellWord] = []
    options: Iterator[ShellWord] = iter(arguments)
    for word in options:
        text = word.text
        if text in _SED_FLAGS or (text.startswith(_SED_IN_PLACE) and word.plain):
            continue
        if text in ("-e", "--expression"):
            script = next(options, None)
            if script is None or not script.plain:
                return None
            explicit.append(script.text)
        elif text.startswith("-"):
            return None
        else:
            others.append(word)
    if explicit:
        return explicit
    if not others:
        return []
    return [others[0].text] if others[0].plain else None
