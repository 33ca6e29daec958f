"""Words for PostgreSQL's full-text search, split here and not by one of its parsers.

Its parsers know file names, hosts and numbers, and split none of them as SQLite does: the same
query should find a session in either kind of store.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from ...storage import QueryWord

MAX_WORD_CHARS: Final = 250
"""Maximum number of characters of a word that are indexed: PostgreSQL accepts 2046 bytes."""

_MAX_POSITION = 16383  # the highest position in a text that PostgreSQL stores

_WORD = re.compile(r"[^\W_]+")


def cut(text: str) -> list[str]:
    """Return the words of a text, without case and accents."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join([each for each in text if not unicodedata.combining(each)])
    return [word[:MAX_WORD_CHARS] for word in _WORD.findall(text.casefold())]


def vector(text: str) -> str:
    """Return a text as a `tsvector`. Words are letters and digits: none of them needs quoting."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(cut(text), 1):
        found = places.setdefault(word, [])
        if len(found) < 64:
            found.append(str(min(place, _MAX_POSITION)))
    return " ".join([f"'{word}':{','.join(where)}" for word, where in places.items()])


def query(words: Sequence[QueryWord], joint: str = "&") -> str | None:
    """Return a `tsquery` for those words that the index can find; None if it can find none."""
    parts = [part for word in words if word.match is not None and (part := _phrase(word))]
    return f" {joint} ".join(parts) or None


def _phrase(word: QueryWord) -> str:
    """Return a phrase of the word's parts in sequence, with the last one matched by prefix."""
    parts = [f"'{part}'" for part in cut(word.text)]
    if parts and word.match is not None and word.match.endswith("*"):
        parts[-1] += ":*"
    return f"({' <-> '.join(parts)})" if parts else ""
