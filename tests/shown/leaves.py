"""Example messages of a JSON schema, in which each leaf has a value that occurs nowhere else.

A path names a leaf: `item/completed.item<webSearch>.query`. The tag of a union's variant stands in
angle brackets, `[]` is an entry of an array, `*` a member with any name. Together the examples of a
message contain every variant, every enum value and both booleans.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Schema: TypeAlias = dict[str, Any]
LeafPath: TypeAlias = str

DEEPEST: Final = 12
"""Nesting at which a recursive definition ends."""
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mark[0-9a-f]{8}")
"""The name of a member that is an id."""
UNKNOWN: Final = "not-in-the-schema"
"""A value that no enum has."""


class Leaf(NamedTuple):
    """A leaf of an example."""

    path: LeafPath
    value: Any
    kind: str
    """`text`, `number`, `bool`, `enum`, or `id` for one that has a fixed value."""


class Example(NamedTuple):
    """A message with a distinct value in each leaf."""

    message: Any
    leaves: tuple[Leaf, ...]


class Examples:
    """Makes the examples of a schema.

    `fixed` has the values of leaves by the end of their path without tags, for example the ids of
    the conversation in which the message is sent. `preferred`: the value of an enum or the tag of
    a variant, by its path, that the examples of other leaves have.
    """

    def __init__(
        self,
        definitions: Mapping[str, Schema],
        fixed: Mapping[str, Any],
        preferred: Mapping[LeafPath, Any] | None = None,
    ) -> None:
        self._definitions = definitions
        self.preferred = preferred or {}
        self.fixed = fixed

    def of(self, root: LeafPath, schema: Schema) -> Iterator[Example]:
        """Yield the examples of one message."""
        waiting: list[dict[LeafPath, int]] = [{}]
        known: set[LeafPath] = set()
        while waiting:
            picks = waiting.pop(0)
            made = _Made(self, picks)
            message = made.value(schema, root, 0)
            for path, count in made.choices.items():
                if path not in known:
                    known.add(path)
                    kept = {
                        at: pick
                        for at, pick in picks.items()
                        if path.startswith(at.partition("|")[0])
                    }
                    waiting += [{**kept, path: pick} for pick in range(1, count)]
            yield Example(message, tuple(made.leaves))

    def resolve(self, schema: Any) -> Schema:
        """Follow references, and merge what `allOf` joins."""
        if schema is True:
            return {}
        while "$ref" in schema or len(schema.get("allOf", ())) == 1:
            if "$ref" in schema:
                found = self._definitions[schema["$ref"].rpartition("/")[2]]
            else:
                found = schema["allOf"][0]
            outer = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
            if "allOf" in schema and "$ref" in schema:
                outer["allOf"] = schema["allOf"]
            properties = {**outer.get("properties", {}), **found.get("properties", {})}
            required = [*outer.get("required", ()), *found.get("required", ())]
            schema = {**outer, **found}
            if properties:
                schema |= {"properties": properties, "required": required}
        return dict(schema)


class _Made:
    """One example in the making. `picks` chooses among alternatives by path, else the first."""

    def __init__(self, examples: Examples, picks: Mapping[LeafPath, int]) -> None:
        self._examples = examples
        self._picks = picks
        self.choices: dict[LeafPath, int] = {}
        self.leaves: list[Leaf] = []

    def value(self, schema: Any, path: LeafPath, depth: int) -> Any:
        schema = self._examples.resolve(schema)
        bare = re.sub(r"<[^<>]*>", "", path)
        for end, value in self._examples.fixed.items():
            if f".{bare}".endswith(f".{end}"):
                return self._leaf(path, UNKNOWN if self._pick(path, 2) else value, "id")
        alternatives = [
            each
            for each in schema.get("oneOf", schema.get("anyOf", ()))
            if self._examples.resolve(each).get("type") != "null"
        ]
        values = schema.get("enum") or _values(alternatives)
        if alternatives and values is None:
            return self._union(schema, alternatives, path, depth)
        if "const" in schema:
            return schema["const"]
        if values:
            return self._enum([each for each in values if each is not None], path)
        types = schema.get("type", "any")
        types = [types] if isinstance(types, str) else types
        match next((each for each in types if each != "null"), "null"):
            case "null":
                return None
            case "object" if depth < DEEPEST:
                return self._object(schema, path, depth)
            case "array":
                if depth >= DEEPEST:
                    return []
                return [self.value(schema.get("items", {}), f"{path}[]", depth + 1)]
            case "boolean":
                return self._leaf(path, not self._pick(path, 2), "bool")
            case "integer" | "number":
                return self._leaf(path, 1_000_003 + zlib.crc32(path.encode()) % 899_999, "number")
            case _:
                return self._leaf(path, marker(path), "text")

    def _union(self, schema: Schema, alternatives: list[Any], path: LeafPath, depth: int) -> Any:
        preferred = self._examples.preferred.get(path)
        alternatives.sort(key=lambda each: preferred not in self._tags(each))
        pick = self._pick(f"{path}|{depth}", len(alternatives))
        chosen = self._examples.resolve(alternatives[pick])
        common = schema.get("properties", {})
        if "properties" not in chosen and not common:
            return self.value(chosen, path, depth + 1)
        properties = {**common, **chosen.get("properties", {})}
        required = [*schema.get("required", ()), *chosen.get("required", ())]
        merged = {**chosen, "type": "object", "properties": properties, "required": required}
        tag = next((t for each in properties.values() if (t := _tag(each)) is not None), None)
        if tag is not None and path.endswith(f"<{tag}>"):
            tag = None  # the variants of a variant
        return self.value(merged, path if tag is None else f"{path}<{tag}>", depth + 1)

    def _tags(self, alternative: Any) -> list[Any]:
        properties = self._examples.resolve(alternative).get("properties", {})
        return [_tag(each) for each in properties.values()]

    def _object(self, schema: Schema, path: LeafPath, depth: int) -> Any:
        found: dict[str, Any] = {}
        for name, each in schema.get("properties", {}).items():
            if (tag := _tag(each)) is not None:
                found[name] = tag
            else:
                found[name] = self.value(each, f"{path}.{name}", depth + 1)
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and more:
            found[marker(f"{path}.*")] = self.value(more, f"{path}.*", depth + 1)
        elif not found and schema.get("properties") is None:
            found["key"] = self._leaf(f"{path}.*", marker(path), "text")
        return found

    def _enum(self, values: list[Any], path: LeafPath) -> Any:
        first = self._examples.preferred.get(path, values[0])
        values.sort(key=lambda value: value != first)
        pick = self._pick(path, len(values) + 1)
        value = values[pick] if pick < len(values) else UNKNOWN
        return self._leaf(path, value, "enum")

    def _pick(self, path: LeafPath, count: int) -> int:
        self.choices[path] = count
        return self._picks.get(path, 0)

    def _leaf(self, path: LeafPath, value: Any, kind: str) -> Any:
        self.leaves.append(Leaf(path, value, kind))
        return value


def leaves_of(value: Any, path: LeafPath, tags: tuple[str, ...] = ("type",)) -> Iterator[Leaf]:
    """Yield the leaves of a recorded message with their paths. `tags`: names of a union's tag."""
    if isinstance(value, dict):
        tag = next((value[name] for name in tags if isinstance(value.get(name), str)), None)
        at = path if tag is None else f"{path}<{tag}>"
        for name, each in value.items():
            if name not in tags:
                member = "*" if _ID.fullmatch(name) else name
                yield from leaves_of(each, f"{at}.{member}", tags)
    elif isinstance(value, list):
        for each in value:
            yield from leaves_of(each, f"{path}[]", tags)
    elif value is not None:
        kind = {bool: "bool", str: "text"}.get(type(value), "number")
        yield Leaf(path, value, kind)


def marker(path: LeafPath) -> str:
    """Return a text that occurs nowhere but in this leaf."""
    return f"mark{zlib.crc32(path.encode()):08x}"


def _values(alternatives: list[Schema]) -> list[Any] | None:
    """Return the values of an enum whose values are alternatives of their own, or None."""
    found: list[Any] = []
    for each in alternatives:
        if "const" in each:
            found.append(each["const"])
        elif "enum" in each:
            found += each["enum"]
        elif each.get("type") != "string" or "properties" in each:
            return None
    return found or None


def _tag(schema: Any) -> Any:
    """Return the only value that a property can have, or None."""
    if not isinstance(schema, dict):
        return None
    if "const" in schema:
        return schema["const"]
    values = schema.get("enum", ())
    return values[0] if len(values) == 1 else None
