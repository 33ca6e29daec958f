"""For everybody: by keyboard alone, on a phone, to a screen reader, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.kit import Server, answer, ask, phase, scripted, serving
from browser.pages import NewPage, Page, Shoot, expect

PHONE = {"viewport": {"width": 375, "height": 700}, "has_touch": True, "is_mobile": True}


VIEWS = {
    "Control+k": "Commands",
    "o": "Search and outline",
    "f": "Files",
    "n": "New session",
    "?": "Keyboard shortcuts",
}
"""What is over the conversation, by its key."""


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip(
        "axe_playwright_python", reason="needs axe (pip install axe-playwright-python)"
    )
    return (Path(package.__file__).parent / "axe.min.js").read_text()


def violations(page: Page, axe: str) -> list[str]:
    """What axe-core finds against WCAG AA and good practice."""
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, "--agent", "demo", "--model", "instant") as server:
        yield server


def settled(page: Page) -> None:
    """The turn is over, whatever it asked on its way."""
    ready = page.locator("header .phase", has_text="Idle")
    sheet = page.get_by_role("alertdialog")
    ready.or_(sheet).first.wait_for()
    if sheet.count():
        answer(page, "Allow")
        phase(page, "Idle")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_axe_finds_nothing(
    demo: Server, new_page: NewPage, axe: str, shoot: Shoot, scheme: str, size: str
) -> None:
    options = PHONE if size == "phone" else {"viewport": {"width": 1280, "height": 800}}
    page = new_page(demo.link(), color_scheme=scheme, **options)
    phase(page, "Idle")
    assert "\n".join(violations(page, axe)) == ""
    for prompt in ("/markdown", "/tools", "/plan", "/think", "/media"):
        ask(page, prompt)
        settled(page)
    ask(page, "edit notes.txt replace first by last")
    page.get_by_role("alertdialog").wait_for()
    shoot(page, f"question-{size}-{scheme}")
    assert "\n".join(violations(page, axe)) == ""
    answer(page, "Allow")
    phase(page, "Idle")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert "\n".join(violations(page, axe)) == ""
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("dialog").wait_for()
    shoot(page, f"settings-{size}-{scheme}")
    assert "\n".join(violations(page, axe)) == ""
    page.keyboard.press("Escape")
    for key, view in VIEWS.items():
        page.get_by_role("log").focus()
        page.keyboard.press(key)
        dialog = page.get_by_role("dialog", name=view)
        dialog.wait_for()
        if view == "Files":
            dialog.get_by_role("button", name="notes.txt").click()
            dialog.locator(".file-line").first.wait_for()
        elif view == "New session":
            dialog.get_by_role("button", name="Browse").click()
            dialog.get_by_role("list", name="Folders in").wait_for()
        shoot(page, f"{key[-1]}-{size}-{scheme}")
        assert "\n".join(violations(page, axe)) == "", view
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")


def test_on_a_phone_nothing_is_cut_off(demo: Server, new_page: NewPage, shoot: Shoot) -> None:
    page = new_page(demo.link(), **PHONE)
    for prompt in ("/markdown", "/tools", "/media"):
        ask(page, prompt)
        settled(page)
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert page.evaluate(wide) is False
    sessions = page.get_by_role("navigation", name="sessions")
    expect(sessions.get_by_role("button", name="New session")).not_to_be_in_viewport()
    page.get_by_role("button", name="Sessions", exact=True).click()
    expect(sessions.get_by_role("button", name="New session")).to_be_in_viewport()
    shoot(page, "phone-sessions")
    assert page.evaluate(wide) is False


def test_a_turn_with_a_question_is_had_with_the_keyboard_alone(
    tmp_path: Path, new_page: NewPage
) -> None:
    with serving(tmp_path, *scripted()) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        page.get_by_label("Message the agent").wait_for()
        focused = page.locator(":focus")
        page.keyboard.press("Tab")
        expect(focused).to_have_text("To the message field")
        page.keyboard.press("Enter")
        expect(focused).to_have_attribute("id", "prompt")
        page.keyboard.type("ask echo hello")
        page.keyboard.press("Enter")
        sheet = page.get_by_role("alertdialog")
        expect(sheet).to_be_focused()
        page.locator("[role=alertdialog] button:not([aria-disabled=true])").first.wait_for()
        for _ in range(12):  # Tab goes round inside
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.closest('[role=alertdialog]') !== null")
        while "Reject" not in focused.inner_text():
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".transcript")).to_contain_text("You chose no.")
        page.get_by_label("Message the agent").focus()
        page.keyboard.type("tool sleep 60")
        page.keyboard.press("Enter")
        phase(page, "Working")
        page.keyboard.press("Escape")
        phase(page, "Idle")


def test_a_screen_reader_gets_what_happens_and_not_every_piece(page: Page) -> None:
    phase(page, "Idle")
    page.evaluate(
        """() => {
            window.told = [];
            const live = "[aria-live=polite], [aria-live=assertive], [role=status], [role=alert]";
            new MutationObserver(changes => {
                for (const { target } of changes) {
                    const place = (target.closest ? target : target.parentElement).closest(live);
                    if (place) window.told.push(place.textContent);
                }
            }).observe(document.body, { subtree: true, childList: true, characterData: true });
        }"""
    )
    ask(page, "flood 300\nwait 0.3\nask echo hello")
    answer(page, "Allow")
    phase(page, "Idle")
    told = page.evaluate("window.told")
    assert 0 < len(told) < 60
    assert any("echo hello" in words for words in told)
