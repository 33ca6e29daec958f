"""What is around the conversation: who looks elsewhere, who goes back, who has thick fingers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from browser.kit import Server, ask, phase, scripted, serving, turn, until
from browser.pages import NewPage, Page, expect
from browser.test_access import PHONE

NOTIFIED = """() => {
    window.shown = [];
    window.Notification = class {
        static permission = "granted";
        constructor(title, { body, tag }) {
            window.shown.push({ title, body, tag });
            window.last = this;
        }
        close() {}
    };
    navigator.setAppBadge = async count => { window.badge = count; };
    navigator.clearAppBadge = async () => { window.badge = 0; };
}"""

HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
}"""


def another_session(page: Page) -> None:
    """Of the same agent, begun through the protocol as another page would."""
    page.get_by_role("button", name="New session").click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    phase(page, "Idle")


@pytest.fixture
def two(tmp_path: Path, new_page: NewPage) -> Page:
    """A page with two sessions, of which the second one is shown."""
    settings = tmp_path / ".config" / "agentrt" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[agents.scripted]\ncommand = '''{scripted()[1]}'''\n")
    with serving(tmp_path, "--agent", "scripted") as server:
        page = new_page(server.link())
        phase(page, "Idle")
        another_session(page)
        yield page  # type: ignore[misc]


def entry(page: Page, at: int) -> None:
    """Show a session, counted from the newest."""
    page.locator(".sidebar .entry").nth(at).click()


def test_somebody_who_looks_elsewhere_is_notified_that_a_turn_is_over(page: Page) -> None:
    phase(page, "Idle")
    page.evaluate(NOTIFIED)
    ask(page, "wait 3\nsay done")
    phase(page, "Working")
    page.evaluate(HIDE, True)
    until(lambda: page.evaluate("window.shown.length"))
    [shown] = page.evaluate("window.shown")
    assert shown["title"].endswith("is done")
    assert page.title().startswith("(1) ")
    assert page.evaluate("window.badge") == 1
    icon = page.locator("link[rel=icon]").evaluate("each => new URL(each.href).pathname")
    assert icon == "/page/icon-new.svg"
    page.evaluate(HIDE, False)
    until(lambda: not page.title().startswith("("))
    assert page.evaluate("window.badge") == 0


def test_a_question_of_another_session_is_reported_and_leads_there(two: Page) -> None:
    two.evaluate(NOTIFIED)
    ask(two, "wait 3\nask echo hello")
    phase(two, "Working")
    entry(two, 1)
    phase(two, "Idle")
    until(lambda: two.evaluate("window.shown.length"))
    [shown] = two.evaluate("window.shown")
    assert shown["title"].endswith("needs your answer")
    assert shown["body"] == "echo hello"
    assert two.title().startswith("(1) ")
    two.evaluate("window.last.onclick()")
    expect(two.get_by_role("alertdialog")).to_contain_text("echo hello")


def test_nobody_is_notified_of_what_is_in_sight_or_of_what_was_stopped(page: Page) -> None:
    phase(page, "Idle")
    page.evaluate(NOTIFIED)
    turn(page, "say one")
    ask(page, "tool sleep 60")
    phase(page, "Working")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.evaluate(HIDE, True)
    expect(page.locator("header .phase")).to_contain_text("Idle")
    assert page.evaluate("window.shown") == []


def test_back_leads_to_the_session_before(two: Page) -> None:
    second = two.url
    entry(two, 1)
    phase(two, "Idle")
    first = two.url
    assert first != second
    two.go_back()
    expect(two).to_have_url(second)
    expect(two.locator(".sidebar li").first).to_have_class(re.compile("here"))
    two.go_forward()
    expect(two).to_have_url(first)
    expect(two.locator(".sidebar li").last).to_have_class(re.compile("here"))


def test_the_session_with_the_latest_turn_is_first_in_the_list(two: Page) -> None:
    entry(two, 1)
    phase(two, "Idle")
    expect(two.locator(".sidebar li").last).to_have_class(re.compile("here"))
    turn(two, "say hello")
    expect(two.locator(".sidebar li").first).to_have_class(re.compile("here"))
    entry(two, 1)  # to look at the other one is no activity
    phase(two, "Idle")
    expect(two.locator(".sidebar li").last).to_have_class(re.compile("here"))


def test_why_a_session_did_not_start_is_said_where_it_was_wanted(two: Page) -> None:
    two.get_by_role("button", name="New session").click()
    dialog = two.get_by_role("dialog")
    dialog.get_by_label("Folder").fill("/no/such/folder")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("no/such/folder")
    expect(dialog.get_by_label("Folder")).to_have_value("/no/such/folder")
    expect(dialog.get_by_role("button", name="Start", exact=True)).to_be_enabled()


def test_agents_that_are_not_installed_are_folded_away(two: Page) -> None:
    two.get_by_role("button", name="New session").click()
    folded = two.get_by_role("dialog").locator("details", has_text="more agents")
    expect(folded.locator("summary")).to_have_text(re.compile(r"^\s*\d+ more"))
    expect(folded.locator("p")).to_be_hidden()


def test_notes_move_nothing_and_cover_neither_header_nor_field(page: Page, tmp_path: Path) -> None:
    large = [tmp_path / f"big{number}.bin" for number in range(5)]
    for file in large:
        with file.open("wb") as empty:
            empty.truncate(9_000_000)
    phase(page, "Idle")
    turn(page, "say hello")
    answered = page.get_by_role("article", name="answer")
    before = answered.bounding_box()
    page.get_by_label("Attach files").set_input_files(large)
    notes = page.locator(".note.error")
    expect(notes).to_have_count(3)
    expect(page.locator(".notes")).to_contain_text("2 more")
    assert answered.bounding_box() == before
    for what in ("header.bar", ".composer"):
        overlap = page.evaluate(
            """what => {
                const other = document.querySelector(what).getBoundingClientRect();
                return [...document.querySelectorAll(".note")].some(note => {
                    const box = note.getBoundingClientRect();
                    return box.top < other.bottom && other.top < box.bottom;
                });
            }""",
            what,
        )
        assert not overlap, what
    notes.last.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".notes")).to_contain_text("1 more")
    expect(notes).to_have_count(3)
    page.get_by_role("button", name="Dismiss all").click()
    expect(page.locator(".note")).to_have_count(0)


DROP = """([selector, name]) => {
    const data = new DataTransfer();
    data.items.add(new File(["hello"], name, { type: "text/plain" }));
    const target = document.querySelector(selector);
    for (const type of ["dragover", "drop"]) {
        const event = new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true });
        target.dispatchEvent(event);
        if (!event.defaultPrevented) return "left to the browser";
    }
}"""


@pytest.mark.parametrize("where", [".transcript", "header.bar", "#prompt", ".sidebar"])
def test_files_are_dropped_anywhere(page: Page, where: str) -> None:
    phase(page, "Idle")
    expect(page.locator("#prompt")).to_be_visible()
    assert page.evaluate(DROP, [where, "dropped.txt"]) is None
    expect(page.locator(".attached li")).to_have_count(1)
    expect(page.locator(".attached li")).to_contain_text("dropped.txt")


def test_a_finger_hits_every_button(server: Server, new_page: NewPage) -> None:
    page = new_page(server.link(), **PHONE)
    phase(page, "Idle")
    ask(page, "say      code\nask echo hello")
    page.get_by_role("alertdialog").wait_for()
    small = """() => [...document.querySelectorAll("button:not(.mention), summary, .button")]
        .filter(each => each.checkVisibility({ visibilityProperty: true }))
        .map(each => [each.getBoundingClientRect(), each])
        .filter(([{ width, height }]) => width && height && (width < 43.9 || height < 43.9))
        .map(([{ width, height }, each]) => `${width}×${height} ${each.outerHTML.slice(0, 120)}`)"""
    assert page.evaluate(small) == []
    page.get_by_role("alertdialog").get_by_role("button", name="Skip").click()
    page.get_by_role("button", name="Sessions", exact=True).click()
    assert page.evaluate(small) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Settings").click()
    assert page.evaluate(small) == []
