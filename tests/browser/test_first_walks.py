"""Stumbles of a first hour: at a desk, on a phone, with a keyboard and a screen reader only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.kit import Server, answer, ask, phase, serving, turn
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
