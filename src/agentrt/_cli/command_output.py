"""The output of a command as a terminal would have left it: colours dropped, lines overwritten.

Commands draw progress bars by returning to the start of a line, moving the cursor up and erasing.
Printed unchanged, such bytes are noise or control the user's terminal. So the sequences that move
within the output are applied here, and all others are dropped.

The time is linear in the length of the output: parameters are clamped, and an erased cell was
written before.
"""

from __future__ import annotations

import re
from typing import Final

REACHABLE_ROWS: Final = 50
"""Rows above the last one that the cursor can return to."""
MAX_COLUMN: Final = 1000
"""The largest column that the cursor can be moved to."""

_MOVES: Final = re.compile(r"[\x08\x0d\x1b\x9b]")
_TOKEN: Final = re.compile(
    r"(?P<text>[^\x08\x0a\x0d\x1b\x9b]++)"
    r"|(?P<control>[\x08\x0a\x0d])"
    r"|(?:\x1b\[|\x9b)(?P<parameters>[0-?]*+)[ -/]*+(?P<final>[@-~]?)"
    r"|\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)?"  # a title or a link
    r"|\x1b[ -/]*+[0-Z\\-~]?"
)


def laid_out(output: str) -> str:
    """Return the text of a command's output after applying its control sequences.

    Cursor movements within the last `REACHABLE_ROWS` rows, erasing, carriage returns and backspaces
    are applied; colours and everything else are dropped. Other control characters stay, and the
    caller makes them visible.
    """
    output = output.replace("\r\n", "\n")
    if not _MOVES.search(output):
        return output
    rows = _Canvas()
    for token in _TOKEN.finditer(output):
        if token["text"] is not None:
            rows.write(token["text"])
        elif token["control"] is not None:
            rows.control(token["control"])
        elif token["final"] is not None:
            rows.command(token["final"], token["parameters"])
    return rows.text


class _Canvas:
    """Rows of characters and a cursor."""

    def __init__(self) -> None:
        self._rows: list[list[str]] = [[]]
        self._row = 0
        self._column = 0

    @property
    def text(self) -> str:
        return "\n".join("".join(row) for row in self._rows)

    def write(self, text: str) -> None:
        row = self._rows[self._row]
        if self._column > len(row):
            row.extend(" " * (self._column - len(row)))
        row[self._column : self._column + len(text)] = text
        self._column += len(text)

    def control(self, character: str) -> None:
        if character == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append([])
            self._column = 0
        elif character == "\r":
            self._column = 0
        else:
            self._column = max(0, self._column - 1)

    def command(self, final: str, parameters: str) -> None:
        given = parameters.partition(";")[0]
        number = int(given[:6]) if given.isdecimal() else 0
        if final in "ABEF":
            self._move_rows(final, max(1, number))
        elif final in "CDG":
            column = {"C": self._column, "D": self._column, "G": -1}[final]
            column += -max(1, number) if final == "D" else max(1, number)
            self._column = min(max(0, column), max(MAX_COLUMN, len(self._rows[self._row])))
        elif final == "K":
            self._erase_line(number)
        elif final == "J":
            self._erase_rows(number)

    def _move_rows(self, final: str, number: int) -> None:
        last = len(self._rows) - 1
        row = self._row + (-number if final in "AF" else number)
        self._row = min(max(0, last - REACHABLE_ROWS, row), last)
        if final in "EF":
            self._column = 0

    def _erase_line(self, what: int) -> None:
        row = self._rows[self._row]
        if what == 2:
            row.clear()
        elif what == 0:
            del row[self._column :]
        elif self._column <= MAX_COLUMN:
            width = min(self._column + 1, len(row))
            row[:width] = " " * width

    def _erase_rows(self, what: int) -> None:
        if what == 0:
            del self._rows[self._row + 1 :]
            self._erase_line(0)
        elif what in (2, 3):
            for row in self._rows[-REACHABLE_ROWS:]:
                row.clear()
