"""Text that a terminal shows, of agents and of commands, and changes of files as rows.

Texts contain each control character, which a terminal would hide; any two texts are compared, every
row is joined again, which a screen cuts off, and output is compared with a model terminal's.
"""

from __future__ import annotations

import json
import unicodedata
from unicodedata import east_asian_width, normalize

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt._cli.command_output import (
    MAX_COLUMN,
    REACHABLE_ROWS,
    ROW_COLUMNS,
    CommandOutput,
    laid_out,
)
from agentrt._cli.repl.changes import patched, worded
from agentrt._cli.repl.view import COMPARED_LINES, changes, show_diff
from agentrt._cli.screen.style import rows_of
from agentrt._cli.text import columns_of, escaped, one_line, plain, safe, without_controls
from agentrt.events import Diff
from inside.screen import LOOKS

FORMATS = ("Cf", "Zl", "Zp")
"""Unicode's categories of characters that format, and that separate lines and paragraphs."""

POWER = {"Cc", "Cs"}
"""Unicode's categories of control characters and lone surrogates."""


@given(st.text())
def test_no_text_keeps_a_control_character_but_newlines_and_tabs(text: str) -> None:
    for shown in (safe(text), without_controls(text)):
        assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]


@given(st.text())
def test_a_decision_s_text_has_nothing_that_is_not_seen(text: str) -> None:
    hidden = {"Cc", "Cf", "Zl", "Zp"}
    for shown in (plain(text), one_line(text, 10_000)):
        found = [c for c in shown if unicodedata.category(c) in hidden and c != "\n"]
        # marks that belong to a letter of their script are seen with it
        assert {unicodedata.bidirectional(c) for c in found} <= {"AN", "AL", "L", "NSM", "ON"}


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert safe(text) == text
    assert without_controls(f"{text}\n\t") == f"{text}\n\t"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "␛[2Jgone"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b31m", "�31m"),
        ("\x90q\x9c", "�q�"),
        ("fine\r\nline", "fine\nline"),
        ("Allow\rDeny", "AllowDeny"),
        ("a\x08b\x7f", "a␈b␡"),
        ("\u202egnp.exe", "�gnp.exe"),
        ("👩‍💻 café", "👩‍💻 café"),
    ],
)
def test_escapes_are_seen_and_do_nothing(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_where_somebody_decides_hidden_characters_are_seen() -> None:
    assert plain("rm\u200b -rf\u2028/") == "rm� -rf�/"
    assert one_line("a\nb\t c") == "a b c"


@pytest.mark.slow
def test_of_the_characters_that_format_text_those_with_ink_are_shown() -> None:
    formats = (c for c in map(chr, range(0x110000)) if unicodedata.category(c) in FORMATS)
    shown = [unicodedata.name(c) for c in formats if plain(c) == c]
    assert all(name.startswith(("ARABIC", "SYRIAC", "KAITHI")) for name in shown)


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    line = one_line("x" * 500 + " && rm -rf ~", 100)
    assert len(line) <= 100
    assert line.startswith("xxx")
    assert line.endswith("&& rm -rf ~")


@given(st.text())
def test_json_on_a_terminal_says_the_same(text: str) -> None:
    shown = escaped(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert not [c for c in shown if unicodedata.category(c) == "Cc"]


# --- changes


def test_a_change_is_shown_with_what_stands_around_it() -> None:
    old = "".join(f"{n}\n" for n in range(10))
    diff = Diff(path="/a\x1b/b", old_text=old, new_text=old.replace("5\n", "five\x9b\n"))
    assert show_diff(diff.path, diff.new_text, diff.old_text) == [
        "change of /a␛/b",
        "@@ -1,10 +1,10 @@",
        *(f" {n}" for n in range(5)),
        "-5",
        "+five⟨U+009B⟩",
        *(f" {n}" for n in range(6, 10)),
    ]
    assert show_diff("/new", "x\n", None) == ["new file /new", "@@ -0,0 +1 @@", "+x"]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a\n", "a\u2028rm -rf /\n", ["-a", "+a⟨U+2028⟩rm -rf /"]),
        ("a\n", "a\r\n", ["-a", "+a␍"]),
        ("a\n", "a", ["-a", "+a  ⟨no newline at the end⟩"]),
        ("a", "a", ["  (nothing changes)", " a"]),
        ("", "", []),
    ],
)
def test_no_difference_is_lost_in_the_ends_of_lines(old: str, new: str, shown: list[str]) -> None:
    assert [line for line in show_diff("/a", new, old)[1:] if line[:2] != "@@"] == shown


def test_a_large_change_is_shown_at_once() -> None:
    lines = [str(n) for n in range(COMPARED_LINES)]
    old, new = "\n".join(lines), "\n".join([*lines[:50], "new", *lines[51:]])
    assert changes(Diff(path="/a", old_text=old, new_text=new)) == ["@@ line 51 @@", "-50", "+new"]


def test_the_words_that_differ_are_marked_in_both_lines() -> None:
    shown = list(worded(["@@ -1 +1 @@", " same", "-total = 1  # start", "+total = 0  # start"]))
    assert shown == [
        [("place", "@@ -1 +1 @@")],
        [("dim", " same")],
        [
            ("removed", "-"),
            ("removed", "total = "),
            ("removed_word", "1"),
            ("removed", "  # start"),
        ],
        [("added", "+"), ("added", "total = "), ("added_word", "0"), ("added", "  # start")],
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["-one line", "+two", "+lines"],  # nothing to compare them with
        ["-entirely other words", "+1 2 3 4 5"],
        ["-" + "a b " * 1000, "+" + "a c " * 1000],  # too long
    ],
)
def test_lines_that_cannot_be_compared_are_marked_as_a_whole(lines: list[str]) -> None:
    looks = {look for line in worded(lines) for look, _ in line}
    assert looks == {"removed", "added"}


def test_the_head_of_a_patch_is_no_removed_line() -> None:
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+++ new\n"
    looks = [line[0][0] for line in patched(patch)]
    assert looks == ["bold", "bold", "bold", "place", "removed", "added"]


LINES = st.lists(st.text(st.sampled_from("+-@ ab\t日"), max_size=12), max_size=20)


@given(LINES)
def test_no_text_of_a_change_is_lost_or_moved(lines: list[str]) -> None:
    shown = list(worded(lines))
    assert ["".join(text for _, text in line) for line in shown] == lines
    assert {look for line in shown for look, _ in line} <= set(LOOKS)


@given(st.lists(st.tuples(st.sampled_from(["", "31"]), st.text("ab日e\u0301 ")), max_size=8))
def test_rows_have_all_of_a_line_and_fit(line: list[tuple[str, str]]) -> None:
    rows = rows_of(line, 5)
    whole = [(look, character) for look, text in line for character in text]
    assert [(look, c) for row in rows for look, text in row for c in text] == whole
    for row in rows:
        assert sum(columns_of(c) for _, text in row for c in text) <= 5


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("\x1b[38;5;208morange\x1b[0m and \x1b[1;31mred\x1b[m", "orange and red"),
        ("10 %\r50 %\r100 %\ndone", "100 %\ndone"),
        ("downloading…\r\x1b[Kdone", "done"),
        ("one\ntwo\x1b[1A\x1b[2K\rONE\n\x1b[2Ktwo again", "ONE\ntwo again"),
        ("crlf\r\nlines\r\n", "crlf\nlines\n"),
        ("typo\b\b\b\bword", "word"),
        ("\x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x1b\\", "a link"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b[?25lhidden cursor\x1b[?25h", "hidden cursor"),
        ("\x9b31mC1\x9b0m", "C1"),
        ("cut \x1b[38;5", "cut "),
        ("cut \x1b", "cut "),
        ("a\x1b[5Cb", "a     b"),
        ("x\x1b[2147483647Gy", "x" + " " * (MAX_COLUMN - 1) + "y"),
        ("a\nb\x1b[2147483647Ac", "ac\nb"),
        ("日本\rX", "X 本"),
        ("日本\x1b[2GX", " X本"),
        ("日本\x1b[2G語", " 語 "),
        ("日本\x1b[2G\x1b[K", " "),
        ("日本\r\x1b[1K", "  本"),
    ],
)
def test_sequences_are_applied_or_dropped_and_nothing_of_them_is_left(
    written: str, left: str
) -> None:
    assert laid_out(written) == left


def test_a_cursor_cannot_return_further_than_a_screen() -> None:
    lines = [str(number) for number in range(2 * REACHABLE_ROWS)]
    shown = laid_out("\n".join(lines) + "\r\x1b[2147483647Atop").split("\n")
    assert shown[-REACHABLE_ROWS] == "top"
    assert shown[:-REACHABLE_ROWS] == lines[:-REACHABLE_ROWS]


STEPS = st.one_of(
    st.text("abcXYZ ", min_size=1, max_size=6),
    st.sampled_from(["\r", "\r\n", "\b", "\x1b[1m", "\x1b[0m", "\x1b[J", "\x1b[0K", "\x1b[2K"]),
    st.builds("\x1b[{}{}".format, st.integers(1, 9), st.sampled_from("ABCDEFG")),
    st.builds("\x1b[{};{}H".format, st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from(["\x1b7", "\x1b8", "\t", "日本", "e\u0301", "\x1b[1K", "\x1b[1J"]),
)


def row_of(screen: pyte.Screen, number: int) -> str:
    """Return a row as it is displayed: half of a wide character is a blank.

    pyte leaves the other half when one is overwritten or erased, and its `display` fails then.
    """
    cells = [screen.buffer[number][column].data for column in range(screen.columns)]
    shown = []
    for column, cell in enumerate(cells):
        if not cell:  # the second half, if the first one is there
            shown.append("" if column and is_wide(cells[column - 1]) else " ")
        else:
            shown.append(" " if is_wide(cell) and cells[column + 1] else cell)
    return "".join(shown).rstrip()


def is_wide(cell: str) -> bool:
    return bool(cell) and east_asian_width(cell[0]) in "WF"


@pytest.mark.slow
@given(st.lists(STEPS, max_size=40))
@example(["日本", "\r", "X"])
@example(["日本", "\x1b[2G", "X"])
@example(["日本", "\x1b[2G", "日本"])
@example(["日本", "\b", "\x1b[J"])
def test_what_is_left_is_what_a_terminal_shows(steps: list[str]) -> None:
    screen = pyte.Screen(400, REACHABLE_ROWS)  # nothing wraps or scrolls
    pyte.Stream(screen).feed("".join(steps))
    shown = [row_of(screen, number) for number in range(screen.lines)]
    text = normalize("NFC", laid_out("".join(steps)))
    left = [line.rstrip() for line in text.split("\n")]
    assert left == shown[: len(left)]
    assert not any(shown[len(left) :])


@given(st.lists(STEPS, max_size=40), st.integers(1, 5))
def test_output_in_pieces_looks_like_output_in_one(steps: list[str], size: int) -> None:
    whole = "".join(steps)
    output = CommandOutput()
    for start in range(0, len(whole), size):
        output.feed(whole[start : start + size])
    assert output.lines == CommandOutput(whole).lines


@pytest.mark.parametrize(
    ("sequence", "look"),
    [
        ("\x1b[31m", "31"),
        ("\x1b[1;31m", "1;31"),
        ("\x1b[1m\x1b[31m\x1b[22m", "31"),
        ("\x1b[38;5;208m", "33"),
        ("\x1b[38;2;250;20;20m", "91"),
        ("\x1b[38:2::0:0:230m", "34"),
        ("\x1b[97;101m", "97;101"),
        ("\x1b[30m", ""),  # invisible on a dark terminal
        ("\x1b[8m", ""),  # hidden text
        ("\x1b[41;31m", "41"),  # text in the colour of its background
        ("\x1b[31;0m", ""),
        ("\x1b[31m\x1b[m", ""),
        ("\x1b[38;5m", ""),
        ("\x1b[;;;99999999999m", ""),
    ],
)
def test_colours_are_those_of_every_terminal(sequence: str, look: str) -> None:
    assert CommandOutput(f"{sequence}text").lines == [[(look, "text")]]


@given(st.text(st.sampled_from("\x1b\x9b\x9d\x90[]m;:38K\x07\r\n\b\tab\u202e\u200b日\u0301")))
def test_nothing_in_any_output_controls_the_terminal(output: str) -> None:
    for line in CommandOutput(output).lines:
        for look, text in line:
            assert set(look) <= set("0123456789;")
            assert text.isprintable()


def test_a_long_row_continues_and_old_rows_are_forgotten_and_counted() -> None:
    assert [len(row) for row in laid_out("x" * (ROW_COLUMNS + 1)).split("\n")] == [ROW_COLUMNS, 1]
    output = CommandOutput(rows=10)
    for number in range(1000):
        output.feed(f"{number}\n")
    assert output.forgotten + len(output.lines) == 1001
    assert len(output.lines) <= 20 + REACHABLE_ROWS
    assert output.tail[-2:] == [[("", "999")], []]


def test_rows_that_cannot_change_any_more_are_taken_once() -> None:
    output = CommandOutput("\n".join(map(str, range(100))))
    settled = output.take_settled()
    assert settled[-1] == [("", str(99 - REACHABLE_ROWS))]
    assert output.take_settled() == []
    assert output.take_settled(1)[-1] == [("", "98")]
    assert output.lines == [[("", "99")]]
    output.feed("\r\x1b[999Atop")
    assert output.lines[0] == [("", "top")]
