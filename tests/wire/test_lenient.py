"""The reading of messages that strict decoding refuses."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.jsonrpc import lenient


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class House(msgspec.Struct, rename="camel"):
    street: str
    house_number: int | None = None
    price: float = 0.0
    door: Literal["open", "shut"] = "shut"
    listed: bool = False
    pets: list[Dog | Cat] = []
    guest: Dog | Cat | None = None
    labels: dict[str, str] = {}
    notes: Any = None


def read(**fields: Any) -> tuple[House, list[str]]:
    dropped: list[str] = []
    return lenient({"street": "Elm", **fields}, House, dropped), dropped


def test_what_fits_is_taken_as_strict_decoding_would() -> None:
    raw = {
        "street": "Elm",
        "houseNumber": 3,
        "price": 2.5,
        "door": "open",
        "listed": True,
        "pets": [{"type": "dog", "name": "Rex"}, {"type": "cat"}],
        "guest": {"type": "cat", "lives": 1},
        "labels": {"a": "b"},
        "notes": [1, None],
    }
    dropped: list[str] = []
    assert lenient(raw, House, dropped) == msgspec.convert(raw, House)
    assert dropped == []


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("houseNumber", "three"),
        ("houseNumber", True),
        ("houseNumber", 1.5),
        ("price", None),
        ("door", "ajar"),
        ("door", []),
        ("listed", 1),
        ("pets", {}),
        ("guest", {"type": "bird"}),
        ("guest", {"type": "dog"}),
        ("labels", {"a": 1}),
    ],
)
def test_a_field_that_does_not_fit_gets_its_default(field: str, wrong: Any) -> None:
    assert read(**{field: wrong}) == (House("Elm"), [field])


def test_a_list_item_that_does_not_fit_is_skipped() -> None:
    house, dropped = read(pets=[{"type": "bird"}, {"type": "dog", "name": "Rex"}, 4, {}])
    assert house.pets == [Dog("Rex")]
    assert dropped == ["pets[0]", "pets[2]", "pets[3]"]


def test_a_defect_deep_inside_costs_only_its_own_field() -> None:
    house, dropped = read(pets=[{"type": "cat", "lives": "many"}])
    assert house.pets == [Cat()]
    assert dropped == ["pets[0].lives"]


def test_a_whole_number_written_as_a_fraction_is_a_whole_number() -> None:
    assert read(houseNumber=3.0) == (House("Elm", house_number=3), [])


@pytest.mark.parametrize("raw", [{}, {"street": 1}, [], "x", None, {"street": None}])
def test_without_a_required_field_there_is_no_message(raw: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        lenient(raw, House, [])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["street", "pets", "type", "lives", "guest"]), inner)
    ),
)


@pytest.mark.slow
@given(values)
def test_any_json_gives_a_message_or_that_error(value: Any) -> None:
    try:
        lenient(value, House, [])
    except msgspec.ValidationError:
        pass
