"""Keys that work anywhere on the page, unless somebody is writing."""

from __future__ import annotations

import pytest

from browser.kit import phase, turn
from browser.pages import Page, expect

pytestmark = pytest.mark.slow


def test_keys_open_dialogs_and_the_search_but_are_text_in_a_field(page: Page) -> None:
    turn(page, "say hello")
    field = page.get_by_label("Message to the agent")
    field.press_sequentially("n/?")
    expect(field).to_have_value("n/?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    field.fill("")

    page.get_by_role("log").focus()
    page.keyboard.press("?")
    shortcuts = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(shortcuts).to_contain_text("Search conversations")
    page.keyboard.press("n")  # no other dialog opens over it
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(shortcuts).to_have_count(0)

    page.get_by_role("log").focus()
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog", name="New session")
    dialog.get_by_role("button", name="Start", exact=True).click()
    phase(page, "ready")
    sidebar = page.get_by_role("navigation", name="sessions")
    first = sidebar.locator("li:not(.here)").first
    first.hover()
    first.get_by_role("button", name="Close").click()
    search = sidebar.get_by_role("searchbox")
    expect(search).to_be_visible()

    for key in ("Control+k", "/"):
        page.get_by_role("log").focus()
        page.keyboard.press(key)
        expect(search).to_be_focused()
    field.focus()
    page.keyboard.press("Control+k")
    expect(search).to_be_focused()
    expect(search).to_have_value("")

    page.set_viewport_size({"width": 390, "height": 844})
    expect(search).not_to_be_in_viewport()
    page.get_by_role("log").focus()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    expect(search).to_be_in_viewport()
