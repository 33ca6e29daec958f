"""Splits bytes into lines of newline-delimited JSON; reads may be cut at any position."""

from __future__ import annotations

from io import BytesIO
from typing import Final

from ..limits import Limits
from .long_lines import LONG_LINE_BYTES, PIECE_BYTES, LongLine

SMALL_LINE_BYTES: Final = 4 * 1024
"""Bytes below which a piece of a line is appended to the piece before: a separate piece costs a
list entry and an object.
"""


class Lines:
    """Collects whole lines from reads cut at any position.

    `feed` returns the whole lines of a read as one buffer, including newlines, as
    `msgspec.json.Decoder.decode_lines` expects them: single lines cost no work. CRLF and blank
    lines pass through; both are white space in JSON.

    A line longer than `limit` is skipped up to its newline and its size is added to `oversized`.
    The part already kept is freed as soon as the limit is exceeded.

    With `long_apart`, a line of more than `LONG_LINE_BYTES` bytes that comes in several reads is
    not returned but added to `long`, for the caller to take and clear. It precedes the lines that
    `feed` returns.
    """

    def __init__(self, limit: int = Limits().message_bytes, *, long_apart: bool = False) -> None:
        self.limit = limit
        self.long: list[LongLine] = []
        self.oversized: list[int] = []
        """Sizes in bytes of the lines skipped so far, for the caller to report and clear."""
        self._pieces: list[bytes | bytearray] = []
        """The start of a line that has not ended. The pieces are joined only when it comes,
        because a buffer that grows by large pieces is copied again and again.
        """
        self._size = 0
        """Bytes in `_pieces`."""
        self._skipped = 0
        """Bytes of an oversized line that is being skipped, else 0."""
        self._long_from = LONG_LINE_BYTES if long_apart else limit
        self._long: LongLine | None = None
        """The unfinished line, if it is a long one; it is not in `_pieces` in that case."""

    @property
    def begun(self) -> bool:
        """True if a line has come in part."""
        return bool(self._size or self._skipped) or self._long is not None

    def feed(self, data: bytes) -> bytes | bytearray:
        """Return the lines that are complete with `data`, which may be none."""
        if self._long is not None:
            data = self._feed_long(data, self._long)
        cut = data.rfind(b"\n") + 1
        if self._skipped or self._size + len(data) > self.limit:
            return self._feed_carefully(data)
        if not cut:
            self._keep(data)
            if self._size > self._long_from:
                self._long = LongLine()
                for piece in self._taken():
                    for at in range(0, len(piece), PIECE_BYTES):
                        self._long.feed(piece[at : at + PIECE_BYTES])
            return b""
        if cut == len(data):
            return b"".join((*self._taken(), data)) if self._size else data
        lines = b"".join((*self._taken(), memoryview(data)[:cut]))
        self._keep(data[cut:])
        return lines

    def _keep(self, piece: bytes) -> None:
        """Keep a further piece of the line."""
        last = self._pieces[-1] if self._pieces else None
        if len(piece) >= SMALL_LINE_BYTES:
            self._pieces.append(piece)
        elif isinstance(last, bytearray):
            last += piece
        else:
            self._pieces.append(bytearray(piece))
        self._size += len(piece)

    def _taken(self) -> list[bytes | bytearray]:
        """Return the pieces and forget them."""
        pieces, self._pieces = self._pieces, []
        self._size = 0
        return pieces

    def end(self) -> bytes | bytearray:
        """Return the last line at end of file, if it came without its newline."""
        if self._skipped:
            self.oversized.append(self._skipped)
            self._skipped = 0
        if self._long is not None:
            self._end_long(self._long)
        return b"".join(self._taken())

    def _feed_long(self, data: bytes, line: LongLine) -> bytes:
        """Feed the next piece of a long line. Returns the data after its end."""
        piece, ended, behind = data.partition(b"\n")
        if line.size + len(piece) > self.limit:
            self._skipped = line.size
            self._long = None
            return data
        line.feed(piece)
        if ended:
            self._end_long(line)
        return behind

    def _end_long(self, line: LongLine) -> None:
        self._long = None
        if not line.blank:
            self.long.append(line)

    def _feed_carefully(self, data: bytes) -> bytes | bytearray:
        """Process the data line by line, because one of the lines may be too long."""
        whole = bytearray()
        for piece in BytesIO(data):
            ended = piece.endswith(b"\n")
            if self._skipped:
                self._skipped += len(piece) - ended
            elif self._size + len(piece) - ended > self.limit:
                self._skipped = self._size + len(piece) - ended
                self._taken()
            elif ended:
                whole += b"".join((*self._taken(), piece))
            else:
                self._keep(piece)
            if ended and self._skipped:
                self.oversized.append(self._skipped)
                self._skipped = 0
        return whole
