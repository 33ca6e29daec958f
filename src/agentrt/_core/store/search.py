"""The searchable text of a session, and the translation of a person's query.

SQLite's FTS5 splits text into words in scripts that separate them. Other text (Chinese words, an
emoji) is searched letter by letter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..model.checkpoint import Record
from ..model.content import plain_text

RECORD_BITS: Final = 24
"""Number of bits of an index row's number that are the record's; the others are the session's."""

MAX_INDEXED_CHARS: Final = 65536
"""Maximum number of characters of a record that are indexed: the writer spends the time."""

MAX_QUERY_WORDS: Final = 16
"""Maximum number of words of a query; further ones are ignored."""

SNIPPET_CHARS_BEFORE: Final = 60
"""Number of characters shown before a match; three times as many are shown after it."""

_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese and Korean: spaces do not separate words, or not
alone."""


class QueryWord(Struct, frozen=True):
    """A word of a query."""

    text: str
    """The word as it was typed."""
    match: str | None
    """The FTS5 query; None if `like` must be used."""
    like: str
    """The pattern for SQL's LIKE, with a backslash before literal characters."""


def words_of(typed: str) -> list[QueryWord]:
    """Split a person's query into words; none of it is treated as syntax."""
    return [_word(each) for each in dict.fromkeys(clean(typed).split())][:MAX_QUERY_WORDS]


def _word(text: str) -> QueryWord:
    """Return a word of a query.

    FTS5 finds it as the beginning of a word; LIKE finds it anywhere, for scripts without spaces and
    for text without letters or digits.
    """
    match = None
    if any(map(str.isalnum, text)) and not _UNSPACED.search(text):
        quoted = text.replace('"', '""')
        # Words with a one-letter prefix are a large part of all words, and take seconds to find.
        match = f'"{quoted}"' + "*" * (text[-1].isalnum() and len(text) > 1)
    return QueryWord(text, match, "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%")


def text_of(record: Record) -> str:
    """Return the text of the prompts and answers in a record."""
    said = []
    room = MAX_INDEXED_CHARS
    for item in record.items:
        if room and item.type in ("user", "text"):
            text = (item.text or plain_text(item.content))[:room]
            said.append(text)
            room -= len(text)
    return clean("\n".join(said))


def clean(text: str) -> str:
    """Replace characters that no database accepts: surrogates and zeros."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def excerpt(text: str, words: Sequence[QueryWord]) -> str:
    """Return one line around the first place where one of the words occurs."""
    text = re.sub(r"\s", " ", text)
    plain = _folded(text)
    places = [place for word in words if (place := _place(plain, _folded(word.text))) >= 0]
    start = min(places, default=0) - SNIPPET_CHARS_BEFORE
    start = text.rfind(" ", 0, start) + 1 if start > 0 else 0
    end = start + 4 * SNIPPET_CHARS_BEFORE
    line = " ".join(text[start:end].split())
    return "… " * (start > 0) + line + " …" * (end < len(text))


def contains(text: str, words: Sequence[QueryWord]) -> bool:
    """True if all words occur in a text, as beginnings of its words where it has words."""
    plain = _folded(text)
    return all(_is_in(plain, _folded(word.text), begins=word.match is not None) for word in words)


def _is_in(text: str, word: str, *, begins: bool) -> bool:
    """Return True if a word occurs in a text; `begins`: only at the beginning of a word."""
    return (
        (re.search(rf"(?<![^\W_]){re.escape(word)}", text) is not None) if begins else word in text
    )


def _place(text: str, word: str) -> int:
    """Return the position of a word, preferably at the beginning of a word; -1 without one."""
    begun = re.search(rf"(?<![^\W_]){re.escape(word)}", text)
    return begun.start() if begun is not None else text.find(word)


def _folded(text: str) -> str:
    """Return the text in lower case and without diacritics, with its length unchanged."""
    if text.isascii():
        return text.lower()
    return "".join(unicodedata.normalize("NFD", each)[0].lower()[0] for each in text)
