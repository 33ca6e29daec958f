"""What a program writes to its standard output before it has become an agent: of one that is none,
it says what is wrong (a usage text because an option is missing, a login that is wanted)."""

from __future__ import annotations

import math
import re
from typing import Final

LINES: Final = 5
"""Lines that are quoted."""
LENGTH: Final = 300
"""Characters of each of them."""
MANY: Final = 100
"""Lines without a message by which a program is known to be no agent."""
QUIET: Final = 2.0
"""Seconds of silence after which that is known of one that has printed its usage, or stopped in the
middle of a line, as programs do that wait for a person."""
SHARE: Final = 6
"""Of one that wrote anything else: this part of the time for the handshake. Wrappers of agents
write something, too, before they start them."""

_MESSAGE: Final = re.compile(rb'\s*\{.*"(?:jsonrpc|method|id|type)"')
_USAGE: Final = re.compile(
    r"\busage\b|\btry\b(?:(?!\btry\b).)*--help|\b(?:unknown|unrecognized|invalid|unexpected|missing)\b.{0,20}"
    r"\b(?:option|argument|flag|command|subcommand)",
    re.IGNORECASE,
)
_UNSEEN: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\S ]")


class FirstOutput:
    """The lines that were no messages, until the first one that is."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._begun = b""
        self._message = False

    def feed(self, data: bytes) -> None:
        if self._message:
            return
        *lines, rest = (self._begun + data).split(b"\n")
        for line in lines:
            if _MESSAGE.match(line):
                self._message = True
                return
            if line.strip():
                self._count += 1
                if len(self._lines) < LINES:
                    self._lines.append(_shown(line))
        self._begun = rest[: 16 * LENGTH]

    def patience(self, handshake: float) -> float:
        """Seconds of silence after which it is clear that this is no agent."""
        begun = self._begun.strip()
        if self._message or not (self._lines or begun) or begun.startswith(b"{"):
            return math.inf
        if self._count >= MANY:
            return 0
        if begun or any(map(_USAGE.search, self._lines)):
            return QUIET
        return max(QUIET, handshake / SHARE)

    @property
    def words(self) -> str:
        """What was written, for people; empty if there was nothing, or if a message came."""
        lines = [*self._lines, _shown(self._begun)]
        lines = [line for line in lines[:LINES] if line]
        if self._message or not lines:
            return ""
        more = " …" if self._count > LINES else ""
        return f"it wrote what is no message: {' | '.join(lines)}{more}"


def _shown(line: bytes) -> str:
    text = _UNSEEN.sub(" ", line[: 8 * LENGTH].decode(errors="replace"))
    text = " ".join("".join(c for c in text if c.isprintable()).split())
    return text if len(text) <= LENGTH else f"{text[:LENGTH]}…"
