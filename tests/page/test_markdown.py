"""Markdown as the page reads it, against the examples of CommonMark's specification.

The page makes no HTML; `markdown.mjs` does, of what the page draws, to have it compared.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .kit import NODE, ROOT, Answering, needs_packages, running

pytestmark = needs_packages

SPEC: Final = ROOT / "node_modules/commonmark-spec"

DIFFERENT: Final = {
    "HTML is text like any other": {
        *(21, 31, 201, 308, 309, 344, 475, 476, 477, 491, 494, 524, 536, 642, 643),
        *(*(set(range(148, 192)) - {168}), *range(613, 618), 623, *range(625, 632)),
    },
    "a bare address is a link, as on GitHub": {602, 608, 611},
    "an address is written as browsers do": {346, 597},
    "a picture without words is called by its address": {581},
}
"""The numbers of the examples that are read in another way, and why."""


@pytest.fixture(scope="module")
def markdown() -> Iterator[Answering]:
    with running("markdown.mjs") as node:
        yield node


def comparable(html: str) -> str:
    """Without what makes no difference: space between blocks, titles, slashes behind hosts."""
    html = re.sub(r'href="(https?://[^/"?#]+)(?=["?#])', r'href="\1/', html)
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


needs_examples = pytest.mark.skipif(
    not SPEC.is_dir(), reason="needs CommonMark's examples (npm ci)"
)


def expected(html: str) -> str:
    """The first two headings are the page's own."""
    return re.sub(
        r"(</?h)([1-6])\b", lambda tag: f"{tag[1]}{min(6, int(tag[2]) + 2)}", comparable(html)
    )


@needs_examples
def test_the_examples_of_commonmark_are_read_as_they_say(markdown: Answering) -> None:
    assert len(examples()) == 652
    wrong = {
        example["number"]
        for example in examples()
        if comparable(markdown.ask(example["markdown"])) != expected(example["html"])
    }
    assert wrong == set().union(*DIFFERENT.values())


STANDS_IN_SOMETHING_ELSE: Final = {520, 525, 526, 575}
"""The examples with a link that is whole before it turns out to be a part of something else."""


@needs_examples
def test_a_text_that_comes_in_pieces_is_shown_like_one_that_was_there(growing: Answering) -> None:
    """Wherever it is cut; and meanwhile nothing leads to where nothing leads in the end."""
    every = 1 if os.environ.get("AGENTRT_FULL") else 5
    misled = set()
    for example in examples()[::every]:
        _, others, wrong = growing.ask([example["markdown"], None])
        assert others == [], example
        if wrong:
            misled.add(example["number"])
    assert misled <= STANDS_IN_SOMETHING_ELSE


@pytest.mark.parametrize(
    "text",
    [
        "[a]\n\n[a]: http://good.example.org/b\n",
        "[a]: http://good.example.org/b\n\n[a]\n",
        "see [a][b] and [b]\n\nmore\n\n[b]:\n  <http://good.example.org/b>\n  'title'\n\nend\n",
        "> [a]\n\n- x\n\n  [a]: http://good.example.org\n\n[a]: http://second.example\n",
        "see https://good.example.org/b, or (www.good.example.org)\n",
        "a[^1]\n\n[^1]: http://good.example.org\n\nb[^1]\n\nc[^1] d\n\n- [^1]\n",
        "note[^1] and [^two]\n\ntext\n\n[^1]: the http://good.example.org/note\n\n[^two]: x\n",
    ],
)
def test_a_link_whose_address_comes_in_two_pieces_never_leads_elsewhere(
    growing: Answering, text: str
) -> None:
    whole, others, wrong = growing.ask([text, None])
    assert "good.example.org" in whole
    assert others == []
    assert wrong == []


def test_nothing_that_looks_like_html_becomes_an_element(markdown: Answering) -> None:
    html = markdown.ask(
        "<img src=x onerror=alert(1)>\n\n<svg onload=alert(1)>\n\n"
        "a <b onclick=x>b</b> <script>c</script>\n\n<details onclick=x>\nd\n</details>"
    )
    assert set(re.findall(r"<([a-z]+)", html)) == {"p"}


def test_words_between_the_marks_of_simple_elements_are_in_them(markdown: Answering) -> None:
    assert markdown.ask("a<br>b <kbd>Ctrl *x*</kbd> <sub>n <b>m</b></sub> <B>") == (
        "<p>a<br />\nb <kbd>Ctrl <em>x</em></kbd> <sub>n <b>m</b></sub> &lt;B&gt;</p>"
    )


def test_what_is_folded_can_be_unfolded(markdown: Answering) -> None:
    text = (
        "<details><summary>The *log*</summary>\n\n- a\n\n```\n</details>\n```\n\n"
        "<details>\ninner\n</details>\n\n</details>\n\nbehind"
    )
    assert markdown.ask(text) == (
        '<details class="fold"><summary>The <em>log</em></summary><div class="markdown"><ul>'
        "<li>a</li></ul><pre><code>&lt;/details&gt;\n</code></pre>"
        '<details class="fold"><summary>Details</summary><div class="markdown"><p>inner</p></div>'
        "</details></div></details><p>behind</p>"
    )


def test_a_quote_may_be_an_alert(markdown: Answering) -> None:
    assert markdown.ask("> [!WARNING]\n> Take *care*.") == (
        '<blockquote class="alert is-warning"><strong>Warning</strong><p>Take <em>care</em>.</p>'
        "</blockquote>"
    )
    assert "[!WARNING] care" in markdown.ask("> [!WARNING] care")


def test_a_footnote_stands_where_it_is_written(markdown: Answering) -> None:
    html = markdown.ask("a[^1] [^none]\n\n[^1]: b\n\n    c\n\n[^unused]: d")
    assert '<sup class="footnote-ref">1</sup> [^none]' in html
    assert "<sup>1</sup><div><p>b</p><p>c</p></div>" in html
    assert "<p>d</p>" in html


def test_names_of_characters_are_read(markdown: Answering) -> None:
    assert markdown.ask("&copy; &mdash; &#x1F600; &hellip; &nosuch;") == (
        "<p>© — 😀 … &amp;nosuch;</p>"
    )


@pytest.mark.parametrize("name", ["main.rs", "setup.py", "README.md", "a@b.example", "//x.example"])
def test_the_name_of_a_file_is_no_address(markdown: Answering, name: str) -> None:
    assert "<a " not in markdown.ask(f"see {name} there")


TABLE = "| a | b |\n|:-:|--:|\n| `x` | **y** |\n| \\| |\n"


def test_a_table_has_cells_that_are_aligned_and_rows_that_are_filled_up(
    markdown: Answering,
) -> None:
    assert markdown.ask(TABLE) == (
        '<table><thead><tr><th class="to-center">a</th><th class="to-right">b</th></tr></thead>'
        '<tbody><tr><td class="to-center"><code>x</code></td><td class="to-right"><strong>y'
        '</strong></td></tr><tr><td class="to-center">|</td><td class="to-right"></td></tr>'
        "</tbody></table>"
    )


def test_a_task_has_a_box(markdown: Answering) -> None:
    assert markdown.ask("- [x] done\n- [ ] not") == (
        '<ul><li class="task"><span aria-label="done">☑</span> done</li>'
        '<li class="task"><span aria-label="not done">☐</span> not</li></ul>'
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://a.example/b.", "https://a.example/b"),
        ("(https://a.example/b_(c))", "https://a.example/b_(c)"),
        ("www.a.example, say", "http://www.a.example/"),
    ],
)
def test_a_bare_address_ends_where_the_sentence_goes_on(
    markdown: Answering, text: str, address: str
) -> None:
    assert f'<a href="{address}">' in markdown.ask(text)


PATIENCE = [
    "*a **b " * 8_000,
    "_a" * 25_000,
    "[" * 49_000,
    "![" * 25_000,
    "[a](" * 12_000,
    "[a][" * 12_000,
    "`a ``b " * 7_000,
    ">" * 40_000,
    "- " * 20_000,
    "> a\n" + "b\n" * 20_000,
    "|" * 40_000 + "\n" + "|-" * 40_000,
    "https://" * 6_000,
    "www." * 12_000,
    "a@b." * 12_000,
    "a" + " " * 49_000 + "b",
    "<" * 50_000,
    "<b>" * 16_000,
    "<b>" * 8_000 + "</b>" * 8_000,
    "<details>\n" * 5_000,
    "<details>\n" * 5_000 + "</details>\n" * 5_000,
    "[^a]: " * 8_000,
    "[^a]\n\n" * 5_000 + "[^a]: x\n\n" * 5_000,
    "[a]: b\n" * 7_000,
    "> [!NOTE]\n" * 5_000,
    "```\n" + "x\n" * 500_000,
    "- a\n\n" * 20_000,
    "x" * 5_000_000,
]


@pytest.mark.slow
@pytest.mark.parametrize("text", PATIENCE, ids=lambda text: repr(text[:12]))
def test_no_text_takes_long(markdown: Answering, text: str) -> None:
    """By the square of its length, each would take minutes."""
    assert isinstance(markdown.ask(text), str)


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
            "<details>\n",
            "<summary>s</summary>",
            "</details>\n",
            "[^1]",
            "[^1]: f\n",
            "    ",
            "\r\n",
            "<b>",
            "</b>",
            "<br>",
        ),
    ]
)


@pytest.mark.slow
@given(pieces=st.lists(parts, max_size=40))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_that_has_grown_is_shown_like_one_that_was_there(
    growing: Answering, pieces: list[str]
) -> None:
    text = "".join(pieces)
    _, others, _ = growing.ask([text, list(accumulate(map(len, pieces)))])
    assert others == []
