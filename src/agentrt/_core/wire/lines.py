"""Splits bytes into lines of newline-delimited JSON; reads may be cut at any position.

Decoding a very long line in one step would block all other tasks. Messages are long because of
text: an answer, a file, a picture. A `LongLine` decodes its long strings piece by piece as they
come, and the remaining JSON, which is short, at the end of the line.
"""

from __future__ import annotations

import json
import math
import re
from io import BytesIO
from typing import Any, Final, TypeVar

import msgspec

from ..errors import RemoteProtocolError
from ..limits import MAX_NESTING, Limits, is_too_nested
from ..model.content import GrowingText
from .json import DECODE_ERRORS, NESTED_MARK, TOO_NESTED, repair, without_surrogates

T = TypeVar("T")

LONG_LINE_BYTES: Final = 512 * 1024
"""Bytes from which on a line is a long one. All of them are decoded in one step, which takes less
than a millisecond for text, and about fifteen for broken text that is repaired.
"""

MAX_STRUCTURE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a long line outside of long strings. They are decoded in one step and are the most
expensive: a megabyte of empty objects takes 40 ms and 25 MB.
"""

PIECE_BYTES: Final = 64 * 1024
"""Bytes of a string that are decoded at a time. A shorter string is not a long one."""

_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_TEXT = msgspec.json.Decoder(str)
_MARK: Final = b"-Infinity"
"""Stands for a long string in the remaining JSON. It is not JSON: the standard library asks for
its meaning.
"""

_CLOSED = re.compile(rb'(?>[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
"""Everything up to a string that has no end here."""
_BACKSLASH: Final = ord("\\")
_UNICODE = re.compile(rb"\\u[0-9a-fA-F]{0,4}\Z")
_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
"""Half a character, if it is one of those that take two escapes."""
_CHARACTER = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,2}\Z")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class LongLine:
    """Takes a line without its newline, cut at any position. A call's cost depends on its piece."""

    def __init__(self) -> None:
        """Begin an empty line."""
        self.size: int = 0
        self.head: bytes = b""
        """The start of the line, long enough to quote it."""
        self.repaired: bool = False
        """True if characters had to be replaced. Known after `value` was called."""
        self._rest = bytearray()
        """Everything but long strings."""
        self._string: bytearray | None = None
        """The content of an unfinished string that is not decoded yet."""
        self._escape = b""
        """A backslash at the end of the data so far."""
        self._begun = GrowingText()
        """The decoded part of that string."""
        self._strings: list[str] = []
        self._refusal: str | None = None

    def feed(self, data: bytes | bytearray) -> None:
        """Take the next piece of the line."""
        self.size += len(data)
        if len(self.head) < 200:
            self.head += data[: 200 - len(self.head)]
        if self._refusal is None:
            try:
                self._scan(self._escape + data)
            except RemoteProtocolError as error:
                self._refuse(str(error))
            if self._rest.isspace():
                self._rest.clear()  # nothing has come yet
            if len(self._rest) > MAX_STRUCTURE_BYTES:
                self._refuse(
                    f"not a message: more than {MAX_STRUCTURE_BYTES} bytes of it are not text"
                )

    @property
    def blank(self) -> bool:
        """True if the line is empty so far."""
        return self._refusal is None and self._string is None and not self._rest

    def value(self) -> Any:
        """Decode the line, repaired where necessary. Call it once, at the end of the line.

        Raises `RemoteProtocolError` if it is not JSON, is too nested, or has too much content
        outside of strings.
        """
        if self._refusal is None and self._string is not None:
            self._refuse("not a message: a string without an end")
        if self._refusal is None and is_too_nested(self._rest):
            self._refuse(TOO_NESTED)
        if self._refusal is not None:
            raise RemoteProtocolError(self._refusal, self.head)
        try:
            return self._put_together() if self._strings else self._decoded(_ANY, self._rest)
        except (ValueError, RecursionError) as error:
            raise RemoteProtocolError(f"not a message: {error}", self.head) from error

    def _put_together(self) -> Any:
        """Decode the structure of the line and insert the long strings, in order."""
        self._strings.reverse()
        try:
            text = self._rest.decode()
        except UnicodeDecodeError:
            self.repaired = True
            text = self._rest.decode("utf-8-sig", "replace")
        value = json.loads(text, parse_constant=self._meant, parse_float=_finite)
        if _SURROGATE.search(self._rest):
            whole = without_surrogates(value)
            self.repaired = self.repaired or whole != value  # most often two make up a character
            return whole
        return value

    def _meant(self, constant: str) -> str | None:
        """Return the next long string for a mark, and None for NaN."""
        if constant != "-Infinity":
            return None  # NaN, which JSON does not have
        if not self._strings:
            raise ValueError("-Infinity in it")
        return self._strings.pop()

    def _scan(self, data: bytes) -> None:
        """Take data: structure and short strings into `_rest`, a long string into `_string`."""
        self._escape = b""
        at = 0
        if self._string is not None:
            at = self._take_inside(data, 0)
            if at < 0:
                return
        closed = _CLOSED.match(data, at)
        assert closed is not None
        self._rest += data[at : closed.end()]
        if closed.end() < len(data):
            self._string = bytearray()
            self._take_inside(data, closed.end() + 1)

    def _take_inside(self, data: bytes, at: int) -> int:
        """Continue the unfinished string. Returns the position after its end in `data`, or -1."""
        assert self._string is not None
        whole = len(data)
        if data.endswith(b"\\") and _escapes(data[at:], whole - at - 1):
            whole -= 1
        if len(self._string) + whole - at < PIECE_BYTES or not self._take_piece(data[at:whole]):
            end = _quote(data, at)
            if end >= 0:
                self._string += data[at:end]
                self._close()
                return end + 1
            self._string += data[at:whole]
            if len(self._string) >= PIECE_BYTES:
                cut = _whole(self._string)
                self._begun.append(self._text(self._string[:cut]))
                del self._string[:cut]
        self._escape = data[whole:]
        return -1

    def _take_piece(self, data: bytes) -> bool:
        """Take all of `data`, unless the string ends in it or is broken.

        Decoding detects both, and is faster than finding the end of a text with quotation marks in
        it.
        """
        assert self._string is not None
        inside = self._string + data
        cut = _whole(inside)
        try:
            text = _TEXT.decode(b'"' + inside[:cut] + b'"')
        except DECODE_ERRORS:
            return False
        self._begun.append(text)
        self._string = inside[cut:]
        return True

    def _close(self) -> None:
        """End a string. A long one is replaced by a mark in the structure."""
        assert self._string is not None
        if self._begun.size:
            self._begun.append(self._text(self._string))
            self._strings.append(str(self._begun))
            self._rest += _MARK
            self._begun = GrowingText()
        else:
            self._rest += b'"' + self._string + b'"'
        self._string = None

    def _text(self, inside: bytearray) -> str:
        """Decode the inside of a string."""
        return self._decoded(_TEXT, b'"' + inside + b'"')

    def _decoded(self, decoder: msgspec.json.Decoder[T], data: bytes | bytearray) -> T:
        """Decode JSON, repaired if necessary."""
        try:
            return decoder.decode(data)
        except DECODE_ERRORS:
            value = decoder.decode(repair(data))
            self.repaired = True
            return value

    def _refuse(self, why: str) -> None:
        """Note the reason why the line is refused, and free the memory."""
        self._refusal = why
        self._rest, self._string = bytearray(), None
        self._begun, self._strings = GrowingText(), []


def _finite(number: str) -> float | None:
    """Convert a number. One that is out of range becomes None, as in a short line."""
    value = float(number)
    return None if math.isinf(value) else value


def _quote(data: bytes, at: int) -> int:
    """Return the end of the string with the content `data[at:]`, or -1."""
    end = data.find(b'"', at)
    if end > at and data[end - 1] == _BACKSLASH:  # it may not end there
        plain = data[at:].replace(rb"\\", b"..").replace(rb"\"", b"..")
        end = plain.find(b'"')
        return end + at if end >= 0 else end
    return end


def _whole(inside: bytearray) -> int:
    """Return the length of the part of a string that has only whole characters."""
    end = len(inside)
    if (found := _UNICODE.search(inside, end - 6)) and _escapes(inside, found.start()):
        if len(found[0]) < 6 or _HIGH.match(found[0]):
            end = found.start()
            if _HIGH.match(inside[end - 6 : end]) and _escapes(inside, end - 6):
                end -= 6
    elif (found := _CHARACTER.search(inside, end - 3)) and len(found[0]) < _length(found[0][0]):
        end = found.start()
    return end


def _escapes(inside: bytes | bytearray, at: int) -> bool:
    """Return True if the backslash at `at` begins an escape and does not end one."""
    before = inside[:at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0


def _length(lead: int) -> int:
    """Return the length in bytes of the character with this lead byte."""
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


SMALL_LINE_BYTES: Final = 4 * 1024
"""Bytes below which a piece of a line is appended to the piece before: a separate piece costs a
list entry and an object.
"""


def without_nested(lines: bytes | bytearray) -> bytes | bytearray:
    """Replace each line that has too many levels of nesting by its start and `NESTED_MARK`.

    Returns the same object if there is none.
    """
    if len(lines) <= 2 * MAX_NESTING or lines.count(b"[") + lines.count(b"{") <= MAX_NESTING:
        return lines
    parts = lines.split(b"\n")
    if max(map(len, parts)) <= 2 * MAX_NESTING or not any(map(is_too_nested, parts)):
        return lines
    return b"\n".join(part[:200] + NESTED_MARK if is_too_nested(part) else part for part in parts)


class Lines:
    """Collects whole lines from reads cut at any position.

    `feed` returns the whole lines of a read as one buffer, including newlines, as
    `msgspec.json.Decoder.decode_lines` expects them: single lines cost no work. CRLF and blank
    lines pass through; both are white space in JSON.

    Of a line that is too nested, only the start is returned, with `NESTED_MARK`. It is not JSON.
    With `any_nesting`, it is returned whole: the search takes a quarter of the time of a flood of
    text, of which drivers keep nothing else.

    A line longer than `limit` is skipped up to its newline and its size is added to `oversized`.
    The part already kept is freed as soon as the limit is exceeded.

    With `long_apart`, a line of more than `LONG_LINE_BYTES` bytes that comes in several reads is
    not returned but added to `long`, for the caller to take and clear. It precedes the lines that
    `feed` returns.
    """

    def __init__(
        self,
        limit: int = Limits().message_bytes,
        *,
        long_apart: bool = False,
        any_nesting: bool = False,
    ) -> None:
        """Begin without data. `limit`: the maximum size of a line in bytes."""
        self._any_nesting = any_nesting
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
        lines = self._whole_lines(data)
        return lines if self._any_nesting else without_nested(lines)

    def _whole_lines(self, data: bytes) -> bytes | bytearray:
        """Return the complete lines with any nesting."""
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
        return without_nested(b"".join(self._taken()))

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
        """Add a long line that is complete, unless it is blank."""
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
