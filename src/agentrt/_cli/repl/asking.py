"""Asking the user at the terminal the agent's questions, one at a time.

Only an exact answer counts, typed after the question could be read and after its whole subject has
been shown: neither text typed earlier for another purpose nor an unseen part of the subject may
allow anything. The end of the input means no.
"""

from __future__ import annotations

import os
import termios
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

import trio

from ...errors import LocalProtocolError
from ...events import Event, ItemUpdated, PermissionClosed, PermissionOpened
from ...hosting import answering
from ..auditing import current_user
from ..console import LineReader
from ..session_view import SessionView
from ..text import broken, one_line
from .questions import (
    OpenQuestion,
    PermissionQuestion,
    could_be_an_answer,
    make_question,
    reject,
)
from .view import View

LATE = "Not sent, because the question is closed; type it again to send it as a prompt."

BAR = "  │ "
"""Precedes each row with text from the agent, so that none can look like one of agentrt's."""


class Pages:
    """Some lines, in rows of `width` columns.

    They are shown immediately if they have at most `room` rows; otherwise both ends are shown in
    `page` rows, and then everything, `page` rows at a time.
    """

    def __init__(self, lines: Sequence[str], *, width: int, room: int, page: int) -> None:
        columns = max(8, width - len(BAR) - 1)
        self._rows = [BAR + row for line in lines for row in broken(line, columns)]
        self._page = max(2, page)
        self._seen = len(self._rows) if len(self._rows) <= max(1, room) else 0

    @property
    def left(self) -> int:
        """The number of rows that have not been shown yet."""
        return len(self._rows) - self._seen

    def first(self) -> list[str]:
        """Return the rows to show first."""
        if not self.left:
            return self._rows
        end = self._page // 3
        self._seen = min(self._page - end, len(self._rows))
        if not self.left:
            return self._rows
        tail = self._rows[max(self._seen, len(self._rows) - end) :] if end else []
        hidden = len(self._rows) - self._seen - len(tail)
        return [*self._rows[: self._seen], f"  … {hidden} more …", *tail] if hidden else self.rest()

    def more(self) -> list[str]:
        """Return the next page."""
        start, self._seen = self._seen, min(self._seen + self._page, len(self._rows))
        return self._rows[start : self._seen]

    def rest(self) -> list[str]:
        """Return all rows."""
        self._seen = len(self._rows)
        return self._rows


READING_TIME_S: Final = 0.5
"""Seconds after which a person can have read the question."""
REJECT_ALL: Final = "nn"
"""The answer that rejects all open questions."""
FRAME_ROWS: Final = 6
"""Rows that a terminal needs for the frame around the text of a question."""


class QuestionScreen(Protocol):
    """The place where questions are shown."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        ...

    def line(self, text: str) -> None:
        """Show a line of the question's subject."""
        ...

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        """Show the prompt and the possible answers; typed lines go to `Asker.answer`.

        `again`: the question is repeated, and since the last time only the reason was shown.
        """
        ...

    def entered(self) -> None:
        """The terminal has echoed an Enter."""
        ...

    def over(self) -> None:
        """The question is not open any more."""
        ...


class Asker:
    """Asks the questions of a session that its policy leaves open.

    Pass each event to `take`, after the view has taken it, and each typed line to `answer`. With
    `can_ask=False` all questions are rejected.
    """

    def __init__(
        self, session: SessionView, view: View, shows: QuestionScreen, *, can_ask: bool = True
    ) -> None:
        self._session = session
        self._view = view
        self._shows = shows
        self._can_ask = can_ask
        self._waiting: deque[PermissionOpened] = deque()
        self._current: tuple[PermissionOpened, OpenQuestion] | None = None
        self._pages = Pages([], width=80, room=1, page=1)
        self._subject: list[str] = []
        """The lines of the question, as they were shown last."""
        self._shown_at = 0.0
        self._withdrawn = False
        """True if a question was closed by others, until the next line is typed."""
        self._news = trio.Event()
        self._reading: trio.CancelScope | None = None

    @property
    def asking(self) -> bool:
        """True if a question is shown to the user."""
        return self._current is not None

    @property
    def upcoming(self) -> list[str]:
        """The titles of the questions that will be asked after the current one."""
        return [request.title for request in self._waiting]

    def expects(self, line: str) -> bool:
        """Return True if this line could be meant as an answer."""
        if self._current is None:
            return False
        word = line.strip()
        more = bool(self._pages.left and not word)
        return more or word.casefold() == REJECT_ALL or self._current[1].expects(line)

    def is_prompt(self, line: str) -> bool:
        """Return True if this line is a prompt or a command that was typed while a question is
        shown: it has several words, or begins like a command, and is no answer.
        """
        words = line.split()
        meant = len(words) > 1 or line.lstrip()[:1] in ("/", "!")
        return self._current is not None and meant and not self.expects(line)

    def repeat(self) -> None:
        """Show the prompt of the current question again, if there is one."""
        if self._current is not None:
            self._ask([], again=True)

    def take(self, event: Event) -> None:
        """Ask new questions, and withdraw those that another client or the policy has answered."""
        if isinstance(event, PermissionOpened):
            if event.request in self._session.pending_permissions:  # the policy has not decided it
                self._waiting.append(event)
        elif isinstance(event, PermissionClosed):
            self._waiting = deque(w for w in self._waiting if w.request != event.request)
            if self._current is not None and self._current[0].request == event.request:
                origin = ", ".join(filter(None, (event.who, event.via)))
                self._shows.line(
                    f"Answered by {one_line(origin)}."
                    if event.by == "user" and origin
                    else "The request was withdrawn."
                )
                self._over()
                self._withdrawn = True
        elif isinstance(event, ItemUpdated):
            self._renew(event.item)
            return
        else:
            return
        self._next()

    def answer(self, line: str | None) -> bool:
        """Handle a typed line; None means the end of the input.

        Returns False if the line was not meant as an answer.
        """
        with at_terminal():
            return self._answer(line)

    def _is_late(self, line: str | None) -> bool:
        """Return True, and say so, if a line answers a question that is closed."""
        if not line or not line.strip() or not could_be_an_answer(line):
            return False
        self._shows.line(LATE)
        return True

    def _answer(self, line: str | None) -> bool:
        """Take a line that was typed while a question is shown. Returns False if it is no answer.

        A line that was typed before the question could be read is not taken as its answer: it is
        asked again. One that was typed for a question that others have closed is no prompt. None
        (the end of the input) rejects.
        """
        withdrawn, self._withdrawn = self._withdrawn, False
        if self._current is None:
            return withdrawn and self._is_late(line)
        request, question = self._current
        early = trio.current_time() - self._shown_at < READING_TIME_S
        if line is None:
            self._shows.line("Rejected.")
            reject(self._session, request)
        elif early and not self.expects(line):
            return False
        elif early:
            self._ask(["Typed before the question could be read; please answer now."], again=True)
            return True
        elif line.strip().casefold() == REJECT_ALL and self._waiting:
            self._reject_all(request)
        elif (more := self._more(question, line)) is not None:
            self._ask(more, again=bool(self._pages.left) and len(more) == 1)
            return True
        else:
            try:
                problem = question.take(line)
            except LocalProtocolError as error:  # it was decided in the meantime
                self._shows.line(one_line(str(error)))
                problem = None
            if problem is not None:
                if problem:
                    self._ask([problem], again=True)
                else:
                    self._show(question)
                return True
        self._over()
        self._next()
        return True

    def _reject_all(self, current: PermissionOpened) -> None:
        """Reject all open questions: to allow one, a person must have seen it."""
        waiting, self._waiting = self._waiting, deque()
        for request in (current, *waiting):
            self._shows.line(f"Rejected: │ {one_line(request.title)}")
            reject(self._session, request)

    def stop_asking(self) -> None:
        """Reject the open question and all further ones, because no user is present any more."""
        self._can_ask = False
        if self._current is not None:
            self.answer(None)

    async def serve(self, terminal: int) -> None:
        """Read answers from a terminal while a question is open.

        At other times it does not read, because another program may use the terminal. Runs until
        cancelled.
        """
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
                if line is None and reader.gone:
                    self._answer(line)  # the user rejected nothing
                else:
                    self.answer(line)
            self._reading = None

    # --- one question after the other

    def _next(self) -> None:
        """Show the next question, unless one is shown. Requests that cannot be asked here are
        rejected.
        """
        while self._current is None and self._waiting:
            request = self._waiting.popleft()
            item = self._view.asked_about(request.item)
            question = make_question(self._session, request, item) if self._can_ask else None
            if question is None:
                why = "it cannot be asked here" if self._can_ask else "nobody can be asked here"
                self._shows.line(f"rejected, {why}: {one_line(request.title)}")
                reject(self._session, request)
                continue
            self._current = request, question
            for line in question.title.split("\n"):
                self._title(line)
            self._shown_at = trio.current_time()
            self._show(question)
            self._news.set()

    def _renew(self, item: str) -> None:
        """Show the question again if the agent has changed its subject."""
        if self._current is None or self._current[0].item != item:
            return
        question = self._current[1]
        question.renew(self._view.asked_about(item))
        subject = question.subject(self._shows.size[0])
        if subject and subject != self._subject:
            self._shows.line("The agent has changed its request:")
            self._shown_at = trio.current_time()
            self._show(question)

    def _over(self) -> None:
        """Remove the question from the display, and stop a line that is being read for it."""
        self._current = None
        self._shows.over()
        if self._reading is not None:
            self._reading.cancel()

    def _title(self, line: str) -> None:
        """Show a line of the title, with each row of the agent's text after a bar."""
        columns = self._shows.size[0]
        if len(broken(line, columns - 1)) == 1:
            self._shows.line(line)
            return
        ours, _, theirs = line.partition(" │ ")
        self._shows.line(ours)
        for row in broken(theirs, max(8, columns - len(BAR) - 1)) if theirs else []:
            self._shows.line(BAR + row)

    def _show(self, question: OpenQuestion) -> None:
        """Show the current question, as far as it fits the screen."""
        self._subject = question.subject(self._shows.size[0])
        self._pages = self._paged(self._subject)
        self._ask(self._pages.first())

    def _paged(self, lines: list[str]) -> Pages:
        """Divide a question's subject into pages; the last one leaves room for the answers."""
        assert self._current is not None
        columns, rows = self._shows.size
        room = rows - FRAME_ROWS - len(self._current[1].offered(columns))
        return Pages(lines, width=columns, room=room, page=rows - FRAME_ROWS)

    def _more(self, question: OpenQuestion, line: str) -> list[str] | None:
        """Return the lines to show for a request to see more, or for an early answer; None for
        others.
        """
        line, left = line.strip(), self._pages.left
        if question.declines(line):
            return None
        if line == "d" and (left or isinstance(question, PermissionQuestion)):
            self._pages = self._paged(question.subject(self._shows.size[0]))
            return self._pages.rest()
        if left and not line:
            return self._pages.more()
        return ["Not yet: read all of it first."] if left else None

    def _ask(self, lines: list[str], *, again: bool = False) -> None:
        """Show some lines, then the question.

        `again`: its possible answers have already been shown.
        """
        assert self._current is not None
        question = self._current[1]
        for line in lines:
            self._shows.line(line)
        if left := self._pages.left:
            offered = [f"  Enter  show more ({left} rows left)", "  d  show all"]
            if question.declines("n"):
                offered.append("  n  reject")
            self._shows.ask("Enter/d? ", offered, again=again)
        else:
            offered = question.offered(self._shows.size[0])
            if offered and self._waiting:
                offered.append(f"  {REJECT_ALL}  reject all {len(self._waiting) + 1}")
            self._shows.ask(question.prompt, offered, again=again)


def at_terminal() -> AbstractContextManager[None]:
    """Return a block whose answers and cancellations are those of the user at the terminal."""
    return answering(current_user(), "terminal")
