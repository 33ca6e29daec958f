"""Changes of files as rows of a screen.

Any two texts are compared, and every row is joined again, which a screen cuts off.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._cli.repl.changes import patched, worded
from agentrt._cli.screen.style import rows_of
from agentrt._cli.text import columns_of
from inside.screen import LOOKS


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
