"""Putting the agent's questions to the person at the terminal, one at a time.

Only an exact answer counts, typed after the question could be read: what was typed ahead for
something else must not allow anything. The end of the input is a no.
"""

from __future__ import annotations

import os
import termios
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from .._errors import LocalProtocolError
from .._model.events import Event, Item, PermissionClosed, PermissionOpened
from .._runtime.session import Session
from .lines import LineReader
from .questions import Question, make_question, reject
from .text import one_line

INERT: Final = 0.5
"""Seconds in which nobody can have read the question yet."""


class Shows(Protocol):
    """Where questions are shown."""

    def line(self, text: str) -> None:
        """Some of what is asked, in a line."""
        ...

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        """What to type, and the answers that there are; what is typed comes to `Asker.answer`.
        `again`: it is asked once more, and no more has been shown than why."""
        ...

    def entered(self) -> None:
        """The terminal has echoed an Enter."""
        ...

    def over(self) -> None:
        """The question is not open any more."""
        ...

    def item(self, id: str | None) -> Item | None:
        """What a question is about."""
        ...


class Asker:
    """Asks the questions of a session that its policy leaves open.

    Give `take` each event, and `answer` each line that is typed. With `can_ask=False` all are
    rejected.
    """

    def __init__(self, session: Session, shows: Shows, *, can_ask: bool = True) -> None:
        self._session = session
        self._shows = shows
        self._can_ask = can_ask
        self._waiting: deque[PermissionOpened] = deque()
        self._current: tuple[PermissionOpened, Question] | None = None
        self._shown_at = 0.0
        self._news = trio.Event()
        self._reading: trio.CancelScope | None = None

    @property
    def asking(self) -> bool:
        """Whether a question is before the person."""
        return self._current is not None

    def expects(self, line: str) -> bool:
        """Whether this could be meant as an answer."""
        return self._current is not None and self._current[1].expects(line)

    def take(self, event: Event) -> None:
        """Ask what is asked; take back what was decided elsewhere."""
        if isinstance(event, PermissionOpened):
            if event.request in self._session.permissions:  # the policy has not decided it
                self._waiting.append(event)
        elif isinstance(event, PermissionClosed):
            self._waiting = deque(w for w in self._waiting if w.request != event.request)
            if self._current is not None and self._current[0].request == event.request:
                self._shows.line("The question is over.")
                self._over()
        else:
            return
        self._next()

    def answer(self, line: str | None) -> bool:
        """A line was typed, or None: the end of the input. False: it was not meant for us."""
        if self._current is None:
            return False
        request, question = self._current
        early = trio.current_time() - self._shown_at < INERT
        if line is None:
            self._shows.line("Rejected.")
            reject(self._session, request)
        elif early and not question.expects(line):
            return False
        elif early:
            self._show(["Typed before the question could be read; please answer now."])
            return True
        else:
            try:
                more = question.take(line)
            except LocalProtocolError as error:  # it was decided elsewhere meanwhile
                self._shows.line(one_line(str(error)))
                more = None
            if more is not None:
                self._show(more)
                return True
        self._over()
        self._next()
        return True

    def stop_asking(self) -> None:
        """Nobody is there any more: reject what is open, and whatever comes."""
        self._can_ask = False
        if self._current is not None:
            self.answer(None)

    async def serve(self, terminal: int) -> None:
        """Read answers from a terminal while a question is open, and at no other time: somebody
        else may own it then. Runs until it is cancelled."""
        reader = LineReader(terminal)
        while True:
            while self._current is None:
                self._news = trio.Event()
                await self._news.wait()
            if os.isatty(terminal):
                termios.tcflush(terminal, termios.TCIFLUSH)
            with trio.CancelScope() as self._reading:
                line = await reader.readline()
                if line is not None:
                    self._shows.entered()
                self.answer(line)
            self._reading = None

    # --- one question after the other

    def _next(self) -> None:
        while self._current is None and self._waiting:
            request = self._waiting.popleft()
            item = self._shows.item(request.item)
            question = make_question(self._session, request, item) if self._can_ask else None
            if question is None:
                why = "it cannot be asked here" if self._can_ask else "nobody can be asked here"
                self._shows.line(f"rejected, {why}: {one_line(request.title)}")
                reject(self._session, request)
                continue
            self._current = request, question
            self._show(question.lines())
            self._shown_at = trio.current_time()
            self._news.set()

    def _over(self) -> None:
        self._current = None
        self._shows.over()
        if self._reading is not None:
            self._reading.cancel()

    def _show(self, lines: list[str]) -> None:
        """Some lines, and the question behind them."""
        assert self._current is not None
        for line in lines:
            self._shows.line(line)
        question = self._current[1]
        self._shows.ask(question.prompt, question.offered, again=len(lines) == 1)
