"""The conversation stays at its end, until somebody wants to look further up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from browser.kit import Server, ask, turn
from browser.pages import NewPage, Page, expect

REST = """() => {
    const box = document.querySelector(".transcript");
    return box.scrollHeight - box.scrollTop - box.clientHeight;
}"""


def streaming(page: Page) -> None:
    """An answer that is longer than the window, and goes on."""
    ask(page, "flood 3000\ntrickle 100000")
    expect(page.locator(".transcript")).to_contain_text("tick3 ")
    page.wait_for_function(f"({REST})() < 2")


def more(page: Page) -> None:
    """Wait until much more of it has come."""
    ticks = "document.querySelector('.transcript').innerText.split('tick').length"
    page.wait_for_function(f"before => {ticks} > before + 30", arg=page.evaluate(ticks))


def wheel(page: Page) -> None:
    """One small step of a trackpad."""
    page.locator(".transcript").hover()
    page.mouse.wheel(0, -3)


def key(page: Page) -> None:
    page.locator(".transcript").focus()
    page.keyboard.press("ArrowUp")


def scrollbar(page: Page) -> None:
    """However it is moved."""
    page.evaluate("document.querySelector('.transcript').scrollTop -= 5")


def touch(page: Page) -> None:
    browser = page.context.new_cdp_session(page)
    at = {"x": 300, "y": 300}
    browser.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    for step in range(1, 6):
        points = [{"x": 300, "y": 300 + 6 * step}]
        browser.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": points})
    browser.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize("up", [wheel, key, scrollbar, touch])
def test_the_smallest_step_up_ends_following(
    server: Server, new_page: NewPage, up: Callable[[Page], None]
) -> None:
    page = new_page(server.link(), has_touch=True)
    streaming(page)
    up(page)
    latest = page.get_by_role("button", name="Latest")
    expect(latest).to_be_visible()
    place = page.evaluate("document.querySelector('.transcript').scrollTop")
    more(page)
    now = page.evaluate("document.querySelector('.transcript').scrollTop")
    assert now <= place + 1, "it was taken back"
    expect(latest).to_be_visible()
    latest.click()
    expect(latest).to_have_count(0)
    page.wait_for_function(f"({REST})() < 2")


def test_who_scrolls_down_to_the_end_follows_again(page: Page) -> None:
    streaming(page)
    page.locator(".transcript").hover()
    page.mouse.wheel(0, -300)
    expect(page.get_by_role("button", name="Latest")).to_be_visible()
    page.mouse.wheel(0, 4000)
    expect(page.get_by_role("button", name="Latest")).to_have_count(0)
    more(page)
    page.wait_for_function(f"({REST})() < 2")


def test_a_short_conversation_goes_on_being_followed(page: Page) -> None:
    """There is nothing further up."""
    turn(page, "say hello")
    page.locator(".transcript").hover()
    page.mouse.wheel(0, -100)
    turn(page, "flood 3000")
    page.wait_for_function(f"({REST})() < 2")
