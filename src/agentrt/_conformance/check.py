"""What a check is, and what comes of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

Verdict: TypeAlias = Literal["passes", "fails", "own way", "not offered", "not provoked"]
"""`own way`: the specification leaves it open, or only advises, and so the agent does it.
`not provoked`: it could not be made to happen, so nothing is known."""

Level: TypeAlias = Literal["must", "should", "open"]
"""How strongly the specification asks for it."""

ACP: Final = "https://agentclientprotocol.com/protocol/v1/"
JSON_RPC: Final = "https://www.jsonrpc.org/specification"


class ConformancePrompts(Struct, frozen=True, kw_only=True):
    """What a model is asked for, where a check needs one to do something."""

    text: str = "Say hello in one short sentence. Do not use any tool."
    """A short answer."""
    long: str = (
        "Write the numbers from 1 to 400 in words, one a line, and nothing else. Do not use any"
        " tool."
    )
    """A turn of many seconds."""
    permission: str = "Run the command touch agentrt-checked.txt"
    """A tool call that the agent asks about, which creates `TOUCHED` in its folder."""


_STYLE: Final = re.compile(r"\x1b\[[\d;]*m")
"""Colours of a terminal."""

TOUCHED: Final = "agentrt-checked.txt"


class ConformanceFinding(Struct, frozen=True, kw_only=True):
    """What came of one check.

    - `check`, `title`: its name, and what it holds.
    - `level`: how strongly the specification asks for it, and `where`: the place.
    - `verdict`, `words`: how it went, and what the agent did.
    - `seconds`: how long it took; `trace`: the file with what went over the wire, if one was
      written.
    """

    check: str
    title: str
    level: Level
    where: str
    verdict: Verdict
    words: str
    seconds: float = 0.0
    trace: str = ""

    @property
    def broken(self) -> bool:
        """It breaks what the specification says that it must do."""
        return self.verdict == "fails" and self.level == "must"


class Ended(Exception):
    """A check has come to its verdict. `level`: where it is not that of the check."""

    def __init__(self, verdict: Verdict, words: str, level: Level | None = None) -> None:
        super().__init__(words)
        self.verdict: Verdict = verdict
        self.words = words
        self.level: Level | None = level


class Check(Struct, frozen=True, kw_only=True):
    """One thing to be found out. `run` returns what the agent did if it passes, or raises
    `Ended`. It gets a peer of its protocol."""

    name: str
    title: str
    level: Level
    where: str
    run: Callable[[Any], Awaitable[str]]
    in_turn: bool = False
    """It needs to know how long the long turn takes if nobody disturbs it."""


class Checks:
    """The checks of one protocol, or about one thing."""

    def __init__(self) -> None:
        self.all: list[Check] = []

    def __call__(
        self, name: str, title: str, level: Level, where: str, *, in_turn: bool = False
    ) -> Callable[[Callable[[Any], Awaitable[str]]], Callable[[Any], Awaitable[str]]]:
        def add(run: Callable[[Any], Awaitable[str]]) -> Callable[[Any], Awaitable[str]]:
            self.all.append(
                Check(name=name, title=title, level=level, where=where, run=run, in_turn=in_turn)
            )
            return run

        return add


def fails(words: str, level: Level | None = None) -> Ended:
    return Ended("fails", words, level)


def own_way(words: str) -> Ended:
    return Ended("own way", words)


def not_offered(words: str) -> Ended:
    return Ended("not offered", words)


def not_provoked(words: str) -> Ended:
    return Ended("not provoked", words)


def shown(value: object, width: int = 100) -> str:
    """A piece of what went over the wire, for reading."""
    text = " ".join(_STYLE.sub("", str(value)).split())
    return text if len(text) <= width else f"{text[: width - 2]} …"
