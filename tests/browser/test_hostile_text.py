"""Texts that keep a parser busy do not stop the page: it answers while they are read, and shows
them as they are when that takes too long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.kit import phase, scripted, serving, turn
from browser.pages import NewPage, Page, Worker, expect
from browser.tasks import FROZEN_CPU_MS, Tasks

ESC = "\x1b"
HUGE = 2**31 - 1
OUTPUT = {
    "scrolled": f"A{ESC}[{HUGE}S",
    "repeated": f"A{ESC}[{HUGE}b",
    "inside": f"A{ESC}[21474\x0083647S",
    "often": f"A{ESC}[400b" * 5_000 + "the end",
}
CODE = (
    "(",
    "a1_",
    "<",
    '"',
    "= ",
    "class A ",
    "//",
    "${",
    "\\",
    "a(",
    "{\n",
    "a = 'b' + 1; // c\n",
)
LANGUAGES = ("javascript", "python", "cpp", "perl", "scala", "typescript", "swift", "ruby")
OTHERS = (
    *("arduino", "bash", "c", "cmake", "csharp", "css", "dart", "diff", "dockerfile", "elixir"),
    *("go", "graphql", "haskell", "ini", "java", "json", "kotlin", "less", "lua", "makefile"),
    *("markdown", "nginx", "nix", "objectivec", "php", "php-template", "plaintext", "powershell"),
    *("protobuf", "python-repl", "r", "rust", "scss", "shell", "sql", "vbnet", "wasm", "xml"),
    "yaml",
)
"""The other languages that have colours."""
MARKDOWN = {
    "brackets": "[" * 1_000_000,
    "headings": "# a\n" * 250_000,
    "table": "|" + "a|" * 1_000 + "\n|" + "-|" * 1_000 + "\n" + "|\n" * 400_000,
    "quotes": "> " * 500_000,
    "emphasis": "*a_ " * 250_000,
    "items": "- a\n" * 250_000,
    "blocks": "```js\na=1\n```\n" * 70_000,
    "links": "[a](b) " * 140_000,
    "addresses": "http://a.b/ " * 80_000,
    "tables": "|a|b|\n|-|-|\n|c|d|\n\n" * 50_000,
    "paragraphs": "a\n\n" * 300_000,
    "lines": "|a|b|\n" * 160_000,
    "notes": "[^a]: b\n\n" * 100_000,
    "folds": "<details><summary>a</summary>\n\nb\n\n</details>\n\n" * 20_000,
    "nested": "".join("  " * depth + "- a\n" for depth in range(30)) * 1_000,
    "clusters": ("a" + "\u0301" * 50) * 20_000,
}
BEATS = """() => {
  window.beats = { count: 0, longest: 0 };
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    Object.assign(beats, { count: beats.count + 1, longest: Math.max(beats.longest, now - last) });
    last = now;
  }, 20);
}"""
ASK = """async ([name, texts]) => {
  const { ask } = await import("/page/app.js");
  beats.longest = 0;
  const found = await Promise.all(texts.map((given) => ask(name, ...given)));
  return { ...beats, read: found.filter(Boolean).length };
}"""


@pytest.fixture
def page(tmp_path: Path, new_page: NewPage) -> Iterator[Page]:
    def card(text: str) -> dict[str, Any]:
        content = {"type": "content", "content": {"type": "text", "text": text}}
        return {"kind": "execute", "content": [content]}

    texts: dict[str, Any] = {name: card(text) for name, text in OUTPUT.items()}
    code = "\n".join(
        f"```{name}\n{part * (57_000 // len(part))}\n```"
        for name, part in zip(LANGUAGES, CODE, strict=False)
    )
    file = tmp_path / "texts.json"
    texts |= {
        f"code {language} {number}": f"```{language}\n{part * (60_000 // len(part))}\n```"
        for language in LANGUAGES
        for number, part in enumerate(CODE)
    }
    file.write_text(json.dumps({**texts, **MARKDOWN, "code": code}))
    with serving(tmp_path, *scripted(str(file))) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        page.evaluate(BEATS)
        yield page


def beats(page: Page, name: str) -> float:
    return float(page.evaluate(f"() => beats.{name}"))


def test_output_that_moves_a_cursor_for_ever_is_shown_as_it_is(page: Page) -> None:
    for name in OUTPUT:
        turn(page, f"show {name}")
    page.locator("details.tool summary").first.click()
    expect(page.locator("details.tool .terminal").first).to_contain_text("A")
    page.locator("details.tool summary").nth(2).click()  # this one is given up on
    before = beats(page, "count")
    expect(page.locator("details.tool .terminal").last).to_contain_text("A")
    turn(page, "say still here")
    assert beats(page, "count") > before
    expect(page.get_by_text("still here", exact=True).first).to_be_visible()


def test_the_page_goes_on_while_code_is_coloured_that_takes_for_ever(page: Page) -> None:
    turn(page, "say code")
    before = beats(page, "count")
    turn(page, "say still here")  # a click and its answer, while the worker is busy
    expect(page.get_by_text("still here", exact=True).first).to_be_visible()
    assert beats(page, "count") - before >= 3


def test_a_text_that_was_given_up_on_is_not_tried_again(page: Page) -> None:
    text = f"A{ESC}[400b" * 100_000  # forty million characters: no machine has them in time
    workers: list[Worker] = []
    page.on("worker", lambda worker: workers.append(worker))
    assert page.evaluate(ASK, ["screen", [[text]]])["read"] == 0
    started = len(workers)
    assert page.evaluate(ASK, ["screen", [[text]]])["read"] == 0
    assert len(workers) == started
    assert page.evaluate(ASK, ["screen", [["plain"]]])["read"] == 1
    assert len(workers) == started + 1  # the first one was ended


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["say", "pieces"])
@pytest.mark.parametrize("name", MARKDOWN)
def test_a_megabyte_of_markdown_does_not_stop_the_page(page: Page, name: str, verb: str) -> None:
    tasks = Tasks()
    with tasks.traced(page):
        turn(page, f"{verb} {name}")
        turn(page, "say still here")
    # Not traced: to find a text, Playwright reads that of each element in the page.
    expect(page.get_by_text("still here", exact=True).first).to_be_visible()
    print(name, tasks.longest_ms, "ms")
    assert 0 < tasks.longest_ms < FROZEN_CPU_MS


def control_sequences() -> list[str]:
    finals = [chr(code) for code in range(0x40, 0x7F)]
    fronts = ["", "?", ">", "=", "1;", "38;5;"]
    numbers = [f"A{ESC}[{front}{HUGE}{final}" for front in fronts for final in finals]
    return [*numbers, *(f"A{ESC}[{HUGE};{HUGE} {final}" for final in finals)]


@pytest.mark.slow
def test_no_control_sequence_stops_the_page(page: Page) -> None:
    texts = [[text] for text in control_sequences()]
    assert len(texts) > 400
    found = page.evaluate(ASK, ["screen", texts])
    print(len(texts), "sequences,", found["read"], "shown, longest", found["longest"], "ms")
    assert found["read"] == len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_code_stops_the_page(page: Page, language: str) -> None:
    tasks = Tasks()
    with tasks.traced(page):
        for number in range(len(CODE)):
            turn(page, f"say code {language} {number}")
    print(language, tasks.longest_ms, "ms")
    assert 0 < tasks.longest_ms < FROZEN_CPU_MS


KNOWN = """async () => {
  const { lowlight } = await import("/page/highlight.js");
  return lowlight.listLanguages();
}"""


def test_every_language_with_colours_is_attacked(page: Page) -> None:
    assert sorted(page.evaluate(KNOWN)) == sorted((*LANGUAGES, *OTHERS))


@pytest.mark.slow
@pytest.mark.parametrize("language", OTHERS)
def test_no_code_of_another_language_stops_the_page(page: Page, language: str) -> None:
    """The same without the agent: the parsers are asked as the page asks them."""
    texts = [[language, part * (60_000 // len(part))] for part in CODE]
    tasks = Tasks()
    with tasks.traced(page):
        found = page.evaluate(ASK, ["colours", texts])
        turn(page, "say still here")
    print(language, found["read"], "of", len(texts), "in colours;", tasks.longest_ms, "ms")
    assert 0 < tasks.longest_ms < FROZEN_CPU_MS
