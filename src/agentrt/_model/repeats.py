"""Notices about the same thing, again and again: an agent that logs to stdout for hours must not
fill the log with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from .events import Notice

ALL_REPORTED: Final = 16
"""The first notices about one thing are all reported, later ones at every power of two."""
APART: Final = 256
"""Things that are counted apart; what a notice is about may be the agent's word, and never the
same."""
NAMED: Final = 5


class Repeats:
    """Counts notices, and lets those pass that are worth reporting."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()

    def rarer(self, notice: Notice, *, about: str = "", times: int = 1) -> list[Notice]:
        """The notice, or nothing if it was reported often. `about`: what is counted apart under the
        same code; `times`: how often it happened since."""
        code = notice.code
        if len(self._seen) > APART:
            about = ""
        before = self._seen[code, about]
        so_far = self._seen[code, about] = before + times
        if so_far <= ALL_REPORTED:
            return [notice]
        if so_far.bit_length() == before.bit_length():  # no power of two was passed
            return []
        return [replace(notice, message=f"{notice.message} ({so_far} times so far)")]


def listed(names: Iterable[str]) -> str:
    """Names in a row, each once and not too many of them."""
    counts = Counter(names)
    shown = [f"{name} ({n} times)" if n > 1 else name for name, n in list(counts.items())[:NAMED]]
    more = sum(list(counts.values())[NAMED:])
    return ", ".join(shown) + (f" and {more} more" if more else "")
