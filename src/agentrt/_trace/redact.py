"""Secrets in what goes over the wire, and their removal.

Five things are taken for a secret: a value that the agent was given in a variable with a telling
name; what has the shape of a known kind of key; what an `Authorization` header holds; the password
of a URL; what stands behind a telling name, in JSON (also in JSON inside a string), as `NAME=value`
or in a list of names and values, as MCP servers have them. Text stays what it was in all else: JSON
stays JSON.

A rule looks at a line at a time. A secret that an agent writes in pieces, a word a message, is not
found unless the agent was given it. Before that many lines are asked at once whether there can be
anything in them: most have nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from .scan import Scan
from .signs import BEGINS, OF_A_NAME, OF_A_SHAPE, any_in, has_any, in_common

REDACTED: Final = "[redacted]"
SHORTEST: Final = 8
"""Characters of a value that is looked for wherever it stands: shorter ones are words."""
SHORTEST_GIVEN: Final = 4
"""Of one that a program says itself."""

_TELLING: Final = (
    r"(?i:api[-_.]?key|access[-_.]?key|private[-_.]?key|secret(?:[-_.]?key)?|token|passw(?:or)?d"
    r"|passphrase|credentials?|authorization|bearer|set-cookie|cookie)"
)
"""How a telling name ends."""
_NOT: Final = frozenset({"progresstoken", "pagetoken", "nextpagetoken"})
"""Names of the protocols' own that end so."""
_SHAPES: Final = re.compile(
    rf"{BEGINS}(?:"
    r"(?:sk|pk|rk)-[\w-]{16,}"
    r"|sk_(?:live|test)_\w{10,}"
    r"|gh[oprsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|AIza[\w-]{30,}"
    r"|(?:hf|npm|pypi|dop_v1|tskey|gsk|xai)[_-][A-Za-z0-9_-]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\\*\")|$)",
    re.DOTALL | re.ASCII,
)
_HEADER: Final = re.compile(
    r"(bearer|basic(?=\s+[a-z]*(?-i:[A-Z0-9=+/])))(\s+)(?!\[)[\w.~+/=-]{8,}", re.IGNORECASE
)
_IN_A_URL: Final = re.compile(r"""(://[^/\s:@"\\]{0,200}:)[^/\s@"\\]{1,200}(?=@)""")
_NAME: Final = rf"(?P<name>[\w.-]{{0,80}}{_TELLING})"
_REST: Final = r"""(?:[^"\\]+|\\+[^"\\]|(?:(?P=n)\\(?P=n)\\)*(?P=n)\\(?P=n)")+"""
"""Of a string, up to its quotation mark, which has `n` backslashes in front of it: those of JSON
inside a string have some. Where a message has but a piece of it, there is none."""
_IN_JSON: Final = re.compile(
    rf"""(?P<front>(?<!\\)(?P<n>\\*)"{_NAME}(?P=n)"\s*:\s*(?P=n)"){_REST}""", re.DOTALL
)
_LISTED: Final = re.compile(
    rf"""(?P<front>(?<!\\)(?P<n>\\*)"name(?P=n)"\s*:\s*(?P=n)"{_NAME}(?P=n)"\s*,\s*"""
    rf"""(?P=n)"value(?P=n)"\s*:\s*(?P=n)"){_REST}""",
    re.DOTALL,
)
_ASSIGNED: Final = re.compile(
    rf"""(?P<front>(?<![\w.-]){_NAME}[ \t]*(?:=|:[ \t])[ \t]*)"""
    r"""(?!\[|(?i:bearer|basic)\s)[^\s"'\\,;&{}]{6,}"""
)
_IS: Final = rf"(?P<front>(?<![\w.-]){_NAME}'?[ \t]*[:=][ \t]*"
_QUOTED: Final = re.compile(rf"""{_IS}(?P<n>\\+)"){_REST}""", re.DOTALL)
_IN_APOSTROPHES: Final = re.compile(
    rf"""{_IS}')(?:[^'"\\]+|\\+[^"\\nr]|\\(?:\\\\)*")+""", re.DOTALL
)
_IN_NO_JSON: Final = re.compile(rf"""{_IS}(?P<n>)"){_REST}""", re.DOTALL)
_NAMED: Final = re.compile(
    r"(?:key|secret|token|passw(?:or)?d|passphrase|credentials?|authorization|cookie)"
    r"\\*[\"']?\s*[:=,]|bearer|basic\s"
)
"""What the rules for names apply to, in small letters: all agents speak of tokens that are no
secrets."""


_OPTION: Final = re.compile(rf"--?{_NAME}")

Rule = Callable[[str], str]
"""A line, with what is a secret in it replaced."""


class Redaction:
    """The rules for one trace. `more` comes behind agentrt's own. `scan` asks many lines at once,
    as fast as a library can."""

    def __init__(
        self, values: Iterable[str] = (), more: Rule | None = None, *, scan: Scan | None = None
    ) -> None:
        self._more = more
        self._scan = scan
        self._values: set[str] = set()
        self._given: re.Pattern[str] | None = None
        self._found_in_a_field: list[bytes] = []
        self._found_across_fields: list[bytes] = []
        self.know(values)

    def know(self, values: Iterable[str], shortest: int = SHORTEST) -> None:
        """Values that are secrets wherever they stand; of one of several lines, each line."""
        found = {
            part
            for value in values
            for part in (value, *value.split("\n"))
            if len(part) >= shortest
        }
        # As JSON has them in a string, and in a string of JSON inside one.
        once = {json.dumps(value, ensure_ascii=False)[1:-1] for value in found}
        twice = {json.dumps(value, ensure_ascii=False)[1:-1] for value in once}
        new = {value for value in found | once | twice if "\n" not in value} - self._values
        if new:
            self._values |= new
            longest_first = sorted(self._values, key=len, reverse=True)
            self._given = re.compile("|".join(map(re.escape, longest_first)))
            as_bytes = {form for value in self._values for form in _as_on_a_wire(value)}
            self._found_in_a_field = [value for value in as_bytes if b'"' not in value]
            self._found_across_fields = [value for value in as_bytes if b'"' in value]
            if self._scan is not None:
                self._scan.know(as_bytes)

    def passes(self, data: bytes) -> bool:
        """Whether it is certain that nothing of these lines would be replaced."""
        if self._more is not None:
            return False
        if self._scan is not None:
            return not self._scan.finds(data)
        if any_in(data, self._found_across_fields):
            return False
        # The first and the last one may be parts of lines.
        first, *lines, last = data.split(b"\n") if b"\n" in data else (data, b"")
        begins, rest = in_common(lines) if lines else (b"", b"")
        rest = b"%b\n%b\n%b" % (first, rest, last)
        fields = b"%b:\n%b" % (begins, rest) if begins else rest  # any name may go on so
        return (
            not any_in(fields, self._found_in_a_field)
            and not has_any(fields, OF_A_SHAPE)
            and not (b"@" in fields and b"://" in fields)
            and not has_any(fields.lower(), OF_A_NAME)
        )

    def text(self, text: str) -> str:
        """A line, or several, of which there are as many afterwards."""
        if "\n" not in text:
            return self._line(text)
        if self.passes(_encoded(text)):
            return text
        return "\n".join(map(self._line, text.split("\n")))

    def _line(self, line: str) -> str:
        data = _encoded(line)
        if any_in(data, self._found_in_a_field) or any_in(data, self._found_across_fields):
            assert self._given is not None
            line = self._given.sub(REDACTED, line)
            data = _encoded(line)
        line = _without_secrets(line, data)
        if self._more is None:
            return line
        try:
            return self._more(line).replace("\n", " ")
        except Exception:  # whatever a program's rule does: nothing may get out because of it
            return REDACTED

    def command(self, argv: list[str]) -> list[str]:
        """A command's words; what follows an option with a telling name is one of its secrets."""
        words: list[str] = []
        for word in argv:
            option = _OPTION.fullmatch(words[-1]) if words else None
            secret = option is not None and option["name"].lower() not in _NOT
            words.append(REDACTED if secret else self.text(word))
        return words


def check_rules(secrets: Iterable[str], more: Rule | None) -> list[str]:
    """What a program says is secret. Raises `TypeError` and `ValueError`."""
    if isinstance(secrets, str | bytes):
        raise TypeError("secrets are several: secrets=[…], not one string")
    values = list(secrets)
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"a secret is a string, not {type(value).__name__}")
        if len(value) < SHORTEST_GIVEN:
            raise ValueError(
                f"a secret of less than {SHORTEST_GIVEN} characters is found everywhere: leave it"
                " out by `redact`, where it stands"
            )
    if more is not None and not callable(more):
        raise TypeError(f"redact is a function that takes a line, not {type(more).__name__}")
    return values


def _behind_a_name(found: re.Match[str]) -> str:
    return found[0] if found["name"].lower() in _NOT else found["front"] + REDACTED


def _in_no_json(line: str) -> str:
    """In JSON a quotation mark without a backslash may be a string's end."""
    if line.lstrip().startswith(("{", "[")):
        return line
    return _IN_NO_JSON.sub(_behind_a_name, line)


_BEHIND_A_NAME: Final = (_IN_JSON, _LISTED, _ASSIGNED, _QUOTED, _IN_APOSTROPHES)
_RULES: Final[tuple[Rule, ...]] = (
    partial(_HEADER.sub, rf"\1\2{REDACTED}"),
    *(partial(rule.sub, _behind_a_name) for rule in _BEHIND_A_NAME),
    _in_no_json,
)
"""For what stands behind a name."""


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _as_on_a_wire(text: str) -> Iterator[bytes]:
    """What is not UTF-8 as it is, and as `_encoded` has it."""
    yield _encoded(text)
    with suppress(UnicodeEncodeError):
        yield text.encode(errors="surrogateescape")


def _without_secrets(line: str, data: bytes) -> str:
    """`data`: the same in bytes."""
    named = has_any(data.lower(), OF_A_NAME) and _NAMED.search(line.lower()) is not None
    if has_any(data, OF_A_SHAPE):
        line = _SHAPES.sub(REDACTED, line)
    if "://" in line and "@" in line:
        line = _IN_A_URL.sub(rf"\1{REDACTED}", line)
    if named:
        for rule in _RULES:
            line = rule(line)
    return line
