"""On a terminal, everything in a permission request has been on the screen before it is allowed."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence

import pyte
import pytest
import trio
from trio.testing import MockClock
from wcwidth import wcwidth

from agentrt.display import reveal
from consent.asked import BAR, Questions, until_readable
from consent.requests import Generator, Request, recorded

FULL = bool(os.environ.get("AGENTRT_FULL"))
SIZES = [(80, 24), (40, 12)]


class Emulated:
    """Where questions are shown: a terminal of a size, and what has been readable on it."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self._screen = pyte.Screen(*size)
        self._stream = pyte.Stream(self._screen)
        self.seen = ""
        """What the agent says, row by row as it was on the screen, in its order."""
        self.around = ""
        """The same of all other rows: titles, and answers with their names."""
        self.prompt = ""
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        self._lines.append(text)

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        """What is asked, with all that was shown for it."""
        self.prompt = prompt
        ahead = False  # its end, which comes again in its place
        for line in [*self._lines, *offered, prompt]:
            row = self._written(line)
            ahead |= line.startswith("  … ")
            if not line.startswith(BAR):
                self.around += row
            elif not ahead:
                self.seen += row.removeprefix(BAR.rstrip())
        self._lines.clear()

    def _written(self, line: str) -> str:
        """A line as the screen shows it; one of the agent's is a row by itself."""
        width = sum(max(0, wcwidth(character)) for character in line)
        height = max(1, -(-width // self.size[0]))
        assert height == 1 or not line.startswith(BAR)
        self._stream.feed(drawable(line) + "\r\n")
        end = self._screen.cursor.y
        return "".join(map(self._row, range(max(0, end - height), end)))

    def _row(self, place: int) -> str:
        row = self._screen.buffer[place]
        return "".join(row[column].data for column in range(self.size[0]))

    def entered(self) -> None: ...

    def over(self) -> None:
        self.prompt = ""


def drawable(text: str) -> str:
    """Without the marks at which pyte stops drawing a line: those without a combining class."""
    return "".join(c for c in text if wcwidth(c) or unicodedata.combining(c) or c in "\r\n")


def squeezed(text: str) -> str:
    """As pyte composes it, without the space that rows and indentation add or take."""
    return "".join(unicodedata.normalize("NFC", drawable(text)).split())


async def _answered(request: Request, size: tuple[int, int]) -> None:
    terminal = Emulated(size)
    questions = Questions(terminal, request.item)
    questions.ask(request.opened)
    await until_readable()
    pages = 0
    while terminal.prompt == "Enter/d? ":
        questions.asker.answer("1")  # the first option allows, if anything does
        assert questions.given == [], f"{request.name}: allowed before its end was shown"
        questions.asker.answer("")
        pages += 1
        assert pages < 5000
    seen, around = squeezed(terminal.seen), squeezed(terminal.around).casefold()
    for text in request.lines:
        shown = squeezed(reveal(text).expandtabs(4))
        quoted = squeezed(reveal(json.dumps(text, ensure_ascii=False)[1:-1]).expandtabs(4))
        missing = shown not in seen and quoted not in seen and shown.casefold() not in around
        assert not missing, f"{request.name} at {size}: {text!r} was not shown"
    questions.asker.answer("1")
    assert questions.given == [request.opened.options[0].id]


@pytest.mark.parametrize("size", SIZES)
def test_every_string_has_been_on_the_screen(size: tuple[int, int]) -> None:
    number = 2000 if FULL else 4
    for request in [*recorded()[:: 1 if FULL else 9], *Generator(7).requests(number)]:
        trio.run(_answered, request, size, clock=MockClock(autojump_threshold=0))
