"""What PostgreSQL's full-text search is given: words that are cut here, not by one of its parsers.

Those know file names, hosts and numbers, and cut none of them as SQLite does: what finds a session
in one store should find it in the other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from ..search import Word

LONGEST: Final = 250
"""Characters of a word that matter: PostgreSQL takes 2046 bytes."""

_PLACES = 16383  # that PostgreSQL tells apart in a text

_WORD = re.compile(r"[^\W_]+")


def cut(text: str) -> list[str]:
    """The words of a text, without case and accents."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join([each for each in text if not unicodedata.combining(each)])
    return [word[:LONGEST] for word in _WORD.findall(text.casefold())]


def vector(text: str) -> str:
    """A text as a `tsvector`. Words are letters and digits: nothing in them is to be quoted."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(cut(text), 1):
        found = places.setdefault(word, [])
        if len(found) < 64:
            found.append(str(min(place, _PLACES)))
    return " ".join([f"'{word}':{','.join(where)}" for word, where in places.items()])


def query(words: Sequence[Word], joint: str = "&") -> str | None:
    """For those of the words that the index knows, as a `tsquery`; None: it knows none."""
    parts = [part for word in words if word.match is not None and (part := _phrase(word))]
    return f" {joint} ".join(parts) or None


def _phrase(word: Word) -> str:
    """Its parts behind each other, the last one by its beginning."""
    parts = [f"'{part}'" for part in cut(word.text)]
    if parts and word.match is not None and word.match.endswith("*"):
        parts[-1] += ":*"
    return f"({' <-> '.join(parts)})" if parts else ""
