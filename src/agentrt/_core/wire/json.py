r"""JSON as real agents write it: decoding errors, repair and encoding in one place.

msgspec reports a bad line with one of three exceptions, and refuses two things that agents do send:
bytes that are not UTF-8 (a log line of a tool, copied raw) and lone surrogates (Node emits
`"\ud83d"` when it cuts a string in the middle of an emoji). Such a line is repaired with U+FFFD
and decoded again. Nothing but its broken characters is lost.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from ..errors import RemoteProtocolError

T = TypeVar("T")

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All exceptions of msgspec for undecodable input. `ValidationError` is a `DecodeError`."""

_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
_surrogate = re.compile("[\ud800-\udfff]")


def decode(line: bytes | bytearray, decoder: msgspec.json.Decoder[T] = _ANY) -> T:
    """Decode one line and repair it where necessary.

    Raises only `RemoteProtocolError`, if the line is not JSON or does not match `decoder`.
    """
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        if decoder is not _ANY:  # else it is a number out of range
            raise _refusal(error, line) from error
    except DECODE_ERRORS:
        pass
    try:
        return decoder.decode(repair(line))
    except DECODE_ERRORS as error:
        raise _refusal(error, line) from error


def decode_strictly(text: str, decoder: msgspec.json.Decoder[T] = _ANY) -> T:
    """Decode a message from a client.

    Broken text is refused and not repaired as an agent's would be, because repairing takes a
    hundred times as long. Raises `RemoteProtocolError`.
    """
    try:
        return decoder.decode(text)
    except (*DECODE_ERRORS, UnicodeEncodeError) as error:
        raise RemoteProtocolError(f"not a message: {error}", b"") from error


def repair(line: bytes | bytearray) -> bytes:
    """Repair JSON: U+FFFD for invalid UTF-8 and lone surrogates, null for NaN and overflows.

    Raises `RemoteProtocolError` if the result is not JSON either.
    """
    try:
        value = json.loads(line.decode("utf-8-sig", "replace"))
        return _encoder.encode(without_surrogates(value))
    except (ValueError, RecursionError) as error:
        raise _refusal(error, line) from error


def encode_line(message: object) -> bytes:
    """Encode one line of newline-delimited JSON.

    Lone surrogates, which occur in file names, become U+FFFD.
    """
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return _encoder.encode(without_surrogates(msgspec.to_builtins(message))) + b"\n"


def without_surrogates(value: Any) -> Any:
    """Replace every lone surrogate in decoded JSON by U+FFFD. May raise `RecursionError`."""
    match value:
        case str():
            return _surrogate.sub("\ufffd", value)
        case list():
            return [without_surrogates(item) for item in value]
        case dict():
            return {
                without_surrogates(key): without_surrogates(item) for key, item in value.items()
            }
        case _:
            return value


def _refusal(error: Exception, line: bytes | bytearray) -> RemoteProtocolError:
    return RemoteProtocolError(f"not a message: {error}", bytes(line[:200]))
