"""The parts of a parsed shell line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_NESTING: Final = 24
"""Maximum nesting of substitutions, groups and commands that is parsed."""

HOLE: Final = "\0"
"""Stands in a word's text for a part that only the shell knows at run time. No shell's word has a
NUL."""


@dataclass(slots=True)
class ShellWord:
    """A word of a command, without its quotes."""

    text: str
    """The text, with a `HOLE` for each unknown part."""
    sure: bool = True
    """True if every shell reads it as exactly this text. (It may contain patterns for file
    names.)"""
    bare: bool = True
    """True if nothing in it is quoted or inserted by the shell, so it may be a reserved word."""
    split: bool = False
    """True if it may become several words."""

    @property
    def plain(self) -> bool:
        """True if its text is known."""
        return HOLE not in self.text


@dataclass(slots=True)
class ShellCommand:
    """A simple command: `A=1 program argument > file`."""

    words: list[ShellWord] = field(default_factory=list)
    sets: list[tuple[str, ShellWord]] = field(default_factory=list)
    """Variables that it sets, with their values."""
    redirects: list[tuple[str, ShellWord]] = field(default_factory=list)
    """Operators such as `>` and `2>&`, with their targets."""
    fed: bool = False
    """True if its input comes from the line: a pipe, a file or a here-document."""


@dataclass(slots=True)
class ShellScript:
    """All commands of a line, including those in substitutions and groups."""

    commands: list[ShellCommand] = field(default_factory=list)
    unclear: str = ""
    """The reason why the rest was not parsed; empty if everything was."""
    sure: bool = True
    """True if it consists only of simple commands in sequence."""
    chars: int = 0
    """Characters that were parsed again, as a text inside another one."""


class UnclearScript(Exception):
    """Shells differ at this point, or only they can know."""
