"""Checks and their findings.

A check is an async function of a *peer*, the client's side of one agent process. It returns a
description of the agent's behaviour, and has passed then, or raises one of the errors of this
module. Its title completes the sentence "The agent …", so the functions have no docstrings that
would repeat it.

A failed check is a violation of the protocol only at the level "must"
(`ConformanceFinding.broken`). The behaviour of a model is not part of any protocol: if the agent
did not get into the situation that a check is about, the verdict is `inconclusive`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

ConformanceVerdict: TypeAlias = Literal[
    "passed", "failed", "different", "unsupported", "inconclusive"
]
"""The result of a check.

`different`: the specification leaves the point open or only advises, and the agent does it
differently. `inconclusive`: the situation could not be created, so nothing is known."""

ConformanceLevel: TypeAlias = Literal["must", "should", "open"]
"""The strength with which the specification requires the checked behaviour."""

AcpVersion: TypeAlias = Literal[1, 2]

ACP: Final = "https://agentclientprotocol.com/protocol/v1/"
ACP_2: Final = "https://agentclientprotocol.com/protocol/v2/draft/"
JSON_RPC: Final = "https://www.jsonrpc.org/specification"


class ConformancePrompts(Struct, frozen=True, kw_only=True):
    """The prompts that checks send if they need a model to do something."""

    text: str = "Say hello in one short sentence. Do not use any tool."
    """Asks for a short answer."""
    long: str = (
        "Write the numbers from 1 to 400 in words, one a line, and nothing else. Do not use any"
        " tool."
    )
    """Asks for a turn of many seconds."""
    permission: str = "Run the command touch agentrt-checked.txt"
    """Asks for a tool call that needs permission, and that creates `TOUCHED` in the session's
    folder."""


_STYLE: Final = re.compile(r"\x1b\[[\d;]*m")
"""Colours of a terminal."""

TOUCHED: Final = "agentrt-checked.txt"


class ConformanceFinding(Struct, frozen=True, kw_only=True):
    """The result of one check.

    - `check`, `title`: the check's name and a sentence about the behaviour.
    - `level`: how strongly the specification requires it; `where`: the place in the specification.
    - `verdict`, `words`: the result, and the agent's behaviour.
    - `seconds`: the duration of the check.
    - `trace`: the file with the protocol trace, if one was written.
    """

    check: str
    title: str
    level: ConformanceLevel
    where: str
    verdict: ConformanceVerdict
    words: str
    seconds: float = 0.0
    trace: str = ""

    @property
    def broken(self) -> bool:
        """True if the agent violates a requirement (a "must") of the specification."""
        return self.verdict == "failed" and self.level == "must"


class CheckEnded(Exception):
    """Raised when a check has its verdict. `level` is set if it differs from the check's."""

    def __init__(
        self, verdict: ConformanceVerdict, words: str, level: ConformanceLevel | None = None
    ) -> None:
        super().__init__(words)
        self.verdict: ConformanceVerdict = verdict
        self.words = words
        self.level: ConformanceLevel | None = level


class ConformanceCheck(Struct, frozen=True, kw_only=True):
    """One check. `run` gets a peer of its protocol. If the check passes, it returns a description
    of the agent's behaviour; otherwise it raises `CheckEnded`."""

    name: str
    title: str
    level: ConformanceLevel
    where: str
    run: Callable[[Any], Awaitable[str]]
    in_turn: bool = False
    """True if it needs the duration of the undisturbed long turn."""


class CheckRegistry:
    """A list of checks, of one protocol or about one subject."""

    def __init__(self) -> None:
        self.all: list[ConformanceCheck] = []

    def __call__(
        self, name: str, title: str, level: ConformanceLevel, where: str, *, in_turn: bool = False
    ) -> Callable[[Callable[[Any], Awaitable[str]]], Callable[[Any], Awaitable[str]]]:
        """Return a decorator that adds the decorated function as a check."""

        def add(run: Callable[[Any], Awaitable[str]]) -> Callable[[Any], Awaitable[str]]:
            self.all.append(
                ConformanceCheck(
                    name=name, title=title, level=level, where=where, run=run, in_turn=in_turn
                )
            )
            return run

        return add


def fails(words: str, level: ConformanceLevel | None = None) -> CheckEnded:
    """Return the error that ends a check as failed."""
    return CheckEnded("failed", words, level)


def differs(words: str) -> CheckEnded:
    """Return the error that ends a check as `different`."""
    return CheckEnded("different", words)


def unsupported(words: str) -> CheckEnded:
    """Return the error that ends a check as `unsupported`."""
    return CheckEnded("unsupported", words)


def inconclusive(words: str) -> CheckEnded:
    """Return the error that ends a check as `inconclusive`."""
    return CheckEnded("inconclusive", words)


def shown(value: object, width: int = 100) -> str:
    """Shorten a part of a message for people to read."""
    text = " ".join(_STYLE.sub("", str(value)).split())
    return text if len(text) <= width else f"{text[: width - 2]} …"
