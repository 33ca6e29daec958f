"""Removal of secrets from wire messages.

A value that the agent got in a variable with a telling name is replaced everywhere; `secrets.py`
defines the other secrets. The rest of the text does not change: JSON stays JSON.

Each line is scanned separately. A secret that an agent writes in pieces, such as a word per
message, is found only if the agent was given it. The time is proportional to the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from . import secrets

REDACTED: Final = secrets.REDACTED.decode()
MIN_SECRET_CHARS: Final = 8
"""Minimum length of a value that is replaced everywhere: shorter ones may be words."""
MIN_GIVEN_SECRET_CHARS: Final = 4
"""Minimum length of a value that a program specifies itself."""

Rule = Callable[[str], str]
"""Returns a line with the secrets in it replaced."""


class Redaction:
    """The rules for one trace. `more` is applied after agentrt's own."""

    def __init__(self, values: Iterable[str] = (), more: Rule | None = None) -> None:
        """Create the rules. `values` are secret wherever they occur."""
        self._more = more
        self._values: tuple[bytes, ...] = ()
        self.add_secrets(values)

    def add_secrets(self, values: Iterable[str], shortest: int = MIN_SECRET_CHARS) -> None:
        """Add values that are secret everywhere; each line of a multi-line value counts."""
        found = {
            part
            for value in values
            for part in (value, *value.split("\n"))
            if len(part) >= shortest
        }
        # Also as escaped in a JSON string, and in a string of JSON inside one.
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
        """Return True if nothing in these lines would be replaced."""
        if self._more is not None:
            return False
        for value in self._values:
            if value in data:
                return False
        return not secrets.has_sign(data)

    def steps(self, line: bytes) -> Iterator[bytes | None]:
        """Yield the line without its secrets, in parts, and None from time to time.

        At each None, the caller should let other tasks run.
        """
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
        except Exception:  # if a program's rule fails, nothing must leak
            yield secrets.REDACTED

    def line(self, line: bytes) -> bytes:
        """Return a line without its secrets."""
        return b"".join(part for part in self.steps(line) if part is not None)

    def text(self, text: str) -> str:
        """Return a text without its secrets. A multi-line private key becomes one line."""
        data = text.encode(errors="surrogatepass")
        if b"\n" not in data:
            return self.line(data).decode(errors="surrogatepass")
        if self.passes(data):
            return text
        whole = secrets.without_secrets_across_lines(_without_keys(data))
        lines = whole.split(b"\n")
        return b"\n".join(map(self.line, lines)).decode(errors="surrogatepass")

    def command(self, argv: list[str]) -> list[str]:
        """Return a command's words; the word after an option with a telling name is a secret."""
        words: list[str] = []
        for word in argv:
            secret = bool(words) and secrets.is_telling_option(_encoded(words[-1]))
            words.append(REDACTED if secret else self.text(word))
        return words


def check_rules(secrets: Iterable[str], more: Rule | None) -> list[str]:
    """Check and return the secrets specified by a program. Raises `TypeError` and `ValueError`."""
    if isinstance(secrets, str | bytes):
        raise TypeError("`secrets` must be a list: secrets=[…], not one string")
    values = list(secrets)
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"a secret must be a string, not {type(value).__name__}")
        if len(value) < MIN_GIVEN_SECRET_CHARS:
            raise ValueError(
                f"a secret must have at least {MIN_GIVEN_SECRET_CHARS} characters, since a shorter"
                " one also occurs in other text; remove it with a `redact` function instead"
            )
    if more is not None and not callable(more):
        raise TypeError(f"`redact` must be a function that takes a line, not {type(more).__name__}")
    return values


_END: Final = b"PRIVATE KEY-----"


def begins_key(line: bytes) -> bool:
    """Return True if a private key begins in this line and continues in the next ones."""
    at = line.rfind(_END)
    if at < 0 or b'"' in line[at:] or b"-----END" in line:
        return False
    return secrets.PEM_BEGINS.search(line[max(0, at - 60) : at]) is not None


def _without_keys(data: bytes) -> bytes:
    """Return a text without its multi-line private keys."""
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
    """Encode a text with surrogates, of either kind, as the bytes that they stand for."""
    with suppress(UnicodeEncodeError):
        return text.encode(errors="surrogateescape")
    return text.encode(errors="surrogatepass")


def _as_on_a_wire(text: str) -> Iterator[bytes]:
    """Yield both encodings of characters that are not UTF-8: unchanged, and as read from JSON
    escapes.
    """
    yield text.encode(errors="surrogatepass")
    with suppress(UnicodeEncodeError):
        yield text.encode(errors="surrogateescape")
