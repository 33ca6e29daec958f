"""A line so long that decoding it at once would keep everybody waiting.

What makes a message long is text: an answer, a file, a picture. A `LongLine` decodes its long
strings as they come, a piece at a time, and all the rest, which is short, when the line is over.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeVar

import msgspec

from .._errors import RemoteProtocolError
from .._model.growing import Growing
from .json import DECODE_ERRORS, repair, without_surrogates

T = TypeVar("T")

LONG: Final = 2 * 1024 * 1024
"""Bytes from which on a line is a long one. To decode as many takes a few milliseconds, and half of
what it takes in pieces."""

STRUCTURE: Final = 4 * 1024 * 1024
"""Bytes of a long line that may be something else than long strings. These are decoded at once, and
cost most: a megabyte of empty objects takes 40 ms and 25 MB."""

PIECE: Final = 64 * 1024
"""Bytes of a string that are decoded at a time. One that is shorter is no long one."""

_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_TEXT = msgspec.json.Decoder(str)
_MARK: Final = b"-Infinity"
"""Stands for a long string in the rest. It is no JSON: the standard library asks what it means."""

_CLOSED = re.compile(rb'(?>[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
"""All up to a string that has no end here."""
_BACKSLASH: Final = ord("\\")
_UNICODE = re.compile(rb"\\u[0-9a-fA-F]{0,4}\Z")
_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
"""Half a character, in as far as it is one of those that take two escapes."""
_CHARACTER = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,2}\Z")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class LongLine:
    """Takes a line without its newline, cut anywhere; what each call costs depends on its piece."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        """How it begins: enough to quote it."""
        self.repaired = False
        """Whether characters had to be replaced. Known when `value` was called."""
        self._rest = bytearray()
        """Everything but long strings."""
        self._string: bytearray | None = None
        """The inside of a string that has no end yet, as far as it is not decoded."""
        self._escape = b""
        """A backslash at the end of what came."""
        self._begun = Growing()
        """Of that string, what is decoded."""
        self._strings: list[str] = []
        self._refusal: str | None = None

    def feed(self, data: bytes | bytearray) -> None:
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
            if len(self._rest) > STRUCTURE:
                self._refuse(f"not a message: more than {STRUCTURE} bytes of it are no text")

    @property
    def blank(self) -> bool:
        """Whether there is nothing in it, so far."""
        return self._refusal is None and self._string is None and not self._rest

    def value(self) -> Any:
        """What the line says, repaired where necessary; to be asked once, at its end.

        Raises `RemoteProtocolError` if it is no JSON, or has too much in it that is no text.
        """
        if self._refusal is None and self._string is not None:
            self._refuse("not a message: a string without an end")
        if self._refusal is not None:
            raise RemoteProtocolError(self._refusal, self.head)
        try:
            return self._put_together() if self._strings else self._decoded(_ANY, self._rest)
        except (ValueError, RecursionError) as error:
            raise RemoteProtocolError(f"not a message: {error}", self.head) from error

    def _put_together(self) -> Any:
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
        if constant != "-Infinity":
            return None  # NaN, for which JSON has no word
        if not self._strings:
            raise ValueError("-Infinity in it")
        return self._strings.pop()

    def _scan(self, data: bytes) -> None:
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
        """Go on with the open string; where it ends in `data`, or -1."""
        assert self._string is not None
        whole = len(data)
        if data.endswith(b"\\") and _escapes(data[at:], whole - at - 1):
            whole -= 1
        if len(self._string) + whole - at < PIECE or not self._take_piece(data[at:whole]):
            end = _quote(data, at)
            if end >= 0:
                self._string += data[at:end]
                self._close()
                return end + 1
            self._string += data[at:whole]
            if len(self._string) >= PIECE:
                cut = _whole(self._string)
                self._begun.append(self._text(self._string[:cut]))
                del self._string[:cut]
        self._escape = data[whole:]
        return -1

    def _take_piece(self, data: bytes) -> bool:
        """Take all of it, unless the string ends there or is broken: decoding it says so, at less
        than it takes to look for the end of a text with quotation marks in it."""
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
        assert self._string is not None
        if self._begun.size:
            self._begun.append(self._text(self._string))
            self._strings.append(str(self._begun))
            self._rest += _MARK
            self._begun = Growing()
        else:
            self._rest += b'"' + self._string + b'"'
        self._string = None

    def _text(self, inside: bytearray) -> str:
        return self._decoded(_TEXT, b'"' + inside + b'"')

    def _decoded(self, decoder: msgspec.json.Decoder[T], data: bytes | bytearray) -> T:
        try:
            return decoder.decode(data)
        except DECODE_ERRORS:
            value = decoder.decode(repair(data))
            self.repaired = True
            return value

    def _refuse(self, why: str) -> None:
        self._refusal = why
        self._rest, self._string = bytearray(), None
        self._begun, self._strings = Growing(), []


def _finite(number: str) -> float | None:
    """A number; one that is out of range is none, as in a short line."""
    value = float(number)
    return None if math.isinf(value) else value


def _quote(data: bytes, at: int) -> int:
    """Where the string ends that `data[at:]` is the inside of, or -1."""
    end = data.find(b'"', at)
    if end > at and data[end - 1] == _BACKSLASH:  # it may not end there
        plain = data[at:].replace(rb"\\", b"..").replace(rb"\"", b"..")
        end = plain.find(b'"')
        return end + at if end >= 0 else end
    return end


def _whole(inside: bytearray) -> int:
    """How much of a string is whole characters, whatever comes behind it."""
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
    """Whether the backslash there begins an escape, and does not end one."""
    before = inside[:at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0


def _length(lead: int) -> int:
    """Bytes of the character that begins so."""
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
