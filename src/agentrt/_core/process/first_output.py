"""Text that a program writes to its standard output before its first message. If the program is not
an agent, this text explains the reason (a usage text because an option is missing, a login that is
required)."""

from __future__ import annotations

import math
import re
from typing import Final

SHOWN_LINES: Final = 5
"""Maximum number of lines that are quoted."""
SHOWN_LINE_CHARS: Final = 300
"""Maximum number of characters of each quoted line."""
MAX_LINES: Final = 100
"""Number of lines without a message after which a program is known not to be an agent."""
QUIET_TIMEOUT_S: Final = 2.0
"""Seconds of silence after which a program is known not to be an agent.

For a program that has printed its usage, or that stopped in the middle of a line, as programs do
that wait for a person.
"""
HANDSHAKE_DIVISOR: Final = 6
"""The silence after any other output may last for this fraction of the time for the handshake.

Wrappers of agents also write text before they start the agents.
"""

_MESSAGE: Final = re.compile(rb'\s*\{.*"(?:jsonrpc|method|id|type)"')
_USAGE: Final = re.compile(
    r"\busage\b|\btry\b(?:(?!\btry\b).)*--help|\b(?:unknown|unrecognized|invalid|unexpected|missing)\b.{0,20}"
    r"\b(?:option|argument|flag|command|subcommand)",
    re.IGNORECASE,
)
_UNSEEN: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\S ]")


class FirstOutput:
    """Collects the lines before the first message."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._begun = b""
        self._message = False

    def feed(self, data: bytes) -> None:
        """Process data from standard output."""
        if self._message:
            return
        *lines, rest = (self._begun + data).split(b"\n")
        for line in lines:
            if _MESSAGE.match(line):
                self._message = True
                return
            if line.strip():
                self._count += 1
                if len(self._lines) < SHOWN_LINES:
                    self._lines.append(_shown(line))
        self._begun = rest[: 16 * SHOWN_LINE_CHARS]

    def max_silence_s(self, handshake: float) -> float:
        """Return the seconds of silence after which this is known not to be an agent."""
        begun = self._begun.strip()
        if self._message or not (self._lines or begun) or begun.startswith(b"{"):
            return math.inf
        if self._count >= MAX_LINES:
            return 0
        if begun or any(map(_USAGE.search, self._lines)):
            return QUIET_TIMEOUT_S
        return max(QUIET_TIMEOUT_S, handshake / HANDSHAKE_DIVISOR)

    @property
    def excerpt(self) -> str:
        """The written text, for error messages; empty if nothing was written, or if a message
        came."""
        lines = [*self._lines, _shown(self._begun)]
        lines = [line for line in lines[:SHOWN_LINES] if line]
        if self._message or not lines:
            return ""
        more = " …" if self._count > SHOWN_LINES else ""
        return f"it wrote this, which is not a message: {' | '.join(lines)}{more}"


def _shown(line: bytes) -> str:
    text = _UNSEEN.sub(" ", line[: 8 * SHOWN_LINE_CHARS].decode(errors="replace"))
    text = " ".join("".join(c for c in text if c.isprintable()).split())
    return text if len(text) <= SHOWN_LINE_CHARS else f"{text[:SHOWN_LINE_CHARS]}…"
