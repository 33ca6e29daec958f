"""Forms on a terminal: what is asked for each field, and what counts as its value."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from .asked import Asked

CHOICE = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}
MANY = {"type": "array", "items": {"enum": ["a", "b", "c"]}}


async def asked_for(*required: str, **fields: Any) -> Asked:
    form = {"properties": fields, "required": [*required]}
    return await Asked(form=form, options=[]).readable()


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({}, " text ", "text"),
        ({"type": "string", "minLength": 2}, "ab", "ab"),
        ({"type": "integer", "minimum": 0}, "-0", 0),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        (CHOICE, "1", "r"),
        (CHOICE, "red", "r"),
        (CHOICE, "g", "g"),
        (MANY, "3, 1", ["c", "a"]),
        ({"type": "integer", "default": 3}, "", 3),
    ],
)
async def test_what_is_typed_becomes_a_value(
    schema: dict[str, Any], typed: str, value: Any, autojump_clock: MockClock
) -> None:
    asked = await asked_for("f", f=schema)
    asked.type(typed)
    assert asked.given == [{"f": value}]


@pytest.mark.parametrize(
    ("schema", "typed", "why"),
    [
        ({}, "", "An answer is required."),
        ({"minLength": 2}, "a", "At least 2 characters."),
        ({"maxLength": 2}, "abc", "At most 2 characters."),
        ({"type": "integer"}, "1.5", "Type a number."),
        ({"type": "integer", "minimum": 2}, "1", "At least 2."),
        ({"type": "number", "maximum": 2}, "inf", "At most 2."),
        ({"type": "boolean"}, "perhaps", "Type y or n."),
        (CHOICE, "blue", "Type a number from 1 to 2."),
        (CHOICE, "3", "Type a number from 1 to 2."),
        (MANY, "1, 4", "Type a number from 1 to 3."),
    ],
)
async def test_what_does_not_fit_is_refused(
    schema: dict[str, Any], typed: str, why: str, autojump_clock: MockClock
) -> None:
    asked = await asked_for("f", f=schema)
    assert asked.type(typed) == [why]
    assert asked.given == []


async def test_what_is_not_needed_may_be_left_out(autojump_clock: MockClock) -> None:
    asked = await asked_for(f={"type": "integer"})
    asked.type("")
    assert asked.given == [{}]


@pytest.mark.parametrize(
    "form",
    [{"properties": {"a": {"type": "object"}, "b": {}}, "required": ["a"]}, {"properties": "?"}],
)
async def test_a_form_that_needs_what_cannot_be_typed_is_rejected(
    form: dict[str, Any], autojump_clock: MockClock
) -> None:
    asked = await Asked(form=form, options=[]).readable()
    assert asked.paper.prompt == ""
    assert asked.paper.lines == ["rejected, it cannot be asked here: Do it"]
    assert asked.given == [None]


async def test_a_field_that_cannot_be_typed_and_is_not_needed_is_left_out(
    autojump_clock: MockClock,
) -> None:
    asked = await asked_for("b", a={"type": "object"}, b={})
    asked.type("x")
    assert asked.given == [{"b": "x"}]


async def test_a_field_s_words_have_no_power(autojump_clock: MockClock) -> None:
    title, description = "T\x1b[2J", "a\x9bb"
    asked = await asked_for("f", f={"title": title, "description": description, "enum": ["\x07"]})
    assert asked.paper.read == ["a⟨U+009B⟩b", "1  ␇"]
    assert asked.paper.prompt == "│ T␛[2J (a number): "
