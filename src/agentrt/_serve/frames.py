"""WebSocket frames, as far as the server handles them itself: incoming data is measured before it
is parsed, and data for all viewers is framed once.
"""

from __future__ import annotations

import struct
from typing import Final

from .._public import Limits
from .refusal import CloseCode, ConnectionRefusal
from .security import Role

TEXT_OPCODE: Final = 0x1
CLOSE_OPCODE: Final = 0x8
FIN_BIT: Final = 0x80
EXTENDED: Final = {126: 2, 127: 8}
"""Length codes that announce an extended length, and the number of its bytes."""


def head(size: int) -> bytes:
    """Return the frame header of a text of `size` bytes, unmasked as servers send it, so that the
    frame's bytes are the same for all recipients.
    """
    if size < 126:
        return bytes((FIN_BIT | TEXT_OPCODE, size))
    if size < 1 << 16:
        return struct.pack("!BBH", FIN_BIT | TEXT_OPCODE, 126, size)
    return struct.pack("!BBQ", FIN_BIT | TEXT_OPCODE, 127, size)


def largest(limits: Limits, role: Role | None) -> int:
    """Return the maximum bytes of a message from a client in this role; None: one that is not
    admitted.
    """
    return (
        limits.client_message_bytes
        if role == "controller"
        else min(limits.client_message_bytes, limits.viewer_message_bytes)
    )


class Bucket:
    """A rate limit: `rate` units per second, and a `burst` after a pause."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._when: float | None = None

    def take(self, count: int, now: float) -> bool:
        """Take `count` units at the time `now`, in seconds. If too few are left, take none and
        return False.
        """
        if self._when is not None:
            self._left = min(self._burst, self._left + (now - self._when) * self._rate)
        self._when = now
        if count > self._left:
            return False
        self._left -= count
        return True


class Meter:
    """Counts a client's frames and measures its messages from the frame headers alone.

    trio-websocket limits characters although bytes use the memory, and parses 300,000 fragments of
    one byte for seconds without a checkpoint. So both are limited before it sees them.
    """

    def __init__(self, largest: int, frames: Bucket) -> None:
        self._refused = False
        self._largest = largest
        self._frames = frames
        self._payload = 0  # bytes of the current frame's payload still to arrive
        self._message = 0  # bytes of the current message, over all its fragments
        self._head = b""  # an incomplete header

    def feed(self, data: bytes, now: float) -> None:
        """Take the next bytes of the stream.

        Raises `ConnectionRefusal` if they must not be parsed; later bytes are ignored then.
        """
        if self._refused:
            return
        try:
            self._feed(self._head + data, now)
        except ConnectionRefusal:
            self._refused = True
            raise

    def _feed(self, data: bytes, now: float) -> None:
        """Count the frames in some bytes of a client, and add up the size of its message.

        Only headers are looked at; payloads are skipped, also across calls. An incomplete header is
        kept for the next bytes. Raises `ConnectionRefusal` for a message that is too large, or too
        many frames in too little time.
        """
        end = len(data)
        at = frames = 0
        while True:
            skipped = min(self._payload, end - at)
            at += skipped
            self._payload -= skipped
            if end - at < 2:
                break
            first, second = data[at], data[at + 1]
            length = second & 0x7F
            extended = EXTENDED.get(length, 0)
            start = at + 2 + extended + (4 if second & 0x80 else 0)
            if start > end:
                break
            if extended:
                length = int.from_bytes(data[at + 2 : at + 2 + extended], "big")
            frames += 1
            if first & 0x0F < CLOSE_OPCODE:
                self._message += length
                if self._message > self._largest:
                    limit = f"a message may have at most {self._largest} bytes"
                    raise ConnectionRefusal(CloseCode.TOO_BIG, limit)
                if first & FIN_BIT:
                    self._message = 0
            at, self._payload = start, length
        self._head = data[at:]
        if not self._frames.take(frames, now):
            raise ConnectionRefusal(CloseCode.TOO_MANY, "too many frames in too little time")
