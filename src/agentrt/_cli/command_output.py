"""The output of a command as a terminal would show it.

Commands draw progress bars by returning to the start of a line, moving the cursor up and erasing,
and set colours. Printed unchanged, such bytes are noise or control the user's terminal. So the
sequences that move within the output are applied, colours are mapped to the terminal's own sixteen,
and all other sequences are dropped. The time is linear in the length of the output and the memory
bounded: parameters are clamped, an erased cell was written before, and old rows are forgotten.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from .text import columns_of, plain

Run: TypeAlias = tuple[str, str]
"""A piece of a line: its look, and its text. The look is empty or the parameters of an SGR
sequence with the sixteen colours, such as `1;31`.
"""

REACHABLE_ROWS: Final = 50
"""The last rows, to which the cursor can return."""
MAX_COLUMN: Final = 1000
"""The largest column that the cursor can be moved to."""
ROW_COLUMNS: Final = 2_000
"""Columns after which a row continues in the next one."""
CELL_CHARS: Final = 16
"""Characters in a cell: one, and the marks that are combined with it."""
UNFINISHED_CHARS: Final = 256
"""Characters of a sequence whose end may follow in the next piece of output."""

_TOKEN: Final = re.compile(
    r"(?P<text>[^\x00\x07-\x0a\x0d-\x0f\x1b\x90\x98\x9b\x9d-\x9f]++)"
    r"|(?P<control>[\x08-\x0a\x0d])"
    r"|(?:\x1b\[|\x9b)(?P<parameters>[0-?]*+)[ -/]*+(?P<final>[@-~]?)"
    r"|\x1b(?P<saved>[78])"
    r"|(?P<string>\x1b[]PX^_]|[\x90\x98\x9d-\x9f])"
    r"|\x1b[ -/]*+[0-~]?"
)
"""Everything else is dropped: bells, and the change of the character set."""
_STRING_END: Final = re.compile(r"\x07|\x1b\\|\x9c|(?=[\n\x1b])")
"""The end of a title, a link or a picture. No newline is a part of them."""
_UNFINISHED: Final = re.compile(r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+\Z|\x1b[ -/]*+\Z")


class CommandOutput:
    """The rows that some output leaves on a terminal. All text is safe to display.

    `rows` limits the rows that are kept; the oldest ones are forgotten.
    """

    def __init__(self, output: str = "", *, rows: int | None = None) -> None:
        self._kept = rows
        self._cells: list[list[str]] = [[]]
        self._looks: list[list[str]] = [[]]
        self._row = 0
        self._column = 0
        self._look = ""
        self._attributes = _Attributes()
        self._rest = ""
        self._in_string = False
        self._saved = 0, 0
        self.forgotten = 0
        """The number of rows that were forgotten."""
        self.feed(output)

    @property
    def lines(self) -> list[list[Run]]:
        """The rows, each in runs of one look, without the blanks at its end."""
        return [self._runs(row) for row in range(len(self._cells))]

    @property
    def text(self) -> str:
        """The rows without their looks."""
        return "\n".join("".join(row) for row in self._cells)

    @property
    def tail(self) -> list[list[Run]]:
        """The last rows of `lines`, to which the cursor can return."""
        return [self._runs(row) for row in range(self._top, len(self._cells))]

    def feed(self, output: str) -> None:
        """Add the next piece of output."""
        output, self._rest = self._rest + output, ""
        if (cut := _UNFINISHED.search(output, max(0, len(output) - UNFINISHED_CHARS))) is not None:
            output, self._rest = output[: cut.start()], cut.group()
        at = 0
        while at < len(output):
            if self._in_string:
                end = _STRING_END.search(output, at)
                self._in_string = end is None
                at = len(output) if end is None else end.end()
                continue
            token = _TOKEN.match(output, at)
            if token is None:
                at += 1
                continue
            at = token.end()
            self._take(token)

    def _take(self, token: re.Match[str]) -> None:
        """Apply one token of the output. One that is neither text nor understood does nothing."""
        if token["text"] is not None:
            self._write(plain(token["text"]))
        elif token["control"] is not None:
            self._control(token["control"])
        elif token["final"] is not None:
            self._command(token["final"], token["parameters"])
        elif token["saved"] is not None:
            self._save_or_return(save=token["saved"] == "7")
        elif token["string"] is not None:
            self._in_string = True

    def take_settled(self, reachable: int = REACHABLE_ROWS) -> list[list[Run]]:
        """Remove and return the rows before the last `reachable` ones.

        The cursor cannot return to them: if they are less than `REACHABLE_ROWS`, it stops there.
        """
        rows = max(0, len(self._cells) - reachable)
        settled = [self._runs(row) for row in range(rows)]
        self._forget(rows)
        return settled

    # --- text

    def _write(self, text: str) -> None:
        """Write text at the cursor. A wide character takes two cells, the second of them empty.

        Plain ASCII, which most output is, is written in pieces instead of character by character.
        """
        if text.isascii():
            while text:
                if self._column >= ROW_COLUMNS:
                    self._control("\n")
                piece, text = text[: ROW_COLUMNS - self._column], text[ROW_COLUMNS - self._column :]
                self._put(list(piece))
            return
        for character in text:
            columns = columns_of(character)
            if columns:
                if self._column >= ROW_COLUMNS:
                    self._control("\n")
                self._put([character, ""][:columns])
            else:
                self._combine(character)

    def _put(self, cells: list[str]) -> None:
        """Put cells at the cursor, and fill the space before them.

        If half of a wide character is overwritten, its other half becomes a blank, as in a
        terminal.
        """
        row, looks = self._cells[self._row], self._looks[self._row]
        start, end = self._column, self._column + len(cells)
        if start > len(row):
            looks.extend([""] * (start - len(row)))
            row.extend([" "] * (start - len(row)))
        if start and start < len(row) and not row[start]:
            row[start - 1] = " "  # half of a wide character is overwritten
        if end < len(row) and not row[end]:
            row[end] = " "
        row[start:end] = cells
        looks[start:end] = [self._look] * len(cells)
        self._column = end

    def _combine(self, mark: str) -> None:
        """Add a mark to the character before the cursor. The number of marks in a cell is
        limited.
        """
        row, at = self._cells[self._row], min(self._column, len(self._cells[self._row])) - 1
        at -= at > 0 and not row[at]
        if at >= 0 and len(row[at]) < CELL_CHARS:
            row[at] += mark

    def _runs(self, number: int) -> list[Run]:
        """Return a row in runs of one look, without the blanks at its end."""
        runs: list[Run] = []
        start, row, looks = 0, self._cells[number], self._looks[number]
        while start < len(row):
            look, end = looks[start], start + 1
            while end < len(row) and looks[end] == look:
                end += 1
            runs.append((look, "".join(row[start:end])))
            start = end
        while runs:
            look, text = runs.pop()
            if text := text.rstrip():
                return [*runs, (look, text)]
        return []

    # --- the cursor

    def _control(self, character: str) -> None:
        """Apply a newline, carriage return, tab or backspace.

        A newline also returns to the first column, as the line discipline of a terminal makes it
        do.
        """
        if character == "\n":
            self._row += 1
            if self._row == len(self._cells):
                self._add_row()
            self._column = 0
        elif character == "\r":
            self._column = 0
        elif character == "\t":
            self._to_column((self._column // 8 + 1) * 8)
        else:
            self._column = max(0, self._column - 1)

    def _add_row(self) -> None:
        """Add a row at the end. Old rows are forgotten many at a time, because each time copies the
        others.
        """
        self._cells.append([])
        self._looks.append([])
        if self._kept is not None and len(self._cells) > 2 * self._kept + REACHABLE_ROWS:
            old = len(self._cells) - self._kept
            self._forget(old)
            self.forgotten += old

    def _forget(self, rows: int) -> None:
        """Remove rows at the beginning, and move the cursor and the saved position along."""
        del self._cells[:rows], self._looks[:rows]
        self._row = max(0, self._row - rows)
        self._saved = self._saved[0] - rows, self._saved[1]

    def _command(self, final: str, parameters: str) -> None:
        """Carry out a control sequence of a terminal, as far as it moves the cursor, erases or
        colours.

        `final` is its last character. Unknown ones are ignored, and numbers are bounded, so that no
        sequence can ask for more than the screen.
        """
        given = [int(n[:6]) if n.isdecimal() else 0 for n in parameters[:20].split(";")]
        number = given[0]
        match final:
            case "A" | "F":
                self._to_row(self._row - max(1, number))
            case "B" | "E":
                self._to_row(self._row + max(1, number))
            case "C":
                self._to_column(self._column + max(1, number))
            case "D":
                self._to_column(self._column - max(1, number))
            case "G":
                self._to_column(max(1, number) - 1)
            case "H" | "f":
                self._to_row(self._top + max(1, number) - 1)
                self._to_column(max(1, given[1]) - 1 if len(given) > 1 else 0)
            case "K":
                self._erase_line(number)
            case "J":
                self._erase_rows(number)
            case "m":
                self._look = self._attributes.take(parameters)
            case "s" | "u":
                self._save_or_return(save=final == "s")
        if final in "EF":
            self._column = 0

    @property
    def _top(self) -> int:
        """The first row that the cursor can return to."""
        return max(0, len(self._cells) - REACHABLE_ROWS)

    def _to_row(self, row: int) -> None:
        """Move the cursor to a row, within the rows that a command can reach."""
        self._row = min(max(self._top, row), self._top + REACHABLE_ROWS - 1)
        while self._row >= len(self._cells):
            self._add_row()

    def _to_column(self, column: int) -> None:
        """Move the cursor to a column, at most to `MAX_COLUMN` or the end of a longer row."""
        self._column = min(max(0, column), max(MAX_COLUMN, len(self._cells[self._row])))

    def _save_or_return(self, *, save: bool) -> None:
        """Save the position of the cursor, or return to the saved one."""
        if save:
            self._saved = self._row, self._column
        else:
            self._to_row(self._saved[0])
            self._to_column(self._saved[1])

    # --- erasing

    def _erase_line(self, what: int) -> None:
        """Erase the row from the cursor on (0), up to the cursor (1) or completely (2)."""
        row, looks = self._cells[self._row], self._looks[self._row]
        if what == 2:
            row.clear()
            looks.clear()
        elif what == 0:
            if self._column < len(row) and self._column and not row[self._column]:
                row[self._column - 1] = " "
            del row[self._column :], looks[self._column :]
        elif self._column <= MAX_COLUMN:
            width = min(self._column + 1, len(row))
            if width < len(row) and not row[width]:
                row[width] = " "
            row[:width] = [" "] * width
            looks[:width] = [""] * width

    def _erase_rows(self, what: int) -> None:
        """Erase the rows from the cursor on (0), up to the cursor (1) or all that can be reached
        (2).
        """
        if what == 0:
            del self._cells[self._row + 1 :], self._looks[self._row + 1 :]
            self._erase_line(0)
        else:
            last = self._row if what == 1 else len(self._cells)
            for row in range(self._top, last):
                self._cells[row].clear()
                self._looks[row].clear()
            if what == 1:
                self._erase_line(1)


def laid_out(output: str) -> str:
    """Return the text that some output leaves on a terminal, without colours, safe to display."""
    return CommandOutput(output).text


# --- colours

_ON: Final = {1: "1", 2: "2", 3: "3", 4: "4", 7: "7", 9: "9", 21: "4"}
_OFF: Final = {22: ("1", "2"), 23: ("3",), 24: ("4",), 27: ("7",), 29: ("9",)}

_PALETTE: Final = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0)),
    *((0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)
_STEPS: Final = (0, 95, 135, 175, 215, 255)


class _Attributes:
    """The attributes that SGR sequences have set."""

    def __init__(self) -> None:
        self._on: set[str] = set()
        self._colours: list[int | None] = [None, None]
        """The numbers of the foreground and the background among the sixteen."""

    def take(self, parameters: str) -> str:
        """Apply a sequence; returns the look of the text after it."""
        codes = [
            int(code[:6]) if code.isdecimal() else 0 if not code else -1
            for code in parameters[:UNFINISHED_CHARS]
            .replace("::", ":")
            .replace(":", ";")
            .split(";")
        ]
        at = 0
        while at < len(codes):
            code = codes[at]
            if code in (38, 48):
                colour, used = _wide_colour(codes[at + 1 : at + 5])
                if colour is not None:
                    self._colours[code == 48] = colour
                at += used
            elif code == 0:
                self._on.clear()
                self._colours = [None, None]
            elif code in _ON:
                self._on.add(_ON[code])
            elif code in _OFF:
                self._on.difference_update(_OFF[code])
            elif code in (39, 49):
                self._colours[code == 49] = None
            elif 30 <= code <= 37 or 40 <= code <= 47:
                self._colours[code >= 40] = code % 10
            elif 90 <= code <= 97 or 100 <= code <= 107:
                self._colours[code >= 100] = code % 10 + 8
            at += 1
        return self._look()

    def _look(self) -> str:
        """Return the look for the attributes.

        A foreground that might be invisible on the terminal's own background is left out.
        """
        text, ground = self._colours
        parts = sorted(self._on)
        if text is not None and text != ground and not (ground is None and text in _INVISIBLE):
            parts.append(str(text + 30 if text < 8 else text + 82))
        if ground is not None:
            parts.append(str(ground + 40 if ground < 8 else ground + 92))
        return ";".join(parts)


_INVISIBLE: Final = (0, 7, 15)
"""Colours that can be invisible on the terminal's own background: black and the two whites."""


def _wide_colour(codes: list[int]) -> tuple[int | None, int]:
    """Return one of the sixteen colours for a number or three, and how many codes it took."""
    match codes:
        case [5, number, *_]:
            return _of_256(min(max(number, 0), 255)), 2
        case [2, red, green, blue]:
            return _nearest(red, green, blue), 4
    return None, 0


def _of_256(number: int) -> int:
    """Return the nearest of the sixteen colours for one of 256."""
    if number < 16:
        return number
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return _nearest(grey, grey, grey)
    number -= 16
    return _nearest(_STEPS[number // 36], _STEPS[number // 6 % 6], _STEPS[number % 6])


@lru_cache(maxsize=1024)
def _nearest(red: int, green: int, blue: int) -> int:
    """Return the number of the colour among the sixteen that is nearest in RGB."""
    wanted = red, green, blue

    def distance(number: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(wanted, _PALETTE[number], strict=True))

    return min(range(16), key=distance)
