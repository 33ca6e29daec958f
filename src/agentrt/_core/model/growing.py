"""Text that grows by pieces of any number and size."""

from __future__ import annotations

from typing import Final

JOINED_PIECES: Final = 1024
"""The number of pieces that are joined: a small `str` costs 50 bytes in addition to its text."""

GROWTH_DIVISOR: Final = 8
"""The text is extended by this fraction of its length, so that it is copied only a few times."""

MIN_GROWTH_CHARS: Final = 64 * 1024
"""The minimum number of characters for an extension."""

MAX_GROWTH_CHARS: Final = 1024 * 1024
"""The maximum number of characters per extension, because more would take a while."""


class GrowingText:
    """A growing text: linear in time, compact in memory, and never stored twice.

    At the end nothing remains to be copied.
    """

    __slots__ = ("_due", "_parts", "_put", "_text", "size")

    def __init__(self, text: str = "") -> None:
        self.size = len(text)
        """The number of characters so far."""
        self._text = text
        self._parts: list[str] = []
        """The pieces after `_text`."""
        self._put = 0
        """The number of pieces that are themselves joined from many."""
        self._due = self.size + MIN_GROWTH_CHARS

    def append(self, text: str) -> None:
        """Append a piece."""
        parts = self._parts
        parts.append(text)
        self.size += len(text)
        if self.size >= self._due:
            self._lengthen()
        elif len(parts) - self._put >= JOINED_PIECES:
            parts[self._put :] = ["".join(parts[self._put :])]
            self._put += 1

    def short(self) -> str | None:
        """Return the text if joining it is cheap, else None."""
        if self.size - len(self._text) > MIN_GROWTH_CHARS:
            return None
        return str(self) if self._text else "".join(self._parts)

    def part(self, start: int, end: int) -> str:
        """Return the characters from `start` to `end`."""
        if end > len(self._text):
            self._lengthen()
        return self._text[start:end]

    def __str__(self) -> str:
        if self._parts:
            if self._text:
                self._lengthen()
            else:
                self._text = "".join(self._parts)
                self._parts.clear()
                self._put = 0
        return self._text

    def _lengthen(self) -> None:
        # CPython extends a string in place if there is no other reference to it.
        text, self._text = self._text, ""
        text += "".join(self._parts)
        self._parts.clear()
        self._put = 0
        self._text = text
        self._due = self.size + max(
            MIN_GROWTH_CHARS, min(self.size // GROWTH_DIVISOR, MAX_GROWTH_CHARS)
        )
