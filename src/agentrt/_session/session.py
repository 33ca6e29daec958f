"""A session: one conversation with one agent process, as a program uses it."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

import trio

from .._errors import AgentrtError, LocalProtocolError
from .._limits import Limits
from .._model.content import JsonObject, Prompt, blocks
from .._model.events import (
    AgentState,
    Error,
    Modes,
    PermissionOpened,
    QueueEntry,
    State,
    Task,
)
from .._model.fork_point import ForkPoint, fork_point
from .._model.log import Log
from .._model.result import TurnResult
from .._model.retelling import retold
from .._model.state import SessionState, Snapshot
from .._model.turn import TurnMachine
from .._wire.mcp import ToolInfo
from .agent_sessions import (
    AgentSession,
    AgentSessions,
    AskedSessions,
    check_id,
    check_other,
    checked_folder,
)
from .calls import call
from .core import When
from .host import SessionHost
from .questions import request_id
from .settings import SessionSettings
from .subscription import Subscription
from .turn import Turn

if TYPE_CHECKING:
    from .._trace.subscription import TraceSubscription

_WHENS: Final = get_args(When)


class OfferedTool(Protocol):
    """An in-process tool, as a session knows it: an `agentrt.Tool`."""

    @property
    def info(self) -> ToolInfo: ...


class Session:
    """One conversation with one agent process. Made by `open_session`.

    One turn runs at a time; further prompts wait in a queue that every viewer sees. A dead agent
    is started again, and its conversation resumed where it can, by the next prompt.
    """

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._core = host.core
        self._set_tools: Callable[[Iterable[OfferedTool]], None] | None = None
        self._settings = SessionSettings(host)
        self._kept: AgentSessions = AskedSessions(host.core)

    # --- what it is

    @property
    def id(self) -> str:
        """agentrt's id of the session."""
        return self.log.session

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of the conversation: what `resume` of `open_session` takes."""
        return self._core.agent_session

    @property
    def log(self) -> Log:
        """The numbered log of its events, which every viewer reads: for frontends. Where a store
        keeps it, an event comes into it when it is stored."""
        return self._host.log.shown

    @property
    def state(self) -> State:
        """What it is doing now. Busy means `state.turn is not None`. (This, `title`, `modes`,
        `tasks`, `permissions` and `queue` are what the session knows, stored yet or not.)"""
        return self._known.state

    @property
    def agent(self) -> AgentState:
        """Who the agent is and whether its process lives."""
        return self.state.agent

    @property
    def limits(self) -> Limits:
        """The bounds that it was opened with."""
        return self._host.limits

    @property
    def title(self) -> str | None:
        """What a person or the agent called it."""
        return self._known.title

    @property
    def modes(self) -> Modes | None:
        """The agent's mode, model and options, and what they can be set to."""
        return self._known.modes

    @property
    def tasks(self) -> dict[str, Task]:
        """Background work by id, also what is over."""
        return dict(self._known.tasks)

    @property
    def permissions(self) -> dict[str, PermissionOpened]:
        """The questions that are open now, by their request."""
        return dict(self._known.permissions)

    @property
    def queue(self) -> list[QueueEntry]:
        """The prompts that wait, the next one first."""
        return list(self._known.queue)

    @property
    def capabilities(self) -> JsonObject:
        """What the agent can do, as it said when it was started; what is in it differs between
        the protocols."""
        return dict(self._core.capabilities)

    def snapshot(self) -> Snapshot:
        """All that there is to show, at this moment: follow it with `subscribe(snapshot.seq)`. It
        has every turn, where viewers of `agentrt.v1` begin with the last ones."""
        return self.log.snapshot()

    @property
    def _known(self) -> SessionState:
        return self._host.log.state

    # --- turns

    def prompt(
        self,
        content: Prompt,
        *,
        when: When = "queue",
        limits: Limits | None = None,
        check: bool = True,
    ) -> Turn:
        """A turn to be entered with `async with`; see `Turn`.

        `when` says what a running turn means: `queue` waits behind it, `interrupt` cancels it and
        goes first, `reject` raises `Busy`. `limits` replaces the session's for this turn (`hard`,
        `idle`, `cancel_grace`, `cancel_resend`).
        """
        return self._turn(content, when, limits, check=check, attended=True)

    async def run(
        self,
        content: Prompt,
        *,
        when: When = "queue",
        limits: Limits | None = None,
        check: bool = True,
    ) -> TurnResult:
        """Prompt, wait for the end, and return it. The arguments are those of `prompt`.

        If `check` is false, an agent that cannot be started again does not raise either: the
        result has the outcome `agent_died`, no `turn`, and the reason as its `error`.

        Cancelling it cancels the turn; the session stays usable.
        """
        turn = self._turn(content, when, limits, check=check, attended=False)
        try:
            async with turn:
                pass
        except AgentrtError as error:
            if check or not turn.agent_did_not_start:
                raise
            why = Error("agent_failed", str(error))
            return TurnResult(turn="", outcome="agent_died", error=why)
        return turn.result

    def submit(
        self,
        content: Prompt,
        *,
        when: When = "queue",
        limits: Limits | None = None,
    ) -> Turn:
        """Send or queue a prompt and return immediately, without waiting for its turn.

        The arguments are those of `prompt`. The returned `Turn` has its `id` as soon as it has
        started, its `entry` while it waits in the queue and, once it has `ended`, its `result`.
        Nothing iterates over it, so permission requests go to the session's policy and viewers.

        If a store keeps the session, a prompt that still waits when the block of the session, the
        runtime or the process ends stays in the stored queue, paused; see `resume_queue`.

        Raises `Busy`, `LimitExceeded`, `SessionClosed`, `StoreUnavailable` or `LocalProtocolError`;
        in each case nothing was queued. If the agent cannot be started for it later, the log has a
        `Notice` (`prompt_dropped`).
        """
        turn = self._turn(content, when, limits, check=False, attended=False)
        turn.place()
        return turn

    def _turn(
        self,
        content: Prompt,
        when: When,
        limits: Limits | None,
        *,
        check: bool,
        attended: bool,
    ) -> Turn:
        if when not in _WHENS:
            known = ", ".join(map(repr, _WHENS))
            raise LocalProtocolError(f"when={when!r} is not known; there are {known}")
        if limits is not None and not isinstance(limits, Limits):
            raise LocalProtocolError(f"limits is a Limits(…), not {type(limits).__name__}")
        machine = TurnMachine(
            "user", limits or self._host.limits, blocks(content), attended=attended, unused=attended
        )
        machine.context = contextvars.copy_context()
        return Turn(self._host, machine, check=check, when=when)

    def steer(self, content: Prompt) -> None:
        """Send a prompt into the running turn. Raises `LocalProtocolError` if none runs or the
        agent cannot take one (`capabilities["steer"]`)."""
        self._core.steer(blocks(content))

    def fork_point(self, at: str) -> ForkPoint:
        """The end of a turn, for a copy of this session that ends there (`fork_at` of
        `open_session`). `at`: the id of the turn, or of an item that was shown in it; of what an
        agent has repeated of an earlier process, of an item.

        Raises `LocalProtocolError` if there is no such thing, the turn still runs, or the agent has
        no name for anything in it.
        """
        return fork_point(self.log.state, at)

    def retell(self, *, most: int = 50_000) -> Turn:
        """Tell an agent what was said in this conversation, of which it does not remember anything:
        in another process, if it cannot resume. That is a prompt in agentrt's own words (it begins
        with `[agentrt]`), with the last `most` characters; as with `submit`, nobody has to wait.

        Raises as `submit`; also `LocalProtocolError` if nothing was said yet.
        """
        words = retold(self._known, most)
        if not words:
            raise LocalProtocolError("there is nothing yet that could be repeated")
        return Turn(self._host, self._core.tell(words), check=False)

    def set_tools(self, tools: Iterable[OfferedTool]) -> None:
        """Replace the in-process tools; agents that listen are notified. The session must have been
        opened with at least one."""
        if self._set_tools is None:
            raise LocalProtocolError("the session was opened without tools")
        self._set_tools(tools)

    def offer_tools(self, set_tools: Callable[[Iterable[OfferedTool]], None]) -> None:
        """The session has a tool server, whose tools this replaces."""
        self._set_tools = set_tools

    def cancel(self, *, now: bool = False) -> None:
        """Cancel the running turn, as a user's Stop, and pause all prompts that wait.

        The agent is notified. Paused prompts stay in the queue until `resume_queue`; a prompt that
        is sent in the meantime goes first and leaves them paused. `now`: do not wait for the agent
        to end the turn; its process is ended and the next prompt starts another one. Returns
        immediately; idempotent."""
        self._core.cancel("user")
        if now:
            self._core.end_now()

    def resume_queue(self) -> None:
        """Let the prompts continue that a `cancel`, or the end of an earlier process, paused."""
        self._core.resume_queue()

    def unqueue(self, entry: str) -> None:
        """Take a waiting prompt back (an id of `snapshot().queue`); whoever waits for it gets an
        `AgentrtError`. Raises `LocalProtocolError` if it does not wait any more."""
        self._core.remove(entry)

    def edit_queued(self, entry: str, content: Prompt) -> None:
        """Replace what a waiting prompt says; as `unqueue`."""
        self._core.edit(entry, blocks(content))

    def promote(self, entry: str) -> None:
        """Move a waiting prompt to the front, one that is paused to the front of those that are;
        as `unqueue`."""
        self._core.promote(entry)

    def answer(self, request: PermissionOpened | str, option: str, *, note: str = "") -> None:
        """Answer a permission request, given as its event or its id.

        `option` is the id of an option, or a kind such as `"allow_once"`. `note` is sent to agents
        that take one. Raises `LocalProtocolError` if the request is not open or has no such option;
        nothing has happened then.
        """
        self._core.questions.answer(request_id(request), option, note=note)

    def fill(self, request: PermissionOpened | str, content: JsonObject) -> None:
        """Answer an elicitation with the fields of its `form`."""
        self._core.questions.fill(request_id(request), content)

    def dismiss(self, request: PermissionOpened | str, message: str = "") -> None:
        """Answer a question with neither yes nor no; agents take that as a rejection. `message` is
        sent to agents that take one."""
        self._core.questions.dismiss(request_id(request), message)

    # --- settings

    def rename(self, title: str) -> None:
        """Give the session a title; the agent's own ones are not shown any more."""
        if not isinstance(title, str):
            raise LocalProtocolError(f"title must be given as text, not {title!r}")
        with self._core:
            self._core.conversation.rename(title)

    async def set_mode(self, mode: str) -> None:
        """Change the agent's mode (an id of `modes.modes`), also for the processes that come after
        this one. While none runs, it is noted for the next one.

        Raises `RequestError` if the agent refuses. Cancelling it leaves the outcome open: until the
        agent answers, `modes.unconfirmed` names the setting, and a late answer is applied. The
        session stays usable.
        """
        await self._settings.set_mode(mode)

    async def set_model(self, model: str) -> None:
        """Change the agent's model; as `set_mode`."""
        await self._settings.set_model(model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change one of the agent's options (`modes.options`); as `set_mode`."""
        await self._settings.set_option(option, value)

    async def stop_task(self, task: str) -> None:
        """Stop one background task; as `set_mode`."""
        await self.call("stop_task", task=task)

    async def list_sessions(self, cwd: str | os.PathLike[str] | None = None) -> list[AgentSession]:
        """The sessions that the agent keeps itself, of a folder (None: of all), the newest first.
        See `agentrt.list_sessions` for an agent that does not run.

        Raises `RequestError` if it keeps no list (`capabilities["list_sessions"]`) or does not give
        it, `RemoteProtocolError` if its answer is none, `SessionClosed` if it does not run.
        """
        return await self._kept.list(checked_folder(cwd))

    async def delete_session(self, session: str) -> None:
        """Have the agent forget another session, by its own id of it (`AgentSession.id`).

        Raises as `list_sessions` (`capabilities["delete_session"]`); also `LocalProtocolError` for
        this one, which is open, and `SessionNotFound` where that is known.
        """
        check_id(session)
        check_other(session, self.agent_session)
        await self._kept.delete(session)

    async def logout(self) -> None:
        """Have the agent forget who is logged in with it; new sessions need a login.

        Raises `RequestError` if it cannot (`capabilities["logout"]`) or refuses, `SessionClosed` if
        it does not run.
        """
        await self.call("logout")

    def keep_sessions(self, kept: AgentSessions) -> None:
        """The agent's sessions are elsewhere than with the agent."""
        self._kept = kept

    async def call(self, method: str, **params: Any) -> Any:
        """Any request of the agent's own protocol, by its name there; the result as it came. For
        what has no method, here or in `ClaudeControl`.

        Raises `RequestError`. Cancelling it notifies the agent, where the protocol can; the session
        stays usable.
        """
        if not isinstance(method, str) or not method:
            raise LocalProtocolError(f"a method is called by its name, not by {method!r}")
        return await call(self._core, method, params)

    async def drained(self) -> None:
        """Wait until no turn runs or waits, the agent has by its own word nothing left to do in the
        background, and no hook runs that it did not wait for. Without a limit of its own.
        Cancelling it changes nothing."""
        await self._host.drained()

    # --- the log

    def subscribe(self, after: int | None = None) -> Subscription:
        """Every event behind number `after` (default: from now on), as an async iterator.

        Raises `Overrun` if those events are no longer kept: start from `snapshot()` then.
        """
        return Subscription(self._host, self.log.cursor(after, lossless=True))

    def subscribe_all(self) -> Subscription:
        """Every event from the session's first one on; or, behind a long history that a resumed
        agent has repeated, from the first one that is still kept."""
        return self.subscribe(after=self.log.kept_after)

    def trace(
        self, *, secrets: Iterable[str] = (), redact: Callable[[str], str] | None = None
    ) -> TraceSubscription:
        """What goes over the wire from now on, as an async iterator of `TraceRecord`: each line of
        either direction, and what becomes of the process. Secrets are taken out of it; `secrets`
        and `redact` are those of `open_trace`."""
        from .._trace.subscription import TraceSubscription

        return TraceSubscription(self._host.tap, secrets, redact)

    # --- the end

    async def aclose(self, *, discard: bool = False) -> None:
        """End the session now: the turn is cancelled and the process ended.

        If a store keeps the session, prompts that wait stay in its queue, paused, for whoever opens
        it again. `discard`: drop them; each is reported by a `Notice` (`prompt_dropped`).

        Bounded; cancelling it does not shorten it. The session is over afterwards, whether it
        returns or raises `trio.Cancelled`.
        """
        if discard:
            self._core.discard()
        with trio.CancelScope(shield=True):  # bounded by the ladder
            await self._host.finish()
        await trio.lowlevel.checkpoint()


def host_of(session: Session) -> SessionHost:
    """The inside of a session, for the rest of agentrt."""
    return session._host
