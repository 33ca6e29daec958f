"""A quiet conversation: a call is a line until it is opened, and many of them are one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.kit import Server, ask, card, phase, scripted, serving, turn
from browser.pages import NewPage, Page, expect
from browser.test_access import axe, violations
from browser.test_content import NO_CLIPBOARD

__all__ = ["axe"]  # a fixture


def call(kind: str, text: str, path: str = "", **fields: str) -> dict[str, Any]:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    return {"kind": kind, "content": content, **fields} | (
        {"locations": [{"path": path}]} if path else {}
    )


CALLS = {
    **{f"read{n}": call("read", f"text {n}", f"/a/{n}.txt") for n in range(1, 5)},
    "run": call("execute", "an output"),
    "broken": call("execute", "one\n\x1b[31mthe last words\x1b[0m\n", status="failed"),
    "edit": {
        "kind": "edit",
        "content": [{"type": "diff", "path": "/a/b", "oldText": "1\n2\n", "newText": "1\n3\n4\n"}],
    },
}


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Server]:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(CALLS))
    with serving(tmp_path, *scripted(str(texts))) as server:
        yield server


@pytest.fixture
def page(quiet: Server, new_page: NewPage) -> Page:
    page = new_page(quiet.link())
    phase(page, "Idle")
    return page


def test_a_call_is_one_line_until_it_is_opened(page: Page) -> None:
    turn(page, "show edit\nshow broken")
    for title, peek in (("edit", "+2 −1"), ("broken", "the last words")):
        box = card(page, title).bounding_box()
        assert box is not None
        assert box["height"] < 48
        expect(card(page, title).locator(".peek")).to_have_text(peek)
    card(page, "edit").locator("summary").first.click()
    expect(card(page, "edit").locator(".added")).to_have_count(2)


def test_a_call_at_work_shows_the_end_of_its_output(page: Page) -> None:
    ask(page, "tool sleep 60")
    expect(card(page, "sleep 60").locator(".status")).to_have_text("running")
    expect(card(page, "sleep 60").locator(".body > *")).to_have_count(0)


def test_calls_that_need_no_attention_are_one_line(page: Page) -> None:
    names = ["read1", "read2", "run", "read1", "read3"]
    turn(page, "\n".join(f"show {name}" for name in [*names, "broken", "run", "read4"]))
    run = page.locator("details.run")
    expect(run.locator("> summary")).to_have_text("Read 3 files, ran a command")
    expect(page.locator("details.tool")).to_have_count(3)  # what failed, and two behind it
    run.locator("> summary").click()
    expect(run.locator("details.tool .title")).to_have_text(names)
    page.reload()
    phase(page, "Idle")
    expect(run.locator("> summary")).to_have_text("Read 3 files, ran a command")


def test_a_sub_agent_shows_its_step_and_can_be_stopped(page: Page) -> None:
    ask(page, "delegate explore")
    outer = card(page, "explore")
    expect(outer.locator("> summary .peek")).to_have_text("1 step: look around")
    expect(outer.locator("> summary .status")).to_have_text("running")
    outer.locator("> summary").click()
    expect(outer.locator(".nested details.tool .title")).to_have_text("look around")
    page.locator("article.item", has=outer).get_by_role("button", name="Stop").click()
    expect(outer.locator("> summary .status")).to_have_text("stopped")
    expect(page.locator(".stop-inner")).to_have_count(0)
    phase(page, "Idle")


def test_a_message_is_copied_as_it_was_written(page: Page) -> None:
    page.evaluate(NO_CLIPBOARD)
    turn(page, "say **bold** and `code`")
    answer = page.locator("article.text")
    answer.hover()
    answer.get_by_role("button", name="Copy message").click()
    box = page.get_by_label("Message the agent")
    box.focus()
    page.keyboard.press("Control+V")
    expect(box).to_have_value("**bold** and `code`")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_lines_and_runs(
    quiet: Server, new_page: NewPage, axe: str, scheme: str
) -> None:
    page = new_page(quiet.link(), color_scheme=scheme)
    phase(page, "Idle")
    turn(page, "\n".join(f"show {name}" for name in ["read1", "read2", "run", "broken", "edit"]))
    ask(page, "delegate explore")
    page.locator(".stop-inner").wait_for()
    assert "\n".join(violations(page, axe)) == ""
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.locator("details.run .nested details").first.wait_for()
    assert "\n".join(violations(page, axe)) == ""
