"""Views over the conversation: files, the palette, the outline, and the line below the field."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from browser.kit import Server, ask, phase, scripted, serving, turn
from browser.pages import NewPage, Page, Shoot, expect
from browser.test_access import axe, violations

__all__ = ["axe"]  # a fixture

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(server: Server) -> Path:
    """The folder of the session, with a few files."""
    (server.folder / "src").mkdir()
    lines = [f"value_{number} = {number}" for number in range(1, 3_001)]
    (server.folder / "src" / "long.py").write_text("\n".join(lines))
    (server.folder / "data.bin").write_bytes(b"\0" * 2_000)
    (server.folder / "<img src=x onerror=alert(1)>.txt").write_text("<script>alert(2)</script>")
    (server.folder / "out").symlink_to("/etc")
    (server.folder / ".git").mkdir()
    (server.folder / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    return server.folder


def test_a_file_is_found_in_the_tree_and_shown_with_its_lines(
    folder: Path, page: Page, shoot: Shoot
) -> None:
    phase(page, "Idle")
    where = page.locator(".status-bar").get_by_role("button")
    expect(where).to_contain_text("topic")
    where.click()
    files = page.get_by_role("dialog", name="Files")
    tree = files.get_by_role("navigation")
    tree.get_by_role("button", name="src", exact=True).click()
    tree.get_by_role("button", name="long.py").click()
    expect(files.locator(".file-line").first).to_contain_text("value_1 = 1")
    assert files.locator(".file-line").count() < 400
    expect(files.locator(".hljs-number").first).to_be_visible()
    shoot(page, "files")
    files.get_by_label("Search in this file").fill("value_2999")
    expect(files.locator(".file-line.marked")).to_contain_text("value_2999 = 2999")
    expect(files.locator(".file-line.marked")).to_be_in_viewport()
    files.get_by_label("Go to line").fill("1500")
    files.get_by_label("Go to line").press("Tab")
    expect(files.locator(".file-line.marked")).to_contain_text("value_1500 = 1500")
    with page.expect_download() as download:
        files.get_by_role("button", name="Download").click()
    assert Path(download.value.path()).read_bytes() == (folder / "src/long.py").read_bytes()
    files.get_by_role("button", name="Mention").click()
    expect(page.get_by_label("Message the agent")).to_have_value("@src/long.py ")


def test_what_cannot_be_shown_is_said(folder: Path, page: Page) -> None:
    phase(page, "Idle")
    page.get_by_role("log").focus()
    page.keyboard.press("f")
    files = page.get_by_role("dialog", name="Files")
    tree = files.get_by_role("navigation")
    tree.get_by_role("button", name="data.bin").click()
    expect(files).to_contain_text("This is a binary file (2.0 kB).")
    tree.get_by_role("button", name="out").click()
    expect(files.get_by_role("alert")).to_contain_text("out is not shown")
    tree.get_by_role("button", name="onerror").click()
    expect(files.locator(".file-line")).to_contain_text("<script>alert(2)</script>")
    assert page.locator("img[src=x]").count() == 0


def test_the_palette_goes_to_what_a_few_letters_name(page: Page, shoot: Shoot) -> None:
    turn(page, "say hello")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    shoot(page, "palette")
    page.keyboard.type("kybrdshort")
    expect(palette.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    field = page.get_by_label("Message the agent")
    field.fill("a text for later")
    page.keyboard.press("Control+k")
    page.keyboard.type("draft as a template")
    page.keyboard.press("Enter")
    field.fill("")
    page.reload()
    phase(page, "Idle")
    page.keyboard.press("Control+k")
    page.keyboard.type("template: a text")
    page.keyboard.press("Enter")
    expect(field).to_have_value("a text for later")


def test_keys_are_taken_in_their_order_even_if_no_frame_is_drawn_between_them(page: Page) -> None:
    turn(page, "say hello")
    page.evaluate("() => { window.requestAnimationFrame = () => 0; }")
    for _ in range(5):
        page.keyboard.press("Control+k")
        page.keyboard.type("kybrdshort")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Commands")).to_be_visible()


def test_the_outline_leads_to_a_prompt_and_to_what_is_searched(page: Page, shoot: Shoot) -> None:
    for number in range(4):
        turn(page, f"say hello number {number}")
    page.get_by_role("log").focus()
    page.keyboard.press("o")
    outline = page.get_by_role("dialog", name="Search and outline")
    expect(outline.get_by_role("listitem")).to_have_count(4)
    shoot(page, "outline")
    outline.get_by_role("searchbox").fill("number 0")
    outline.get_by_role("listitem").get_by_role("button").first.click()
    expect(outline).to_have_count(0)
    expect(page.locator(".item.user").first).to_be_in_viewport()


def test_an_own_message_is_edited_in_a_copy_or_said_to_go_to_the_end(page: Page) -> None:
    turn(page, "say hello")
    turn(page, "say again")
    first = page.locator(".item.user").first
    first.hover()
    first.get_by_role("button", name="Edit this message").click()
    field = page.get_by_label("Message the agent")
    expect(field).to_have_value("say hello")


def test_an_empty_page_offers_prompts_to_try(page: Page) -> None:
    phase(page, "Idle")
    page.get_by_role("list", name="Examples").get_by_role("button").first.click()
    expect(page.get_by_label("Message the agent")).to_have_value(re.compile("what this project"))
    expect(page.get_by_label("Message the agent")).to_be_focused()


def test_a_folder_for_a_new_session_is_chosen_from_a_list(folder: Path, page: Page) -> None:
    phase(page, "Idle")
    page.get_by_role("log").focus()
    page.keyboard.press("n")
    form = page.get_by_role("dialog", name="New session")
    form.get_by_role("button", name="Browse").click()
    form.get_by_role("list", name="Folders in").get_by_role("button", name="src").click()
    expect(form.get_by_label("Folder", exact=True)).to_have_value(str(folder / "src"))
    form.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".status-bar").get_by_role("button", name="src")).to_be_visible()
    expect(page.locator(".sidebar h2")).to_have_count(2)  # one for each folder


FORMULAS = (
    "Inline $e^{i\\pi} + 1 = 0$, and \\(\\sqrt{2}\\).\n\n$$\n\\frac{a}{b}\n$$\n\n"
    "It costs $5 and then $10, in $HOME.\n\n"
    f"$$\n{' + '.join(f'x_{{{number}}}' for number in range(60))}\n$$\n\n"
)
HOSTILE_FORMULAS = (
    "$\\href{javascript:alert(1)}{x}$ and $\\includegraphics{https://a.example/x.png}$ and"
    " $\\class{dock}{x}$ and $\\style{position:fixed}{x}$ and $\\def\\a{\\a\\a}\\a$ and"
    " $\\text{<img src=x onerror=alert(1)>}$ and $\\rule{1000em}{1000em}$\n"
)


def test_formulas_are_shown_as_mathml_and_money_as_it_is(
    tmp_path: Path, new_page: NewPage, shoot: Shoot, axe: str
) -> None:
    file = tmp_path / "texts.json"
    file.write_text(json.dumps({"math": FORMULAS + HOSTILE_FORMULAS}))
    with serving(tmp_path, *scripted(str(file))) as server:
        page = new_page(server.link())
        turn(page, "say math")
        formulas = page.locator(".transcript math")
        expect(page.locator(".transcript math msup")).to_be_visible()
        expect(page.locator(".transcript math msqrt")).to_be_visible()
        expect(page.locator(".transcript .formula.display mfrac")).to_be_visible()
        shoot(page, "formulas")
        page.set_viewport_size({"width": 320, "height": 640})  # where some have to be scrolled
        assert "\n".join(violations(page, axe)) == ""
        text = page.locator(".transcript").inner_text()
        assert "It costs $5 and then $10, in $HOME." in text
        inside = "all => all.flatMap((each) => [...each.querySelectorAll('*')])"
        names = formulas.evaluate_all(f"{inside}.map((each) => each.localName)")
        assert names
        assert not set(names) & {"a", "img", "script", "iframe", "style"}
        odd = (
            "each.hasAttribute('style') || each.hasAttribute('href') || each.hasAttribute('class')"
        )
        assert not any(formulas.evaluate_all(f"{inside}.map((each) => {odd})"))


def test_the_page_can_be_installed(page: Page) -> None:
    address = page.locator("link[rel=manifest]").evaluate("link => link.href")
    found = page.evaluate("async (address) => (await fetch(address)).json()", address)
    assert found["display"] == "standalone"
    session = page.context.new_cdp_session(page)
    assert not session.send("Page.getAppManifest")["errors"]
    icon = page.evaluate(
        "async (url) => (await fetch(url)).status",
        address.replace("manifest.webmanifest", "icon.svg"),
    )
    assert icon == 200


def test_what_happened_while_nobody_looked_is_summed_up(page: Page) -> None:
    turn(page, "say hello")
    turn(page, "say again")
    session = page.url.rpartition("/s/")[2]
    seen = [[session, {"item": "i1", "at": 0, "cost": 0}]]
    page.goto("about:blank")
    page.go_back()
    page.evaluate("(seen) => localStorage.setItem('seen', JSON.stringify(seen))", seen)
    # The page itself stores how far it was seen when it is left, so another one is opened.
    other = page.context.new_page()
    other.add_init_script(f"localStorage.setItem('seen', {json.dumps(json.dumps(seen))})")
    other.goto(page.url)
    away = other.locator(".away")
    expect(away).to_contain_text(re.compile("While you were away: [12] answers?"))
    away.get_by_role("button", name="Dismiss").click()
    expect(away).to_have_count(0)


def test_a_stored_conversation_is_archived_and_taken_out_again(page: Page) -> None:
    turn(page, "say hello")
    sidebar = page.get_by_role("navigation", name="sessions")
    sidebar.locator("li").first.hover()
    sidebar.get_by_role("button", name="Close").first.click()
    kept = sidebar.locator("li", has=page.locator(".dot.stored"))
    kept.first.hover()
    kept.first.get_by_role("button", name="Archive").click()
    expect(kept.first).to_be_hidden()
    sidebar.get_by_text("Archived (1)").click()
    kept.first.hover()
    kept.first.get_by_role("button", name="Unarchive").click()
    expect(sidebar.get_by_text("Archived")).to_have_count(0)


def test_the_outline_leads_to_what_is_not_drawn(tmp_path: Path, new_page: NewPage) -> None:
    """Of a long conversation, only the part in sight is."""
    file = tmp_path / "texts.json"
    file.write_text(json.dumps({"long": "A paragraph.\n\n" * 20}))
    with serving(tmp_path, *scripted(str(file))) as server:
        page = new_page(server.link())
        turn(page, "say the first one")
        for number in range(45):
            ask(page, f"say long\nsay \nsay answer {number}.")
            expect(page.get_by_role("log")).to_contain_text(f"answer {number}.")
            phase(page, "Idle")
        first = page.locator(".item.user", has_text="the first one")
        expect(first).to_have_count(0)
        page.get_by_role("log").focus()
        page.keyboard.press("o")
        outline = page.get_by_role("dialog", name="Search and outline")
        outline.get_by_role("button", name="the first one").click()
        expect(first).to_be_in_viewport()
