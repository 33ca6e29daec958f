"""The tasks that answer the agent's requests, each under its own cancel scope.

A request that a turn caused is served in that turn's nursery and context; a request from outside
turns in the session's. The scope is stored under the request's key, so that a withdrawal by the
agent, a cancel of the turn and the session's end all reach it.

A nursery can only be opened by a task that waits in it. Each session therefore keeps one open that
belongs to no turn yet (`TurnTasks`). The first handler of a turn, or a program that uses
`Turn.nursery`, takes it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import trio

from ..._base.nesting import bare_errors
from ..errors import RequestError
from ..model.turn import TurnMachine
from ..wire.jsonrpc import INTERNAL_ERROR
from .interfaces import CANCELLED_CODE, Lifetime

Reply = Callable[[Any], None]
"""Answers with a result. Raises `TypeError`, `ValueError` or `RecursionError` if it is not JSON;
the request can then still be refused.
"""
Refuse = Callable[[int, str, Any], None]
"""Answers with an error: its code, message and data."""
OnError = Callable[[Exception], None]
"""Gets an exception of the service before the error answer is sent."""


class Starter(Protocol):
    """A nursery in which a handler can be started."""

    def start_soon(self, service: Callable[..., Awaitable[object]], /, *args: object) -> None:
        """Start a task, as `trio.Nursery.start_soon`."""
        ...


class Handlers:
    """The running handlers, by the key of their request.

    `ended` is called each time a handler has answered, within the same `step` as its answer.
    """

    def __init__(self, ended: Callable[[], None], step: AbstractContextManager[None]) -> None:
        """Begin without handlers. `step` is a block that can be entered any number of times."""
        self.running: dict[str, trio.CancelScope] = {}
        """Their cancel scopes. Change it only through the methods."""
        self._until: dict[str, Lifetime] = {}
        self._ends: dict[str, trio.Event] = {}
        """The end events of handlers that are waited for."""
        self._ended = ended
        self._step = step

    def start(
        self,
        nursery: Starter,
        key: str,
        service: Callable[[], Awaitable[Any]],
        reply: Reply,
        refuse: Refuse,
        on_error: OnError,
        *,
        until: Lifetime = "turn",
        context: contextvars.Context | None = None,
    ) -> None:
        """Run `service` in `nursery` and answer with its result, exactly once.

        An exception becomes an error answer, and so does cancellation. A `BaseException` that is
        not an `Exception` (such as `KeyboardInterrupt`) is answered and then propagates.
        """
        self._until[key] = until
        scope = self.running[key] = trio.CancelScope()
        args = (self._serve, key, scope, service, reply, refuse, on_error)
        if context is None:
            nursery.start_soon(*args)
        else:
            context.run(nursery.start_soon, *args)

    def end_of(self, key: str) -> trio.Event | None:
        """Return an event that is set when that handler has answered; None if it is not running."""
        return self._ends.setdefault(key, trio.Event()) if key in self.running else None

    def cancel(self, key: str) -> None:
        """Stop one handler, if it is running."""
        scope = self.running.get(key)
        if scope is not None:
            scope.cancel()

    def cancel_turn(self) -> None:
        """Stop every handler that the cancelled turn has caused."""
        for key, scope in self.running.items():
            if self._until[key] in ("turn", "cancel"):
                scope.cancel()

    def end_turn(self) -> None:
        """Stop the handlers of a turn that is over, except for those that it did not wait for."""
        for key, scope in self.running.items():
            if self._until[key] == "turn":
                scope.cancel()
            elif self._until[key] == "cancel":
                self._until[key] = "itself"

    @property
    def finishing(self) -> bool:
        """True if a handler has outlived its turn."""
        return "itself" in self._until.values()

    @property
    def of_turn(self) -> bool:
        """True if handlers that end with their turn are still running."""
        return "turn" in self._until.values()

    def cancel_all(self) -> None:
        """Stop all handlers."""
        for scope in self.running.values():
            scope.cancel()

    async def _serve(
        self,
        key: str,
        scope: trio.CancelScope,
        service: Callable[[], Awaitable[Any]],
        reply: Reply,
        refuse: Refuse,
        on_error: OnError,
    ) -> None:
        """Run a handler and answer its request, in every case exactly once.

        The answer is sent in `finally`, after the handler was removed, so that its consequences
        find the state without it. An answer that is not JSON becomes an error.
        """

        def failed(error: Exception) -> None:
            """Report an exception of the service, then send it as an error."""
            on_error(error)
            refuse(INTERNAL_ERROR, f"{type(error).__name__}: {error}", None)

        answer: Callable[[], None] = lambda: refuse(CANCELLED_CODE, "Request cancelled", None)  # noqa: E731
        try:
            with scope:
                try:
                    await trio.lowlevel.checkpoint_if_cancelled()  # it may be withdrawn already
                    value = await service()
                except RequestError as error:
                    code, message, data = error.code, error.message, error.data
                    answer = lambda: refuse(code, message, data)  # noqa: E731
                except Exception as error:
                    failure = error
                    answer = lambda: failed(failure)  # noqa: E731
                else:
                    answer = lambda: reply(value)  # noqa: E731
        finally:
            if self.running.get(key) is scope:
                del self.running[key], self._until[key]
                if (end := self._ends.pop(key, None)) is not None:
                    end.set()
            with self._step:
                try:
                    answer()
                except (TypeError, ValueError, RecursionError) as error:  # not JSON
                    failed(error)
                self._ended()


class TurnTasks:
    """The tasks of one turn, which are over before the next one starts."""

    nursery: trio.Nursery

    def __init__(self) -> None:
        """Prepare the tasks; `run` opens the nursery."""
        self.turn: TurnMachine | None = None
        """The turn that uses it; None until it is needed."""
        self.finished: bool = False

    @property
    def cancel_scope(self) -> trio.CancelScope:
        """The cancel scope of the nursery. Cancelling it cancels the turn."""
        return self.nursery.cancel_scope

    def assign(self, turn: TurnMachine) -> None:
        """Assign this to a turn: the deadline of the scope is the turn's hard limit."""
        self.turn = turn
        self.cancel_scope.deadline = turn.hard_at
        turn.scope = self.cancel_scope
        if turn.verdict is not None:
            self.cancel_scope.cancel()

    def close(self) -> None:
        """Cancel the remaining tasks of a turn that is over."""
        self.cancel_scope.cancel()

    async def run(
        self,
        cancelled: Callable[[TurnMachine], None],
        finished: Callable[[], None],
        *,
        task_status: trio.TaskStatus[TurnTasks],
    ) -> None:
        """Keep the nursery open until `close`.

        `cancelled` is called immediately if the nursery is cancelled before that, and
        `finished` when every task is over. An error of a task goes to the turn's block or, if no
        task is in it, is raised here.
        """
        try:
            async with bare_errors(), trio.open_nursery() as self.nursery:
                task_status.started(self)
                try:
                    await trio.sleep_forever()
                except trio.Cancelled:
                    if self.turn and self.cancel_scope.cancel_called:
                        cancelled(self.turn)
                    raise
        except trio.Cancelled:
            raise
        except BaseException as error:
            if self.turn is None or not self.turn.awaited:
                raise
            self.turn.error = error
        finally:
            self.finished = True
            finished()
