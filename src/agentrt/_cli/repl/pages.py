"""Text that must have been shown before an answer counts: its ends first, then page by page."""

from __future__ import annotations

from collections.abc import Sequence

from ..text import broken

BAR = "  │ "
"""Precedes each row with text from the agent, so that none can look like one of agentrt's."""


class Pages:
    """Some lines, in rows of `width` columns.

    They are shown immediately if they have at most `room` rows; otherwise both ends are shown in
    `page` rows, and then everything, `page` rows at a time.
    """

    def __init__(self, lines: Sequence[str], *, width: int, room: int, page: int) -> None:
        columns = max(8, width - len(BAR) - 1)
        self._rows = [BAR + row for line in lines for row in broken(line, columns)]
        self._page = max(2, page)
        self._seen = len(self._rows) if len(self._rows) <= max(1, room) else 0

    @property
    def left(self) -> int:
        """The number of rows that have not been shown yet."""
        return len(self._rows) - self._seen

    def first(self) -> list[str]:
        """Return the rows to show first."""
        if not self.left:
            return self._rows
        end = self._page // 3
        self._seen = min(self._page - end, len(self._rows))
        if not self.left:
            return self._rows
        tail = self._rows[max(self._seen, len(self._rows) - end) :] if end else []
        hidden = len(self._rows) - self._seen - len(tail)
        return [*self._rows[: self._seen], f"  … {hidden} more …", *tail] if hidden else self.rest()

    def more(self) -> list[str]:
        """Return the next page."""
        start, self._seen = self._seen, min(self._seen + self._page, len(self._rows))
        return self._rows[start : self._seen]

    def rest(self) -> list[str]:
        """Return all rows."""
        self._seen = len(self._rows)
        return self._rows
