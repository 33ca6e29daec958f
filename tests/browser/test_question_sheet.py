"""Nobody allows what they could not see: questions on small screens, and long ones on any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.kit import GUARD, Server, ask, phase, scripted, serving
from browser.pages import NewPage, Page, Shoot, expect

SIZES: dict[str, dict[str, Any]] = {
    "a phone with its keyboard open": {
        "viewport": {"width": 390, "height": 480},
        "has_touch": True,
        "is_mobile": True,
    },
    "a phone on its side": {
        "viewport": {"width": 844, "height": 390},
        "has_touch": True,
        "is_mobile": True,
    },
    "a window at 200 %": {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2},
    "a phone on its side with its keyboard open": {
        "viewport": {"width": 844, "height": 180},
        "has_touch": True,
        "is_mobile": True,
    },
    "a window": {"viewport": {"width": 1280, "height": 800}},
}

LONG = "\n".join(["first --of", *(f"line {n}" for n in range(400)), "last; rm -rf /"])
OLD = "".join(f"line {n}\n" for n in range(2000))

TEXTS: dict[str, Any] = {
    "long": LONG,
    "wide": f"echo {'x' * 20_000} last",
    "edit": {
        "kind": "edit",
        "content": [
            {
                "type": "diff",
                "path": "/greet.py",
                "oldText": "def greet():\n    print('hi')\n",
                "newText": "def greet(name):\n    print(f'hi {name}')\n",
            }
        ],
    },
    "rewrite": {
        "kind": "edit",
        "content": [
            {
                "type": "diff",
                "path": "/all.py",
                "oldText": OLD,
                "newText": OLD.replace("line", "row"),
            }
        ],
    },
    "arguments": {"kind": "other", "rawInput": {"text": "y" * 9000, "last": True}},
    "changing": {"rawInput": {"command": "ls"}, "later": {"command": LONG}},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(TEXTS))
    with serving(tmp_path, *scripted(str(texts))) as server:
        yield server


VISIBLE = """(selector) => [...document.querySelectorAll(selector)].map((element) => {
    const box = element.getBoundingClientRect();
    const inside = box.top >= 0 && box.bottom <= innerHeight && box.height > 0;
    const hit = document.elementFromPoint(box.left + 40, (box.top + box.bottom) / 2);
    return inside && Boolean(hit?.closest(".subject"));
})"""


def ends(page: Page) -> list[bool]:
    """Whether the first and the last lines of what the question is about are in sight."""
    found: list[bool] = page.evaluate(VISIBLE, ".mark-of")
    return found


def allowed(page: Page) -> bool:
    button = page.get_by_role("alertdialog").get_by_role("button", name="Allow", exact=True)
    return button.get_attribute("aria-disabled") != "true"


def wait_for_guard(page: Page) -> None:
    page.locator("[role=alertdialog] .options button:not([aria-disabled=true])").first.wait_for()


def by_button(page: Page) -> None:
    page.get_by_role("alertdialog").get_by_role("button", name="Show more").click()


def by_keys(page: Page) -> None:
    page.get_by_role("alertdialog").focus()
    page.keyboard.press("End")


def by_tab(page: Page) -> None:
    page.get_by_role("alertdialog").focus()
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_class("subject")
    page.keyboard.press("End")


def by_wheel(page: Page) -> None:
    page.locator(".subject").hover()
    page.mouse.wheel(0, 300_000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("about", ["edit", "long"])
def test_what_is_asked_is_seen_before_it_can_be_allowed(
    server: Server, new_page: NewPage, shoot: Shoot, size: str, about: str
) -> None:
    page = new_page(server.link(), **SIZES[size])
    phase(page, "Idle")
    ask(page, f"ask {about}")
    wait_for_guard(page)
    assert ends(page)[0], "its beginning cannot be seen"
    shoot(page, f"question-{about}-{size}".replace(" ", "-"))
    if about == "long":
        assert not allowed(page)
    pages = 0
    while not ends(page)[1]:
        assert not allowed(page)
        page.keyboard.press("1")  # shows more of it
        pages += 1
        assert pages < 300
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.get_by_role("alertdialog").get_by_role("button", name="Allow", exact=True).and_(
        page.locator("[aria-disabled=false]")
    ).click()
    expect(page.locator(".transcript")).to_contain_text("You chose yes.")


def by_leap(page: Page) -> None:
    page.get_by_role("alertdialog").get_by_role("button", name="Jump to end").click()


@pytest.mark.parametrize(
    ("about", "reach"),
    [
        ("long", by_button),
        ("rewrite", by_leap),
        ("wide", by_keys),
        ("arguments", by_tab),
        ("rewrite", by_wheel),
    ],
)
def test_the_end_of_a_long_one_is_reached_in_every_way(
    server: Server, new_page: NewPage, about: str, reach: Callable[[Page], None]
) -> None:
    page = new_page(server.link(), **SIZES["a window at 200 %"])
    phase(page, "Idle")
    ask(page, f"ask {about}")
    wait_for_guard(page)
    why = page.get_by_role("alertdialog").get_by_role("button", name="Allow", exact=True)
    expect(why).to_have_accessible_description("Scroll to the end to enable Allow.")
    assert not allowed(page)
    for _ in range(400):
        reach(page)
        if ends(page)[1]:
            break
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.wait_for_timeout(GUARD)
    page.keyboard.press("1")
    expect(page.locator(".transcript")).to_contain_text("You chose yes.")


def test_an_unseen_question_can_be_rejected(server: Server, new_page: NewPage) -> None:
    page = new_page(server.link(), **SIZES["a window at 200 %"])
    ask(page, "ask long")
    wait_for_guard(page)
    page.keyboard.press("2")
    expect(page.locator(".transcript")).to_contain_text("You chose no.")


def test_what_has_become_something_else_is_to_be_seen_anew(
    server: Server, new_page: NewPage
) -> None:
    page = new_page(server.link(), **SIZES["a window at 200 %"])
    ask(page, "ask changing")
    wait_for_guard(page)
    expect(page.locator(".command")).to_contain_text("last; rm -rf /")
    expect(page.get_by_role("button", name="Show more")).to_be_visible()
    page.keyboard.press("1")
    assert not allowed(page)


def test_a_keyboard_that_covers_the_page_leaves_the_question_in_sight(
    server: Server, new_page: NewPage
) -> None:
    """As in Safari, where only `visualViewport` says so."""
    page = new_page(server.link(), **SIZES["a window"])
    phase(page, "Idle")
    page.evaluate(
        """() => {
            Object.defineProperty(visualViewport, "height", { value: 300 });
            visualViewport.dispatchEvent(new Event("resize"));
        }"""
    )
    ask(page, "ask edit")
    wait_for_guard(page)
    box = page.get_by_role("alertdialog").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 300
    assert ends(page)[0]


def test_whoever_writes_goes_on_writing_beside_a_question(
    server: Server, new_page: NewPage
) -> None:
    page = new_page(server.link(), **SIZES["a phone with its keyboard open"])
    phase(page, "Idle")
    ask(page, "wait 1\nask edit")
    field = page.get_by_label("Message the agent")
    field.press_sequentially("hm")
    wait_for_guard(page)
    field.press_sequentially(", 1")
    expect(field).to_have_value("hm, 1")
    expect(field).to_be_in_viewport()
    assert ends(page)[0]
