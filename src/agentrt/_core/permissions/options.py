"""The options of programs that run other programs, as described in the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .script import ShellWord
from .table import HARMLESS_PREFIXES, SIMPLE, Data, Launcher

_SETTING: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass
class Walked:
    """A launcher's arguments, read up to the end of its own options."""

    rest: Sequence[ShellWord] = ()
    """The program and its arguments."""
    settings: list[tuple[str, ShellWord]] = field(default_factory=list)
    """Variables that it sets."""
    values: list[tuple[str, str]] = field(default_factory=list)
    """Options with their values."""
    lines: list[str] = field(default_factory=list)
    """Lines that it passes to a shell."""
    unsure: str = ""
    """The reason why the program that it runs is unknown; empty if it is known."""
    ends: bool = False
    """True if it runs nothing, because of an option such as `--version`."""


def walk(launcher: Launcher, words: Sequence[ShellWord]) -> Walked:
    """Read a launcher's options, up to the program that it runs."""
    found = Walked()
    at, skips, options = 0, launcher.skips, True
    while at < len(words) and not found.unsure and not found.ends:
        text = words[at].text
        if not words[at].plain:
            found.unsure = "only the shell knows its arguments"
        elif options and text == "--":
            options = False
            at += 1
        elif options and text.startswith("--"):
            at = _long(launcher, words, at, found)
        elif options and text.startswith("-") and (len(text) > 1 or "-" in launcher.kinds):
            at = _short(launcher, words, at, found)
        elif _SETTING.match(text):
            name, _, value = text.partition("=")
            found.settings.append((name, ShellWord(value)))
            at += 1
        elif skips:
            skips -= 1
            at += 1
        else:
            found.rest = words[at:]
            break
    return found


def _long(launcher: Launcher, words: Sequence[ShellWord], at: int, found: Walked) -> int:
    name, equals, value = words[at].text.partition("=")
    kind = launcher.kinds.get(name)
    if kind is None:
        found.unsure = f"{name} is not one of its known options"
        return at
    return _taken(name, kind, value if equals else None, words, at, found)


def _short(launcher: Launcher, words: Sequence[ShellWord], at: int, found: Walked) -> int:
    """Read a cluster of one-letter options."""
    kinds, text = launcher.kinds, words[at].text
    if text == "-":
        return at + 1
    for here in range(1, len(text)):
        if text[here].isdigit() and "-#" in kinds:
            return at + 1
        name = f"-{text[here]}"
        kind = kinds.get(name)
        if kind is None:
            found.unsure = f"{name} is not one of its known options"
            return at
        if kind:
            return _taken(name, kind, text[here + 1 :] or None, words, at, found)
    return at + 1


def _taken(
    name: str, kind: str, attached: str | None, words: Sequence[ShellWord], at: int, found: Walked
) -> int:
    """Read one option and its value. Returns the place after it."""
    value = attached
    if kind in (":", "$") and attached is None:
        at += 1
        if at == len(words) or not words[at].plain:
            found.unsure = f"only the shell knows the value of {name}"
            return at
        value = words[at].text
    if kind == ".":
        found.ends = True
    elif kind == "!":
        found.unsure = f"{name} makes it run something"
    elif kind == "$":
        found.lines.append(value or "")
    elif value and not SIMPLE.fullmatch(value) and name != "-c":
        found.unsure = f"the value of {name} may be more than a word"
    found.values.append((name, value or ""))
    return at + 1


def running_option(data: Data, words: Sequence[ShellWord]) -> ShellWord | None:
    """Return the first argument that makes, or may make, a data program run something."""
    for at, word in enumerate(words):
        text = word.text
        if text == "--":
            break
        if text.startswith("--"):
            name = text.partition("=")[0]
            if len(name) > 2 and name not in HARMLESS_PREFIXES:
                if any(each.startswith(name) for each in data.long):
                    return word
            continue
        if text.startswith("-") or (data.cluster_first and at == 0):
            letters = re.match(r"-?[A-Za-z]*", text)
            if letters and not set(data.short).isdisjoint(letters[0]):
                return word
        if any(_is_word(each, text) for each in data.words):
            return word
    return None


def _is_word(wanted: str, text: str) -> bool:
    """True if an argument is the wanted multi-letter option, or the wanted word."""
    if wanted.startswith("-") or len(wanted) == 1:
        return text.startswith(wanted) and text != wanted[:1]
    return text == wanted
