"""The pages of a question.

Pages of every size are compared; a terminal has one size at a time.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentrt._cli.repl.asking import Pages
from inside.screen import BAR

TEXT = st.text(st.characters() | st.sampled_from(" \n\u202e\u200b\u0430a"))


SIZES = st.tuples(st.integers(10, 120), st.integers(3, 60))


@given(st.lists(TEXT, max_size=20), SIZES)
def test_pages_show_everything_in_order(lines: list[str], size: tuple[int, int]) -> None:
    lines = [line for text in lines for line in text.split("\n")]
    width, rows = size
    pages = Pages(lines, width=width, room=rows, page=rows)
    first = pages.first()
    if pages.left:
        told = [row for row in first if row.startswith(BAR)]
        assert told[-1:] == Pages(lines, width=width, room=1 << 30, page=1).first()[-1:] or rows < 3
        kept = first[: next(n for n, row in enumerate(first) if not row.startswith(BAR))]
        while pages.left:
            kept += pages.more()
        first = kept
    assert first == Pages(lines, width=width, room=1 << 30, page=1).first()
