"""All that a permission request contains is in its parts, which page and terminal derive alike."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.display import RequestPart, form_parts, request_parts, reveal
from agentrt.events import Item, PermissionOpened, ToolCall
from consent.requests import Generator, Request, recorded
from page.kit import Answering, needs_node, running

FULL = bool(os.environ.get("AGENTRT_FULL"))
SAMPLE = [*recorded()[:: 1 if FULL else 7], *Generator(26).requests(2000 if FULL else 20)]


@pytest.fixture(scope="module")
def page() -> Iterator[Answering]:
    with running("asked.mjs") as node:
        yield node


@needs_node
def test_page_and_terminal_derive_the_same_parts(page: Answering) -> None:
    for request in SAMPLE:
        item = None if request.item is None else msgspec.to_builtins(request.item)
        told = page.ask([msgspec.to_builtins(request.opened), item])
        assert _plain(msgspec.convert(told, list[RequestPart])) == _plain(
            request_parts(request.opened, request.item)
        ), request.name


def _plain(parts: list[RequestPart]) -> list[Any]:
    return [(part.label, part.text, part.kind, part.old) for part in parts]


@needs_node
@pytest.mark.slow
def test_page_and_terminal_reveal_every_character_alike(page: Answering) -> None:
    """Apart from those that only one of them knows to be assigned."""
    every = map(chr, range(0x110000))
    assigned = [c for c in every if unicodedata.category(c) not in ("Cn", "Co", "Cs")]
    for before in ("", "a", "a\u0301", "⚠", "ж"):
        for start in range(0, len(assigned), 4096):
            block = assigned[start : start + 4096]
            text = " ".join(before + character + "b" for character in block)
            theirs, ours = page.ask(text), reveal(text)
            if theirs != ours:
                pairs = zip(theirs.split(" "), ours.split(" "), strict=True)
                assert [pair for pair in pairs if pair[0] != pair[1]] == []


@needs_node
@given(
    st.text(
        st.characters(exclude_categories=("Cs", "Cn")) | st.sampled_from("aео\u0301\u0336\u200b ")
    )
)
def test_page_and_terminal_reveal_every_text_alike(page: Answering, text: str) -> None:
    assert page.ask(text) == reveal(text)


@pytest.mark.slow
@given(st.text())
def test_nothing_in_a_revealed_text_is_hidden(text: str) -> None:
    shown = reveal(text)
    for place, character in enumerate(shown):
        if character in ("\ufe0e", "\ufe0f"):
            assert unicodedata.category(shown[place - 1]) in ("So", "Sm")
        elif character not in "\n\t ":
            assert unicodedata.category(character)[0] not in "CZ"
    marks = "".join("m" if unicodedata.category(c)[0] == "M" else "." for c in shown)
    assert "mmmm" not in marks.replace("\ufe0f", "")


@given(st.text(st.characters(max_codepoint=0x7E, min_codepoint=0x20)))
def test_plain_ascii_stays_as_it_is(text: str) -> None:
    assert reveal(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm\u202e -rf", "rm⟨U+202E⟩ -rf"),
        ("a\u200bb\u00a0c\ufeff", "a⟨U+200B⟩b⟨U+00A0⟩c⟨U+FEFF⟩"),
        ("\x1b[2J\r\x7f\x9b", "␛[2J␍␡⟨U+009B⟩"),
        ("с\u0075rl", "с⟨U+0441⟩url"),
        ("Привет, мир", "Привет, мир"),
        ("ехес", "е⟨U+0435⟩х⟨U+0445⟩е⟨U+0435⟩с⟨U+0441⟩"),
        ("e\u0301 z\u0300\u0301\u0302", "e\u0301 z\u0300\u0301⟨U+0302⟩"),
        ("r\u0336m \u0301x", "r⟨U+0336⟩m ⟨U+0301⟩x"),
        ("𝗋m a\u2215b", "𝗋⟨U+1D5CB⟩m a\u2215⟨U+2215⟩b"),
        ("⚠\ufe0f a\ufe0f", "⚠\ufe0f a⟨U+FE0F⟩"),
        ("日本語 naïve שלום", "日本語 naïve שלום"),
    ],
)
def test_what_looks_like_something_else_is_spelled_out(text: str, shown: str) -> None:
    assert reveal(text) == shown


@pytest.mark.parametrize("request_", SAMPLE[:100], ids=lambda request: request.name)
def test_every_string_of_a_request_is_in_a_part(request_: Request) -> None:
    parts = request_parts(request_.opened, request_.item)
    shown = [request_.opened.title, *(option.name for option in request_.opened.options)]
    for part in parts:
        shown += [part.label, part.text, part.old or ""]
    whole = "\n".join(shown)
    assert [
        text
        for text in request_.strings
        if text not in whole
        and repr(text)[1:-1] not in whole
        and msgspec.json.encode(text).decode()[1:-1] not in whole
    ] == []


def test_a_string_that_is_shown_already_is_named_and_not_repeated() -> None:
    plan = "# Plan\n\n1. drop the table users"
    content = [{"type": "content", "content": {"type": "text", "text": plan}}]
    tool = msgspec.convert({"input": {"plan": plan, "then": plan}, "content": content}, ToolCall)
    request = PermissionOpened(request="r", title="Ready?", detail=content)
    parts = request_parts(request, Item(id="i", type="tool", tool=tool))
    assert [(part.label, part.kind) for part in parts] == [
        ("text", "text"),
        ("plan", "same"),
        ("then", "same"),
    ]


def test_what_the_fields_of_a_form_do_not_show_is_a_part() -> None:
    form = {
        "type": "object",
        "title": "Deploy",
        "description": "to production",
        "properties": {"a": {"type": "string", "title": "A", "pattern": "^x", "examples": ["xy"]}},
    }
    assert [(part.label, part.text) for part in form_parts(form)] == [
        ("title", "Deploy"),
        ("description", "to production"),
        ("a.pattern", "^x"),
        ("a.examples[0]", "xy"),
    ]
