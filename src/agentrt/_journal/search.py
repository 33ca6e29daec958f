"""What of a session is found by its words, and how words that a person typed are looked for.

SQLite's FTS5 knows the words of scripts that put something between them. Whatever has none (Chinese
words, an emoji) is looked for letter by letter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from .._model.checkpoint import Record
from .._model.content import plain_text

SHIFT: Final = 24
"""Bits of a row's number in the index that are the record's; the others are the session's."""

LONGEST: Final = 65536
"""Characters of a record that are looked through: the time to index them is the writer's."""

WORDS: Final = 16
"""Words that are looked for; more are left out."""

AROUND: Final = 60
"""Characters shown before the word that was found, and three times as many behind."""

_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese and Korean: words are not, or not only, between
spaces."""


class Word(Struct, frozen=True):
    """A word that is looked for. `match`: as FTS5 wants it; None: it has to be looked for by
    `like`, the pattern of SQL's LIKE with a backslash before what is meant literally."""

    text: str
    match: str | None
    like: str


def words_of(typed: str) -> list[Word]:
    """What a person typed, as words: none of it is anybody's syntax."""
    return [_word(each) for each in dict.fromkeys(clean(typed).split())][:WORDS]


def _word(text: str) -> Word:
    match = None
    if any(map(str.isalnum, text)) and not _UNSPACED.search(text):
        quoted = text.replace('"', '""')
        # What begins with one letter is a large part of all words, and takes seconds to find.
        match = f'"{quoted}"' + "*" * (text[-1].isalnum() and len(text) > 1)
    return Word(text, match, "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%")


def text_of(record: Record) -> str:
    """What was asked and answered in a record."""
    said = []
    room = LONGEST
    for item in record.items:
        if room and item.type in ("user", "text"):
            text = (item.text or plain_text(item.content))[:room]
            said.append(text)
            room -= len(text)
    return clean("\n".join(said))


def clean(text: str) -> str:
    """Without what no database takes: halves of characters, and zeros."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def excerpt(text: str, words: Sequence[Word]) -> str:
    """A line around the first place where one of the words stands."""
    text = re.sub(r"\s", " ", text)
    plain = _folded(text)
    places = [place for word in words if (place := _place(plain, _folded(word.text))) >= 0]
    start = min(places, default=0) - AROUND
    start = text.rfind(" ", 0, start) + 1 if start > 0 else 0
    end = start + 4 * AROUND
    line = " ".join(text[start:end].split())
    return "… " * (start > 0) + line + " …" * (end < len(text))


def _place(text: str, word: str) -> int:
    begun = re.search(rf"(?<![^\W_]){re.escape(word)}", text)
    return begun.start() if begun is not None else text.find(word)


def _folded(text: str) -> str:
    """As long as it was, in small letters and without what stands above or below them."""
    if text.isascii():
        return text.lower()
    return "".join(unicodedata.normalize("NFD", each)[0].lower()[0] for each in text)
