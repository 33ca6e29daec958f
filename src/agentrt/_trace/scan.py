"""Hyperscan, where it is installed (`pip install agentrt[trace]`): it asks lines for all signs of a
secret at once, in less time than it takes to write them down."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from .signs import BEGINS_BEHIND

_SPACE: Final = rb"[\s\x1c-\x1f\x80-\xff]"
_PART: Final = rb"[\w\x80-\xff-]"
_NAME: Final = (
    rb"(?:key|secret|token|passw(?:or)?d|passphrase|credentials?|authorization|cookie)"
    rb"\\*[\"']?" + _SPACE + rb"*[:=,]|bearer|basic" + _SPACE
)
"""In letters of any case."""
_SHAPES: Final = (
    BEGINS_BEHIND + rb"[spr]k-" + _PART,
    BEGINS_BEHIND + rb"sk_(?:live|test)_",
    BEGINS_BEHIND + rb"(?:gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-)",
    BEGINS_BEHIND + rb"A(?:KIA|SIA|Iza)",
    BEGINS_BEHIND + rb"(?:hf|npm|pypi|dop_v1|tskey|gsk|xai)[_-]",
    BEGINS_BEHIND + rb"eyJ" + _PART,
    rb"-----BEGIN ",
    rb"://[^/\s:@\"\\]*:[^/\s@\"\\]+@",
    # The one sign outside of ASCII that is a letter of ASCII in small.
    "\N{KELVIN SIGN}".encode(),
)
"""Of each of these shapes the beginning is enough: what has it is looked at by the rules."""
_LONGEST: Final = 64
"""Bytes of a value that are looked for."""


class Scan:
    """Asks bytes whether there may be a secret in them. Used by one thread at a time."""

    def __init__(self, library: Any, signs: Any) -> None:
        self._library = library
        self._signs = signs
        self._scratch = library.Scratch(signs)
        self._values: Any = None

    def know(self, values: Iterable[bytes]) -> None:
        """Values that are secrets, in the place of those before."""
        begins = {value[:_LONGEST] for value in values}
        once = self._library.HS_FLAG_SINGLEMATCH
        self._values = _compiled(
            self._library,
            [(b"".join(b"\\x%02x" % byte for byte in value), once) for value in begins],
        )

    def finds(self, data: bytes) -> bool:
        """Whether there is a sign of one, or a value."""
        try:
            self._signs.scan(data, match_event_handler=_stop, scratch=self._scratch)
            if self._values is not None:
                self._values.scan(data, match_event_handler=_stop)
        except self._library.ScanTerminated:
            return True
        return False


def _stop(*found: object) -> bool:
    return True


def load() -> Scan | None:
    """None without the library, or on a processor that it does not run on. Takes some hundredths of
    a second, once: to be called in a thread."""
    signs = _signs()
    return None if signs is None else Scan(*signs)


_loading: Final = threading.Lock()


def _signs() -> tuple[Any, Any] | None:
    with _loading:
        return _load_signs()


@lru_cache(maxsize=1)
def _load_signs() -> tuple[Any, Any] | None:
    try:
        library = import_module("hyperscan")
    except ImportError:
        return None
    once = library.HS_FLAG_SINGLEMATCH
    patterns = [(_NAME, once | library.HS_FLAG_CASELESS), *((shape, once) for shape in _SHAPES)]
    try:
        return library, _compiled(library, patterns)
    except library.error:
        return None


def _compiled(library: Any, patterns: list[tuple[bytes, int]]) -> Any:
    database = library.Database()
    database.compile(
        expressions=[pattern for pattern, _ in patterns],
        ids=list(range(len(patterns))),
        flags=[flags for _, flags in patterns],
    )
    return database
