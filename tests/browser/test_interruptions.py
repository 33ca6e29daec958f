"""What comes between: another window, a reload, a server that dies, a network that goes, sleep."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from browser.kit import (
    Server,
    answer,
    ask,
    card,
    free_port,
    phase,
    scripted,
    serving,
    try_now,
    until,
)
from browser.pages import NewPage, Page, Shoot, WebSocketRoute, expect
from browser.proxy import Network

TOKEN = "a-token-for-the-tests-of-the-page-0123456789"


def test_two_windows_show_the_same(server: Server, page: Page, new_page: NewPage) -> None:
    other = new_page(server.link())
    phase(other, "Idle")
    ask(page, "ask echo hello")
    for each in (page, other):
        phase(each, "Needs your answer")
        expect(each.get_by_role("alertdialog")).to_contain_text("echo hello")
    answer(other, "Allow")
    for each in (page, other):
        expect(each.locator(".transcript")).to_contain_text("You chose yes.")
        expect(each.get_by_role("alertdialog")).to_have_count(0)
        phase(each, "Idle")
    expect(page.locator(".elsewhere")).to_contain_text("Answered by")
    expect(other.locator(".elsewhere")).to_have_count(0)


def test_stop_in_one_window_is_seen_in_the_other(
    server: Server, page: Page, new_page: NewPage
) -> None:
    other = new_page(server.link())
    ask(page, "tool sleep 60")
    expect(card(other, "sleep 60").locator(".status")).to_have_text("running")
    other.get_by_role("button", name="Stop", exact=True).click()
    for each in (page, other):
        phase(each, "Idle")
        expect(card(each, "sleep 60").locator(".status")).to_have_text("stopped")


def test_a_reload_in_the_middle_of_a_turn_loses_nothing(page: Page) -> None:
    ask(page, "say before\ntrickle 1000")
    expect(page.locator(".transcript")).to_contain_text("tick5 ")
    page.reload()
    transcript = page.locator(".transcript")
    expect(transcript).to_contain_text(re.compile("before.*tick0 .*tick5 ", re.DOTALL))
    phase(page, "Working")
    page.get_by_role("button", name="Stop", exact=True).click()
    phase(page, "Idle")
    told = re.findall(r"tick(\d+)", transcript.text_content() or "")
    assert list(map(int, told)) == list(range(len(told)))


def test_a_question_survives_a_reload(page: Page) -> None:
    ask(page, "ask echo hello")
    phase(page, "Needs your answer")
    page.reload()
    answer(page, "Allow")
    expect(page.locator(".transcript")).to_contain_text("You chose yes.")


def test_a_server_that_was_killed_and_started_again_goes_on_with_its_conversations(
    tmp_path: Path, new_page: NewPage, shoot: Shoot
) -> None:
    port = free_port()
    with serving(tmp_path, *scripted(), "--port", str(port), "--token", TOKEN) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        ask(page, "say the green door")
        transcript = page.locator(".transcript")
        expect(transcript.locator("p", has_text="the green door").last).to_be_visible()
        phase(page, "Idle")
        ask(page, "say and then\ntool sleep 60")
        expect(card(page, "sleep 60").locator(".status")).to_have_text("running")
        server.end(signal.SIGKILL)
        expect(page.locator(".banner")).to_contain_text("Reconnecting")
        shoot(page, "reconnecting")
        server.start()
        server.link()
        expect(page.locator(".banner")).to_contain_text("The agent is not running")
        shoot(page, "restarted")
        expect(card(page, "sleep 60").locator(".status")).not_to_have_text("running")
        for words in ("the green door", "and then"):  # once as a prompt, and once as an answer
            assert (transcript.text_content() or "").count(words) == 2
        ask(page, "say and again")
        expect(transcript.locator("p", has_text="and again").last).to_be_visible()
        phase(page, "Idle")


@pytest.mark.door("page", "resume")
def test_a_conversation_of_an_earlier_server_is_found_by_a_word_and_gone_on_with(
    tmp_path: Path, new_page: NewPage, shoot: Shoot
) -> None:
    with serving(tmp_path, *scripted()) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        ask(page, "say the green door")
        expect(page.locator(".transcript p", has_text="the green door").last).to_be_visible()
        phase(page, "Idle")
        page.get_by_role("button", name="New session").click()
        page.goto("about:blank")
    with serving(tmp_path, *scripted()) as server:
        page = new_page(server.link())
        phase(page, "Idle")  # the session with which the server has started
        sidebar = page.locator(".sidebar")
        expect(sidebar.get_by_role("heading", name="Today")).to_be_visible()
        search = page.get_by_label("Search the conversations")
        search.fill("nowhere")
        expect(sidebar).to_contain_text("No results")
        search.fill("green")
        expect(sidebar.locator(".entry")).to_contain_text("the green door")
        shoot(page, "searched")
        sidebar.locator(".entry").click()
        expect(page.locator(".transcript")).to_contain_text("the green door")
        search.fill("")
        ask(page, "say and again")
        expect(page.locator(".transcript p", has_text="and again").last).to_be_visible()
        phase(page, "Idle")
        expect(sidebar.get_by_role("heading", name="Today")).to_have_count(0)


def test_a_network_that_goes_and_comes_back_loses_nothing(
    tmp_path: Path, new_page: NewPage
) -> None:
    port, target = free_port(), free_port()
    arguments = ("--port", str(target), "--allow-host", f"127.0.0.1:{port}")
    with serving(tmp_path, *scripted(), *arguments) as server:
        link = server.link().replace(str(target), str(port))
        network = Network(port, target)
        try:
            page = new_page(link)
            phase(page, "Idle")
            ask(page, "trickle 1000")
            transcript = page.locator(".transcript")
            expect(transcript).to_contain_text("tick3 ")
            network.cut()
            expect(page.locator(".banner")).to_contain_text("Reconnecting")
            expect(transcript).to_have_class(re.compile("stale"))
            expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
            network.mend()
            try_now(page)
            expect(page.locator(".banner")).to_have_count(0)
            page.get_by_role("button", name="Stop", exact=True).click()
            phase(page, "Idle")
            told = re.findall(r"tick(\d+)", transcript.text_content() or "")
            assert list(map(int, told)) == list(range(len(told)))
            assert len(told) > 4
        finally:
            network.close()


def test_what_was_written_while_the_network_was_gone_is_kept(
    tmp_path: Path, new_page: NewPage
) -> None:
    port, target = free_port(), free_port()
    arguments = ("--port", str(target), "--allow-host", f"127.0.0.1:{port}")
    with serving(tmp_path, *scripted(), *arguments) as server:
        link = server.link().replace(str(target), str(port))
        network = Network(port, target)
        try:
            page = new_page(link)
            phase(page, "Idle")
            network.cut()
            expect(page.locator(".banner")).to_contain_text("Reconnecting")
            ask(page, "say kept")
            box = page.get_by_label("Message the agent")
            expect(box).to_have_value("say kept")
            network.mend()
            try_now(page)
            expect(page.locator(".banner")).to_have_count(0)
            box.press("Enter")
            expect(page.locator(".transcript p", has_text="kept").last).to_be_visible()
        finally:
            network.close()


def test_a_state_is_shown_once_its_session_is(page: Page) -> None:
    phase(page, "Idle")
    tab = page.context.new_page()
    held: list[Callable[[], None]] = []

    def pause_attach(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def forward(message: str | bytes) -> None:
            if json.loads(message)["type"] == "attach":
                held.append(lambda: server.send(message))
            else:
                server.send(message)

        socket.on_message(forward)

    tab.route_web_socket(re.compile("/ws"), pause_attach)
    tab.goto(page.url.partition("#")[0])
    expect(tab.get_by_text("Opening…")).to_be_visible()
    until(lambda: tab.title() and held, "an attach")  # the title: it takes the browser's messages
    expect(tab.locator(".sidebar .entry small")).to_contain_text("Idle")  # the list is here
    expect(tab.locator("header .phase")).to_have_count(0)
    held.pop()()
    phase(tab, "Idle")
    assert tab.get_by_label("Message the agent").is_visible()


def test_a_tab_that_slept_shows_how_it_is_now(
    server: Server, page: Page, new_page: NewPage
) -> None:
    phase(page, "Idle")
    browser = page.context.new_cdp_session(page)
    browser.send("Page.setWebLifecycleState", {"state": "frozen"})
    other = new_page(server.link())
    ask(other, "say while it slept\ntool sleep 60")
    expect(card(other, "sleep 60").locator(".status")).to_have_text("running")
    other.get_by_role("button", name="Stop", exact=True).click()
    phase(other, "Idle")
    browser.send("Page.setWebLifecycleState", {"state": "active"})
    expect(page.locator(".transcript")).to_contain_text("while it slept")
    expect(card(page, "sleep 60").locator(".status")).to_have_text("stopped")
    phase(page, "Idle")


def test_an_agent_that_dies_is_reported_and_the_next_prompt_works(page: Page) -> None:
    ask(page, "say last words\ncrash")
    expect(page.locator(".banner")).to_contain_text("The agent stopped")
    expect(page.locator(".transcript")).to_contain_text("The agent crashed")
    ask(page, "say back")
    expect(page.locator(".transcript")).to_contain_text("back")
    expect(page.locator(".banner")).to_have_count(0)
    phase(page, "Idle")
