"""What a new user does: come in, ask, answer a question, stop, queue, come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from browser.kit import Server, answer, ask, card, phase, scripted, serving
from browser.pages import NewPage, Page, Shoot, expect


def test_a_link_lets_one_browser_in_and_leaves_the_address_bar(
    server: Server, new_page: NewPage
) -> None:
    link = server.link()
    page = new_page(link)
    phase(page, "Idle")
    assert "?" not in page.url
    another = new_page(link)
    expect(another.locator("body")).to_contain_text(re.compile("link", re.IGNORECASE))
    assert another.get_by_label("Message the agent").count() == 0
    third = new_page(server.link())
    phase(third, "Idle")


@pytest.mark.door("page", "prompt", "stream")
def test_a_turn_is_shown_as_it_goes(page: Page, shoot: Shoot) -> None:
    ask(page, "bits Some **bold** words and `code`.\nwait 0.1\nsay \n\n# A title")
    expect(page.locator(".transcript strong", has_text="bold")).to_be_visible()
    expect(page.locator(".transcript code", has_text="code")).to_be_visible()
    phase(page, "Idle")
    shoot(page, "turn")


@pytest.mark.door("page", "permission")
def test_a_permission_is_asked_for_and_given(page: Page, shoot: Shoot) -> None:
    ask(page, "ask echo hello")
    sheet = page.get_by_role("alertdialog")
    expect(sheet).to_contain_text("echo hello")
    phase(page, "Needs your answer")
    shoot(page, "permission")
    answer(page, "Allow")
    expect(page.locator(".transcript")).to_contain_text("You chose yes.")
    expect(card(page, "echo hello").locator(".status")).to_have_text("done")
    phase(page, "Idle")
    expect(sheet).to_have_count(0)


def test_a_permission_is_denied(page: Page) -> None:
    ask(page, "ask rm -rf /")
    answer(page, "Reject")
    expect(page.locator(".transcript")).to_contain_text("You chose no.")
    expect(card(page, "rm -rf /").locator(".status")).to_have_text(re.compile("denied|failed"))


def test_a_question_that_has_just_come_up_takes_no_answer(page: Page) -> None:
    """Whoever types on in that moment, or clicks where a button has just come up."""
    phase(page, "Idle")
    page.evaluate(
        """() => {
            // At the very moment at which it is there: all keys and all buttons.
            new MutationObserver((_, observer) => {
                const sheet = document.querySelector("[role=alertdialog]");
                if (!sheet) return;
                observer.disconnect();
                for (const key of ["1", "2", "Enter", " "])
                    sheet.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                for (const button of sheet.querySelectorAll("button")) button.click();
                document.body.dataset.tried = sheet.querySelectorAll("button").length;
            }).observe(document.body, { subtree: true, childList: true });
        }"""
    )
    ask(page, "ask something")
    expect(page.locator("body")).to_have_attribute("data-tried", "3")
    answer(page, "Allow")
    expect(page.locator(".transcript")).to_contain_text("You chose yes.")


@pytest.mark.door("page", "cancel")
def test_stop_in_the_middle_of_a_tool_ends_it_and_the_next_prompt_works(
    page: Page, shoot: Shoot
) -> None:
    ask(page, "tool sleep 60")
    expect(card(page, "sleep 60").locator(".status")).to_have_text("running")
    shoot(page, "Working")
    page.get_by_role("button", name="Stop", exact=True).click()
    phase(page, "Idle")
    expect(card(page, "sleep 60").locator(".status")).to_have_text("stopped")
    expect(page.locator(".transcript")).to_contain_text("You stopped this")
    ask(page, "say again")
    expect(page.locator(".transcript")).to_contain_text("again")
    phase(page, "Idle")


def test_what_is_asked_meanwhile_waits_and_can_be_changed(page: Page, shoot: Shoot) -> None:
    ask(page, "tool sleep 60")
    phase(page, "Working")
    for text in ("say first", "say second", "say third"):
        ask(page, text)
    waiting = page.get_by_role("region", name="Queued prompts")
    expect(waiting.locator("li")).to_have_count(3)
    shoot(page, "queue")
    waiting.locator("li", has_text="second").get_by_role("button", name="Remove").click()
    expect(waiting.locator("li")).to_have_count(2)
    waiting.locator("li", has_text="third").get_by_role("button", name="Edit").click()
    box = page.get_by_label("Edit the queued prompt")
    box.fill("say the third one")
    box.press("Enter")
    expect(waiting.locator("li").last).to_contain_text("the third one")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(waiting).to_contain_text("paused")
    waiting.get_by_role("button", name="Resume").click()
    transcript = page.locator(".transcript")
    expect(transcript).to_contain_text("the third one")
    expect(waiting).to_have_count(0)
    assert "second" not in transcript.inner_text()


def test_the_first_thing_to_see_without_a_session_is_how_to_start_one(
    tmp_path: Path, new_page: NewPage, shoot: Shoot
) -> None:
    (tmp_path / ".config" / "agentrt").mkdir(parents=True)
    command = scripted()[1]
    (tmp_path / ".config" / "agentrt" / "config.toml").write_text(
        f"[agents.scripted]\ncommand = '''{command}'''\ntitle = 'Scripted'\n"
    )
    with serving(tmp_path) as server:
        page = new_page(server.link())
        expect(page.get_by_role("heading", name="New session")).to_be_visible()
        shoot(page, "start")
        page.get_by_role("radio", name="Scripted").check()
        page.get_by_label("Name").fill("My first")
        page.get_by_role("button", name="Start").click()
        phase(page, "Idle")
        expect(page.get_by_role("heading", name="My first")).to_be_visible()


def test_sessions_are_renamed_and_closed(page: Page) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    sessions = page.get_by_role("navigation", name="sessions")
    phase(page, "Idle")
    sessions.get_by_role("button", name=re.compile("^Rename")).click()
    name = sessions.get_by_label("New name")
    name.fill("The door")
    name.press("Enter")
    expect(page.get_by_role("heading", name="The door")).to_be_visible()
    sessions.get_by_role("button", name="Close The door").click()
    expect(page.get_by_role("heading", name="New session")).to_be_visible()
