"""The output of commands as a terminal would have left it.

Output is compared with a model terminal for generated texts, thousands of them.
"""

from __future__ import annotations

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
