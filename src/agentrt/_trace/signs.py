"""What must be in the bytes of lines for any rule to find a secret in one of them: a look for word
after word, where there is no library that looks for all of them at once (`scan.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Final


def _signs(*signs: tuple[bytes, bytes]) -> tuple[tuple[bytes, re.Pattern[bytes]], ...]:
    return tuple(
        (anchor, re.compile(pattern.replace(b"BEGINS", _BEGINS))) for anchor, pattern in signs
    )


_HEX: Final = "[0-9A-Fa-f]"
_IN_FRONT: Final = (
    r"\\[abefnrtv]",  # JSON's and others' escapes
    rf"\\u{_HEX}{{4}}",
    rf"\\x{_HEX}{{2}}",
    rf"%{_HEX}{{2}}",
    r"[0-9\[;(][A-Za-z]",  # the end of what colours a terminal
)
"""What ends in a letter or a digit, and is none of a word's."""
BEGINS: Final = rf"(?:(?<![A-Za-z0-9_])|{'|'.join(f'(?<={each})' for each in _IN_FRONT)})"
"""Where a word begins, in the text as it is written."""
BEGINS_BEHIND: Final = rf"(?:^|[^A-Za-z0-9_]|{'|'.join(_IN_FRONT)})".encode()
"""The same with what is in front of it, for a library that does not look back."""

_BEGINS: Final = BEGINS.encode()
_SPACE: Final = rb"[\s\x1c-\x1f\x80-\xff]"
_THEN: Final = rb"\\*[\"']?" + _SPACE + rb"*[:=,]"
OF_A_SHAPE: Final = _signs(
    (b"A", rb"A(?:KIA|SIA|Iza)"),
    (b"J", rb"J(?<=eyJ)"),
    (
        b"_",  # most others are told apart by the two characters in front
        rb"_(?<=(?:h[oprsuf]|at|op|pm|pi|ey|sk|ai)_)(?:(?<=BEGINShf_)|(?<=BEGINSpypi_)"
        rb"|(?<=BEGINStskey_)|(?<=BEGINS(?:gh[oprsu]|npm|gsk|xai|dop)_)|(?<=BEGINSgithub_pat_)"
        rb"|(?<=BEGINSsk_)(?:live|test))",
    ),
    (
        b"-",
        rb"-(?:----BEGIN|(?<=(?:[prs]k|x[abeoprs]|at|hf|pm|pi|ey|ai)-)"
        rb"(?:(?<=BEGINS(?:[prs]k|hf)-)|(?<=BEGINS(?:npm|gsk|xai)-)|(?<=BEGINS(?:pypi|xox.)-)"
        rb"|(?<=BEGINS(?:glpat|tskey)-)))",
    ),
)
OF_A_NAME: Final = _signs(
    (b"k", rb"k(?:ey|(?<=tok)en|(?<=ook)ie)" + _THEN),
    (b"secret", rb"secret" + _THEN),
    (b"passw", rb"passw(?:or)?d" + _THEN),
    (b"passphrase", rb"passphrase" + _THEN),
    (b"credential", rb"credentials?" + _THEN),
    (b"z", rb"z(?<=authoriz)ation" + _THEN),
    (b"bearer", rb"bearer"),
    (b"basic", rb"basic" + _SPACE),
    # The one sign outside of ASCII that is a letter of ASCII in small.
    ("\N{KELVIN SIGN}".encode(), "\N{KELVIN SIGN}".encode()),
)
"""In each of these shapes, and in whatever `redact._NAMED` finds, is one of these: a pattern, and
what is in it. Bytes are looked through for a character or a word in almost no time, where a pattern
that is a choice of many costs a hundred times that. None of them goes on behind a quotation mark,
but for what a name is followed by."""


def any_in(data: bytes, parts: Iterable[bytes]) -> bool:
    for part in parts:  # noqa: SIM110 - `any` costs as much again
        if part in data:
            return True
    return False


def has_any(data: bytes, signs: tuple[tuple[bytes, re.Pattern[bytes]], ...]) -> bool:
    for anchor, pattern in signs:  # noqa: SIM110
        if anchor in data and pattern.search(data) is not None:
            return True
    return False


def in_common(lines: list[bytes]) -> tuple[bytes, bytes]:
    """What all lines begin with, up to a quotation mark; and each without that."""
    length = _begins_alike(lines)
    return lines[0][:length], b"\n".join(map(itemgetter(slice(length, None)), lines))


def _begins_alike(lines: list[bytes]) -> int:
    """Of how many bytes the beginning is that all lines have in common, up to a quotation mark."""
    if len(lines) == 1:
        return 0
    first, last = min(lines), max(lines)
    alike, differs = 0, len(first) + 1
    while differs - alike > 1:
        length = (alike + differs) // 2
        if last.startswith(first[:length]):
            alike = length
        else:
            differs = length
    return first.rfind(b'"', 0, alike) + 1
