"""The agent's questions above the prompt, with a separate line for the answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..repl.asking import BAR
from ..text import one_line
from .cards import look_of
from .interface import Interface
from .page import ScrollingText
from .style import Fragments
from .terminal import Screen


class OnScreen:
    """The place where an `Asker` shows its questions."""

    def __init__(self, screen: Screen, interface: Interface, page: ScrollingText) -> None:
        self._screen = screen
        self._interface = interface
        self._page = page

    @property
    def size(self) -> tuple[int, int]:
        size = self._screen.size
        return size.columns, size.lines

    def line(self, text: str) -> None:
        page = self._page
        if text.startswith(BAR):
            look = look_of(text.removeprefix(BAR))
            bar = ("dim", BAR), ("" if look == "dim" else look, text.removeprefix(BAR))
            page.line(*bar, kind="ask")
        else:
            page.line(("ask", text), kind="ask")

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        rows: Fragments = []
        for line in offered:
            rows += [("bold", line[:4]), ("", line[4:] + "\n")]
        self._screen.do(partial(self._interface.ask, prompt, rows, again=again))

    def entered(self) -> None:
        pass  # the prompt is drawn by this program

    def over(self) -> None:
        self._screen.do(self._interface.stop_asking)


def kept_answer(text: str) -> str:
    """Return the text to show when some input was not an answer."""
    return f"“{one_line(text, 60)}” is not an answer; it was added to your draft."
