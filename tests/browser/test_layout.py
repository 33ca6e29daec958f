"""Where things are on the page, on a desk and on a phone: measured as they are drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from browser.kit import ask, phase, scripted, serving, turn
from browser.pages import NewPage, Page, Shoot, expect

Shown: TypeAlias = Callable[..., Page]

DESK: dict[str, Any] = {"viewport": {"width": 1366, "height": 630}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}
TABLE = """| Option | Type | What it does when it is given |
|---|---|---|
| `--maximum-connections` | integer | How many clients may be connected at the same time |
| `--permissions` | ask, deny or allow-all | Who decides about requests that no rule covers |
| a-very-long-identifier-without-any-space-in-it | string | Identification |
"""
MIXED = """The first paragraph is English.

\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd.

- an English item

Another English paragraph.
"""
RIGHT_FIRST = "\u05e9\u05dc\u05d5\u05dd.\n\nAn English paragraph.\n\n- one\n- two\n"
MODES = {
    "modes": {
        "currentModeId": "bypassPermissions",
        "availableModes": [
            {"id": "default", "name": "Ask"},
            {"id": "bypassPermissions", "name": "Bypass permissions"},
        ],
    }
}


@pytest.fixture
def shown(tmp_path: Path, new_page: NewPage) -> Iterator[Shown]:
    """Opens a page, of a size, whose agent has these texts."""
    servers = []

    def show(texts: dict[str, Any], size: dict[str, Any]) -> Page:
        file = tmp_path / "texts.json"
        file.write_text(json.dumps(texts))
        opened = serving(tmp_path, *scripted(str(file)))
        server = opened.__enter__()
        servers.append(opened)
        page = new_page(server.link(), **size)
        phase(page, "Idle")
        return page

    yield show
    for opened in servers:
        opened.__exit__(None, None, None)


BROKEN = """(selector) => {
    const broken = [];
    for (const cell of document.querySelectorAll(selector)) {
        const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            for (const { index, 0: word } of node.data.matchAll(/[\\w]+/g)) {
                const range = document.createRange();
                range.setStart(node, index);
                range.setEnd(node, index + word.length);
                const rows = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
                if (rows.size > 1) broken.push(word);
            }
        }
    }
    return broken;
}"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_no_word_in_a_table_is_broken(shown: Shown, shoot: Shoot, size: dict[str, Any]) -> None:
    page = shown({"table": TABLE}, size)
    turn(page, "say table")
    expect(page.locator(".table td")).to_have_count(9)
    assert page.evaluate(BROKEN, ".table :is(th, td)") == []
    shoot(page, f"table-{size['viewport']['width']}")
    # It is the table that scrolls, not the conversation.
    assert page.evaluate(
        "() => { const t = document.querySelector('.transcript');"
        " return t.scrollWidth <= t.clientWidth; }"
    )
    rows = page.locator(".table tr").evaluate_all(
        "all => all.map((row) => row.getBoundingClientRect().height)"
    )
    assert max(rows) < 130


def test_a_question_leaves_the_header_and_the_conversation_in_sight(
    shown: Shown, shoot: Shoot
) -> None:
    page = shown({"words": "word\n\n" * 60}, DESK)
    turn(page, "say words")
    ask(page, "ask echo hello")
    sheet = page.get_by_role("alertdialog")
    sheet.wait_for()
    shoot(page, "question-1366")
    page.wait_for_timeout(300)
    bar, reading, box = (
        page.locator(each).bounding_box() for each in ("header.bar", ".transcript", ".sheet")
    )
    assert bar is not None
    assert reading is not None
    assert box is not None
    assert bar["y"] >= 0
    assert bar["height"] >= 40
    top = "([x, y]) => document.elementFromPoint(x, y).closest('header.bar, .dock')?.className"
    assert page.evaluate(top, [bar["x"] + 400, bar["y"] + 20]) == "bar"
    assert reading["height"] > 200
    assert reading["y"] + reading["height"] <= box["y"] + 1


def test_a_question_on_a_phone_leaves_room_for_the_title_and_for_a_message(
    shown: Shown, shoot: Shoot
) -> None:
    page = shown({"session": MODES}, PHONE)
    ask(page, "ask echo hello")
    page.get_by_role("alertdialog").wait_for()
    shoot(page, "question-390")
    for name, least in (("header.bar h1", 90), ("#prompt", 90)):
        box = page.locator(name).bounding_box()
        assert box is not None
        assert box["width"] >= least, name
    expect(page.locator("header.bar .phase")).to_contain_text("Needs your answer")


@pytest.mark.parametrize(("width", "height"), [(320, 640), (320, 480), (360, 740)])
def test_a_narrow_phone_shows_the_title(
    shown: Shown, shoot: Shoot, width: int, height: int
) -> None:
    size = {"viewport": {"width": width, "height": height}, "has_touch": True, "is_mobile": True}
    page = shown({"words": "word\n\n" * 60}, size)
    turn(page, "say words")
    shoot(page, f"title-{width}-{height}")
    title = page.locator("header.bar h1").bounding_box()
    header = page.locator("header.bar").bounding_box()
    assert title is not None
    assert header is not None
    assert title["width"] >= 200
    assert header["height"] <= 100
    for button in page.locator("header.bar button:visible").all():
        box = button.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (640, 400), (390, 844), (320, 640)])
def test_the_page_itself_never_scrolls_sideways(shown: Shown, width: int, height: int) -> None:
    page = shown({"session": MODES}, {"viewport": {"width": width, "height": height}})
    page.get_by_label("Message the agent").wait_for()
    whole = "document.documentElement.scrollWidth"
    assert page.evaluate(whole) <= width
    ask(page, "ask echo hello")
    page.get_by_role("alertdialog").wait_for()
    assert page.evaluate(whole) <= width


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_mode_and_the_model_are_in_sight_and_a_mode_that_does_not_ask_stands_out(
    shown: Shown, shoot: Shoot, size: dict[str, Any]
) -> None:
    page = shown({"session": MODES}, size)
    mode = page.locator(".composer").get_by_label("Mode")
    expect(mode).to_have_class("unasked")
    expect(mode.locator("option:checked")).to_have_text("Bypass permissions · never asks")
    shoot(page, f"mode-bypass-{size['viewport']['width']}")
    bar, box = page.locator(".composer").bounding_box(), mode.bounding_box()
    assert bar is not None
    assert box is not None
    assert box["x"] + box["width"] <= size["viewport"]["width"]
    assert box["y"] + box["height"] <= bar["y"] + bar["height"]


def test_a_mode_that_asks_does_not_stand_out(shown: Shown) -> None:
    usual = {"modes": {**MODES["modes"], "currentModeId": "default"}}
    page = shown({"session": usual}, PHONE)
    mode = page.locator(".composer").get_by_label("Mode")
    expect(mode.locator("option:checked")).to_have_text("Ask")
    expect(mode).not_to_have_class("unasked")


@pytest.mark.parametrize("text", [MIXED, RIGHT_FIRST])
def test_a_paragraph_from_right_to_left_turns_no_other(
    shown: Shown, shoot: Shoot, text: str
) -> None:
    page = shown({"mixed": text}, DESK)
    turn(page, "say mixed")
    blocks = page.locator(".transcript .markdown > *")
    directions = blocks.evaluate_all(
        "all => all.map((each) => [/[\\u0590-\\u05ff]/.test(each.textContent),"
        " getComputedStyle(each).direction])"
    )
    shoot(page, f"mixed-{len(text)}")
    assert len(directions) >= 3
    assert [d == "rtl" for _, d in directions] == [hebrew for hebrew, _ in directions]


SIDE: dict[str, Any] = {
    "viewport": {"width": 844, "height": 390},
    "has_touch": True,
    "is_mobile": True,
}


def test_a_phone_on_its_side_shows_the_conversation(shown: Shown, shoot: Shoot) -> None:
    page = shown({"words": "word\n\n" * 60}, SIDE)
    turn(page, "say words")
    shoot(page, "side-844")
    reading = page.locator(".transcript").bounding_box()
    assert reading is not None
    assert reading["height"] > 230
    assert reading["width"] > 800


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_buttons_of_a_session_cover_none_of_its_words(
    shown: Shown, shoot: Shoot, size: dict[str, Any]
) -> None:
    page = shown({}, size)
    if size is PHONE:
        page.get_by_role("button", name="Sessions").click()
    entry = page.locator(".sidebar li").first
    entry.locator(".entry").hover()
    page.wait_for_timeout(300)
    shoot(page, f"sidebar-{size['viewport']['width']}")
    tools = entry.locator(".tools").bounding_box()
    assert tools is not None
    for words in entry.locator(".name, small").all():
        box = words.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= tools["x"] + 1


def test_a_long_message_is_shown_by_its_beginning(shown: Shown) -> None:
    page = shown({}, DESK)
    turn(page, "\n".join(["say hi", *(f"line {n}" for n in range(500))]))
    bubble = page.locator(".bubble")
    box = bubble.bounding_box()
    assert box is not None
    assert box["height"] < 700
    expect(bubble).to_contain_text("line 10")
    expect(bubble.get_by_text("line 499")).to_be_hidden()
    bubble.get_by_text("481 more lines").click()
    expect(bubble.get_by_text("line 499")).to_be_visible()


def test_a_question_is_timed_from_when_it_was_asked(shown: Shown) -> None:
    page = shown({}, DESK)
    ask(page, "wait 4\nask echo hello")
    page.get_by_role("alertdialog").wait_for()
    time = page.locator("header .phase .time")
    expect(time).to_have_text(" · 0 s", timeout=3000)
