"""Stumbles of a first hour: at a desk, on a phone, with a keyboard and a screen reader only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.kit import Server, answer, ask, phase, serving, turn, until
from browser.pages import NewPage, Page, expect

PHONE: dict[str, Any] = {
    "viewport": {"width": 375, "height": 700},
    "has_touch": True,
    "is_mobile": True,
}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Server]:
    """The demo agent, without a session."""
    with serving(tmp_path) as server:
        yield server


@pytest.fixture
def saving(tmp_path: Path) -> Iterator[Server]:
    """The demo agent, with a session and checkpoints."""
    settings = tmp_path / ".config" / "agentrt"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text("[unattended]\ncheckpoints = true\n")
    with serving(tmp_path, "--agent", "demo", "--model", "instant") as server:
        yield server


def started(page: Page) -> None:
    page.get_by_role("button", name="Start", exact=True).press("Enter")
    phase(page, "Idle")


def test_a_new_session_is_announced_and_takes_the_keys(demo: Server, new_page: NewPage) -> None:
    page = new_page(demo.link())
    started(page)
    field = page.get_by_label("Message the agent")
    expect(field).to_be_focused()
    expect(page.get_by_role("status").filter(has_text="Session demo.")).to_have_count(1)
    turn(page, "say hello")
    page.get_by_role("log").focus()
    page.keyboard.press("n")
    page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("What should the agent do?")).to_be_visible()
    expect(field).to_be_focused()


def test_an_earlier_message_is_edited_where_the_focus_is(demo: Server, new_page: NewPage) -> None:
    page = new_page(demo.link())
    started(page)
    turn(page, "list the files")
    page.get_by_role("button", name="Edit this message").press("Enter")
    field = page.get_by_label("Message the agent")
    expect(field).to_have_value("list the files")
    expect(field).to_be_focused()
    page.locator(".transcript").get_by_text("What should the agent do?").wait_for()
    expect(field).to_be_focused()


def test_a_first_turn_has_no_notice_about_tools_of_the_page(
    demo: Server, new_page: NewPage
) -> None:
    page = new_page(demo.link())
    started(page)
    turn(page, "list the files")
    turn(page, "list the files")
    assert page.locator(".notes").filter(has_text="page_info").count() == 0
    assert page.get_by_text("page_info").count() == 0


def test_stop_leaves_the_focus_in_the_message_field(page: Page) -> None:
    ask(page, "tool sleep 60")
    phase(page, "Working")
    page.locator(".composer button.stop").press("Enter")
    phase(page, "Idle")
    expect(page.get_by_label("Message the agent")).to_be_focused()


def test_a_question_is_announced_to_a_user_who_writes(page: Page) -> None:
    ask(page, "wait 1\nask echo hello")
    phase(page, "Working")
    field = page.locator("#prompt")
    field.fill("half a sentence")
    page.get_by_role("alertdialog").wait_for()
    expect(field).to_be_focused()
    spoken = page.locator("[aria-live=polite]").filter(has_text="Needs your answer: echo hello")
    expect(spoken).to_have_count(1)
    allow = page.get_by_role("alertdialog").get_by_role("button", name="Allow", exact=True)
    expect(allow).to_have_attribute("aria-keyshortcuts", "1")
    answer(page, "Reject")
    phase(page, "Idle")


def test_the_folder_s_button_says_its_effect(page: Page) -> None:
    phase(page, "Idle")
    expect(page.get_by_role("button", name="Files of work")).to_be_visible()


def test_a_phone_shows_what_a_question_and_its_call_are(server: Server, new_page: NewPage) -> None:
    page = new_page(server.link(), **PHONE)
    phase(page, "Idle")
    ask(page, "ask echo hello world")
    page.get_by_role("alertdialog").wait_for()
    words = page.locator("header.bar .phase > span", has_text="Needs your answer").bounding_box()
    title = page.locator("details.tool .title").bounding_box()
    assert words is not None
    assert words["width"] > 90
    assert title is not None
    assert title["width"] > 90


def test_the_changes_take_the_focus_and_give_it_back(demo: Server, new_page: NewPage) -> None:
    page = new_page(demo.link())
    started(page)
    turn(page, "list the files")
    page.get_by_role("log").focus()
    page.keyboard.press("Control+k")
    page.keyboard.type("changes")
    page.keyboard.press("Enter")
    changes = page.get_by_role("region", name="Changes")
    expect(changes).to_be_focused()
    changes.get_by_role("button", name="Close").press("Enter")
    expect(changes).to_have_count(0)
    expect(page.get_by_role("log")).to_be_focused()


UNDO = "Restore the files from before this turn"
UNDO_THE_UNDO = "Undo the restore: bring back the files from before it"


def edited(server: Server, page: Page) -> Path:
    """The file after a turn that has changed it."""
    phase(page, "Idle")
    ask(page, "edit notes.txt replace first by last")
    answer(page, "Allow")
    page.get_by_role("button", name=UNDO).wait_for()
    phase(page, "Idle")
    file = server.folder / "notes.txt"
    assert file.read_text().startswith("last line")
    return file


def test_a_turn_s_files_are_restored_and_brought_back_by_one_button(
    saving: Server, new_page: NewPage
) -> None:
    page = new_page(saving.link())
    file = edited(saving, page)
    page.get_by_role("button", name=UNDO).focus()
    page.keyboard.press("Enter")
    back = page.get_by_role("button", name=UNDO_THE_UNDO)
    expect(back).to_be_focused()
    assert file.read_text().startswith("first line")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name=UNDO)).to_be_focused()
    assert file.read_text().startswith("last line")


def test_a_turn_s_files_are_restored_from_the_command_list(
    saving: Server, new_page: NewPage
) -> None:
    page = new_page(saving.link())
    file = edited(saving, page)
    for words in ("first line", "last line"):
        page.get_by_role("log").focus()
        page.keyboard.press("Control+k")
        page.keyboard.type("undo")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
        until(lambda words=words: file.read_text().startswith(words), words)
        expect(page.get_by_role("button", name=UNDO)).to_have_count(int(words == "last line"))
    assert page.get_by_role("alert").count() == 0


def test_a_turn_can_be_undone_on_a_phone_and_after_a_reload(
    saving: Server, new_page: NewPage
) -> None:
    page = new_page(saving.link(), **PHONE)
    file = edited(saving, page)
    page.reload()
    phase(page, "Idle")
    undo = page.get_by_role("button", name=UNDO)
    undo.wait_for()
    size = undo.bounding_box()
    assert size is not None
    assert min(size["width"], size["height"]) >= 44
    undo.tap()
    page.get_by_role("button", name=UNDO_THE_UNDO).wait_for()
    assert file.read_text().startswith("first line")


def test_a_button_that_takes_itself_away_leaves_the_keys_to_the_message_field(page: Page) -> None:
    ask(page, "tool sleep 60")
    phase(page, "Working")
    for words in ("say one", "say two"):
        ask(page, words)
    queue = page.get_by_role("region", name="Queued prompts")
    expect(queue.get_by_role("listitem")).to_have_count(2)
    field = page.get_by_label("Message the agent")
    queue.get_by_role("button", name="Remove").first.press("Enter")
    expect(queue.get_by_role("listitem")).to_have_count(1)
    expect(field).to_be_focused()
    queue.get_by_role("button", name="Remove").press("Enter")
    expect(queue).to_have_count(0)
    expect(field).to_be_focused()


def test_a_session_that_was_renamed_has_the_focus(page: Page) -> None:
    phase(page, "Idle")
    sidebar = page.get_by_role("navigation", name="sessions")
    for name, key in (("renamed", "Enter"), ("again", "Escape")):
        sidebar.get_by_role("button", name=re.compile("^Rename")).press("Enter")
        field = page.get_by_label("New name")
        expect(field).to_be_focused()
        field.fill(name)
        field.press(key)
        expect(field).to_have_count(0)
        expect(sidebar.locator(".entry")).to_be_focused()
        expect(page.locator("header h1")).to_have_text("renamed")
