"""What a shell line is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

DEEPEST: Final = 24
"""Substitutions, groups and commands in each other that are read."""

HOLE: Final = "\0"
"""Stands in a word's text for what only the shell that runs it knows. No shell's word has a NUL."""


@dataclass(slots=True)
class Word:
    """A word of a command, without its quotes."""

    text: str
    """With a `HOLE` for each part that is not known."""
    sure: bool = True
    """Whether every shell takes it for just this text. (It may hold patterns for file names.)"""
    bare: bool = True
    """Whether nothing in it is quoted or put in by the shell: it may be a reserved word."""
    split: bool = False
    """Whether it may become several words."""

    @property
    def plain(self) -> bool:
        """Whether its text is known."""
        return HOLE not in self.text


@dataclass(slots=True)
class Command:
    """A simple command: `A=1 program argument > file`."""

    words: list[Word] = field(default_factory=list)
    sets: list[tuple[str, Word]] = field(default_factory=list)
    """Variables that it sets, with their values."""
    redirects: list[tuple[str, Word]] = field(default_factory=list)
    """Operators such as `>` and `2>&`, with their targets."""
    fed: bool = False
    """Its input is what the line says: a pipe, a file or a here-document."""


@dataclass(slots=True)
class Script:
    """All commands of a line, those in substitutions and groups included."""

    commands: list[Command] = field(default_factory=list)
    unclear: str = ""
    """Why the rest of it was not read; empty if all was."""
    sure: bool = True
    """Whether it is nothing but simple commands behind one another."""
    chars: int = 0
    """Characters that were read again, as a text inside of another one."""


class Unclear(Exception):
    """Shells differ here, or only they can know."""
