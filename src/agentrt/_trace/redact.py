"""The removal of secrets from what goes over the wire.

A value that the agent was given in a variable with a telling name is replaced wherever it is; what
else is a secret is said in `secrets.py`. Text stays what it was in all else: JSON stays JSON.

A line is looked at by itself. A secret that an agent writes in pieces, a word a message, is not
found unless the agent was given it. All of it takes time in proportion to the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from . import secrets

REDACTED: Final = secrets.REDACTED.decode()
SHORTEST: Final = 8
"""Characters of a value that is looked for wherever it is: shorter ones are words."""
SHORTEST_GIVEN: Final = 4
"""Of one that a program names itself."""

Rule = Callable[[str], str]
"""A line, with what is a secret in it replaced."""


class Redaction:
    """The rules for one trace. `more` is applied after agentrt's own."""

    def __init__(self, values: Iterable[str] = (), more: Rule | None = None) -> None:
        self._more = more
        self._values: tuple[bytes, ...] = ()
        self.know(values)

    def know(self, values: Iterable[str], shortest: int = SHORTEST) -> None:
        """Add values that are secrets wherever they are; of one of several lines, each line."""
        found = {
            part
            for value in values
            for part in (value, *value.split("\n"))
            if len(part) >= shortest
        }
        # As JSON has them in a string, and in a string of JSON inside one.
        once = {json.dumps(value, ensure_ascii=False)[1:-1] for value in found}
        twice = {json.dumps(value, ensure_ascii=False)[1:-1] for value in once}
        new = {
            form
            for each in found | once | twice
            if "\n" not in each
            for form in _as_on_a_wire(each)
        }
        self._values = tuple(sorted(new.union(self._values), key=len, reverse=True))

    def passes(self, data: bytes) -> bool:
        """Return whether it is certain that nothing of these lines would be replaced."""
        if self._more is not None:
            return False
        for value in self._values:
            if value in data:
                return False
        return not secrets.has_sign(data)

    def steps(self, line: bytes) -> Iterator[bytes | None]:
        """Yield the line without its secrets, in parts, and None from time to time: a caller that
        others wait for lets them run then."""
        for value in self._values:
            if value in line:
                line = line.replace(value, secrets.REDACTED)
        if self._more is None:
            yield from secrets.without_secrets(line)
            return
        parts = []
        for part in secrets.without_secrets(line):
            if part is None:
                yield None
            else:
                parts.append(part)
        try:
            text = b"".join(parts).decode(errors="surrogateescape")
            yield _encoded(self._more(text).replace("\n", " "))
        except Exception:  # whatever a program's rule does: nothing may get out because of it
            yield secrets.REDACTED

    def line(self, line: bytes) -> bytes:
        """Return a line without its secrets."""
        return b"".join(part for part in self.steps(line) if part is not None)

    def text(self, text: str) -> str:
        """Return a text without its secrets. A private key of several lines becomes one."""
        data = text.encode(errors="surrogatepass")
        if b"\n" not in data:
            return self.line(data).decode(errors="surrogatepass")
        if self.passes(data):
            return text
        lines = _without_keys(data).split(b"\n")
        return b"\n".join(map(self.line, lines)).decode(errors="surrogatepass")

    def command(self, argv: list[str]) -> list[str]:
        """Return a command's words; what follows an option with a telling name is a secret."""
        words: list[str] = []
        for word in argv:
            secret = bool(words) and secrets.is_telling_option(_encoded(words[-1]))
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


_END: Final = b"PRIVATE KEY-----"


def begins_key(line: bytes) -> bool:
    """Return whether a private key begins in a line and goes on in the next ones."""
    at = line.rfind(_END)
    if at < 0 or b'"' in line[at:] or b"-----END" in line:
        return False
    return secrets.PEM_BEGINS.search(line[max(0, at - 60) : at]) is not None


def _without_keys(data: bytes) -> bytes:
    """A text without the private keys that are written over several of its lines."""
    parts, done = [], 0
    while (begin := data.find(b"-----BEGIN ", done)) >= 0:
        head = data.find(_END, begin, begin + 60 + len(_END))
        if head < 0:
            parts.append(data[done : begin + 5])
            done = begin + 5
            continue
        end = data.find(b"-----END ", head)
        after = data.find(b"-----", end + 9) + 5 if end >= 0 else 0
        parts += (data[done:begin], secrets.REDACTED)
        done = after if after >= 5 else len(data)
    parts.append(data[done:])
    return b"".join(parts)


def _encoded(text: str) -> bytes:
    with suppress(UnicodeEncodeError):
        return text.encode(errors="surrogateescape")
    return text.encode(errors="surrogatepass")


def _as_on_a_wire(text: str) -> Iterator[bytes]:
    """What is not UTF-8 as it is, and as JSON's escapes are read."""
    yield text.encode(errors="surrogatepass")
    with suppress(UnicodeEncodeError):
        yield text.encode(errors="surrogateescape")
