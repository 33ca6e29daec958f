"""Bytes like those that agents write, and unlike: real messages, broken in one place or in several.

Everything is decided by a `Choices`, which takes its decisions from bytes. So whoever makes the
bytes (Hypothesis, or a fuzzer that looks at what they reach) makes the messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

TESTS = Path(__file__).parents[1]


class Choices:
    """Decisions, one byte or two each; when the bytes are used up, the first of everything."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        """Whether there are decisions left."""
        return self._at < len(self._data)

    def below(self, limit: int) -> int:
        """A number from 0 up to, not including, `limit`."""
        size = 1 if limit <= 256 else 2
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken, "big") % limit if limit else 0

    def of(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def rest(self, limit: int) -> bytes:
        """Some of the bytes as they are."""
        taken = self._data[self._at : self._at + self.below(limit)]
        self._at += len(taken)
        return taken


# --- real messages


@cache
def transcripts(protocol: str) -> list[list[Any]]:
    """What real agents wrote, conversation by conversation."""
    found = []
    for file in sorted((TESTS / protocol / "transcripts").glob("*.ndjson")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        found.append([row["msg"] for row in rows if row["dir"] == "<"])
    assert found
    return found


@cache
def messages(protocol: str) -> list[Any]:
    """Every message of them, those alike but for their texts only once."""
    known: dict[str, Any] = {}
    for conversation in transcripts(protocol):
        for message in conversation:
            known.setdefault(json.dumps(_shape(message), sort_keys=True), message)
    if protocol == "acp":
        for file in sorted((TESTS / "acp" / "golden").glob("*.json")):
            params = json.loads(file.read_text())
            for method in ("session/update", "session/request_permission", "fs/read_text_file"):
                known[f"{file.name} {method}"] = {"id": 1, "method": method, "params": params}
    return list(known.values())


def _shape(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: item if key in ("type", "subtype", "method", "sessionUpdate") else _shape(item)
                for key, item in value.items()
            }
        case list():
            return [_shape(item) for item in value[:1]]
        case _:
            return type(value).__name__


# --- breaking them


class Twice(dict[str, Any]):
    """An object whose first key comes once more at its end."""


class Raw(str):
    """Is written as it is."""

    __slots__ = ()


ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**30),
    *(0.5, 1e308, -0.0, Raw("1e999"), Raw("-1e999"), Raw("NaN"), Raw("Infinity"), Raw("1" * 5000)),
    *("", "x", "\x00", "\ud83d", "\ude00\ud83d", "é" * 3, "\u2028", "\x1b[2J", "x" * 70_000),
    *("session/update", "s1", "t1", "u1", "text", "tool_use", "in_progress", "toString"),
    *([], {}, [[]], [None], {"": None}, {"type": None}, [{"type": "text"}], {"x": {"x": {}}}),
    *(Raw("[" * 2000 + "]" * 2000), Raw('{"a":' * 1500 + "1" + "}" * 1500), Raw("{"), Raw("")),
    *(Raw('"\\ud83d"'), Raw('"\\ud83d\\ude00"'), Raw('"\\x"'), Raw("'x'"), Raw("\t1 ")),
]
"""What stands where something else is expected."""


def _replace(value: Any, choices: Choices) -> Any:
    return choices.of(ODD)


def _drop(value: Any, choices: Choices) -> Any:
    match value:
        case dict() if value:
            gone = choices.of(list(value))
            return {key: item for key, item in value.items() if key != gone}
        case list() if value:
            gone = choices.below(len(value))
            return value[:gone] + value[gone + 1 :]
        case str():
            return value[: choices.below(len(value) + 1)]
        case _:
            return None


def _double(value: Any, choices: Choices) -> Any:
    match value:
        case dict():
            return Twice(value)
        case list():
            return value * (2 + choices.below(3))
        case str() | int() | float():
            return value * 2
        case _:
            return [value, value]


def _wrap(value: Any, choices: Choices) -> Any:
    return [value] if choices.below(2) else {"value": value}


def _rename(value: Any, choices: Choices) -> Any:
    if isinstance(value, dict) and value:
        old, new = choices.of(list(value)), choices.of(["", "x", "id", "type", "method", "\ud800"])
        return {new if key == old else key: item for key, item in value.items()}
    return str(value)


def _deepen(value: Any, choices: Choices) -> Any:
    for _ in range(choices.of([1, 10, 300, 1200])):
        value = {"x": value}
    return value


BREAKS: list[Callable[[Any, Choices], Any]] = [_replace, _drop, _double, _wrap, _rename, _deepen]


def broken(value: Any, choices: Choices) -> Any:
    """The value, broken somewhere in it."""
    match value:
        case dict() if value and choices.below(8):
            key = choices.of(list(value))
            return type(value)({**value, key: broken(value[key], choices)})
        case list() if value and choices.below(8):
            at = choices.below(len(value))
            return [*value[:at], broken(value[at], choices), *value[at + 1 :]]
        case _:
            return choices.of(BREAKS)(value, choices)


# --- writing them


def written(value: Any) -> str:
    """JSON, and worse. (`json` would write no key twice, and nothing that is not JSON.)"""
    parts: list[str] = []
    stack: list[Any] = [value]
    while stack:
        match stack.pop():
            case Raw() as raw:
                parts.append(raw)
            case dict() as items:
                pairs = list(items.items())
                if isinstance(items, Twice):
                    pairs += pairs[:1]
                stack.append(Raw("}"))
                for number, (key, item) in reversed(list(enumerate(pairs))):
                    stack += [item, Raw(f"{',' if number else ''}{json.dumps(key)}:")]
                stack.append(Raw("{"))
            case list() as items:
                stack.append(Raw("]"))
                for number, item in reversed(list(enumerate(items))):
                    stack += [item, Raw("," if number else "")]
                stack.append(Raw("["))
            case other:
                parts.append(json.dumps(other))
    return "".join(parts)


NOISE = [b"", b"\r", b"npm warn deprecated", b"\xff\xfe", b"\xef\xbb\xbf{}", b"null", b"[]", b"{}"]


def line(protocol: str, choices: Choices) -> bytes:
    """One line, without its newline."""
    if choices.below(8) == 7:
        return choices.of([*NOISE, choices.rest(64)])
    message = choices.of(messages(protocol))
    for _ in range(choices.below(3)):
        message = broken(message, choices)
    data = written(message).encode("utf-8", "surrogatepass")
    if choices.below(16) == 15:  # bytes, too, get lost
        at = choices.below(len(data) + 1)
        data = data[:at] + choices.rest(4) + data[at + choices.below(3) :]
    return data


def stream(protocol: str, choices: Choices, *, most: int = 24) -> bytes:
    """Lines, one behind the other; the last one may have no end."""
    lines = []
    while choices and len(lines) < most:
        lines.append(line(protocol, choices))
    return b"\n".join(lines) + b"\n" * choices.below(2)


def pieces(data: bytes, choices: Choices) -> list[bytes]:
    """The same bytes, as a pipe may hand them over."""
    if choices.below(8) == 0:
        size = choices.of([1, 2, 3, 7, 64, 4096])
        size = max(size, len(data) // 4096)
        return [data[at : at + size] for at in range(0, len(data), size)]
    places = sorted(choices.below(len(data) + 1) for _ in range(choices.below(8)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
