"""The tasks that answer the agent's requests, each under a cancel scope of its own.

A request that a turn caused is served in that turn's nursery and context; one that came outside
turns in the session's. Its scope is known by the request's key, so that the agent's withdrawal,
the turn's cancel and the session's end all reach it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from .._errors import RequestError
from .._wire.jsonrpc import INTERNAL_ERROR
from .interfaces import CANCELLED, Lifetime

Reply = Callable[[Any], None]
"""Answers with a result; raises `TypeError`, `ValueError` or `RecursionError` for what is no JSON,
and can be refused then."""
Refuse = Callable[[int, str, Any], None]
OnError = Callable[[Exception], None]


class Starter(Protocol):
    """What a handler can be started in."""

    def start_soon(self, service: Callable[..., Awaitable[object]], /, *args: object) -> None: ...


class Handlers:
    """The handlers that run now, by the key of their request. `ended` is called when one has
    answered."""

    def __init__(self, ended: Callable[[], None] = lambda: None) -> None:
        self.running: dict[str, trio.CancelScope] = {}
        """Their cancel scopes. To be changed by the methods alone."""
        self._until: dict[str, Lifetime] = {}
        self._ends: dict[str, trio.Event] = {}
        """Of those that somebody waits for."""
        self._ended = ended

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
        """Have `service` run in *nursery* and its result answered, exactly once.

        An exception is an error answer; being cancelled is one, too. What is no `Exception`
        (KeyboardInterrupt, a bug's BaseException) is answered and then goes on upwards.
        """
        self._until[key] = until
        scope = self.running[key] = trio.CancelScope()
        args = (self._serve, key, scope, service, reply, refuse, on_error)
        if context is None:
            nursery.start_soon(*args)
        else:
            context.run(nursery.start_soon, *args)

    def end_of(self, key: str) -> trio.Event | None:
        """Set when that handler has answered; None if it does not run."""
        return self._ends.setdefault(key, trio.Event()) if key in self.running else None

    def cancel(self, key: str) -> None:
        """Stop one handler, if it runs."""
        scope = self.running.get(key)
        if scope is not None:
            scope.cancel()

    def cancel_turn(self) -> None:
        """The turn is cancelled: stop every handler that it has caused."""
        for key, scope in self.running.items():
            if self._until[key] in ("turn", "cancel"):
                scope.cancel()

    def end_turn(self) -> None:
        """The turn is over: stop what it has caused, but let those finish that it did not wait
        for."""
        for key, scope in self.running.items():
            if self._until[key] == "turn":
                scope.cancel()
            elif self._until[key] == "cancel":
                self._until[key] = "itself"

    @property
    def finishing(self) -> bool:
        """Whether some have outlived their turn."""
        return "itself" in self._until.values()

    @property
    def of_turn(self) -> bool:
        """Whether some are not over that are to end with their turn."""
        return "turn" in self._until.values()

    def cancel_all(self) -> None:
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
        def failed(error: Exception) -> None:
            on_error(error)
            refuse(INTERNAL_ERROR, f"{type(error).__name__}: {error}", None)

        answer: Callable[[], None] = lambda: refuse(CANCELLED, "Request cancelled", None)  # noqa: E731
        try:
            with scope:
                try:
                    await trio.lowlevel.checkpoint_if_cancelled()  # it may be withdrawn by now
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
            try:
                answer()
            except (TypeError, ValueError, RecursionError) as error:  # no JSON
                failed(error)
            self._ended()
