"""Text for a person's decision, with every character made visible.

The page has the same rules (`_serve/page/reveal.js`); the tests compare both for all characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

# fmt: off
_IGNORABLE: Final = (
    (0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFC), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
# fmt: on
"""Characters that are not drawn according to Unicode, the Braille blank and the object placeholder.
Spaces, controls, format characters and unassigned ones are found by category.
"""

# fmt: off
_SCRIPTS: Final = (
    (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F), (0x10A0, 0x10FF), (0x13A0, 0x13FF),
    (0x1C80, 0x1CBF), (0x1F00, 0x1FFF), (0x2C80, 0x2D2F), (0x2DE0, 0x2DFF), (0xA4D0, 0xA4FF),
    (0xA640, 0xA69F), (0xAB70, 0xABBF), (0x10400, 0x1044F),
)
# fmt: on
"""Scripts with letters that look like Latin ones: Greek, Cyrillic, Armenian, Georgian, Cherokee,
Coptic, Lisu, Deseret.
"""

# fmt: off
_DISGUISED: Final = (
    (0x2CD, 0x2CD), (0x2D0, 0x2D0), (0x2D7, 0x2D7), (0x1C0, 0x1C3), (0x261, 0x261),
    (0x37E, 0x37E), (0x2010, 0x2011), (0x2024, 0x2024), (0x2044, 0x2044), (0x2160, 0x2188),
    (0x2212, 0x2212), (0x2215, 0x2216), (0x2223, 0x2223), (0x2236, 0x2236), (0x29F5, 0x29F5),
    (0x29F8, 0x29F9), (0xA789, 0xA789), (0xFE68, 0xFE68), (0xFF10, 0xFF19), (0xFF21, 0xFF3A),
    (0xFF41, 0xFF5A), (0x1D400, 0x1D7FF),
)
# fmt: on
"""Characters that look like an ASCII character in every context."""

_DOUBLES: Final = frozenset("аеорсухѕіјһԁԛԝӏοανικτυρ")
"""Letters of those scripts that can form whole words that look Latin."""

_MAX_MARKS: Final = 2
"""The number of combining marks per letter that are shown unchanged."""

_OVERLAYS: Final = range(0x334, 0x339)
"""Combining marks that are drawn across a letter."""

_WORD: Final = frozenset("ALKDMOX")


def reveal(text: str) -> str:
    """Return the text with hidden and misleading characters spelled out: `⟨U+202E⟩`.

    Newlines and tabs stay; other controls become their pictures (`␛`). Letters of another script in
    a Latin word, and characters that look like an ASCII one, stay and are followed by their code.
    The first two combining marks on a letter stay.
    """
    if text.isascii():
        return text.translate(_PICTURES)
    kinds = "".join(map(_KINDS.__getitem__, text))
    marked = _lookalikes(text, kinds)
    out: list[str] = []
    before, marks, joins = "", 0, False  # `joins`: a combining mark has a letter to stand on
    for place, (character, kind) in enumerate(zip(text, kinds, strict=True)):
        if kind == "M":
            marks += 1
            out.append(character if joins and marks <= _MAX_MARKS else _code(character))
            continue
        marks, joins = 0, kind in "ALKX"
        match kind:
            case "C":
                out.append(_PICTURES[ord(character)])
            case "V":
                out.append(character if before == "S" else _code(character))
            case "H" | "O":
                out.append(_code(character))
            case "X":
                out.append(character + _code(character))
            case "K" if place in marked:
                out.append(character + _code(character))
            case _:
                out.append(character)
        before = kind
    return "".join(out)


def _code(character: str) -> str:
    """Return the code of a character: `⟨U+202E⟩`."""
    return f"⟨U+{ord(character):04X}⟩"


def _lookalikes(text: str, kinds: str) -> set[int]:
    """Return the positions of letters that pass for Latin ones."""
    if "K" not in kinds:
        return set()
    found: set[int] = set()
    for start, end in _words(kinds):
        word = kinds[start:end]
        places = [start + at for at, kind in enumerate(word) if kind == "K"]
        alone = len(places) > 1 and "L" not in word and all(text[at] in _DOUBLES for at in places)
        if places and ("A" in word or alone):
            found.update(places)
    return found


def _words(kinds: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each word, in the kinds of the characters of a text."""
    start = 0
    for place, kind in enumerate(kinds):
        if kind not in _WORD:
            if start < place:
                yield start, place
            start = place + 1
    if start < len(kinds):
        yield start, len(kinds)


def _kind(character: str) -> str:
    """Classify a character.

    A: ASCII letter, L: letter, K: letter of a script with lookalikes, D: digit, M: combining mark,
    O: always spelled out, X: lookalike, C: control, H: hidden, V: variation selector, S: symbol, P:
    anything else.
    """
    code = ord(character)
    if code < 0x80:
        return _ascii_kind(character)
    category = unicodedata.category(character)
    if code in (0xFE0E, 0xFE0F):
        return "V"
    if category[0] in "CZ" or _among(code, _IGNORABLE):
        return "H"
    if _among(code, _DISGUISED):
        return "X"
    if category[0] == "L" and _among(code, _SCRIPTS):
        return "K"
    if category[0] == "M" and code in _OVERLAYS:
        return "O"
    return _KIND_OF_CATEGORY.get(category) or _KIND_OF_CATEGORY.get(category[0], "P")


_KIND_OF_CATEGORY: Final = {"L": "L", "M": "M", "Me": "O", "N": "D", "So": "S", "Sm": "S"}
"""The kind of a character by its Unicode category, or by the first letter of that."""


def _ascii_kind(character: str) -> str:
    """Classify an ASCII character, as `_kind`."""
    if character.isalpha():
        return "A"
    if character.isdigit():
        return "D"
    return "C" if ord(character) in _PICTURES else "P"


def _among(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    """Return True if a code is in one of the ranges."""
    return any(first <= code <= last for first, last in ranges)


class _CharacterKinds(dict[str, str]):
    """The kinds of the characters seen so far."""

    def __missing__(self, character: str) -> str:
        """Classify a character that is new; a text has few different ones."""
        self[character] = kind = _kind(character)
        return kind


_KINDS: Final = _CharacterKinds()
_PICTURES: Final = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {
    0x7F: "\N{SYMBOL FOR DELETE}"
}
