"""One session's way into a store: its batches go to the writer, and come back to be shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import trio

from .._errors import AgentrtError, SessionMoved, StoreUnavailable
from .._limits import Limits
from .._model.checkpoint import Checkpoints
from .._model.content import Block, plain_text
from .._model.conversation import Conversation
from .._model.events import Event
from .._model.log import EVENT
from .._model.state import SessionState
from .base import About, Answer, Place, Row
from .writer import Batch

PROMPT = 200
"""Characters of the first prompt that a list shows."""


def first_prompt(state: SessionState) -> str:
    """The beginning of a session's first prompt, as lists show it; one that waits is not empty."""
    if state.ahead is not None:
        return state.ahead.prompt
    for item in state.items.values():
        if item.type == "user":
            return _beginning(item.content)
    return _beginning(state.queue[0].content) or "…" if state.queue else ""


def _beginning(content: Iterable[Block]) -> str:
    return " ".join(plain_text(content).split())[:PROMPT]


def was_prompted(state: SessionState) -> bool:
    """True if a session had a turn or its first prompt waits: then a store keeps it. `PROMPTED` is
    the same in SQL."""
    return state.turn_count > 0 or bool(state.queue)


class Home(Protocol):
    """The store, as its keepers know it."""

    backlog: int
    """Bytes that wait for being stored, of all sessions."""
    trouble: StoreUnavailable | None
    """Why nothing can be stored now."""
    waited: bool
    """Whether that is so for longer than anybody waits."""
    gate: bool
    """Whether nothing is shown before it is stored."""

    @property
    def write(self) -> Callable[[Batch], None]: ...

    def wake(self) -> None:
        """Wake whoever waits for something of any of its keepers."""
        ...

    def owns(self) -> bool:
        """Whether what is stored of a session is this process's to act on, at this moment."""
        ...


class StoreKeeper:
    """What the log of one session hands its batches to. Its methods never wait, but those that say
    so."""

    def __init__(
        self,
        home: Home,
        place: Place,
        conversation: Conversation,
        about: Callable[[], About],
        limits: Limits,
        checkpoints: Checkpoints,
    ) -> None:
        """`about` gives the same object until something in it is another."""
        self.place = place
        self.lost: Callable[[AgentrtError], None] = lambda error: None
        """Called when the store has failed for longer than anybody waits, or takes nothing more of
        this session: with a `SessionMoved` then."""
        self.unseen: Callable[[], None] = lambda: None
        """Called after each batch that will not be shown, because of that."""
        self.answers: list[Answer] = []
        """To be stored with the next batch: what clients are answered to the commands that it comes
        of."""
        self.stored: Callable[[int], None] = lambda last: None
        """Called when all up to an event is stored and shown."""
        self.unread = False
        """Whether the agent is not read, because there is no room."""
        self.read_on: Callable[[], None] = lambda: None
        """Called when it is read again."""
        self.over_at = trio.Event()
        """Set when the session is not this keeper's any more: another one may claim it."""
        self.moved: SessionMoved | None = None
        """Why nothing more of this session is stored, if another process has it now."""
        self._home = home
        self._gate = home.gate
        self._conversation = conversation
        self._log = conversation.log
        self._last = conversation.log.seq
        """The last event that is stored."""
        self._about = about
        self._limits = limits
        self._checkpoints = checkpoints
        self._waiting: deque[tuple[int, list[Event], int]] = deque()
        self._bytes = 0
        self._said: tuple[object, ...] = ()
        self._prompt = ""
        self._hurry = False
        self._moved: trio.Event | None = None
        """Set when there may be room, if anybody waits for that."""

    def kept_by(self, store: object) -> bool:
        """Whether it is that store's."""
        return self._home is store

    # --- what the log wants

    def put(self, first: int, events: list[Event], size: int) -> None:
        if self.moved is not None:
            self.unseen()
            return
        state = self._log.state
        turn = self._conversation.turn
        last = first + len(events) - 1
        weight = size + EVENT * len(events)
        self._waiting.append((last, events, size))
        self._bytes += weight
        self._home.backlog += weight
        batch = Batch(self, first, events, weight, firm=self._hurry)
        self._hurry = False
        if self.answers:
            batch.firm = True
            batch.answers, self.answers = self.answers, []
        about = self._about()
        now = (turn, about, state.title, state.queue, len(state.permissions))
        if now != self._said:
            self._said = now
            batch.firm = True
            batch.row = Row(
                title=state.title,
                prompt=self._first_prompt(),
                phase=state.state.phase,
                turns=state.turn_count,
                about=about,
            )
            if turn is None:
                conversation = self._conversation
                batch.head, batch.record = self._checkpoints.take(
                    last, conversation.ids, named=conversation.named
                )
        self._home.write(batch)
        if not self._gate:
            self._log.shown.extend(events, size)
        elif self._home.waited:
            self.unseen()

    def check(self) -> None:
        if self.moved is not None:
            raise self.moved
        if self._home.trouble is not None:
            raise self._home.trouble

    def hurry(self) -> None:
        self._hurry = True

    def _first_prompt(self) -> str:
        if self._prompt:
            return self._prompt
        prompt, state = first_prompt(self._log.state), self._log.state
        if state.turn_count:  # else it may be edited, or taken back
            self._prompt = prompt
        return prompt

    # --- what the writer says

    def kept(self, last: int) -> None:
        if self.moved is not None or not self._home.owns():
            return  # what is stored is another process's to act on
        shown, waiting = self._log.shown, self._waiting
        full = self._home.backlog >= self._limits.store_backlog
        while waiting and waiting[0][0] <= last:
            _, events, size = waiting.popleft()
            weight = size + EVENT * len(events)
            self._bytes -= weight
            self._home.backlog -= weight
            if self._gate:
                shown.extend(events, size)
        self._last = last
        if full:
            self._home.wake()  # the others may have nothing of their own that is to be stored
        else:
            self.wake()
        self.stored(last)

    def fenced(self, error: SessionMoved) -> None:
        if self.moved is None:
            self.moved = error
            self._waiting.clear()
            self._home.backlog -= self._bytes
            self._bytes = 0
            self.wake()
            self.lost(error)
            self.unseen()

    def wake(self) -> None:
        """Something is stored, or nothing will be."""
        if self._moved is not None:
            self._moved.set()
            self._moved = None

    async def _move(self) -> None:
        if self._moved is None:
            self._moved = trio.Event()
        await self._moved.wait()

    # --- what the session wants

    @property
    def over(self) -> bool:
        """Whether nobody waits any more for what is not stored."""
        return self._home.waited or self.moved is not None

    @property
    def room(self) -> bool:
        """Whether more may be read from the agent."""
        limits = self._limits
        return self._bytes < limits.store_session and self._home.backlog < limits.store_backlog

    async def wait_for_room(self) -> None:
        """Until more may be read from the agent. No checkpoint if it may be now."""
        if self.room:
            return
        self.unread = True
        try:
            while not self.room:
                await self._move()
        finally:
            self.unread = False
        self.read_on()

    async def wait_until_kept(self, seq: int) -> bool:
        """Until event `seq` is stored, or nobody waits for it any more; whether it is."""
        while self._last < seq and not self.over:
            await self._move()
        return self._last >= seq

    async def wait_until_known(self, seq: int) -> None:
        """Until event `seq` is stored, or is not this process's to store: to be used where others
        share the store, and a lease ends what lasts too long."""
        while self._last < seq and self.moved is None:
            await self._move()

    async def wait_until_stored(self) -> None:
        """Until all is stored, or nobody waits for it any more."""
        while self._waiting and not self.over:
            await self._move()
