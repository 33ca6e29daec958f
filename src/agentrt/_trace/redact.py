"""Secrets in what goes over the wire, and their removal.

Five things are taken for a secret: a value that the agent was given in a variable with a telling
name; what has the shape of a known kind of key; what an `Authorization` header holds; the password
of a URL; what stands behind a telling name, in JSON (also in JSON inside a string), as `NAME=value`
or in a list of names and values, as MCP servers have them. Text stays what it was in all else: JSON
stays JSON.

A rule looks at a line at a time. A secret that an agent writes in pieces, a word a message, is not
found unless the agent was given it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Final

from msgspec import json

REDACTED: Final = "[redacted]"
SHORTEST: Final = 8
"""Characters of a value that is looked for wherever it stands: shorter ones are words."""

_WORD: Final = re.compile(
    r"(?:api[-_.]?key|access[-_.]?key|private[-_.]?key|secret(?:[-_.]?key)?|token|passw(?:or)?d"
    r"|passphrase|credentials?|authorization|bearer|set-cookie|cookie)$",
    re.IGNORECASE,
)
"""How a telling name ends."""
_NOT: Final = frozenset({"progresstoken", "pagetoken", "nextpagetoken"})
"""Names of the protocols' own that end so."""
_SHAPES: Final = re.compile(
    r"\b(?:sk|pk|rk)-[\w-]{16,}"
    r"|\bsk_(?:live|test)_\w{10,}"
    r"|\b(?:gh[oprsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,})"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[\w-]{30,}"
    r"|\b(?:hf|npm|pypi|dop_v1|tskey|gsk|xai)[_-][A-Za-z0-9_-]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\")|$)",
    re.DOTALL,
)
_HEADER: Final = re.compile(r"\b(bearer|basic)(\s+)(?!\[)[\w.~+/=-]{8,}", re.IGNORECASE)
_IN_A_URL: Final = re.compile(r"""(://[^/\s:@"\\]{0,200}:)[^/\s@"\\]{1,200}(?=@)""")
_IN_JSON: Final = re.compile(r'("([\w.-]{3,80})"\s*:\s*")((?:[^"\\]|\\.)+)(?=")', re.DOTALL)
_IN_A_STRING: Final = re.compile(r'(\\+"([\w.-]{3,80})\\+"\s*:\s*\\+")([^"\\]+)(?=\\)')
_LISTED: Final = re.compile(
    r'("name"\s*:\s*"([\w.-]{3,80})"\s*,\s*"value"\s*:\s*")((?:[^"\\]|\\.)+)(?=")', re.DOTALL
)
_ASSIGNED: Final = re.compile(
    r"""(\b([\w.-]{3,80})(?:=|:[ \t])[ \t]*)(?!\[|(?i:bearer|basic)\s)([^\s"'\\,;&{}]{6,})"""
)
_SHAPE_HINTS: Final = (
    *("sk-", "pk-", "rk-", "sk_", "ghp_", "gho_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-"),
    *("xox", "akia", "asia", "aiza", "hf_", "npm_", "pypi-", "dop_v1", "tskey-", "gsk_", "xai-"),
    *("hf-", "npm-", "pypi_", "tskey_", "gsk-", "xai_", "eyj", "-----begin"),
)
_NAME_HINTS: Final = (
    *("key", "secret", "token", "passw", "passphrase", "credential", "authoriz", "bearer"),
    *("basic", "cookie"),
)
"""One of these is in whatever a rule applies to, in small letters: looking for them costs a small
part of what the rules do."""
_NAMED: Final = re.compile(
    r"(?:key|secret|token|passw(?:or)?d|passphrase|credentials?|authorization|cookie)"
    r"\\*[\"']?\s*[:=,]|bearer|basic\s"
)
"""The same more closely, for a line: all agents speak of tokens that are no secrets."""
_OPTION: Final = re.compile(r"--?([\w.-]{3,80})")

Rule = Callable[[str], str]
"""A line, with what is a secret in it replaced."""


class Redaction:
    """The rules for one trace. `more` comes behind agentrt's own."""

    def __init__(self, values: Iterable[str] = (), more: Rule | None = None) -> None:
        self._more = more
        self._values: set[str] = set()
        self._given: re.Pattern[str] | None = None
        self.know(values)

    def know(self, values: Iterable[str]) -> None:
        """Values that are secrets wherever they stand."""
        found = {value for value in values if len(value) >= SHORTEST}
        # As JSON has them in a string, and in a string of JSON inside one.
        once = {json.encode(value).decode()[1:-1] for value in found}
        twice = {json.encode(value).decode()[1:-1] for value in once}
        new = (found | once | twice) - self._values
        if new:
            self._values |= new
            longest_first = sorted(self._values, key=len, reverse=True)
            self._given = re.compile("|".join(map(re.escape, longest_first)))

    def text(self, text: str) -> str:
        """A line, or several."""
        if self._given is not None and self._given.search(text):
            text = self._given.sub(REDACTED, text)
        if "\n" not in text:
            text = _line(text)
        elif _hinted(text.lower(), _HINTS):
            text = "\n".join(map(_line, text.split("\n")))
        return self._further(text) if self._more is not None else text

    def _further(self, text: str) -> str:
        assert self._more is not None
        try:
            return "\n".join(map(self._more, text.split("\n")))
        except Exception:  # whatever a program's rule does: nothing may get out because of it
            return "\n".join(REDACTED for _ in text.split("\n"))

    def command(self, argv: list[str]) -> list[str]:
        """A command's words; what follows an option with a telling name is one of its secrets."""
        words: list[str] = []
        for word in argv:
            option = _OPTION.fullmatch(words[-1]) if words else None
            secret = option is not None and _is_telling(option[1])
            words.append(REDACTED if secret else self.text(word))
        return words


@lru_cache(maxsize=4096)
def _is_telling(name: str) -> bool:
    return _WORD.search(name) is not None and name.lower() not in _NOT


def _behind_a_name(found: re.Match[str]) -> str:
    return found[1] + REDACTED if _is_telling(found[2]) else found[0]


_HINTS: Final = (*_SHAPE_HINTS, *_NAME_HINTS, "://")
_RULES: Final[tuple[Rule, ...]] = (
    partial(_HEADER.sub, rf"\1\2{REDACTED}"),
    *(partial(rule.sub, _behind_a_name) for rule in (_IN_JSON, _IN_A_STRING, _LISTED, _ASSIGNED)),
)
"""For what stands behind a name."""


def _hinted(lower: str, hints: tuple[str, ...]) -> bool:
    for hint in hints:  # noqa: SIM110 - `any` costs as much again
        if hint in lower:
            return True
    return False


def _line(line: str) -> str:
    lower = line.lower()
    if _hinted(lower, _SHAPE_HINTS):
        line = _SHAPES.sub(REDACTED, line)
    if "://" in line and "@" in line:
        line = _IN_A_URL.sub(rf"\1{REDACTED}", line)
    if _hinted(lower, _NAME_HINTS) and _NAMED.search(lower) is not None:
        for rule in _RULES:
            line = rule(line)
    return line
