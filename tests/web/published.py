"""The commands and frames of `agentrt.v1` as they are published: its JSON Schema, and the results
of its commands in the TypeScript types.

A general validator takes two milliseconds for an event. This one knows only the keywords that the
schema has, and is stricter: an object of the server has no other members than those published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

CLIENT = Path(__file__).parents[2] / "clients/js"

DEFINITIONS: dict[str, dict[str, Any]] = json.loads(
    (CLIENT / "schema/agentrt.v1.json").read_text()
)["$defs"]

Check: TypeAlias = Callable[[Any, str], None]
"""Fails at a value that does not have its type; takes the value, and where it is."""

TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}

NOTES = {"title", "description", "default", "discriminator"}
BOUNDS = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"}
"""Checked by the server, in commands; it sends no values that have them."""


def names_of(union: dict[str, Any]) -> list[str]:
    """The names of the types that a union has."""
    return [each["$ref"].rpartition("/")[2] for each in union["anyOf"]]


def head_of(command: str) -> tuple[str, str | None]:
    """The `type` and the `op` of a command."""
    members = DEFINITIONS[command]["properties"]
    return members["type"]["enum"][0], members["op"]["enum"][0] if "op" in members else None


COMMANDS: dict[tuple[str, str | None], str] = {
    head_of(name): name for name in names_of(DEFINITIONS["ClientFrame"])
}
"""The names of the commands by their `type` and `op`."""

RESULTS: dict[tuple[str, str | None], str] = {
    (type, op or None): result
    for type, op, result in re.findall(
        r'C extends \{ type: "(\w+)"(?:; op: "(\w+)")? \} \? (\w+) :',
        (CLIENT / "src/wire.ts").read_text(),
    )
}
"""The names of the commands' results."""


def fields_of(command: str) -> set[str]:
    """The names of a command's fields, without those that every command has."""
    return {*DEFINITIONS[command]["properties"]} - {"type", "op", "id"}


BLOCKS = names_of(DEFINITIONS["PromptCommand"]["properties"]["content"]["items"])
"""The names of the blocks of content."""


def numbers_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the whole numbers in a type, but not those of content blocks, which no command uses."""
    if schema.get("type") == "integer":
        yield schema
    for each in schema.get("anyOf", ()):
        yield from numbers_in(each)
    for each in (schema.get("items"), *schema.get("properties", {}).values()):
        if each is not None:
            yield from numbers_in(each)
    name = schema.get("$ref", "").rpartition("/")[2]
    if name and name not in BLOCKS:
        yield from numbers_in(DEFINITIONS[name])


def check(name: str, value: Any) -> None:
    """Fail if a value is not of the type with this name, or says more than it."""
    check_of(name)(value, name)


@cache
def check_of(name: str) -> Check:
    """The check of the type with this name."""
    return checks(DEFINITIONS[name])


def checks(schema: dict[str, Any]) -> Check:
    """The check of a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return lambda value, at: check_of(name)(value, at)
    if "anyOf" in schema:
        return any_of(schema["anyOf"])
    if "enum" in schema:
        return one_of(schema["enum"])
    return typed(schema)


def any_of(schemas: list[dict[str, Any]]) -> Check:
    each = [checks(schema) for schema in schemas]

    def check(value: Any, at: str) -> None:
        problems = []
        for one in each:
            try:
                one(value, at)
            except AssertionError as problem:
                problems.append(str(problem))
            else:
                return
        raise AssertionError(f"{at} is none of its types: {problems}")

    return check


def one_of(values: list[Any]) -> Check:
    def check(value: Any, at: str) -> None:
        assert value in values, f"{at} is {value!r}, none of {values}"

    return check


def typed(schema: dict[str, Any]) -> Check:
    named = schema.get("type", [*TYPES])
    names = named if isinstance(named, list) else [named]
    other = {*schema} - NOTES - BOUNDS
    assert other <= {"type", "properties", "required", "additionalProperties", "items"}, other
    items = checks(schema["items"]) if "items" in schema else None
    members = members_of(schema) if "properties" in schema else None
    rest = schema.get("additionalProperties")
    values = checks(rest) if isinstance(rest, dict) else None

    def check(value: Any, at: str) -> None:
        fits = any(isinstance(value, TYPES[name]) for name in names)
        assert fits, f"{at} is {value!r}, not {named}"
        assert not isinstance(value, bool) or "boolean" in names, f"{at} is {value!r}, not {named}"
        if items is not None and isinstance(value, list):
            for number, item in enumerate(value):
                items(item, f"{at}[{number}]")
        if members is not None and isinstance(value, dict):
            members(value, at)
        if values is not None and isinstance(value, dict):
            for key, member in value.items():
                values(member, f"{at}.{key}")

    return check


def members_of(schema: dict[str, Any]) -> Check:
    known = {name: checks(each) for name, each in schema["properties"].items()}
    required = {*schema.get("required", ())}

    def check(value: Any, at: str) -> None:
        assert required <= value.keys(), f"{at} lacks {required - value.keys()}"
        for name, member in value.items():
            assert name in known, f"{at} has {name}, which is not published"
            known[name](member, f"{at}.{name}")

    return check
