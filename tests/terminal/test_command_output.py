"""The output of commands as a terminal would have left it."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._cli.console import MAX_COLUMN, REACHABLE_ROWS, laid_out


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
    ],
)
def test_sequences_are_applied_or_dropped_and_nothing_of_them_is_left(
    written: str, left: str
) -> None:
    assert laid_out(written) == left


def test_a_cursor_cannot_return_further_than_a_screen() -> None:
    lines = [str(number) for number in range(2 * REACHABLE_ROWS)]
    shown = laid_out("\n".join(lines) + "\r\x1b[2147483647Atop").split("\n")
    assert shown[-REACHABLE_ROWS - 1] == "top"
    assert shown[: -REACHABLE_ROWS - 1] == lines[: -REACHABLE_ROWS - 1]


STEPS = st.one_of(
    st.text("abcXYZ ", min_size=1, max_size=6),
    st.sampled_from(["\r", "\r\n", "\b", "\x1b[1m", "\x1b[0m", "\x1b[J", "\x1b[0K", "\x1b[2K"]),
    st.builds("\x1b[{}{}".format, st.integers(1, 9), st.sampled_from("ACDGF")),
)


@given(st.lists(STEPS, max_size=40))
def test_what_is_left_is_what_a_terminal_shows(steps: list[str]) -> None:
    screen = pyte.Screen(400, REACHABLE_ROWS)  # nothing wraps or scrolls
    pyte.Stream(screen).feed("".join(steps))
    shown = [line.rstrip() for line in screen.display]
    left = [line.rstrip() for line in laid_out("".join(steps)).split("\n")]
    assert left == shown[: len(left)]
    assert not any(shown[len(left) :])
