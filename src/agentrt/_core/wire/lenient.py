"""Lenient decoding, for messages that strict decoding refuses.

A wrong optional field must not cost the whole message, nor an unknown item its whole list. The
schema of ACP requires this (`x-deserialize-default-on-error`, `x-deserialize-skip-invalid-items`);
here it follows from the struct's types alone. It is slow if strict conversion fails, and as fast as
strict conversion otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, inspect

T = TypeVar("T", bound=Struct)


def lenient(value: Any, type: type[T], dropped: list[str]) -> T:
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
        result: T = _build(value, _info(type), "", dropped)
    except RecursionError as error:
        raise ValidationError("depth of nesting") from error
    return result


@cache
def _info(type: Hashable) -> inspect.Type:
    return inspect.type_info(type)


def _build(value: Any, kind: inspect.Type, path: str, dropped: list[str]) -> Any:
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
    out = []
    for index, item in enumerate(items):
        try:
            out.append(_build(item, kind, f"{path}[{index}]", dropped))
        except ValidationError:
            dropped.append(f"{path}[{index}]")
    return out


def _first(value: Any, kinds: tuple[inspect.Type, ...], path: str, dropped: list[str]) -> Any:
    for kind in kinds:
        tried: list[str] = []
        try:
            result = _build(value, kind, path, tried)
        except ValidationError:
            continue
        dropped += tried
        return result
    raise ValidationError(path or "message")
