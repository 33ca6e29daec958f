"""Two sessions side by side in one window, on a wide screen."""

from __future__ import annotations

import pytest

from browser.kit import Server, phase, turn
from browser.pages import NewPage, Page, Shoot, expect

pytestmark = pytest.mark.slow


def open_another(page: Page) -> None:
    """Open a second session; the first one is in the list."""
    page.get_by_role("log").focus()
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog", name="New session")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("log")).not_to_contain_text("the first one")
    phase(page, "Idle")


def command(page: Page, words: str) -> None:
    page.keyboard.press("Control+k")
    commands = page.get_by_role("dialog", name="Commands")
    commands.get_by_role("combobox").fill(words)
    commands.get_by_role("option").first.click()
    expect(commands).to_have_count(0)


def test_a_second_session_is_shown_and_used_next_to_the_first(
    server: Server, new_page: NewPage, shoot: Shoot
) -> None:
    page = new_page(server.link(), viewport={"width": 1600, "height": 800})
    turn(page, "say the first one")
    open_another(page)
    turn(page, "say the second one")
    command(page, "side by side")
    beside = page.frame_locator(".beside iframe")
    expect(beside.get_by_role("log")).to_contain_text("the first one")
    field = beside.get_by_label("Message the agent")
    expect(field).to_be_focused()
    page.keyboard.type("say in the frame")
    page.keyboard.press("Enter")
    expect(beside.locator("article.text").last).to_have_text("in the frame")
    expect(page.locator("main").get_by_role("log")).not_to_contain_text("in the frame")
    shoot(page, "side-by-side")
    page.keyboard.press("Control+k")
    page.keyboard.type("other session")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message the agent").first).to_be_focused()
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    )
    found = axe.Axe().run(page).response["violations"]
    assert found == [], [(each["id"], each["nodes"][0]["html"]) for each in found]
    # A draft of each survives: a frame has the same storage as the page around it.
    page.get_by_label("Message the agent").first.fill("draft")
    page.reload()
    expect(page.get_by_label("Message the agent")).to_have_value("draft")
    command(page, "side by side")
    expect(beside.get_by_label("Message the agent")).to_have_value("")
    page.get_by_role("button", name="Close the second session").click()
    expect(page.locator("iframe")).to_have_count(0)


def test_on_a_narrow_screen_there_is_no_second_session(server: Server, new_page: NewPage) -> None:
    page = new_page(server.link(), viewport={"width": 1000, "height": 800})
    turn(page, "say the first one")
    open_another(page)
    page.keyboard.press("Control+k")
    commands = page.get_by_role("dialog", name="Commands")
    commands.get_by_role("combobox").fill("side by side")
    expect(commands.get_by_text("Side by side")).to_have_count(0)
