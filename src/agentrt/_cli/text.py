"""Text of agents made safe for a terminal and its reader.

Text from an agent, a tool or a file name is not trusted. Escape sequences could move the cursor
over a permission question, and direction marks could reverse its words.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Final

from ..display import reveal

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters except newline and tab. The C1 codes are complete escape sequences."""

_TURNING: Final = re.compile(r"[\u061c\u202a-\u202e\u2066-\u2069]")
"""Characters that override or isolate the direction of writing."""

_OTHERS: Final = re.compile(r"[\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069]")

_HIDDEN: Final = re.compile(
    r"[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u2065"
    r"\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that are invisible or break a line.

They are the default-ignorable ones of Unicode (except the selectors that emoji end with), the
format characters of hieroglyphs, and the Braille blank. Running text needs some of them (the
joiners in emoji); text for a decision needs none.
"""


def without_controls(text: str) -> str:
    """Return running text without control characters, for a terminal or a file."""
    return _CONTROL.sub(_visible, text)


def safe(text: str) -> str:
    """Return running text for a terminal."""
    return _TURNING.sub("\N{REPLACEMENT CHARACTER}", without_controls(text))


def plain(text: str) -> str:
    """Return text for a decision, with every character visible; newlines stay."""
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", safe(text)).expandtabs(4)


def whole_line(text: str) -> str:
    """Return text for a decision in one line, however long."""
    return " ".join(plain(text).split())


def one_line(text: str, width: int = 200) -> str:
    """Return text in one line, shortened in the middle: the end of a command matters."""
    line = whole_line(text)
    if len(line) <= width:
        return line
    half = (width - 3) // 2
    return f"{line[:half]} … {line[-half:]}"


def revealed_line(text: str, width: int | None = None) -> str:
    """Return text for a decision in one line, with every character visible.

    It is shortened in the middle if it has more than `width` characters.
    """
    line = " ".join(reveal(text).split())
    if width is None or len(line) <= width:
        return line
    half = (width - 3) // 2
    return f"{line[:half]} … {line[-half:]}"


def columns_of(character: str) -> int:
    """Return the number of columns of a character: 0 if it is combined with the one before it."""
    if character.isascii():
        return 1
    category = unicodedata.category(character)
    if category[0] == "M" or category == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def broken(line: str, width: int) -> list[str]:
    """Split a line into rows of at most `width` columns, keeping every character.

    A combining character stays with the character before it.
    """
    rows, start, columns = [], 0, 0
    for place, character in enumerate(line):
        wide = columns_of(character)
        if wide and columns + wide > width and place > start:
            rows.append(line[start:place])
            start, columns = place, 0
        columns += wide
    return [*rows, line[start:]]


def word_rows(line: str, width: int) -> tuple[int, list[tuple[int, int]]]:
    """Find the spaces at which a line of agentrt's own text must be wrapped to fit `width` columns.

    Returns the indentation of the further rows, and the start and end of each row.
    """
    indent = min(len(line) - len(line.lstrip(" │→·—")), width // 2)
    rows: list[tuple[int, int]] = []
    start, room = 0, max(2, width)
    while True:
        end = start + len(broken(line[start : start + room + 1], room)[0])
        if end >= len(line):
            return indent, [*rows, (start, len(line))]
        cut = line.rfind(" ", start + (0 if rows else indent) + 1, end + 1)
        rows.append((start, cut if cut > 0 else end))
        start, room = (cut + 1 if cut > 0 else end), max(2, width - indent)


def wrapped(text: str, width: int) -> str:
    """Return agentrt's own text, wrapped at spaces."""
    lines = []
    for line in text.split("\n"):
        indent, rows = word_rows(line, width)
        lines += [" " * (indent if start else 0) + line[start:end] for start, end in rows]
    return "\n".join(lines)


def folded(text: str, how: str) -> str:
    """Return the start and the end of a long text.

    `how` says how to see all of it.
    """
    lines, characters = 12, 2000
    all_lines = text.split("\n")
    left = len(all_lines) - lines
    if left > 1:
        text = "\n".join(
            [*all_lines[: lines - 3], f"… {left + 1:,} more lines, {how}", *all_lines[-2:]]
        )
    if len(text) > characters:
        half = characters // 2
        text = f"{text[:half]} … {len(text) - characters:,} more characters, {how} … {text[-half:]}"
    return text


def as_json(value: Any) -> str:
    """Return a value from an agent as JSON, for people."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def escaped(json: str) -> str:
    """Return JSON with the same meaning, with characters that could control a terminal escaped.

    JSON itself escapes those below the space.
    """
    return _OTHERS.sub(lambda match: f"\\u{ord(match.group()):04x}", json)


def _visible(match: re.Match[str]) -> str:
    """Return a visible character for a control character."""
    code = ord(match.group())
    if code == 0x0D:
        return ""  # belongs to CR LF; alone it would let a line be overwritten
    if code < 0x20:
        return chr(0x2400 + code)  # the picture of this control character
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
