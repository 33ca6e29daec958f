"""The user may see older messages than the page has: a key or a click is for what is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.kit import Server, ask, free_port, phase, scripted, serving, turn, until
from browser.pages import NewPage, Page, expect
from browser.proxy import Network

STOP = """() => {
  // A page that is busy for long draws messages of the server up to a second later: here, never.
  const later = window.setTimeout;
  window.setTimeout = (act, ms, ...given) =>
    given.length === 2 && given[0] === false && given[1] === true ? 1 : later(act, ms, ...given);
}"""
NEWEST = "async () => { const { seat } = await import('/page/app.js'); return %s; }"
SWITCH = """async () => {
  const { ui, model } = await import('/page/app.js');
  const other = model().sessions.find((each) => each.session !== ui().session);
  location.hash = `#/s/${other.session}`;
}"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    file = tmp_path / "texts.json"
    harmless = {"command": "ls"}
    told = {
        "change": {"kind": "execute", "rawInput": harmless, "later": {"command": "rm -rf work"}},
        "long": "word " * 100_000,
    }
    file.write_text(json.dumps(told))
    with serving(tmp_path, *scripted(str(file))) as server:
        yield server


@pytest.fixture
def page(server: Server, new_page: NewPage) -> Page:
    page = new_page(server.link())
    phase(page, "Idle")
    return page


def new_session(page: Page, name: str) -> None:
    page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("header h1")).to_contain_text(name)
    phase(page, "Idle")


def test_a_question_whose_subject_has_changed_unseen_is_not_allowed(page: Page) -> None:
    ask(page, "ask change")
    sheet = page.get_by_role("alertdialog")
    expect(sheet).to_contain_text("ls")
    page.evaluate(STOP)
    changed = (
        NEWEST % "[...seat().view.items.values()].some((i) => JSON.stringify(i).includes('rm -rf'))"
    )
    until(lambda: page.evaluate(changed))
    expect(sheet).not_to_contain_text("rm -rf")
    sheet.get_by_role("button", name="Allow").click()
    sheet.press("1")
    page.wait_for_timeout(300)
    assert page.evaluate(NEWEST % "seat().view.permissions.size") == 1
    sheet.get_by_role("button", name="Reject").click()  # what is declined needs no reading
    until(lambda: page.evaluate(NEWEST % "seat().view.permissions.size") == 0)


def test_the_palette_runs_the_entry_that_is_marked(
    page: Page, server: Server, new_page: NewPage
) -> None:
    new_session(page, "target one")
    new_session(page, "another")
    other = new_page(server.link())
    phase(other, "Idle")
    page.keyboard.press("Control+k")
    page.keyboard.type("target")
    page.evaluate(STOP)
    marked = page.get_by_role("dialog").get_by_role("option", selected=True)
    expect(marked).to_contain_text("target one")
    new_session(other, "target two")
    count = "async () => (await import('/page/app.js')).model().sessions.length"
    until(lambda: page.evaluate(count) == 4)
    expect(marked).to_contain_text("target one")
    page.keyboard.press("Enter")
    expect(page.locator("header h1")).to_contain_text("target one")


def test_the_first_key_after_a_change_of_session_is_for_the_new_one(page: Page) -> None:
    new_session(page, "first")
    new_session(page, "second")
    box = page.get_by_label("Message the agent")
    box.fill("only for the second")
    page.evaluate("() => { window.requestAnimationFrame = () => 0; }")
    page.keyboard.press("Control+k")
    page.keyboard.type("first")
    typed = """() => {
        const options = { key: "Enter", bubbles: true, cancelable: true };
        const enter = new KeyboardEvent("keydown", options);
        document.activeElement.dispatchEvent(enter);
        queueMicrotask(() => queueMicrotask(() => {
          const field = document.getElementById("prompt");
          field.value += "!";
          field.dispatchEvent(new Event("input", { bubbles: true }));
        }));
    }"""
    page.evaluate(typed)
    expect(page.locator("header h1")).to_contain_text("first")
    expect(box).to_have_value("!")


def test_an_edit_of_a_queued_prompt_belongs_to_its_session(page: Page) -> None:
    new_session(page, "first")
    ask(page, "tool sleep 60")
    phase(page, "Working")
    ask(page, "say later")
    queue = page.get_by_role("region", name="Queued prompts")
    queue.get_by_role("button", name="Edit").click()
    box = page.locator("#prompt")
    expect(box).to_have_value("say later")
    box.press("End")
    page.keyboard.type(" edited")
    page.evaluate(SWITCH)
    expect(page.locator("header h1")).not_to_contain_text("first")
    expect(box).to_have_value("")
    ask(page, "say elsewhere")
    phase(page, "Idle")
    page.go_back()
    expect(page.locator("header h1")).to_contain_text("first")
    expect(box).to_have_value("say later edited")
    page.get_by_role("button", name="Save").click()
    expect(queue).to_contain_text("say later edited")
    expect(queue.get_by_role("listitem")).to_have_count(1)


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(free_port(), free_port())
    yield network
    network.close()


def test_what_is_loaded_for_one_session_changes_no_other(
    tmp_path: Path, network: Network, new_page: NewPage
) -> None:
    hosts = ("--port", str(network.target), "--allow-host", f"127.0.0.1:{network.port}")
    with serving(tmp_path, *scripted(), *hosts) as server:
        page = new_page(network.through(server.link()))
        phase(page, "Idle")
        new_session(page, "first")
        new_session(page, "second")
        turn(page, "say " + "word " * 60_000)
        expect(page.locator(".transcript")).to_contain_text("word word")
        again = page.get_by_role("button", name="Send this message again")
        expect(again).to_have_count(1)
        cut = NEWEST % "JSON.stringify([...seat().view.items.values()][0]).includes('_cut')"
        assert page.evaluate(cut)
        network.stall()
        again.evaluate("button => button.click()")
        page.evaluate(SWITCH)
        expect(page.locator("header h1")).not_to_contain_text("second")
        network.mend()
        # This agent can't fork, so the message goes to the end of the conversation it is in.
        size = NEWEST.replace("seat", "model") % "model().sessions.map(({ session }) => %s)"
        users = "[...model().attached.get(session)?.view.items.values() ?? []].filter(%s).length"
        counts = size % users % '({ type }) => type === "user"'
        until(lambda: sum(page.evaluate(counts)) == 2, lambda: page.evaluate(counts))
        assert sorted(page.evaluate(counts)) == [0, 0, 2]


def test_the_first_session_is_read_before_it_is_drawn(page: Page) -> None:
    other = page.context.new_page()
    troubles: list[str] = []
    other.on("pageerror", lambda error: troubles.append(str(error)))
    other.add_init_script(f"({STOP})()")
    other.goto(page.url.partition("#")[0])
    until(lambda: other.evaluate(NEWEST % "seat() !== undefined"))
    # A frame of something else: what follows the session reads it.
    drawn = """async () => {
        const { setUi } = await import("/page/app.js");
        setUi({ now: 0 });
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
    }"""
    other.evaluate(drawn)
    assert troubles == []
