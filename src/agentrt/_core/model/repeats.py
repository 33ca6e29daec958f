"""Limits repeated notices: an agent that logs to stdout for hours must not fill the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from .events import Notice

REPORTED_NOTICES: Final = 16
"""The number of notices about one subject that are all reported; later ones at powers of two."""
DISTINCT_NOTICES: Final = 256
"""The number of subjects that are counted separately. A subject may be text from the agent that is
never the same twice.
"""
LISTED_NAMES: Final = 5
"""The number of names that `listed` shows."""


class NoticeLimiter:
    """Counts notices and passes on the ones worth reporting."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()

    def worth_reporting(self, notice: Notice, *, about: str = "", times: int = 1) -> list[Notice]:
        """Return the notice, or an empty list if it was reported often.

        `about`: the subject, counted separately under the same code. `times`: the number of
        occurrences since the last call.
        """
        code = notice.code
        if len(self._seen) > DISTINCT_NOTICES:
            about = ""
        before = self._seen[code, about]
        so_far = self._seen[code, about] = before + times
        if so_far <= REPORTED_NOTICES:
            return [notice]
        if so_far.bit_length() == before.bit_length():  # no power of two was passed
            return []
        return [replace(notice, message=f"{notice.message} ({so_far} times so far)")]


def listed(names: Iterable[str]) -> str:
    """Join names, each only once and not too many of them."""
    counts = Counter(names)
    shown = [
        f"{name} ({n} times)" if n > 1 else name for name, n in list(counts.items())[:LISTED_NAMES]
    ]
    more = sum(list(counts.values())[LISTED_NAMES:])
    return ", ".join(shown) + (f" and {more} more" if more else "")
