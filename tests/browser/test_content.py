"""What an agent and its tools have to show, shown as what it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from browser.kit import ask, card, phase, scripted, serving, turn
from browser.pages import NewPage, Page, expect

Shown: TypeAlias = Callable[[dict[str, Any]], Page]

INIT = (
    '"""The __init__ of *a* package."""\n\nimport os\n\n__all__ = ["first"]\n' + "x = 1\n" * 2_000
)


@pytest.fixture
def shown(tmp_path: Path, new_page: NewPage) -> Iterator[Shown]:
    """Opens a page whose agent has these texts and tool calls."""
    servers = []

    def show(texts: dict[str, Any]) -> Page:
        file = tmp_path / "texts.json"
        file.write_text(json.dumps(texts))
        opened = serving(tmp_path, *scripted(str(file)))
        server = opened.__enter__()
        servers.append(opened)
        page = new_page(server.link())
        phase(page, "Idle")
        return page

    yield show
    for opened in servers:
        opened.__exit__(None, None, None)


def text(words: str) -> list[Any]:
    return [{"type": "content", "content": {"type": "text", "text": words}}]


def test_a_file_that_was_read_is_code_with_numbers_and_colours_and_not_long(shown: Shown) -> None:
    read = {"kind": "read", "locations": [{"path": "/a/__init__.py", "line": 5}]}
    page = shown({"init": {**read, "content": text(INIT)}})
    turn(page, "show init")
    tool = card(page, "init")
    expect(tool.locator(".body pre")).to_be_hidden()  # folded, until somebody wants to see it
    tool.locator("summary").first.click()
    expect(tool.locator("code .hljs-keyword").first).to_have_text("import")
    expect(tool.locator("figure code")).to_contain_text("The __init__ of *a* package.")
    expect(tool.locator(".numbers")).to_contain_text("2009")
    assert tool.locator("figure :is(strong, em)").count() == 0
    box = tool.bounding_box()
    assert box is not None
    assert box["height"] < 900


def test_the_colours_are_loaded_with_the_first_code(shown: Shown) -> None:
    page = shown({"code": "```python\nimport os\n```"})
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    turn(page, "say no code")
    assert not loaded
    ask(page, "say code")
    expect(page.locator(".hljs-keyword")).to_have_text("import")
    names = [url.rpartition("/")[2] for url in loaded if "/chunk-" not in url]
    assert names == ["worker.js", "parsers.js", "highlight.js"]


def test_a_numbered_list_has_the_numbers_that_the_agent_wrote(shown: Shown) -> None:
    page = shown({"lists": "1. a\n2. b\n\ntext\n\n3) c\n\n   1. d\n   2. e\n\ntext\n\n0. f\n"})
    turn(page, "bits lists")
    lists = page.locator(".transcript .markdown ol")
    expect(lists).to_have_count(4)
    assert lists.evaluate_all("all => all.map((each) => each.start)") == [1, 3, 1, 0]


def test_a_path_opens_the_file_and_goes_into_the_message(shown: Shown) -> None:
    page = shown({"paths": "Look into `src/a.py:12` and `os.path`."})
    ask(page, "say paths")
    box = page.get_by_label("Message the agent")
    box.fill("What is in")
    page.get_by_role("button", name="src/a.py:12").click()
    files = page.get_by_role("dialog", name="Files")
    expect(files.get_by_role("alert")).to_contain_text("src/a.py")  # there is none
    files.get_by_role("button", name="Mention").click()
    expect(box).to_have_value("What is in @src/a.py ")
    expect(box).to_be_focused()
    assert page.locator(".transcript .mention").count() == 1


NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"


def test_code_is_copied_without_a_secure_connection(shown: Shown) -> None:
    page = shown({"code": "```\nfirst line\nsecond\n```"})
    page.evaluate(NO_CLIPBOARD)
    ask(page, "say code")
    page.get_by_role("button", name="Copy", exact=True).click()
    box = page.get_by_label("Message the agent")
    box.focus()
    page.keyboard.press("Control+V")
    expect(box).to_have_value("first line\nsecond")


def test_that_nothing_could_be_copied_is_said(shown: Shown) -> None:
    page = shown({"code": "```\nfirst line\n```"})
    page.evaluate(f"{NO_CLIPBOARD}; document.execCommand = () => false")
    ask(page, "say code")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("body")).to_contain_text("blocks copying from this page")


def test_the_files_of_the_folder_are_offered_behind_an_at_sign(shown: Shown) -> None:
    page = shown({})
    box = page.get_by_label("Message the agent")
    box.press_sequentially("look into @NOT")
    expect(page.get_by_role("option")).to_have_text("notes.txt")
    box.press("Tab")
    expect(box).to_have_value("look into @notes.txt ")


def test_long_output_opens_at_its_end_and_can_be_seen_copied_and_saved_whole(shown: Shown) -> None:
    lines = "".join(f"line {number} of the build\n" for number in range(4_000))
    block = {"type": "content", "content": {"type": "text", "text": lines}}
    page = shown({"build": {"kind": "execute", "content": [block]}})
    turn(page, "show build")
    card(page, "build").locator("summary").first.click()
    output = page.locator(".output")
    expect(output.get_by_text("line 3999 of the build")).to_be_in_viewport()
    expect(output).not_to_contain_text("line 0 of")
    card(page, "build").get_by_role("button", name="Show all (").click()  # until now a preview
    expect(output.locator("figcaption")).to_contain_text("kB hidden")
    with page.expect_download() as download:
        output.get_by_role("button", name="Save").click()
    assert Path(download.value.path()).read_text() == lines.removesuffix("\n")
    assert download.value.suggested_filename == "output.txt"
    output.get_by_role("button", name="Show all").click()
    expect(output).to_contain_text("line 0 of the build")
    expect(output.locator("figcaption")).not_to_contain_text("hidden")
    output.get_by_role("button", name="Copy", exact=True).click()
    expect(output.locator("button.done")).to_be_visible()
    page.get_by_label("Message the agent").press("ControlOrMeta+v")
    expect(page.get_by_label("Message the agent")).to_have_value(
        re.compile("^line 0 of.*line 3999 of the build$", re.DOTALL)
    )
