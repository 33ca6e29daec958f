"""The text of an answer while it streams: drawn as it will stand when it is finished.

Every prefix of an answer is drawn; a screen skips frames.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("prompt_toolkit", reason='pip install "agentrt[repl]"')

from agentrt._cli.screen.drawing import UNFINISHED_LINES
from agentrt._cli.screen.status import last_lines
from inside.screen import Drawing, Painter, ScrollingText, View

WIDTH = 40
ANSWERS = [
    "A paragraph with **bold words** and `code` that is longer than the terminal is wide, so that"
    " it has to be wrapped somewhere between two of its words.",
    "- one item of a list that is quite a bit longer than a single line can hold\n- another item",
    "```python\ndef f():\n    return 'a rather long string that has to be broken somewhere'\n```",
    "# A heading\nand a line behind it",
    "> a quotation that goes on for longer than one line of this narrow terminal has room",
    "nothing to see",
]


def plain_lines(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


@pytest.mark.parametrize("answer", ANSWERS)
async def test_the_last_frame_looks_as_what_is_printed_then(answer: str) -> None:
    page = ScrollingText(Painter(colour=True), lambda: WIDTH)
    drawing = Drawing(page)
    drawing.answer_text("item", answer)
    already = plain_lines(page.take())
    frame = "".join(text for _, text in drawing.live(View(drawing), 0.0, 60))
    drawing.answer_complete("item")
    printed = [line for line in plain_lines(page.take()) if line.strip()]
    if frame:
        live = [line.rstrip() for line in frame.splitlines() if line.strip()]
        assert [line.rstrip() for line in printed][-len(live) :] == live
        assert len(live) == min(len(printed), UNFINISHED_LINES)
    else:
        assert already, "it was finished before"


def test_a_window_without_room_shows_whole_lines() -> None:
    fragments = [("", "one "), ("bold", "line\n"), ("", "x" * 25 + "\n"), ("", "last\n")]
    assert last_lines(fragments, 3, 20) == [("", "x" * 25 + "\n"), ("", "last\n")]
    assert last_lines(fragments, 1, 20) == [("", "last\n")]
    assert last_lines(fragments, 9, 20) == fragments
