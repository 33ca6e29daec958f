"""The agent's Markdown as text of a terminal: cut into blocks, rendered once, nothing lost."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt._cli.screen.markdown import Blocks, Renderer

LINES = st.sampled_from(
    [
        "",
        "a",
        "b b",
        "- x",
        "  - y",
        "  z",
        "1. n",
        "```",
        "```py",
        "~~~~",
        "    c",
        "> q",
        "| t |",
        "# h",
    ]
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)
FOLDS = st.lists(
    st.sampled_from(
        [
            *("<DE>", "<DE open>", "</DE>", "<SU>", "</SU>", "- [x] ", "[ ] ", "[^1]", "[^k]: "),
            *("> ", "\n", "\n\n", "q", "j", " ", "\n~~~\n", "**", "<", "    "),
        ]
    ),
    max_size=25,
).map(lambda parts: "".join(parts).replace("DE", "details").replace("SU", "summary"))
LOOK = re.compile(r"\x1b\[[0-9;]*m")

plain = Renderer(colour=False)


def blocks(pieces: list[str]) -> list[tuple[str, bool]]:
    cut = Blocks()
    found = [block for piece in pieces for block in cut.feed(piece)]
    return found + cut.end()


def shown(text: str, *, width: int = 80) -> str:
    out = ""
    for block, apart in blocks([text]):
        told = LOOK.sub("", plain(block, width))
        out += ("\n" if apart and out and told else "") + told
    return out


@given(TEXTS, st.integers(1, 7))
@settings(deadline=None)
def test_blocks_do_not_depend_on_how_the_text_comes(text: str, size: int) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert blocks(pieces) == blocks([text])


@given(TEXTS)
@settings(deadline=None)
def test_blocks_hold_every_line_in_order(text: str) -> None:
    lines = [line for block, _ in blocks([text]) for line in block.split("\n") if line.strip()]
    assert lines == [line for line in text.split("\n") if line.strip()]


@given(st.text(max_size=200))
@settings(deadline=None)
def test_no_text_has_power_over_the_terminal_or_raises(text: str) -> None:
    told = shown(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", told)


@given(st.text(alphabet="abc <>&;#!()/:.\n", max_size=80))
@settings(deadline=None)
def test_every_letter_is_shown(text: str) -> None:
    told = shown(text, width=10_000)
    assert sorted(re.findall("[abc]", told)) == sorted(re.findall("[abc]", text))


WIDTHS = st.sampled_from([20, 40, 80])
CODE = st.text(st.characters(exclude_categories=("C", "Z", "M"), include_characters=" \n"))
CELLS = st.text(st.characters(categories=("L", "N"), include_characters="*`_ "), max_size=60)


def signs(text: str) -> Counter[str]:
    return Counter(character for character in text if not character.isspace())


@given(CODE, WIDTHS, st.booleans(), st.sampled_from(["", "> ", "- ", "1. - "]))
def test_all_of_a_code_block_is_shown_at_any_width(
    code: str, width: int, colour: bool, within: str
) -> None:
    lines = ["~~~python", *code.replace("~", "-").split("\n"), "~~~"]
    first, rest = within, within if within == "> " else " " * len(within)
    text = "\n".join([first + lines[0], *(rest + line for line in lines[1:])])
    told = "".join(Renderer(colour=colour)(block, width) for block, _ in blocks([text]))
    assert not signs(code.replace("~", "-")) - signs(LOOK.sub("", told))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=125)), WIDTHS, st.booleans())
def test_code_keeps_its_spaces_where_it_is_broken(line: str, width: int, colour: bool) -> None:
    line = line.rstrip() or "x"
    told = LOOK.sub("", Renderer(colour=colour)(f"~~~\n{line}\n~~~", width))
    rows = [row.removeprefix("  ") for row in told.removesuffix("\n").split("\n")]
    assert "".join(row.ljust(width - 2) for row in rows).rstrip() == line


@pytest.mark.slow
@given(st.lists(st.lists(CELLS, min_size=1, max_size=9), min_size=1, max_size=5), WIDTHS)
def test_all_of_a_table_is_shown_at_any_width(rows: list[list[str]], width: int) -> None:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    text = "\n".join([head, "|" + "---|" * len(rows[0]), *body])
    told = "".join(LOOK.sub("", plain(block, width)) for block, _ in blocks([text]))
    wanted, found = (re.findall(r"[^\W_]", part) for part in ("".join(map("".join, rows)), told))
    assert not Counter(wanted) - Counter(found)


@given(FOLDS, WIDTHS)
def test_no_folded_part_loses_text(text: str, width: int) -> None:
    """Marks of tasks, notes and folded parts may be drawn as others; no other text may be lost."""
    told = shown(text, width=width)
    assert Counter(re.findall("[qjk]", text)) == Counter(re.findall("[qjk]", told))


@given(TEXTS, WIDTHS)
def test_no_line_is_wider_than_the_terminal(text: str, width: int) -> None:
    assert all(len(line) <= width for line in shown(text, width=width).split("\n"))


@pytest.mark.parametrize(
    ("markdown", "wanted"),
    [
        ("one\ntwo", "one\ntwo\n"),
        ("one\n\ntwo", "one\n\ntwo\n"),
        ("# Big\ntext", "Big\n\ntext\n"),
        ("- a\n- b\n  more\n  - deep\n\nend", " • a\n • b\n   more\n    • deep\n\nend\n"),
        ("3. c\n4. d", " 3 c\n 4 d\n"),
        ("```py\nx = 1\n\n\ny\n```\nend", "  x = 1\n\n\n  y\nend\n"),
        ("List<int> & <b>x</b> &amp; y", "List<int> & <b>x</b> &amp; y\n"),
        ("![alt](http://x)", "!alt (http://x)\n"),
        ("[ok](javascript:alert)", "[ok](javascript:alert)\n"),
        ("**b** `c` ~~d~~", "b c d\n"),
        ("[r]: http://x", "[r]: http://x\n"),
        ("<http://x>", "<http://x>\n"),
        ("- [x] a\n- [ ] b\n- [y] c\n- [x]", " • ☑ a\n • ☐ b\n • [y] c\n • [x]\n"),
        ("> 1. [X] **a**", "▌  1 ☑ a\n"),
        ("text [x] a", "text [x] a\n"),
        ("a[^1], b.[^23]\n\n[^1]: c\n[^two]: d", "a[1], b.[23]\n\n[1] c\n[two] d\n"),
        ("[^0-9] x[^abc] [^1] `a[^1]`", "[^0-9] x[^abc] [^1] a[^1]\n"),
        (
            "<details>\n<summary>A *b*</summary>\n\nc\n\n- d\n\n</details>\n\ne",
            "▾ A b\n\nc\n\n • d\n\ne\n",
        ),
        ("<details open><summary>A</summary>b <i>c</details>", "▾ A\n\nb <i>c\n"),
        (
            "<details onclick=x>\n<summary>a\nb</details>",
            "<details onclick=x>\n<summary>a\nb</details>\n",
        ),
        ("~~~\n<details>\n- [x] a[^1]\n~~~", "  <details>\n  - [x] a[^1]\n"),
    ],
)
def test_what_is_shown(markdown: str, wanted: str) -> None:
    assert shown(markdown) == wanted


def test_a_long_block_goes_in_pieces_and_stays_code() -> None:
    code = "\n".join(f"line_{n} = 1" for n in range(180))
    cut = Blocks()
    early = cut.feed(f"```python\n{code}\n")
    assert len(early) >= 3
    assert not any(apart for _, apart in early[1:])
    assert shown(f"```python\n{code}\n```") == "".join(f"  {line}\n" for line in code.split("\n"))


HOSTILE = ("[", "*a_ ", "[a](", "|a", "`", "<", "&a;", "\u4e2d", "a\u0301*")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_block_that_is_too_long_is_shown_as_it_is_written(text: str) -> None:
    written = text * (1_000_000 // len(text))
    told = "".join(Renderer(colour=True)(block, 80) for block, _ in blocks([f"{written}\n\n"]))
    assert "".join(told.split()) == "".join(written.split())


def test_a_block_of_usual_length_is_rendered() -> None:
    assert "**" not in Renderer(colour=True)("**bold** " * 100, 80)
