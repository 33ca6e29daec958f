"""A turn as its owner sees it: a block, an iterator of events, and at its end a value."""

from __future__ import annotations

import contextvars
import math
from types import TracebackType
from typing import TYPE_CHECKING, Final

import trio

from .._errors import (
    AgentDied,
    AgentFailed,
    AgentrtError,
    LocalProtocolError,
    TurnFailed,
    TurnTimedOut,
)
from .._limits import Limits
from .._model.content import Block
from .._model.events import Error, Event, Notice, Outcome, PermissionOpened, TurnEnded
from .._model.log import Cursor
from .._model.result import Denial, TurnResult
from .._model.turn import TurnMachine

if TYPE_CHECKING:
    from .engine import Engine

STRIDE: Final = 512
"""Events handed over between two checkpoints of a reader that always finds more."""

_FAILURES: Final[dict[Outcome, type[TurnFailed]]] = {
    "failed": AgentFailed,
    "agent_died": AgentDied,
    "timed_out": TurnTimedOut,
}


class Turn:
    """One prompt and its answer. Made by `Session.prompt`; use it as a block::

        async with session.prompt("Why does test_io fail?") as turn:
            async for event in turn:
                ...
        print(turn.result.outcome)

    Entering waits until the prompt's turn has come and sends it. Iterating gives the log's events
    from `TurnStarted` to `TurnEnded`; after a cancel only the end, not the backlog. Leaving the
    block waits for the end; leaving it by an exception cancels the turn first. With `check`,
    leaving it normally raises `AgentFailed`, `AgentDied` or `TurnTimedOut` when it ended so.

    Cancelling the task that is inside the block cancels the turn: the agent is told, and the
    block is left when the turn has ended, at the latest `limits.cancel_grace` later. The session
    stays usable.
    """

    def __init__(
        self,
        engine: Engine,
        content: list[Block],
        limits: Limits,
        *,
        check: bool,
        when: str = "queue",
    ) -> None:
        self.id = ""
        """The turn's id in the log; empty until it has started."""
        self.limits = limits
        self._engine = engine
        self._content = content
        self._check = check
        self._when = when
        self._context = contextvars.copy_context()
        self._attended = True
        self._held = True
        # --- set by the session
        self._machine: TurnMachine | None = None
        self._cursor: Cursor | None = None
        self._entry = ""
        self._failure: AgentrtError | None = None
        self._result: TurnResult | None = None
        self._verdict: Outcome | None = None
        self._timeout: Error | None = None
        self._denied: list[Denial] = []
        self._hard_at = math.inf
        self._grace_at = math.inf
        self._resend_at = math.inf
        self._started: trio.Event | None = None  # only if it has to wait for its place
        self._began = 0.0
        # --- of the iterator
        self._offered: str | None = None
        self._given = 0
        self._over = False

    @property
    def result(self) -> TurnResult:
        """How it ended. Raises `LocalProtocolError` while it runs."""
        if self._result is None:
            raise LocalProtocolError("the turn has not ended yet")
        return self._result

    @property
    def entry(self) -> str:
        """Its id in the queue; empty if it did not have to wait."""
        return self._entry

    @property
    def ended(self) -> bool:
        return self._result is not None

    @property
    def seq(self) -> int:
        """The number of the last event that the iterator gave."""
        return self._cursor.seq if self._cursor is not None else 0

    def cancel(self) -> None:
        """Ask the turn to stop, and return at once; its end is told by `TurnEnded`. One that still
        waits for its place is taken back, and never begins. Idempotent, harmless after the end."""
        if self._machine is None:
            self._engine.conductor.withdraw(self)
        self._engine.cancel_turn(self, "cancelled", by="caller")

    def answer(self, request: str, option: str) -> None:
        """Answer a permission request: `option` is an option's id, or a kind such as
        `"allow_once"`. Raises `LocalProtocolError` if it is not open or has no such option."""
        self._engine.questions.answer(request, option, by="user")

    # --- the block

    async def __aenter__(self) -> Turn:
        await self._engine.conductor.enter(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._attended = False
                if self._result is None:
                    self._engine.questions.refuse_unattended(self)
                    await self._wait_for_end()  # noqa: ASYNC102 - to be felt, as in the block
        finally:
            # By an error of the block, or of the wait above: by now only a cancellation.
            if self._result is None:
                self._engine.cancel_turn(self, "cancelled", by="caller")
                # Bounded by the session, which gives up on the agent after `cancel_grace`; the
                # extra second is for a session that is being closed itself.
                with trio.move_on_after(self.limits.cancel_grace + 1, shield=True):
                    await self._wait_for_end()
            self._close_cursor()
        if self._check and error is None:
            self.raise_for_outcome()

    async def _wait_for_end(self) -> None:
        while self._result is None:
            await self._engine.news.wait()

    def _fail(self, failure: AgentrtError) -> None:
        """It never started; `__aenter__` raises this. If nobody waits there, the log tells it."""
        self._failure = failure
        if self._started is not None:
            self._started.set()
        else:
            self._engine.log.append(
                Notice("error", "prompt_dropped", str(failure), {"entry": self._entry})
            )

    def _close_cursor(self) -> None:
        if self._cursor is not None:
            self._cursor.close()

    def raise_for_outcome(self) -> None:
        """Raise the `TurnFailed` that fits the outcome, if it is a failure."""
        result = self.result
        failure = _FAILURES.get(result.outcome)
        if failure is not None:
            message = result.error.message if result.error is not None else result.outcome
            raise failure(message, result)

    # --- the events

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        cursor = self._cursor
        if cursor is None:
            raise LocalProtocolError("iterate a turn inside its `async with` block")
        engine = self._engine
        if self._offered is not None:
            engine.questions.refuse_unattended(self, self._offered)
            self._offered = None
        self._given += 1
        if self._given >= STRIDE:
            self._given = 0
            await trio.lowlevel.checkpoint()
        while True:
            event = cursor.pop()
            if event is None:
                self._given = 0
                await engine.news.wait()
            elif type(event) is TurnEnded:
                self._over = True
                return event
            elif self._verdict is None:
                if type(event) is PermissionOpened:
                    self._offered = event.request
                return event
