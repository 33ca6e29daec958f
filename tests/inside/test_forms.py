"""Forms: what is asked for each field, and what counts as its value.

Each kind of field is read from each input; a terminal would show one form after the other.
"""

from __future__ import annotations

from typing import Any

import pytest

from agentrt._cli.repl.forms import FormField, InvalidValue, fields_of

CHOICE = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}
MANY = {"type": "array", "items": {"enum": ["a", "b", "c"]}}


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
def test_what_is_typed_becomes_a_value(schema: dict[str, Any], typed: str, value: Any) -> None:
    assert FormField("f", schema, required=True).read(typed) == value


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
def test_what_does_not_fit_is_refused(schema: dict[str, Any], typed: str, why: str) -> None:
    with pytest.raises(InvalidValue) as told:
        FormField("f", schema, required=True).read(typed)
    assert str(told.value) == why


def test_what_is_not_needed_may_be_left_out() -> None:
    assert FormField("f", {"type": "integer"}, required=False).read("") is None


def test_a_form_that_needs_what_cannot_be_typed_is_none() -> None:
    form = {"properties": {"a": {"type": "object"}, "b": {}}, "required": ["b"]}
    assert [field.name for field in fields_of(form) or []] == ["b"]
    assert fields_of({**form, "required": ["a"]}) is None
    assert fields_of({"properties": "?"}) == []


def test_a_field_s_words_have_no_power() -> None:
    field = FormField("f", {"title": "T\x1b[2J", "description": "a\x9bb", "enum": ["\x07"]}, True)
    assert field.lines() == ["a⟨U+009B⟩b", "1  ␇"]
    assert field.prompt == "T␛[2J (a number): "
