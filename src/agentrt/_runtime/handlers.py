"""The tasks that answer the agent's requests, each under a cancel scope of its own.

A request that a turn caused is served in that turn's nursery and context; one that came outside
turns in the session's. Its scope is known by the request's key, so that the agent's withdrawal,
the turn's cancel and the session's end all reach it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, Protocol, TypeAlias

import trio

from .._errors import RequestError

CANCELLED: Final = -32800
INTERNAL: Final = -32603

Reply = Callable[[Any], None]
Refuse = Callable[[int, str, Any], None]
OnError = Callable[[Exception], None]


Until: TypeAlias = Literal["turn", "cancel", "session", "itself"]
"""What ends a handler, beside its own end and the agent's withdrawal: its turn, however that ends;
a cancel of its turn only; the session, because no turn has caused it; or nothing but the session's
end by force, because it has outlived its turn and is to finish."""


class Starter(Protocol):
    """What a handler can be started in."""

    def start_soon(self, service: Callable[..., Awaitable[object]], /, *args: object) -> None: ...


class Handlers:
    """The handlers that run now, by the key of their request."""

    def __init__(self) -> None:
        self._scopes: dict[str, trio.CancelScope] = {}
        self._until: dict[str, Until] = {}

    def __len__(self) -> int:
        return len(self._scopes)

    def prepare(
        self,
        key: str,
        service: Callable[[], Awaitable[Any]],
        reply: Reply,
        refuse: Refuse,
        on_error: OnError,
        *,
        until: Until = "turn",
    ) -> Callable[[Starter], None]:
        """Have `service` run and its result answered, exactly once: call what this returns with
        the nursery to run in, now or when there is one. `cancel` works from now on.

        An exception is an error answer; being cancelled is one, too. What is no `Exception`
        (KeyboardInterrupt, a bug's BaseException) is answered and then goes on upwards.
        """
        self._until[key] = until
        scope = self._scopes[key] = trio.CancelScope()
        return lambda nursery: nursery.start_soon(
            self._serve, key, scope, service, reply, refuse, on_error
        )

    def cancel(self, key: str) -> None:
        """Stop one handler, if it runs."""
        scope = self._scopes.get(key)
        if scope is not None:
            scope.cancel()

    def cancel_turn(self) -> None:
        """The turn is cancelled: stop every handler that it has caused."""
        for key, scope in self._scopes.items():
            if self._until[key] in ("turn", "cancel"):
                scope.cancel()

    def end_turn(self) -> None:
        """The turn is over: stop what it has caused, but let those finish that it did not wait
        for."""
        for key, scope in self._scopes.items():
            if self._until[key] == "turn":
                scope.cancel()
            elif self._until[key] == "cancel":
                self._until[key] = "itself"

    @property
    def finishing(self) -> bool:
        """Whether some have outlived their turn."""
        return "itself" in self._until.values()

    def cancel_all(self) -> None:
        for scope in self._scopes.values():
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
        answer: Callable[[], None] = lambda: refuse(CANCELLED, "Request cancelled", None)  # noqa: E731
        try:
            with scope:
                try:
                    value = await service()
                except RequestError as error:
                    code, message, data = error.code, error.message, error.data
                    answer = lambda: refuse(code, message, data)  # noqa: E731
                except Exception as error:
                    on_error(error)
                    message = f"{type(error).__name__}: {error}"
                    answer = lambda: refuse(INTERNAL, message, None)  # noqa: E731
                else:
                    answer = lambda: reply(value)  # noqa: E731
        finally:
            if self._scopes.get(key) is scope:
                del self._scopes[key], self._until[key]
            answer()
