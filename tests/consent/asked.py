"""Questions as a terminal asks them, in the process of the test: each row that is shown, and each
answer that is given, in a terminal of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import trio

from agentrt import Session
from agentrt._cli.repl.asking import READING_TIME_S, Asker
from agentrt._cli.text import plain
from agentrt.events import (
    Item,
    ItemOpened,
    JsonObject,
    PermissionOpened,
    PermissionOption,
    ToolCall,
)
from inside.screen import View

BAR = "  │ "
"""Stands before each row with text of the agent."""

OPTIONS = [
    PermissionOption("ok", "Allow", "allow_once"),
    PermissionOption("ever", "Always", "allow_always"),
    PermissionOption("no", "Reject", "reject_once"),
]


class OnlyQuestions:
    """A session that only has questions."""

    def __init__(self) -> None:
        self.pending_permissions: dict[str, PermissionOpened] = {}
        self.given: list[object] = []

    def answer(self, request: str, option: str, *, note: str = "") -> None:
        self.given.append((option, note) if note else option)

    def submit_form(self, request: str, content: JsonObject) -> None:
        self.given.append(content)

    def dismiss(self, request: str, message: str = "") -> None:
        self.given.append(None)


class Nowhere:
    """A display that nobody looks at."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


class Questions:
    """The questions that a terminal asks. To be made in a Trio task."""

    def __init__(self, terminal: Any, item: Item | None = None) -> None:
        """`item` is the tool call that they are about."""
        view = View(Nowhere())
        if item is not None:
            view.take(ItemOpened(item))
        self._session = OnlyQuestions()
        self.asker = Asker(cast("Session", self._session), view, terminal)

    def ask(self, opened: PermissionOpened) -> None:
        """Ask another question."""
        self._session.pending_permissions[opened.request] = opened
        self.asker.take(opened)

    @property
    def given(self) -> list[object]:
        """The answers so far."""
        return self._session.given


async def until_readable() -> None:
    """Wait until a question has been on the screen for so long that an answer to it counts."""
    await trio.sleep(READING_TIME_S)


class Paper:
    """Where questions are shown."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.lines: list[str] = []
        self.read: list[str] = []
        """What the agent has to say, page by page; without the end that is shown before."""
        self.end: list[str] = []
        """The end of it, as it was shown before the rest."""
        self._ahead = False
        self.prompt = ""
        self.offered: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)
        self._ahead |= text.startswith("  … ")
        if text.startswith(BAR):
            (self.end if self._ahead else self.read).append(text.removeprefix(BAR))

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        self.prompt, self.offered = prompt, list(offered)
        self._ahead = False

    def entered(self) -> None: ...

    def over(self) -> None:
        self.prompt = ""


class Asked(Questions):
    """One question, asked and ready to be answered. To be made in a Trio task."""

    def __init__(
        self, tool: ToolCall | None = None, *, size: tuple[int, int] = (80, 24), **fields: Any
    ) -> None:
        self.paper = Paper(size)
        item = tool and Item(id="i", type="tool", status="waiting", tool=tool)
        super().__init__(self.paper, item)
        self.ask(
            PermissionOpened(
                **{"request": "r", "title": "Do it", "item": "i", "options": OPTIONS, **fields}
            )
        )

    async def readable(self) -> Asked:
        await until_readable()
        return self

    def type(self, line: str) -> list[str]:
        """Answer with a line; what is shown then."""
        before = len(self.paper.lines)
        assert self.asker.answer(line)
        return self.paper.lines[before:]

    @property
    def shown(self) -> str:
        return "".join(self.paper.read)


def shown_to_decide(text: str) -> str:
    """Return a text as a terminal shows it to somebody who decides."""
    return plain(text)
