"""Text of agents as a terminal may show it: without power over the terminal, or over the reader.

What an agent, a tool or a file name says is somebody else's text. Escape sequences could move the
cursor over a permission question, marks of direction could turn its words round.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Final

from .._model.reveal import reveal

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters but newline and tab. The C1 codes are whole escape sequences."""

_TURNING: Final = re.compile(r"[\u061c\u202a-\u202e\u2066-\u2069]")
"""What overrides or isolates the direction of writing."""

_OTHERS: Final = re.compile(r"[\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069]")

_HIDDEN: Final = re.compile(
    r"[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u2065"
    r"\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What is not seen, or breaks a line: what Unicode ignores by default (but for the selectors that
emoji end with), what formats hieroglyphs, the blank of Braille. Some of it is needed in running
text (the joiners in emoji), none where somebody decides."""


def without_controls(text: str) -> str:
    """Running text for whoever reads it, a terminal or not: nothing in it is an escape."""
    return _CONTROL.sub(_visible, text)


def safe(text: str) -> str:
    """Running text for a terminal."""
    return _TURNING.sub("\N{REPLACEMENT CHARACTER}", without_controls(text))


def plain(text: str) -> str:
    """Text on which a decision rests: every character of it is seen. Lines stay lines."""
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", safe(text)).expandtabs(4)


def whole_line(text: str) -> str:
    """Text on which a decision rests, in one line, however long."""
    return " ".join(plain(text).split())


def one_line(text: str, width: int = 200) -> str:
    """The same in one line, cut off in the middle if it is long: the end of a command counts."""
    line = whole_line(text)
    if len(line) <= width:
        return line
    half = (width - 3) // 2
    return f"{line[:half]} … {line[-half:]}"


def revealed_line(text: str, width: int | None = None) -> str:
    """Text on which a decision rests, with every character visible, in one line; cut off in the
    middle if it has more than `width` characters."""
    line = " ".join(reveal(text).split())
    if width is None or len(line) <= width:
        return line
    half = (width - 3) // 2
    return f"{line[:half]} … {line[-half:]}"


def broken(line: str, width: int) -> list[str]:
    """A line in rows of at most so many columns, every character of it kept. What is drawn onto the
    character before it stays with that."""
    rows, start, columns = [], 0, 0
    for place, character in enumerate(line):
        category = "" if character.isascii() else unicodedata.category(character)
        joins = category[:1] == "M" or category == "Cf"
        wide = 2 if unicodedata.east_asian_width(character) in "WF" else int(not joins)
        if columns + wide > width and place > start and not joins:
            rows.append(line[start:place])
            start, columns = place, 0
        columns += wide
    return [*rows, line[start:]]


def word_rows(line: str, width: int) -> tuple[int, list[tuple[int, int]]]:
    """Where a line of our own words is to be broken, at spaces, to fit into so many columns: the
    indentation of its further rows, and each row's beginning and end."""
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
    """Our own words, broken at spaces."""
    lines = []
    for line in text.split("\n"):
        indent, rows = word_rows(line, width)
        lines += [" " * (indent if start else 0) + line[start:end] for start, end in rows]
    return "\n".join(lines)


def folded(text: str, how: str) -> str:
    """A long text's beginning and end. `how` says where all of it is."""
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
    """A value of an agent, for people."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def escaped(json: str) -> str:
    """JSON that says the same without a character that has power over a terminal. (Those below
    the space are escaped in any JSON.)"""
    return _OTHERS.sub(lambda match: f"\\u{ord(match.group()):04x}", json)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code == 0x0D:
        return ""  # of a CR LF; alone it would let a line be overwritten
    if code < 0x20:
        return chr(0x2400 + code)  # the picture of this control character
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
