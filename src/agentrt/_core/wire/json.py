r"""JSON as real agents write it: decoding errors, repair and encoding in one place.

msgspec reports a bad line with one of three exceptions, and refuses two things that agents do send:
bytes that are not UTF-8 (a log line of a tool, copied raw) and lone surrogates (Node emits
`"\ud83d"` when it cuts a string in the middle of an emoji). Such a line is repaired with U+FFFD
and decoded again. Nothing but its broken characters is lost.

Lenient decoding reads messages that strict decoding refuses. A wrong optional field must not cost
the whole message, nor an unknown item its whole list. The schema of ACP requires this
(`x-deserialize-default-on-error`, `x-deserialize-skip-invalid-items`); here it follows from the
struct's types alone. It is slow if strict conversion fails, and as fast as strict conversion
otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, ValidationError, convert, inspect

from ..errors import RemoteProtocolError
from ..limits import MAX_NESTING, is_too_nested

T = TypeVar("T")

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All exceptions of msgspec for undecodable input. `ValidationError` is a `DecodeError`."""

TOO_NESTED: Final = f"not a message: more than {MAX_NESTING} levels of nesting"
NESTED_MARK: Final = f"… {TOO_NESTED}".encode()
"""Ends what is left of a line that is too nested, and makes sure that it is not JSON."""

_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
_surrogate = re.compile("[\ud800-\udfff]")


def decode(line: bytes | bytearray, decoder: msgspec.json.Decoder[T] = _ANY) -> T:
    """Decode one line and repair it where necessary.

    Raises only `RemoteProtocolError`, if the line is not JSON, is too nested, or does not match
    `decoder`.
    """
    if is_too_nested(line):
        raise RemoteProtocolError(TOO_NESTED, bytes(line[:200]))
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
    if is_too_nested(text):
        raise RemoteProtocolError(TOO_NESTED, b"")
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


def encode_json(message: object) -> bytes:
    """Encode a message as JSON, without a newline.

    Lone surrogates, which occur in file names, become U+FFFD.
    """
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        return _encoder.encode(without_surrogates(msgspec.to_builtins(message)))


def encode_line(message: object) -> bytes:
    """Encode one line of newline-delimited JSON.

    Lone surrogates become U+FFFD, as in `encode_json`.
    """
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return encode_json(message) + b"\n"


def without_surrogates(value: Any) -> Any:
    """Replace every lone surrogate in decoded JSON by U+FFFD. May raise `RecursionError`."""
    match value:
        case str():
            return _surrogate.sub("\ufffd", value)
        case list() | tuple():
            return [without_surrogates(item) for item in value]
        case dict():
            return {
                without_surrogates(key): without_surrogates(item) for key, item in value.items()
            }
        case _:
            return value


def _refusal(error: Exception, line: bytes | bytearray) -> RemoteProtocolError:
    """Return the error for a line that cannot be decoded, with its beginning."""
    why = TOO_NESTED if line.endswith(NESTED_MARK) else f"not a message: {error}"
    return RemoteProtocolError(why, bytes(line[:200]))


S = TypeVar("S", bound=Struct)


def lenient(value: Any, type: type[S], dropped: list[str]) -> S:
    """Convert decoded JSON to `type` (a struct), leaving out everything that does not fit.

    A field that does not fit gets its default, and a list item that does not fit is skipped; the
    paths of both are added to `dropped`. Raises `ValidationError` with the path as its text if a
    required field is missing or wrong.
    """
    try:
        return convert(value, type)
    except (ValidationError, RecursionError):
        pass
    try:
        result: S = _build(value, _info(type), "", dropped)
    except RecursionError as error:
        raise ValidationError("depth of nesting") from error
    return result


@cache
def _info(type: Hashable) -> inspect.Type:
    """Return msgspec's description of a type, made once."""
    return inspect.type_info(type)


def _build(value: Any, kind: inspect.Type, path: str, dropped: list[str]) -> Any:
    """Convert a value to a type, leaving out the parts that do not fit.

    `path`: the place of the value, for errors and for `dropped`. Numbers are strict, except that a
    whole float counts as an int. Raises `ValidationError` if nothing of the value fits.
    """
    match kind, value:
        case inspect.AnyType(), _:
            return value
        case inspect.StructType(), dict():
            return _struct(value, kind, path, dropped)
        case inspect.UnionType(), _:
            return _first(value, kind.types, path, dropped)
        case inspect.ListType(), list():
            return _list(value, kind.item_type, path, dropped)
        case inspect.DictType(), dict():
            items = value.items()
            return {
                key: _build(item, kind.value_type, f"{path}.{key}", dropped) for key, item in items
            }
        case (inspect.StrType(), str()) | (inspect.BoolType(), bool()) | (inspect.NoneType(), None):
            return value
        case (inspect.IntType(), int()) | (inspect.FloatType(), int() | float()) if not isinstance(
            value, bool
        ):
            return value
        case inspect.IntType(), float() if value.is_integer():
            return int(value)
        case inspect.LiteralType(), str() | int() if value in kind.values:
            return value
    raise ValidationError(path or "message")


def _struct(value: dict[str, Any], kind: inspect.StructType, path: str, dropped: list[str]) -> Any:
    """Convert an object to a struct. A wrong tag or a missing required field raises."""
    if kind.tag_field is not None and value.get(kind.tag_field) != kind.tag:
        raise ValidationError(f"{path}.{kind.tag_field}".lstrip("."))
    fields: dict[str, Any] = {}
    for field in kind.fields:
        at = f"{path}.{field.encode_name}".lstrip(".")
        if field.encode_name not in value:
            if field.required:
                raise ValidationError(at)
            continue
        try:
            fields[field.name] = _build(value[field.encode_name], field.type, at, dropped)
        except ValidationError:
            if field.required:
                raise
            dropped.append(at)
    return kind.cls(**fields)


def _list(items: list[Any], kind: inspect.Type, path: str, dropped: list[str]) -> list[Any]:
    """Convert the items of a list that fit."""
    out = []
    for index, item in enumerate(items):
        try:
            out.append(_build(item, kind, f"{path}[{index}]", dropped))
        except ValidationError:
            dropped.append(f"{path}[{index}]")
    return out


def _first(value: Any, kinds: tuple[inspect.Type, ...], path: str, dropped: list[str]) -> Any:
    """Convert a value to the first type of a union that it fits.

    `dropped` gets only the parts that were left out for that type.
    """
    for kind in kinds:
        tried: list[str] = []
        try:
            result = _build(value, kind, path, tried)
        except ValidationError:
            continue
        dropped += tried
        return result
    raise ValidationError(path or "message")
