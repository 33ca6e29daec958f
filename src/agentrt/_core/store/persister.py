"""The path of one session into a store: its batches go to the writer, and are shown when stored.

A `LogPersister` sits between the two logs of a session (see `Log`). `put` gives a batch to the
writer's thread; `committed`, called back in Trio's thread, appends it to the log that readers see.
A batch carries the session's row if a value in it has changed, and, outside of turns, a checkpoint
of everything since the last one (`Checkpoints`).

A batch must survive a loss of power (`fsync`) if a command's answer or a message to the agent waits
for it, and if the row changes. Batches of text alone need not: losing the last words of a running
turn is acceptable.

Back pressure is in bytes. Above `limits.store_session_bytes` for one session, or
`limits.store_backlog_bytes` for all, reading from the agents stops until the writer has caught up
(`wait_for_room`).

A store that fails for longer than `limits.store_failure_timeout_s` is not waited for any more
(`over`): the turn is failed, and the events stay unshown. `fenced` is the end for a session that
another process has taken over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

import trio

from ..errors import AgentrtError, SessionMoved, StoreUnavailable
from ..limits import Limits
from ..model.checkpoint import Checkpoints
from ..model.content import Block, plain_text
from ..model.conversation import Conversation
from ..model.events import Event
from ..model.log import EVENT_BYTES
from ..model.state import SessionState
from .base import CommandAnswer, SessionClaim, SessionDescription, SessionRow
from .writer import Batch

LISTED_PROMPT_CHARS = 200
"""Maximum number of characters of the first prompt that a list shows."""


def first_prompt(state: SessionState) -> str:
    """Return the beginning of a session's first prompt, as lists show it; not empty if the prompt
    is queued."""
    if state.ahead is not None:
        return state.ahead.prompt
    for item in state.items.values():
        if item.type == "user":
            return _beginning(item.content)
    return _beginning(state.queue[0].content) or "…" if state.queue else ""


def _beginning(content: Iterable[Block]) -> str:
    """Return the beginning of a prompt's text, in one line."""
    return " ".join(plain_text(content).split())[:LISTED_PROMPT_CHARS]


def was_prompted(state: SessionState) -> bool:
    """True if a session had a turn, or its first prompt is queued: then a store keeps it.

    `PROMPTED` is the equivalent in SQL.
    """
    return state.turn_count > 0 or bool(state.queue)


class StoreState(Protocol):
    """The part of a store that a `LogPersister` uses."""

    backlog: int
    """Bytes that wait to be stored, of all sessions."""
    trouble: StoreUnavailable | None
    """The reason why nothing can be stored now; None if the store works."""
    waited: bool
    """True if the store has failed for longer than any task waits."""
    show_only_stored: bool
    """True if nothing is shown before it is stored."""

    @property
    def write(self) -> Callable[[Batch], None]:
        """Gives a batch to the writer."""
        ...

    def wake(self) -> None:
        """Wake all tasks that wait for any session of the store."""
        ...

    def owns(self) -> bool:
        """True if this process may act on the stored sessions now."""
        ...


class PersistedSession(Protocol):
    """A stored session, as its `LogPersister` calls it in Trio's thread."""

    def store_failed(self, error: AgentrtError) -> None:
        """Handle that the store has failed for longer than any task waits, or that it does not
        accept this session any more: then with a `SessionMoved`."""
        ...

    def batch_hidden(self) -> None:
        """Handle that a batch will not be shown, for one of these reasons."""
        ...

    def events_stored(self, last: int) -> None:
        """Handle that all events up to number `last` are stored and shown."""
        ...

    def reading_resumed(self) -> None:
        """Handle that the agent is read again, after reading had stopped for lack of room."""
        ...


class ClosedSession:
    """A session that has no agent: nothing follows from storing its log."""

    def store_failed(self, error: AgentrtError) -> None: ...

    def batch_hidden(self) -> None: ...

    def events_stored(self, last: int) -> None: ...

    def reading_resumed(self) -> None: ...


class LogPersister:
    """Receives the batches of one session's log. Only the methods with the prefix
    `wait` wait."""

    def __init__(
        self,
        store: StoreState,
        place: SessionClaim,
        conversation: Conversation,
        about: Callable[[], SessionDescription],
        limits: Limits,
        checkpoints: Checkpoints,
        session: PersistedSession,
    ) -> None:
        """`about` returns the same object until its content changes."""
        self.place = place
        self.answers: list[CommandAnswer] = []
        """Answers to clients, to be stored with the next batch, which their commands caused."""
        self.unread: bool = False
        """True if reading from the agent has stopped for lack of room."""
        self.released: trio.Event = trio.Event()
        """Set when the session is released and can be claimed again."""
        self.moved: SessionMoved | None = None
        """The reason why this session is not stored any more, if another process has it now."""
        self._store = store
        self._session = session
        self._show_only_stored = store.show_only_stored
        self._conversation = conversation
        self._log = conversation.log
        self._last = conversation.log.seq
        """The number of the last event that is stored."""
        self._about = about
        self._limits = limits
        self._checkpoints = checkpoints
        self._waiting: deque[tuple[int, list[Event], int]] = deque()
        """The batches that are not stored yet: their last event's number, events and bytes."""
        self._bytes = 0
        self._row_key: tuple[object, ...] = ()
        """The values that the session's row was last made of."""
        self._prompt = ""
        self._hurry = False
        self._progress: trio.Event | None = None
        """Set when something was stored; None if no task waits for that."""

    def stores_in(self, store: object) -> bool:
        """True if the session is stored in `store`."""
        return self._store is store

    def close(self) -> None:
        """Forget the session, which has ended; the last batches may still be stored."""
        self._session = ClosedSession()
        del self._about

    # --- called by the log

    def put(self, first: int, events: list[Event], size: int) -> None:
        """Give events to the writer, with the session's row if it has changed, and with a
        checkpoint if no turn is running."""
        if self.moved is not None:
            self._session.batch_hidden()
            return
        state = self._log.state
        turn = self._conversation.turn
        last = first + len(events) - 1
        weight = size + EVENT_BYTES * len(events)
        self._waiting.append((last, events, size))
        self._bytes += weight
        self._store.backlog += weight
        batch = Batch(self, first, events, weight, fsync=self._hurry)
        self._hurry = False
        if self.answers:
            batch.fsync = True
            batch.answers, self.answers = self.answers, []
        about = self._about()
        now = (turn, about, state.title, state.queue, len(state.permissions))
        if now != self._row_key:
            self._row_key = now
            batch.fsync = True
            batch.row = SessionRow(
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
        self._store.write(batch)
        if not self._show_only_stored:
            self._log.shown.extend(events, size)
        elif self._store.waited:
            self._session.batch_hidden()

    def check(self) -> None:
        """Raise the error if the session moved, or if the store cannot be written now."""
        if self.moved is not None:
            raise self.moved
        if self._store.trouble is not None:
            raise self._store.trouble

    def hurry(self) -> None:
        """Make the next batch survive a power failure."""
        self._hurry = True

    def _first_prompt(self) -> str:
        """Return the prompt for lists, which does not change after the first turn has begun."""
        if self._prompt:
            return self._prompt
        prompt, state = first_prompt(self._log.state), self._log.state
        if state.turn_count:  # before the first turn it may be edited, or taken back
            self._prompt = prompt
        return prompt

    # --- called by the writer

    def committed(self, last: int) -> None:
        """Show all events up to `last`, which are stored."""
        if self.moved is not None or not self._store.owns():
            return  # only another process may act on the stored events now
        shown, waiting = self._log.shown, self._waiting
        full = self._store.backlog >= self._limits.store_backlog_bytes
        while waiting and waiting[0][0] <= last:
            _, events, size = waiting.popleft()
            weight = size + EVENT_BYTES * len(events)
            self._bytes -= weight
            self._store.backlog -= weight
            if self._show_only_stored:
                shown.extend(events, size)
        self._last = last
        if full:
            self._store.wake()  # other sessions may have nothing left to store
        else:
            self.wake()
        self._session.events_stored(last)

    def fenced(self, error: SessionMoved) -> None:
        """End storing, because another process has the session."""
        if self.moved is None:
            self.moved = error
            self._waiting.clear()
            self._store.backlog -= self._bytes
            self._bytes = 0
            self.wake()
            self.fail(error)
            self._session.batch_hidden()

    def fail(self, error: AgentrtError) -> None:
        """Tell the session that nothing more of it can be stored."""
        self._session.store_failed(error)

    def wake(self) -> None:
        """Wake the waiting tasks: something was stored, or nothing will be any more."""
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    async def _wait_for_progress(self) -> None:
        """Wait until something is stored, or the state of the store changes."""
        if self._progress is None:
            self._progress = trio.Event()
        await self._progress.wait()

    # --- called by the session

    @property
    def over(self) -> bool:
        """True if no task waits any more for data that is not stored."""
        return self._store.waited or self.moved is not None

    @property
    def room(self) -> bool:
        """True if more may be read from the agent."""
        limits = self._limits
        return (
            self._bytes < limits.store_session_bytes
            and self._store.backlog < limits.store_backlog_bytes
        )

    async def wait_for_room(self) -> None:
        """Wait until more may be read from the agent. No checkpoint if that is so already."""
        if self.room:
            return
        self.unread = True
        try:
            while not self.room:
                await self._wait_for_progress()
        finally:
            self.unread = False
        self._session.reading_resumed()

    async def wait_until_kept(self, seq: int) -> bool:
        """Wait until event `seq` is stored, or will not be waited for any more. Returns true if it
        is stored."""
        while self._last < seq and not self.over:
            await self._wait_for_progress()
        return self._last >= seq

    async def wait_until_known(self, seq: int) -> None:
        """Wait until event `seq` is stored, or this process may not store it any more. For shared
        stores only, where the end of the lease limits the wait."""
        while self._last < seq and self.moved is None:
            await self._wait_for_progress()

    async def wait_until_stored(self) -> None:
        """Wait until everything is stored, or will not be waited for any more."""
        while self._waiting and not self.over:
            await self._wait_for_progress()


Persist: TypeAlias = Callable[[PersistedSession, Callable[[], SessionDescription]], LogPersister]
"""Starts storing the log of one session. Call it once, with that session."""
