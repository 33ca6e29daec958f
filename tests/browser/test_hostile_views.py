"""Hostile text in every place of the page that shows some: names, titles, lists, diffs, files.

Wherever it is, it is text, without characters that turn others round, and the page answers a click
within the time that `FROZEN_CPU_MS` allows one task.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.kit import ask, phase, scripted, serving, turn, until
from browser.pages import NewPage, Page, expect
from browser.tasks import FROZEN_CPU_MS, Tasks

PWNED = "document.body.dataset.pwned='yes'"
HTML = f"<img src=x onerror={PWNED}><script>{PWNED}</script>"
NAME = f"{HTML}\u202etxt.exe\u2066\x1b[2J\nsecond"
LONG = f"{NAME}{'w' * 20_000} {'ab ' * 20_000}"
BRANCH = "<img/src=x/onerror=document.title='pwned'>"
"""Not with characters that turn others round: the server leaves such a branch out."""


def diff(old: str, new: str, path: str = "/a.py") -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


DIFFS = {
    "one line": diff("a" * 1_000_000, "a" * 500_000 + "b" * 500_000),
    "words": diff("ab " * 200_000, "ba " * 200_000),
    "all other": diff(
        "\n".join(f"old {n} ( {n * 7}" for n in range(20_000)),
        "\n".join(f"new {n} ) {n * 5}" for n in range(20_000)),
    ),
    "comb": diff("a\n" * 40_000, "a\nb\n" * 20_000),
    "names": diff(NAME, NAME[::-1], f"/{NAME}/{'d/' * 5_000}{NAME}"),
}
MARKDOWN = {
    "fractions": "$$" + "\\frac{1}{" * 20_000 + "}" * 20_000 + "$$",
    "macros": "$$\\def\\a{\\b\\b}\\def\\b{\\c\\c}\\def\\c{\\d\\d}\\def\\d{\\a\\a}\\a$$",
    "roots": "$x_{" * 50_000,
    "formulas": "$x^2$ " * 50_000,
    "dollars": "$" * 300_000,
    "mermaid": "```mermaid\ngraph TD\n" + "A-->B\n" * 50_000 + "```\n",
    "wide table": "|" + "a|" * 20_000 + "\n|" + "-|" * 20_000 + "\n|" + "b|" * 20_000 + "\n",
    "deep table": "|a|\n|-|\n" + "|" + "`|" * 100_000 + "\n",
    "tasks": "- [x] a\n" * 50_000,
    "footnotes": "[^a] " * 50_000 + "\n\n[^a]: [^a]\n",
    "marks": "a\u202e\u2066" * 100_000,
}
UPDATES = {
    "commands": {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [
            {"name": f"{BRANCH}\u202egnp{n}", "description": LONG[:200], "input": {"hint": NAME}}
            for n in range(200)
        ],
    },
    "plan": {
        "sessionUpdate": "plan",
        "entries": [
            {"content": LONG[:2_000], "priority": "high", "status": "in_progress"}
            for _ in range(1_000)
        ],
    },
    "title": {"sessionUpdate": "session_info_update", "title": LONG},
}
MODES = {
    "currentModeId": NAME,
    "availableModes": [
        {"id": NAME, "name": LONG[:5_000]},
        *({"id": f"{n}", "name": f"{NAME}{n}"} for n in range(500)),
    ],
}
MODELS = {
    "currentModelId": NAME,
    "availableModels": [
        {"modelId": NAME, "name": LONG[:5_000]},
        *({"modelId": f"{n}", "name": f"{NAME}{n}"} for n in range(500)),
    ],
}
WRONG = """() => {
  const own = "script[src='page/main.js']";
  const powers = [...document.querySelectorAll(
    "script, iframe, form[action], base, object, embed, img, [onerror], [onload]"
  )];
  const marks = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e]/;
  const texts = [...document.querySelectorAll("[title], [aria-label], option, p, li, h1")];
  const turned = texts.flatMap((each) =>
    [each.title, each.ariaLabel, each.alt, each.children.length ? "" : each.textContent]
      .filter((words) => marks.test(words ?? "")).map((words) => words.slice(0, 80)));
  return {
    powers: powers.filter((each) => !each.matches(own)).map((each) => each.outerHTML.slice(0, 200)),
    turned, title: marks.test(document.title) ? document.title : "",
    pwned: document.body.dataset.pwned ?? "",
  };
}"""
FINE = {"powers": [], "turned": [], "title": "", "pwned": ""}


@pytest.fixture
def page(tmp_path: Path, new_page: NewPage) -> Iterator[Page]:
    texts: dict[str, Any] = {
        name: {"kind": "edit", "title": LONG, "content": [each]} for name, each in DIFFS.items()
    }
    texts |= MARKDOWN | UPDATES
    texts |= {"session": {"modes": MODES, "models": MODELS}, "sub": LONG, "tool": LONG}
    file = tmp_path / "texts.json"
    file.write_text(json.dumps(texts))
    with serving(tmp_path, *scripted(str(file))) as server:
        git = ("git", "-C", str(server.folder))
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "symbolic-ref", "HEAD", f"refs/heads/{BRANCH}"], check=True)
        page = new_page(server.link())
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog came up: {dialog.message}"))
        phase(page, "Idle")
        yield page


def fine(page: Page) -> None:
    assert page.evaluate(WRONG) == FINE


def quick(tasks: Tasks, what: str) -> None:
    print(what, tasks.longest_ms, "ms")
    assert 0 < tasks.longest_ms < FROZEN_CPU_MS


def test_names_of_modes_models_branches_and_commands_are_text(page: Page) -> None:
    tasks = Tasks()
    with tasks.traced(page):
        turn(page, "update commands\nupdate plan\nupdate title\nsay still here")
        page.get_by_label("Message the agent").press_sequentially("/")
        expect(page.get_by_role("listbox", name="completions")).to_be_visible()
        page.keyboard.press("Backspace")
        page.locator("details.plan > summary").click()
    expect(page.locator(".where .branch")).to_contain_text("<img/src")
    fine(page)
    quick(tasks, "names")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Commands")).to_be_visible()
    page.get_by_role("dialog").get_by_role("combobox").fill("mode img")
    expect(page.get_by_role("option").first).to_contain_text("<img")
    fine(page)


def test_names_of_sub_agents_and_titles_of_tools_are_text(page: Page) -> None:
    tasks = Tasks()
    with tasks.traced(page):
        ask(page, "begin tool\ndelegate sub")
        until(lambda: page.locator("details.tool").count() >= 1)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        phase(page, "Idle")
    fine(page)
    quick(tasks, "sub-agents")


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFS)
def test_no_diff_stops_the_page(page: Page, name: str) -> None:
    tasks = Tasks()
    with tasks.traced(page):
        turn(page, f"show {name}")
        page.evaluate(
            "() => document.querySelectorAll('details').forEach((each) => each.open = true)"
        )
        page.locator("header.bar").get_by_role("button", name="Changes").click()
        changes = page.get_by_role("region", name="Changes")
        expect(changes.get_by_role("heading", name="Changes")).to_be_visible()
        page.wait_for_timeout(1_500)
    fine(page)
    quick(tasks, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKDOWN)
def test_no_formula_table_or_diagram_stops_the_page(page: Page, name: str) -> None:
    tasks = Tasks()
    with tasks.traced(page):
        turn(page, f"say {name}")
        page.wait_for_timeout(1_500)
        turn(page, "say still here")
    expect(page.get_by_text("still here", exact=True).first).to_be_visible()
    fine(page)
    quick(tasks, name)


@pytest.mark.slow
def test_no_folder_file_or_search_stops_the_page(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    for number in range(3_000):
        (folder / f"{NAME.replace('/', '')[:180]}{number}").touch()
    (folder / "line.txt").write_text("x" * 5_000_000)
    (folder / "lines.js").write_text("a = `${\n" * 200_000)
    (folder / "marks.txt").write_text(("\u202e\u2066\x1b[2J" * 30 + "\n") * 3_000)
    tasks = Tasks()
    turn(page, "say " + "needle " * 20_000)
    with tasks.traced(page):
        page.get_by_role("log").focus()
        page.keyboard.press("f")
        dialog = page.get_by_role("dialog", name="Files")
        expect(dialog.locator("li").first).to_be_visible()
        for name in ("line.txt", "lines.js", "marks.txt"):
            dialog.get_by_role("searchbox").first.fill(name)
            row = dialog.locator("li", has_text=name).first
            row.get_by_role("button").first.click()
            expect(dialog.locator(".file-line").first).to_be_visible()
            page.wait_for_timeout(700)
    fine(page)
    quick(tasks, "files")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    with tasks.traced(page):
        page.get_by_role("log").focus()
        page.keyboard.press("o")
        outline = page.get_by_role("dialog", name="Search and outline")
        outline.get_by_role("searchbox").press_sequentially("needle needle")
        expect(outline.locator("li").first).to_be_visible()
    fine(page)
    quick(tasks, "outline")
