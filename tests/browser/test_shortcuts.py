"""Keys that work anywhere on the page, and completion in its field."""

from __future__ import annotations

import re

import pytest

from browser.kit import Server, phase, turn
from browser.pages import Page, expect

pytestmark = pytest.mark.slow


def test_keys_open_dialogs_and_the_search_but_are_text_in_a_field(page: Page) -> None:
    turn(page, "say hello")
    field = page.get_by_label("Message the agent")
    field.press_sequentially("n/?")
    expect(field).to_have_value("n/?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    field.fill("")

    page.get_by_role("log").focus()
    page.keyboard.press("?")
    shortcuts = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(shortcuts).to_contain_text("Search all conversations")
    page.keyboard.press("n")  # no other dialog opens over it
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(shortcuts).to_have_count(0)

    page.get_by_role("log").focus()
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog", name="New session")
    dialog.get_by_role("button", name="Start", exact=True).click()
    phase(page, "Idle")
    sidebar = page.get_by_role("navigation", name="sessions")
    first = sidebar.locator("li:not(.here)").first
    first.hover()
    first.get_by_role("button", name="Close").click()
    search = sidebar.get_by_role("searchbox")
    expect(search).to_be_visible()

    page.get_by_role("log").focus()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    expect(search).to_have_value("")
    page.keyboard.press("Control+k")  # also where letters are text
    expect(page.get_by_role("dialog", name="Commands")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("log").focus()
    page.keyboard.press("i")
    expect(field).to_be_focused()

    page.set_viewport_size({"width": 390, "height": 844})
    expect(search).not_to_be_in_viewport()
    page.get_by_role("log").focus()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    expect(search).to_be_in_viewport()


def test_an_at_sign_offers_files_by_letters_of_their_path(server: Server, page: Page) -> None:
    (server.folder / "src").mkdir()
    (server.folder / "src" / "user_controller.py").write_text("")
    (server.folder / "src" / "unrelated.py").write_text("")
    phase(page, "Idle")
    page.get_by_label("Message the agent").press_sequentially("see @usrctl")
    options = page.get_by_role("listbox", name="completions").get_by_role("option")
    expect(options).to_have_text([re.compile("@?src/user_controller.py")])
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message the agent")).to_have_value("see @src/user_controller.py ")
