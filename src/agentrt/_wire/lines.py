"""Bytes into lines: newline-delimited JSON, cut by the pipe wherever it liked."""

from __future__ import annotations

from io import BytesIO

from .._limits import Limits


class Lines:
    """Collects whole lines from reads cut anywhere.

    `feed` hands over the whole lines of a read as one buffer, newlines included, as it is wanted
    by `msgspec.json.Decoder.decode_lines`: nothing is done per line. CRLF and blank lines pass
    through; both are white space to JSON.

    A line longer than `limit` is skipped up to its newline and its size put into `oversized`;
    what was kept of it is freed as soon as the limit is passed.
    """

    def __init__(self, limit: int = Limits().line) -> None:
        self.limit = limit
        self.oversized: list[int] = []
        """Sizes in bytes of the lines skipped so far, for the caller to report and clear."""
        self._partial = bytearray()
        """The beginning of a line whose newline has not come. One growing bytearray: extending it
        is linear however small the pieces, and it is handed over without another copy."""
        self._skipped = 0
        """Bytes of an oversized line that is being skipped; 0 when none is."""

    def feed(self, data: bytes) -> bytes | bytearray:
        """The whole lines that are complete with `data`; empty if there are none."""
        cut = data.rfind(b"\n") + 1
        if self._skipped or len(self._partial) + len(data) > self.limit:
            return self._feed_carefully(data)
        if not cut:
            self._partial += data
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
        lines, self._partial = self._partial, bytearray()
        return lines

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
