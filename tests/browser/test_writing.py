"""What one writes: with an input method, on a phone, and before the server has heard of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.kit import Server, ask, card, free_port, phase, scripted, serving, try_now
from browser.pages import NewPage, Page, expect
from browser.proxy import Network

KEY = """(area, [key, composing]) => area.dispatchEvent(new KeyboardEvent("keydown",
    { key, keyCode: 229, isComposing: composing, bubbles: true, cancelable: true }))"""


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(free_port(), free_port())
    yield network
    network.close()


@pytest.fixture
def slow(tmp_path: Path, network: Network) -> Iterator[Server]:
    """Reached by way of the network; it takes one waiting prompt."""
    settings = tmp_path / ".config" / "agentrt"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text("[limits]\nqueued_prompts = 1\n")
    hosts = ("--port", str(network.target), "--allow-host", f"127.0.0.1:{network.port}")
    with serving(tmp_path, *scripted(), *hosts) as server:
        yield server


def opened(new_page: NewPage, link: str) -> Page:
    page = new_page(link)
    phase(page, "Idle")
    return page


# --- input methods


@pytest.mark.parametrize("composing", [True, False], ids=["others", "Safari"])
def test_the_enter_that_commits_a_composition_sends_nothing(page: Page, composing: bool) -> None:
    """Safari reports it behind the composition's end, and says so by its number only."""
    phase(page, "Idle")
    box = page.get_by_label("Message the agent")
    box.fill("say にほんご")
    box.evaluate(KEY, ["Enter", composing])
    expect(box).to_have_value("say にほんご")
    assert page.locator(".user").count() == 0
    box.press("Enter")
    expect(page.locator(".transcript")).to_contain_text("にほんご")


@pytest.mark.parametrize("composing", [True, False], ids=["others", "Safari"])
def test_the_escape_that_ends_a_composition_stops_nothing(page: Page, composing: bool) -> None:
    ask(page, "tool sleep 60")
    phase(page, "Working")
    page.get_by_label("Message the agent").evaluate(KEY, ["Escape", composing])
    ask(page, "say later")
    expect(page.get_by_role("region", name="Queued prompts")).to_contain_text("later")
    expect(card(page, "sleep 60").locator(".status")).to_have_text("running")


def test_a_real_composition_is_written_and_sent(page: Page) -> None:
    phase(page, "Idle")
    box = page.get_by_label("Message the agent")
    box.focus()
    page.keyboard.type("say ")
    browser = page.context.new_cdp_session(page)
    browser.send("Input.imeSetComposition", {"text": "に", "selectionStart": 1, "selectionEnd": 1})
    enter = {"key": "Process", "code": "Enter", "windowsVirtualKeyCode": 229}
    browser.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **enter})
    browser.send("Input.insertText", {"text": "日本"})
    browser.send("Input.dispatchKeyEvent", {"type": "keyUp", **enter})
    expect(box).to_have_value("say 日本")
    page.keyboard.press("Enter")
    expect(page.locator(".transcript .text")).to_contain_text("日本")


def test_a_phone_s_enter_begins_a_second_line(server: Server, new_page: NewPage) -> None:
    phone = {"viewport": {"width": 375, "height": 700}, "has_touch": True, "is_mobile": True}
    page = new_page(server.link(), **phone)
    phase(page, "Idle")
    box = page.get_by_label("Message the agent")
    expect(box).to_have_attribute("enterkeyhint", "enter")
    box.press_sequentially("say one")
    box.press("Enter")
    box.press_sequentially("say two")
    expect(box).to_have_value("say one\nsay two")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".transcript")).to_contain_text("onetwo")


# --- before the server has answered


def test_a_prompt_stands_there_at_once_and_once(
    slow: Server, network: Network, new_page: NewPage
) -> None:
    page = opened(new_page, network.through(slow.link()))
    page.evaluate(
        """() => {
            window.most = 0;
            new MutationObserver(() => {
                const bubbles = document.querySelectorAll(".bubble").length;
                window.most = Math.max(window.most, bubbles);
                if (window.most && !bubbles) window.most = 100; // it was gone meanwhile
            }).observe(document.body, { subtree: true, childList: true });
        }"""
    )
    network.stall()
    ask(page, "say hello\ntool sleep 60")
    expect(page.locator(".sent .bubble")).to_contain_text("say hello")
    expect(page.locator(".sent")).to_contain_text("Sending…")
    phase(page, "Sending…")
    network.mend()
    phase(page, "Working")
    expect(page.locator(".sent")).to_have_count(0)
    assert page.evaluate("window.most") == 1


def test_a_stop_is_taken_at_once_also_behind_a_prompt_that_nobody_has_heard(
    slow: Server, network: Network, new_page: NewPage
) -> None:
    page = opened(new_page, network.through(slow.link()))
    network.stall()
    ask(page, "tool sleep 60")
    page.keyboard.press("Escape")
    phase(page, "Stopping…")
    expect(page.get_by_role("button", name="Stopping…")).to_be_disabled()
    network.mend()
    phase(page, "Idle")
    expect(page.locator(".transcript")).to_contain_text("You stopped this")
    ask(page, "tool sleep 61")
    phase(page, "Working")
    network.stall()
    page.get_by_role("button", name="Stop", exact=True).click()
    phase(page, "Stopping…")
    network.mend()
    phase(page, "Idle")


def test_a_prompt_that_is_refused_is_in_the_field_again(
    slow: Server, network: Network, new_page: NewPage
) -> None:
    page = new_page(network.through(slow.link()))
    ask(page, "tool sleep 60")
    phase(page, "Working")
    ask(page, "say first")
    waiting = page.get_by_role("region", name="Queued prompts")
    expect(waiting.locator("li")).to_have_count(1)
    expect(waiting.locator(".sent")).to_have_count(0)
    network.stall()
    ask(page, "say one too many")
    expect(waiting.locator(".sent")).to_contain_text("one too many")
    box = page.get_by_label("Message the agent")
    box.press_sequentially("meanwhile")
    network.mend()
    expect(box).to_have_value("say one too many\n\nmeanwhile")
    expect(waiting.locator("li")).to_have_count(1)
    expect(page.get_by_role("alert")).to_be_visible()


def test_a_prompt_that_was_sent_as_the_network_went_is_there_once_when_it_is_back(
    slow: Server, network: Network, new_page: NewPage
) -> None:
    page = opened(new_page, network.through(slow.link()))
    network.stall()
    ask(page, "say hello")
    expect(page.locator(".sent")).to_contain_text("Sending…")
    network.cut()
    expect(page.locator(".sent")).to_contain_text("Not sent yet")
    network.mend()
    try_now(page)
    expect(page.locator(".transcript .text")).to_contain_text("hello")
    expect(page.locator(".bubble")).to_have_count(1)
    expect(page.locator(".sent")).to_have_count(0)


def test_a_prompt_that_never_went_is_in_the_field_after_a_reload(
    slow: Server, network: Network, new_page: NewPage
) -> None:
    page = opened(new_page, network.through(slow.link()))
    network.stall()
    ask(page, "say hello")
    network.cut()
    expect(page.locator(".sent")).to_contain_text("Not sent yet")
    network.mend()
    page.reload()
    expect(page.get_by_label("Message the agent")).to_have_value("say hello")


# --- into the running turn


def test_words_are_said_into_the_running_turn_where_the_agent_takes_them(
    tmp_path: Path, new_page: NewPage
) -> None:
    texts = tmp_path / "texts.json"
    texts.write_text('{"steers": true}')
    with serving(tmp_path, *scripted(str(texts))) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        steer = page.get_by_role("button", name="Steer", exact=True)
        field = page.get_by_label("Message the agent")
        field.fill("trickle 2000")
        expect(steer).to_have_count(0)
        ask(page, "trickle 2000")
        expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
        expect(steer).to_have_count(0)
        field.fill("and shorter")
        steer.click()
        expect(page.locator(".transcript")).to_contain_text("Heard: and shorter")
        expect(page.get_by_label("you", exact=True)).to_have_text(["trickle 2000", "and shorter"])
        expect(field).to_have_value("")
        expect(page.get_by_label("Queued prompts")).to_have_count(0)
        page.get_by_role("button", name="Stop", exact=True).click()
        phase(page, "Idle")


def test_an_agent_that_takes_none_is_not_steered(page: Page) -> None:
    ask(page, "trickle 2000")
    page.get_by_label("Message the agent").fill("and shorter")
    expect(page.get_by_role("button", name="Interrupt")).to_be_visible()
    expect(page.get_by_role("button", name="Steer", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Stop", exact=True).click()
    phase(page, "Idle")


def test_what_is_typed_before_the_next_frame_stands_in_an_empty_field(page: Page) -> None:
    phase(page, "Idle")
    box = page.get_by_label("Message the agent")
    box.fill("say one")
    sent = "area => (area.form.querySelector('button.send').click(), area.value)"
    assert box.evaluate(sent) == ""
