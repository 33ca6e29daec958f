"""Markdown as the page reads it, against the examples of CommonMark's specification.

The page makes no HTML; `markdown.mjs` does, of the same blocks and spans, to have them compared.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .kit import NODE, PAGE, ROOT, Answering, needs_node, running

pytestmark = needs_node

SPEC: Final = ROOT / "node_modules/commonmark-spec"

DIFFERENT: Final = {
    "HTML is text like any other": {
        *(20, 21, 31, 308, 309, 344, 346, 475, 476, 477, 491, 493, 494, 524, 526, 536, 538, 642),
        *(643, *range(148, 192), *range(613, 618), 623, *range(625, 632)),
    },
    "a bare address is a link, as on GitHub": {602, 603, 608, 611},
    "few of HTML's 2,000 names of characters are known, and in text only": {25, 32, 33, 34},
    "what a link's name stands for is one line, and its name is plain": {
        *(193, 194, 195, 196, 198, 200, 201, 202, 206, 208, 217, 540, 541, 546, 549, 550),
    },
    "what hardly anybody writes": {6, 7, 24, 93, 312, 317, 489, 502, 503, 504, 507, 574},
}
"""The numbers of the examples that are read in another way, and why."""


@pytest.fixture(scope="module")
def markdown() -> Iterator[Answering]:
    with running("markdown.mjs") as node:
        yield node


def comparable(html: str) -> str:
    """Without what makes no difference: white space between blocks, titles, escapes in URLs."""
    block = r"\s*(</?(?:p|li|ul|ol|blockquote|h\d|pre|hr|table|thead|tbody|tr|td|th)\b[^>]*>)\s*"
    html = re.sub(block, r"\1", html).replace("\n", " ")
    html = re.sub(r' title="[^"]*"', "", html).replace(" </code></pre>", "</code></pre>")
    return html.strip()


@pytest.fixture(scope="module")
def growing() -> Iterator[Answering]:
    with running("growing.mjs") as node:
        yield node


def examples() -> list[Any]:
    """Those of the specification; none if it is not there."""
    if NODE is None or not SPEC.is_dir():
        return []
    script = 'process.stdout.write(JSON.stringify(require("commonmark-spec").tests))'
    told = subprocess.run([NODE, "-e", script], cwd=ROOT, capture_output=True, check=True).stdout
    return list(json.loads(told.replace("→".encode(), b"\\t")))


@pytest.mark.skipif(not SPEC.is_dir(), reason="needs CommonMark's examples (npm ci)")
def test_the_examples_of_commonmark_are_read_as_they_say(markdown: Answering) -> None:
    assert len(examples()) == 652
    wrong = {
        example["number"]
        for example in examples()
        if comparable(markdown.ask(example["markdown"])) != comparable(example["html"])
    }
    assert wrong == set().union(*DIFFERENT.values())


def test_nothing_that_looks_like_html_becomes_an_element(markdown: Answering) -> None:
    html = markdown.ask("<img src=x onerror=alert(1)>\n\n<svg onload=alert(1)>\n\na <b>b</b>")
    assert "<img" not in html
    assert "<svg" not in html
    assert "<b>" not in html
    assert html.count("&lt;") == 4


TABLE = "| a | b |\n|:-:|--:|\n| `x` | **y** |\n| \\| |\n"


def test_a_table_has_cells_that_are_aligned_and_rows_that_are_filled_up(
    markdown: Answering,
) -> None:
    assert markdown.ask(TABLE) == (
        '<table><thead><tr><th align="center">a</th><th align="right">b</th></tr></thead>'
        '<tbody><tr><td align="center"><code>x</code></td><td align="right"><strong>y</strong>'
        '</td></tr><tr><td align="center">|</td><td align="right"></td></tr></tbody></table>'
    )


def test_a_task_has_a_box(markdown: Answering) -> None:
    assert markdown.ask("- [x] done\n- [ ] not") == "<ul><li>[x] done</li>\n<li>[ ] not</li></ul>"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://a.example/b.", "https://a.example/b"),
        ("(https://a.example/b_(c))", "https://a.example/b_(c)"),
        ("www.a.example, say", "http://www.a.example"),
    ],
)
def test_a_bare_address_ends_where_the_sentence_goes_on(
    markdown: Answering, text: str, address: str
) -> None:
    assert f'<a href="{address}">' in markdown.ask(text)


PATIENCE = [
    "*a **b " * 8_000,
    "[" * 49_000,
    "[a](" * 12_000,
    "`a ``b " * 7_000,
    ">" * 40_000,
    "- " * 20_000,
    "> a\n" + "b\n" * 20_000,
    "|" * 40_000 + "\n" + "|-" * 40_000,
    "https://" * 6_000,
    "a" + " " * 49_000 + "b",
    "```\n" + "x\n" * 500_000,
    "- a\n\n" * 20_000,
]


@pytest.mark.parametrize("text", PATIENCE, ids=lambda text: repr(text[:12]))
def test_no_text_takes_long(markdown: Answering, text: str) -> None:
    """By the square of its length, each would take minutes."""
    assert markdown.ask(text)


parts = st.sampled_from(
    [
        *(
            "word",
            " ",
            "\n",
            "\n\n",
            "*",
            "**",
            "_",
            "`",
            "```\n",
            "~~~",
            "- ",
            "  ",
            "1. ",
            "> ",
            "#",
        ),
        *(
            "# ",
            "---",
            "===",
            "|",
            "|-|",
            "[a](http://b)",
            "[c]",
            "[c]: http://d\n",
            "\t",
            "- [ ] ",
        ),
    ]
)


@given(pieces=st.lists(parts, max_size=40))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.skipif(
    not (PAGE / "vendor/libraries.js").exists(), reason="needs the page's libraries (nox -s page)"
)
def test_a_text_that_has_grown_is_shown_like_one_that_was_there(
    growing: Answering, pieces: list[str]
) -> None:
    grown, whole = growing.ask(pieces)
    assert grown == whole
