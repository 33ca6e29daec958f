"""Interfaces between the session's core, its parts, and the task that carries out decisions.

The core decides in steps that never wait. It knows the host only by `CoreHost`, and asks it to
write, to serve a request or to wait; the host calls the core again with the results. Both sides can
therefore be read, and tested, alone.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ..logging import LogScope
from ..model.content import JsonObject
from ..model.driver import Driver, Effect, ServiceRequested, Write
from ..model.events import NO_ORIGIN, AnswerOrigin, CancelledBy, Event, Notice, Outcome
from ..model.turn import TurnMachine
from ..permissions.policies import Decision

if TYPE_CHECKING:
    from ..wire.mcp import ToolInfo

CANCELLED_CODE = -32800
"""The JSON-RPC error code of LSP and ACP for a cancelled request."""

Lifetime: TypeAlias = Literal["turn", "cancel", "session", "itself"]
"""The event that ends a handler, besides its own end and a withdrawal by the agent.

`turn`: the end of its turn, whatever the outcome. `cancel`: only a cancel of its turn. `session`:
the session's end, because no turn caused it. `itself`: only the session's forced end, because it
has outlived its turn and should finish.
"""


HostT = TypeVar("HostT", contravariant=True)


class StartGate(Protocol[HostT]):
    """Decides before each start of the agent about the project's files."""

    @property
    def watches(self) -> bool:
        """True if the files are checked after each turn."""
        ...

    async def prepare(self, host: HostT) -> bool:
        """Look at the files, and ask about them if necessary. Returns True if it is decided."""
        ...

    async def admit(self, host: HostT) -> None:
        """Decide about the next process. Waits for an answer if a person is asked."""
        ...

    async def after_turn(self, host: HostT) -> None:
        """Report files that have changed since the agent was started."""
        ...


class CoreHost(Protocol):
    """Carries out the core's decisions. Its methods never wait, raise or call back."""

    def write(self, lines: Write) -> None:
        """Queue whole lines for the agent."""
        ...

    def hide(self, secrets: tuple[str, ...]) -> None:
        """Replace these values in all traces and log records of what follows."""
        ...

    def interrupt(self) -> None:
        """Send the agent SIGINT."""
        ...

    def offers(self, method: str) -> bool:
        """Return True if there is a service for such requests."""
        ...

    def serve(self, request: ServiceRequested, until: Lifetime) -> None:
        """Have a handler answer the request."""
        ...

    def decide(self, key: str, decision: Awaitable[Decision], until: Lifetime) -> None:
        """Have a handler wait for a policy's decision and pass it to `OpenQuestions.decided`."""
        ...

    def expire(self, key: str, seconds: float, until: Lifetime) -> None:
        """Call `OpenQuestions.expired` if the question stays open for that many seconds."""
        ...

    def stop(self, key: str) -> None:
        """Cancel the handlers of one request, if any are running."""
        ...

    def turn_cancelled(self) -> None:
        """Stop every handler that the running turn has caused."""
        ...

    def turn_ended(self, turn: TurnMachine) -> None:
        """Stop the turn's handlers, except for those that it did not wait for."""
        ...

    @property
    def handlers_open(self) -> int:
        """The number of running handlers."""
        ...

    @property
    def alive(self) -> bool:
        """True if the process has not exited, whether or not the exit has been reported."""
        ...

    @property
    def serving(self) -> bool:
        """True if a handler or a host program is working for the agent."""
        ...

    @property
    def finishing(self) -> bool:
        """True if a handler has outlived its turn."""
        ...

    @property
    def occupied(self) -> bool:
        """True if the tasks of the last turn are not over yet."""
        ...

    @property
    def prepares_turns(self) -> bool:
        """True if each prompt waits in the queue until the host has prepared its turn."""
        ...

    def reschedule(self) -> None:
        """Re-read the next deadline and the work for the host: they may have changed."""
        ...


class ViewerAction(Struct, frozen=True, kw_only=True):
    """A change by a client, by the user at the terminal or by a subcommand."""

    name: str
    """The name of the change, such as `rename` or `set_mode`."""
    about: JsonObject
    """Its arguments."""
    who: str
    """The owner of the credentials, as in `PermissionClosed.who`."""
    via: str
    """The interface, as in `PermissionClosed.via`."""
    outcome: Literal["done", "refused", "interrupted"] = "done"
    """`interrupted`: its outcome is unknown."""
    reason: str = ""
    """The error of a change that was refused."""


class SessionObserver(Protocol):
    """Observes a session, for telemetry. Its methods never wait or raise."""

    def prompting(self, turn: str, context: contextvars.Context | None, /) -> JsonObject | None:
        """Return metadata to send with a prompt that is about to be sent.

        The handlers of its turn run in `context`.
        """
        ...

    def unsent(self, turn: str, /) -> None:
        """Forget a prompt that could not be sent: its turn does not exist."""
        ...

    def events(self, events: list[Event], size: int, /) -> None:
        """Observe a batch of events, made of messages of `size` bytes."""
        ...

    def acted(self, action: ViewerAction, /) -> None:
        """Observe a change that a viewer made to the session."""
        ...

    def calling(
        self, tool: str, call: str | None, meta: JsonObject, /
    ) -> AbstractContextManager[object]:
        """Return a context for a call of a program's tool.

        `call` is the agent's id of it, if known.
        """
        ...

    def close(self) -> None:
        """End the observation: the session is over."""
        ...


class ClientGone(Exception):
    """A client disconnected before answering a request; its effect is unknown."""


class ClientServices(Protocol):
    """A client of the session that provides files or programs to the agent, like an editor."""

    def serves(self, method: str, params: JsonObject) -> bool:
        """Return True if the client answers this request, by ACP's name for it."""
        ...

    async def call(self, method: str, params: JsonObject) -> JsonObject:
        """Return the client's answer. Raises `RequestError` or `ClientGone`.

        Cancelling this call withdraws the request.
        """
        ...

    def release(self, session: str) -> None:
        """Release the programs that the agent started in this session: the agent has ended."""
        ...


class Steps(Protocol):
    """The core as its parts see it."""

    def step(self) -> AbstractContextManager[None]:
        """Return a block in which several commands form one step, with one batch of events."""
        ...

    @property
    def scope(self) -> LogScope:
        """The context of its log records."""
        ...

    @property
    def driver(self) -> Driver | None:
        """The driver of the running process."""
        ...

    @property
    def turn(self) -> TurnMachine | None:
        """The running turn."""
        ...

    @property
    def stopped(self) -> bool:
        """True from a turn's cancel until the agent has ended the turn or its process has ended."""
        ...

    @property
    def ready(self) -> bool:
        """True if the process accepts requests."""
        ...

    def receive(self, effects: list[Effect]) -> None:
        """Apply effects from the driver."""
        ...

    def prompt_agent(self, words: str) -> TurnMachine:
        """Send the agent a prompt written by agentrt. Raises if it cannot accept a prompt."""
        ...

    def reset_idle_timer(self) -> None:
        """Restart the idle timer, because the agent was answered."""
        ...

    def add_notice(self, notice: Notice) -> None:
        """Append a notice to the log."""
        ...

    def handler_failed(self, what: str, error: Exception) -> None:
        """Log the failure of a handler."""
        ...

    def pause(self, turn: TurnMachine) -> None:
        """Stop the hard limit's clock while a person is asked."""
        ...

    def cancel_turn(
        self,
        turn: TurnMachine,
        verdict: Outcome,
        *,
        by: CancelledBy | None,
        origin: AnswerOrigin = NO_ORIGIN,
    ) -> None:
        """Cancel a turn if it still runs."""
        ...


def lifetime_of(
    turn: TurnMachine | None, *, background: bool = False, unawaited: bool = False
) -> Lifetime:
    """Return the lifetime of a handler that is started now."""
    if background or turn is None:
        return "itself" if unawaited else "session"
    return "cancel" if unawaited else "turn"


class OfferedTool(Protocol):
    """The interface of an in-process tool that a session needs; see `agentrt.Tool`."""

    @property
    def info(self) -> ToolInfo:
        """The tool's name, description and arguments, as agents and viewers get them."""
        ...


class AgentSession(Struct, kw_only=True):
    """A session that an agent stores. `id` is accepted by `resume` of `open_session`."""

    agent: str
    """The name of the agent."""
    id: str
    title: str = ""
    """The agent's title; empty if it has none."""
    cwd: str | None = None
    """The folder of the session, if the agent reports it."""
    updated: float | None = None
    """Seconds since the Unix epoch."""


class AgentSessions(Protocol):
    """The source of an agent's stored sessions."""

    async def list(self, cwd: str | None) -> list[AgentSession]:
        """Return the sessions of a folder (None: of all folders), the newest first."""
        ...

    async def delete(self, session: str) -> None:
        """Delete a session. Raises `SessionNotFound`."""
        ...
