"""Text that grows by pieces, of any number and size."""

from __future__ import annotations

from typing import Final

MANY: Final = 1024
"""Pieces that are put together: a small `str` costs 50 bytes beside its text."""

PART: Final = 8
"""The text is lengthened by this part of it, so that it is copied a few times at most."""

LEAST: Final = 64 * 1024
"""Characters that it is not lengthened for."""

MOST: Final = 1024 * 1024
"""Characters that it is lengthened by at a time: to put down more takes a while."""


class Growing:
    """Linear in time, compact in memory, and never there twice: also at its end there is nothing
    left to copy."""

    __slots__ = ("_due", "_parts", "_put", "_text", "size")

    def __init__(self, text: str = "") -> None:
        self.size = len(text)
        """Characters so far."""
        self._text = text
        self._parts: list[str] = []
        """What is behind `_text`."""
        self._put = 0
        """How many of them are put together from many."""
        self._due = self.size + LEAST

    def append(self, text: str) -> None:
        parts = self._parts
        parts.append(text)
        self.size += len(text)
        if self.size >= self._due:
            self._lengthen()
        elif len(parts) - self._put >= MANY:
            parts[self._put :] = ["".join(parts[self._put :])]
            self._put += 1

    def short(self) -> str | None:
        """The text, if putting it together costs next to nothing."""
        if self.size - len(self._text) > LEAST:
            return None
        return str(self) if self._text else "".join(self._parts)

    def part(self, start: int, end: int) -> str:
        """The characters from `start` to `end`."""
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
        # CPython lengthens a string where it is if nobody else knows it.
        text, self._text = self._text, ""
        text += "".join(self._parts)
        self._parts.clear()
        self._put = 0
        self._text = text
        self._due = self.size + max(LEAST, min(self.size // PART, MOST))
