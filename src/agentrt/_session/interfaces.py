"""Between the session's core, its parts, and the task that carries out what they decide."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal, Protocol, TypeAlias

from .._logging import LogScope
from .._model.content import JsonObject
from .._model.driver import Driver, Effect, Requested, Write
from .._model.events import CancelledBy, Event, Notice, Outcome
from .._model.turn import TurnMachine
from .._permissions.policies import Decision

CANCELLED = -32800
"""JSON-RPC's code (LSP's, and ACP's) for a request that was cancelled."""

Lifetime: TypeAlias = Literal["turn", "cancel", "session", "itself"]
"""What ends a handler, beside its own end and the agent's withdrawal: its turn, however that ends;
a cancel of its turn only; the session, because no turn has caused it; or nothing but the session's
end by force, because it has outlived its turn and is to finish."""


class Host(Protocol):
    """Carries out what the core decides. Nothing here waits, raises or calls back."""

    def write(self, lines: Write) -> None:
        """Queue whole lines for the agent."""
        ...

    def interrupt(self) -> None:
        """Send the agent SIGINT."""
        ...

    def offers(self, method: str) -> bool:
        """Whether somebody serves such a request."""
        ...

    def serve(self, request: Requested, until: Lifetime) -> None:
        """Have a handler answer it."""
        ...

    def decide(self, key: str, decision: Awaitable[Decision], until: Lifetime) -> None:
        """Have a handler wait for a policy's decision; `SessionCore.decided` gets it."""
        ...

    def expire(self, key: str, seconds: float, until: Lifetime) -> None:
        """Call `SessionCore.expired` if the question is open for so long."""
        ...

    def stop(self, key: str) -> None:
        """Cancel the handlers of one request, if any run."""
        ...

    def turn_cancelled(self) -> None:
        """Stop every handler that the running turn has caused."""
        ...

    def turn_ended(self, turn: TurnMachine) -> None:
        """Stop what it has caused, but let those finish that it did not wait for."""
        ...

    @property
    def handlers_open(self) -> int:
        """How many handlers run."""
        ...

    @property
    def alive(self) -> bool:
        """Whether the process, if there is one, has not exited, reported or not."""
        ...

    @property
    def serving(self) -> bool:
        """Whether a handler or a program of the host's is at work for the agent."""
        ...

    @property
    def finishing(self) -> bool:
        """Whether a handler has outlived its turn."""
        ...

    @property
    def occupied(self) -> bool:
        """Whether the tasks of the last turn are not over yet."""
        ...

    def look(self) -> None:
        """The next deadline, or what waits for the host, may be another one now."""
        ...


class Observer(Protocol):
    """Sees what happens in a session, for telemetry. Nothing here waits or raises."""

    def prompting(self, turn: str, context: contextvars.Context | None, /) -> JsonObject | None:
        """A prompt is about to be sent, whose handlers run in that context. Returns what is to
        travel with it."""
        ...

    def unsent(self, turn: str, /) -> None:
        """It could not be sent: there is no such turn."""
        ...

    def events(self, events: list[Event], size: int, /) -> None:
        """A batch of events, made of messages of so many bytes."""
        ...

    def calling(
        self, tool: str, call: str | None, meta: JsonObject, /
    ) -> AbstractContextManager[object]:
        """Around a call of a tool of the program's; `call` is the agent's id of it, if known."""
        ...

    def close(self) -> None:
        """The session is over."""
        ...


class ClientGone(Exception):
    """A client went while it was asked something: nobody knows what it has done."""


class ClientServices(Protocol):
    """A client of the session whose files or programs are the agent's, as an editor's are."""

    def serves(self, method: str, params: JsonObject) -> bool:
        """Whether it answers this request, by ACP's name for it."""
        ...

    async def call(self, method: str, params: JsonObject) -> JsonObject:
        """Its answer. Raises `RequestError`, or `ClientGone`. Cancelling it withdraws the
        request."""
        ...

    def release(self, session: str) -> None:
        """The agent that has had it run programs in this session is gone."""
        ...


class Steps(Protocol):
    """What the parts of the core need of it. As a block, one step: whatever happens in it makes one
    batch of events."""

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

    @property
    def scope(self) -> LogScope:
        """What is logged about it."""
        ...

    @property
    def driver(self) -> Driver | None:
        """Of the process that runs."""
        ...

    @property
    def turn(self) -> TurnMachine | None:
        """The running turn."""
        ...

    @property
    def stopped(self) -> bool:
        """True from a turn's cancel until the agent has ended it, or is gone."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the process takes requests."""
        ...

    def receive(self, effects: list[Effect]) -> None:
        """Take what the driver reports."""
        ...

    def tell(self, words: str) -> TurnMachine:
        """Prompt the agent in words of agentrt's own. Raises if it can take no prompt."""
        ...

    def touch(self) -> None:
        """The agent was answered: its silence begins anew."""
        ...

    def say(self, notice: Notice) -> None:
        """Put a notice into the log."""
        ...

    def handler_failed(self, what: str, error: Exception) -> None:
        """A handler failed: the log says so."""
        ...

    def pause(self, turn: TurnMachine) -> None:
        """Somebody is asked, whose time is not the turn's: the hard limit stands still."""
        ...

    def cancel_turn(self, turn: TurnMachine, verdict: Outcome, *, by: CancelledBy | None) -> None:
        """Cancel a turn, if it still runs."""
        ...


def lifetime_of(
    turn: TurnMachine | None, *, background: bool = False, unawaited: bool = False
) -> Lifetime:
    """What ends a handler that is started now."""
    if background or turn is None:
        return "itself" if unawaited else "session"
    return "cancel" if unawaited else "turn"
