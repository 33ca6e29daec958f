"""Copies of a conversation, made in the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser.kit import ask, phase, scripted, serving
from browser.pages import NewPage, Page, Shoot, expect

DEMO = ("--agent", "demo")


def talk(page: Page, *texts: str) -> None:
    turns = page.get_by_role("button", name="Fork from here")
    for text in texts:
        before = turns.count()
        ask(page, text)
        expect(turns).to_have_count(before + 1)


def prompts(page: Page, *texts: str) -> None:
    """What was asked in the conversation that is shown, which may be another one only by and by."""
    expect(page.get_by_label("you", exact=True)).to_have_text(texts)


@pytest.mark.door("page", "fork")
def test_a_button_behind_a_turn_goes_on_from_there(
    tmp_path: Path, new_page: NewPage, shoot: Shoot
) -> None:
    with serving(tmp_path, *DEMO) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        expect(page.get_by_role("button", name="Fork from here")).to_have_count(0)
        talk(page, "hello", "list the files", "hello again")
        first = page.url
        buttons = page.get_by_role("button", name="Fork from here")
        expect(buttons).to_have_count(3)
        shoot(page, "forks")
        buttons.nth(1).click()
        page.wait_for_url(lambda url: url != first)
        prompts(page, "hello", "list the files")
        expect(buttons).to_have_count(2)
        phase(page, "Idle")
        talk(page, "something else")
        prompts(page, "hello", "list the files", "something else")
        page.go_back()
        prompts(page, "hello", "list the files", "hello again")


def test_the_list_of_sessions_forks_one_at_its_end(tmp_path: Path, new_page: NewPage) -> None:
    with serving(tmp_path, *DEMO) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        talk(page, "hello")
        page.get_by_label("sessions", exact=True).get_by_role("listitem").first.hover()
        page.get_by_role("button", name="Fork hello").click()
        expect(page.get_by_label("sessions", exact=True).get_by_role("listitem")).to_have_count(2)
        talk(page, "and more")
        prompts(page, "hello", "and more")


def test_nothing_is_offered_that_the_agent_cannot(tmp_path: Path, new_page: NewPage) -> None:
    with serving(tmp_path, *scripted()) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        ask(page, "say hello")
        expect(page.get_by_label("answer")).to_have_count(1)
        phase(page, "Idle")
        expect(page.get_by_role("button", name="Fork", exact=False)).to_have_count(0)
