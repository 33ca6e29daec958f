"""The limit on how deeply JSON may be nested."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

MAX_NESTING: Final = 200
"""Maximum number of objects and arrays inside each other in a message.

Decoding fails only at the limit of the interpreter's stack. A message just below it could be
decoded, but no longer be stored or shown, where the stack is deeper. No known agent comes close.
"""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_STEPS: Final = bytes({*range(256)} - {*b"[{]}"})
_PEELED: Final = 4
"""Levels that are removed from the inside, which takes less time than counting them."""


def is_too_nested(message: bytes | bytearray | str) -> bool:
    """Return True if a message has more than `MAX_NESTING` levels.

    The time is proportional to the message; most messages are too short or have too few brackets.
    """
    if len(message) <= 2 * MAX_NESTING:
        return False
    data = message.encode(errors="surrogatepass") if isinstance(message, str) else message
    if data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return False
    steps = _STRING.sub(b"", data).translate(_STEPS, _NOT_STEPS)
    for _ in range(_PEELED):
        steps = steps.replace(b"\x01\xff", b"")
    return any(map((MAX_NESTING - _PEELED).__lt__, accumulate(memoryview(steps).cast("b"))))
