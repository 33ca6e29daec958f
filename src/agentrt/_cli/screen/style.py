"""The looks of text: as escape sequences above the prompt, as styles around it; and the scrolling
text above the prompt, which is buffered here and written with the next frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from ...config import ColorRole, ConfigError
from ..text import broken, word_rows, wrapped

Fragments: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the name of its look."""


class Look(NamedTuple):
    """The look of some text."""

    sgr: str
    """The parameters of its escape sequence."""
    style: str
    """Its style for prompt_toolkit."""
    colour: bool = False


LOOKS: Final = {
    "": Look("", ""),
    "dim": Look("2", "dim"),
    "bold": Look("1", "bold"),
    "italic": Look("2;3", "dim italic"),
    "you": Look("1;36", "bold ansicyan", colour=True),
    "good": Look("32", "ansigreen", colour=True),
    "bad": Look("31", "ansired", colour=True),
    "warn": Look("33", "ansiyellow", colour=True),
    "busy": Look("35", "ansimagenta", colour=True),
    "ask": Look("1;33", "bold ansiyellow", colour=True),
    "added": Look("32", "ansigreen", colour=True),
    "removed": Look("31", "ansired", colour=True),
    "place": Look("36", "ansicyan", colour=True),
    "added_word": Look("1;4;32", "bold underline ansigreen", colour=True),
    "removed_word": Look("1;4;31", "bold underline ansired", colour=True),
    "chosen": Look("7", "reverse"),
}

_NAMED: Final = frozenset(LOOKS) - {""}

_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_EMPHASES: Final = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7"}


def chosen_looks(colors: Mapping[ColorRole, str]) -> dict[str, Look]:
    """Return the looks with those of the configuration, such as `bold bright-cyan`.

    Raises `ConfigError`.
    """
    return {**LOOKS, **{role: _look(role, words) for role, words in colors.items()}}


def _look(role: ColorRole, words: str) -> Look:
    """Return the look for words of the configuration, for both ways of drawing. Raises
    `ConfigError`.
    """
    sgr, style, colour = [], [], False
    for word in words.casefold().split():
        name = word.removeprefix("bright-")
        if word in _EMPHASES:
            sgr.append(_EMPHASES[word])
            style.append(word)
        elif name in _COLOURS:
            number, bright = _COLOURS.index(name), name != word
            sgr.append(str(number + (90 if bright else 30)))
            style.append(_TOOLKIT_COLOURS[number + 8 * bright])
            colour = True
        elif word != "plain":
            raise ConfigError(
                f"terminal.colors.{role}: {word!r} is not a color; use {', '.join(_COLOURS)}, the"
                f" same with bright-, {', '.join(_EMPHASES)}, or plain"
            )
    return Look(";".join(sgr), " ".join(style), colour)


_TOOLKIT_COLOURS: Final = (
    *("ansiblack", "ansired", "ansigreen", "ansiyellow"),
    *("ansiblue", "ansimagenta", "ansicyan", "ansigray"),
    *("ansibrightblack", "ansibrightred", "ansibrightgreen", "ansibrightyellow"),
    *("ansibrightblue", "ansibrightmagenta", "ansibrightcyan", "ansiwhite"),
)


def style_of(looks: Mapping[str, Look]) -> Style:
    """Return prompt_toolkit's style sheet for these looks."""
    return Style([(name, look.style) for name, look in looks.items() if name])


_ATTRIBUTES: Final = frozenset("123479")
"""The parameters that are not colours."""


class Painter:
    """Turns fragments into text for the terminal."""

    def __init__(self, *, colour: bool, looks: Mapping[str, Look] = LOOKS) -> None:
        self.colour = colour
        self.looks = looks

    def __call__(self, *fragments: tuple[str, str]) -> str:
        return "".join(self.paint(look, text) for look, text in fragments)

    def paint(self, look: str, text: str) -> str:
        """Return text in a look, applied to each line separately.

        The look is a name, or that of a `command_output.Run`.
        """
        sgr = self.looks[look].sgr if look in self.looks else look
        if not self.colour:
            sgr = ";".join(part for part in sgr.split(";") if part in _ATTRIBUTES)
        if not sgr or not text:
            return text
        return "\n".join(f"\x1b[{sgr}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


def styled(fragments: Fragments) -> StyleAndTextTuples:
    """Return fragments in the form that prompt_toolkit takes."""
    return [(f"class:{look}" if look in _NAMED else look, text) for look, text in fragments]


def rendered(text: str) -> Fragments:
    """Turn text with agentrt's escape sequences into fragments with prompt_toolkit's styles."""
    fragments: Fragments = []
    for style, character, *_ in to_formatted_text(ANSI(text)):
        if fragments and fragments[-1][0] == style and not fragments[-1][1].endswith("\n"):
            fragments[-1] = (style, fragments[-1][1] + character)
        else:
            fragments.append((style, character))
    return fragments


def rows_of(line: Fragments, width: int) -> list[Fragments]:
    """Break a line into rows of at most `width` columns, keeping every character."""
    rows: list[Fragments] = []
    left = line[::-1]
    for row in broken("".join(text for _, text in line), max(2, width)):
        room, pieces = len(row), Fragments()
        while left and len(left[-1][1]) <= room:
            pieces.append(left.pop())
            room -= len(pieces[-1][1])
        if left and room:
            look, text = left.pop()
            pieces.append((look, text[:room]))
            left.append((look, text[room:]))
        rows.append(pieces)
    return rows


def colour_depth(*, colour: bool) -> ColorDepth:
    """Return the colour depth: the terminal's own sixteen colours, which fit its background."""
    return ColorDepth.DEPTH_4_BIT if colour else ColorDepth.DEPTH_1_BIT


class ScrollingText:
    """Complete lines in blocks separated by empty lines. `width` returns the terminal's current
    width.
    """

    def __init__(self, paint: Painter, width: Callable[[], int]) -> None:
        self.paint = paint
        self.width = width
        self._parts: list[str] = []
        self._size = 0
        self._kind = ""

    @property
    def size(self) -> int:
        """The number of characters that wait for the next frame."""
        return self._size

    def write(self, text: str, kind: str = "line", *, apart: bool = False) -> None:
        """Add complete lines.

        An empty line precedes text of a different kind, or text with `apart`.
        """
        if not text:
            return
        if self._kind and (apart or kind != self._kind):
            text = "\n" + text
        self._kind = kind
        self._parts.append(text)
        self._size += len(text)

    def say(self, text: str, kind: str) -> None:
        """Add agentrt's own text, wrapped at spaces."""
        self.write(wrapped(text, self.width()) + "\n", kind)

    def line(self, *fragments: tuple[str, str], kind: str = "line") -> None:
        """Add a line of agentrt's own text, in these looks."""
        text = "".join(part for _, part in fragments)
        indent, rows = word_rows(text, self.width())
        painted = []
        for start, end in rows:
            row, place = (" " * indent if start else ""), 0
            for look, part in fragments:
                row += self.paint.paint(look, part[max(0, start - place) : max(0, end - place)])
                place += len(part)
            painted.append(row + "\n")
        self.write("".join(painted), kind)

    def take(self) -> str:
        """Return and remove the buffered text, for the next frame."""
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return text
