"""Bytes into lines: newline-delimited JSON, cut by the pipe wherever it liked."""

from __future__ import annotations

from io import BytesIO

from .._limits import Limits
from .long_lines import LONG, PIECE, LongLine


class Lines:
    """Collects whole lines from reads cut anywhere.

    `feed` hands over the whole lines of a read as one buffer, newlines included, as it is wanted
    by `msgspec.json.Decoder.decode_lines`: nothing is done per line. CRLF and blank lines pass
    through; both are white space to JSON.

    A line longer than `limit` is skipped up to its newline and its size put into `oversized`;
    what was kept of it is freed as soon as the limit is passed.

    With `long_apart`, a line of more than `LONG` bytes that comes in several reads is not handed
    over but put into `long`, for the caller to take and clear: it came before what `feed` returns.
    """

    def __init__(self, limit: int = Limits().line, *, long_apart: bool = False) -> None:
        self.limit = limit
        self.long: list[LongLine] = []
        self.oversized: list[int] = []
        """Sizes in bytes of the lines skipped so far, for the caller to report and clear."""
        self._partial = bytearray()
        """The beginning of a line whose newline has not come. One growing bytearray: extending it
        is linear however small the pieces, and it is handed over without another copy."""
        self._skipped = 0
        """Bytes of an oversized line that is being skipped; 0 when none is."""
        self._long_from = LONG if long_apart else limit
        self._long: LongLine | None = None
        """The line that has not ended, if it is a long one; it is not in `_partial` then."""

    def feed(self, data: bytes) -> bytes | bytearray:
        """The whole lines that are complete with `data`; empty if there are none."""
        if self._long is not None:
            data = self._feed_long(data, self._long)
        cut = data.rfind(b"\n") + 1
        if self._skipped or len(self._partial) + len(data) > self.limit:
            return self._feed_carefully(data)
        if not cut:
            self._partial += data
            if len(self._partial) > self._long_from:
                self._long = LongLine()
                for at in range(0, len(self._partial), PIECE):
                    self._long.feed(self._partial[at : at + PIECE])
                self._partial = bytearray()
            return b""
        if not self._partial and cut == len(data):
            return data
        view = memoryview(data)
        lines = self._partial
        lines += view[:cut]
        self._partial = bytearray(view[cut:])
        return lines

    def end(self) -> bytes | bytearray:
        """At end of file: the last line, if it came without its newline."""
        if self._skipped:
            self.oversized.append(self._skipped)
            self._skipped = 0
        if self._long is not None:
            self._end_long(self._long)
        lines, self._partial = self._partial, bytearray()
        return lines

    def _feed_long(self, data: bytes, line: LongLine) -> bytes:
        """The next piece of a long line; what is behind its end."""
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
        """The same line by line, where one of them may be too long."""
        whole = bytearray()
        for piece in BytesIO(data):
            ended = piece.endswith(b"\n")
            if self._skipped:
                self._skipped += len(piece) - ended
            elif len(self._partial) + len(piece) - ended > self.limit:
                self._skipped = len(self._partial) + len(piece) - ended
                self._partial = bytearray()
            elif ended:
                whole += self._partial
                whole += piece
                self._partial.clear()
            else:
                self._partial += piece
            if ended and self._skipped:
                self.oversized.append(self._skipped)
                self._skipped = 0
        return whole
