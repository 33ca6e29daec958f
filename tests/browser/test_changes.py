"""The changes of a session: all of them, by file, with what a person has to say about a line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.kit import Server, phase, scripted, serving, turn
from browser.pages import NewPage, Page, expect
from browser.test_access import axe, violations

__all__ = ["axe"]  # a fixture

OLD = "import os\n\n\ndef total(values):\n    return sum(values) + 1\n"
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil\u200b.py"


def edit(path: str, old: str | None, new: str) -> dict[str, Any]:
    diff = {"type": "diff", "path": path, "newText": new}
    return {"kind": "edit", "content": [diff if old is None else {**diff, "oldText": old}]}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    """The agent changes a file in two steps, and makes another one; its folder is a repository."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "code.py").write_text(OLD)
    code = str(work / "code.py")
    second = OLD.replace("+ 1", "+ 2")
    calls = {
        "first": edit(code, OLD, second),
        "second": edit(code, second, second.replace("import os", "import sys")),
        "other": edit(str(work / "new.txt"), None, "hello\n"),
        "hostile": edit(str(work / HOSTILE), f"{HOSTILE} 1\n", f"{HOSTILE} 2\n"),
    }
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(calls))
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        person = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        subprocess.run(["git", *person, *words], cwd=work, check=True)
    with serving(tmp_path, *scripted(str(texts))) as server:
        yield server


def opened(page: Page) -> Any:
    page.get_by_role("button", name="Changes", exact=True).click()
    return page.get_by_role("region", name="Changes")


def test_the_steps_of_a_change_are_one_with_colours_and_marks(
    served: Server, new_page: NewPage
) -> None:
    page = new_page(served.link())
    phase(page, "Idle")
    for name in ("first", "second", "other"):
        turn(page, f"show {name}")
    pane = opened(page)
    files = pane.locator("details.changed")
    expect(files.locator("summary .path")).to_have_text(["code.py", "new.txt"])
    code = files.first
    expect(code.locator("figure.diff")).to_have_count(1)
    expect(code.locator(".added .differs")).to_have_text(["sys", "2"])
    expect(code.locator(".removed .differs")).to_have_text(["os", "1"])
    expect(code.locator(".added .hljs-keyword").first).to_have_text("import")
    expect(code.locator("figcaption")).to_contain_text("+2 −2")
    pane.get_by_label("Turn").select_option(label="show first")
    expect(files.locator("summary .path")).to_have_text(["code.py"])
    expect(code.locator(".added .differs")).to_have_text(["2"])


def test_both_versions_stand_side_by_side_also_after_a_reload(
    served: Server, new_page: NewPage
) -> None:
    page = new_page(served.link())
    phase(page, "Idle")
    turn(page, "show first")
    pane = opened(page)
    pane.get_by_role("button", name="Side by side").click()
    row = pane.locator("tr", has_text="+ 2")
    expect(row.locator("td.line")).to_have_count(2)
    expect(row.locator("td.removed.line")).to_contain_text("sum(values) + 1")
    expect(row.locator("td.added.line .differs")).to_have_text("2")
    page.reload()
    phase(page, "Idle")
    expect(opened(page).locator("figure.split")).to_have_count(1)


def test_a_comment_on_a_line_is_a_prompt_and_by_keyboard(served: Server, new_page: NewPage) -> None:
    page = new_page(served.link())
    phase(page, "Idle")
    turn(page, "show first")
    pane = opened(page)
    table = pane.get_by_role("group", name="changes", exact=True)
    expect(table.locator(".added .differs")).to_have_count(1)
    table.focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    expect(pane.get_by_role("button", name="Comment on removed line 5")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_label("Comment on line 5").fill("Why two?")
    page.get_by_role("button", name="Queue as a prompt").click()
    said = page.locator("article.user", has_text="Why two?")
    expect(said).to_contain_text("About `code.py`, line 5:")
    expect(said).to_contain_text(">     return sum(values) + 2")
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)


def test_what_differs_from_the_last_commit_stands_next_to_what_the_agent_says(
    served: Server, new_page: NewPage
) -> None:
    (served.folder / "quiet.txt").write_text("changed by nobody\n")
    page = new_page(served.link())
    phase(page, "Idle")
    turn(page, "show first")
    pane = opened(page)
    changed = pane.locator("details.changed")
    expect(changed.locator("summary small")).to_have_text("same as in the last commit")
    pane.get_by_role("button", name="Since the last commit").click()
    quiet = changed.filter(has_text="quiet.txt")
    expect(quiet.locator("summary small")).to_have_text("not reported by the agent")
    expect(quiet.locator("tr.added")).to_contain_text("changed by nobody")
    (served.folder / "code.py").write_text(OLD.replace("+ 1", "+ 2"))
    pane.get_by_role("button", name="Compare again").click()
    code = changed.filter(has_text="code.py")
    expect(code.locator(".added .differs")).to_have_text("2")
    expect(code.locator("summary small")).to_have_count(0)


def test_a_hostile_path_and_text_are_only_text(served: Server, new_page: NewPage) -> None:
    page = new_page(served.link())
    phase(page, "Idle")
    turn(page, "show hostile")
    pane = opened(page)
    expect(pane.locator(".added .differs")).to_have_text("2")
    assert pane.locator("img").count() == 0
    shown = pane.text_content() or ""
    assert "<img src=x onerror=alert(1)>" in shown
    assert not {"\x1b", "\u202e"} & {*shown}


@pytest.mark.parametrize("width", [375, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_changes(
    served: Server, new_page: NewPage, axe: str, scheme: str, width: int
) -> None:
    page = new_page(served.link(), color_scheme=scheme, viewport={"width": width, "height": 800})
    phase(page, "Idle")
    for name in ("first", "other"):
        turn(page, f"show {name}")
    pane = opened(page)
    expect(pane.locator(".added .differs")).to_have_count(1)
    assert "\n".join(violations(page, axe)) == ""
    pane.get_by_role("button", name="Side by side").click()
    pane.locator("button.comment").last.click()
    assert "\n".join(violations(page, axe)) == ""
