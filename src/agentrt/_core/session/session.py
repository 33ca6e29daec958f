"""A session: one conversation with one agent process, as used by a program.

The classes here check the program's arguments and pass them on: `SessionCore` makes the decisions,
`SessionHost` runs the agent's process and all tasks, and `SessionSettings` changes modes, models
and options. Other packages of agentrt get from a session to its host by `host_of`.

The properties have the newest state, including events that a store has not saved yet. `Session.log`
is what viewers see: with a store, it lacks the events that are not saved yet.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args, overload
from urllib.parse import urlsplit

import trio

from ..errors import AgentrtError, LocalProtocolError
from ..limits import Limits
from ..model.content import JsonObject, Prompt, blocks, check_characters
from ..model.driver import ForkPoint
from ..model.events import AgentState, Modes, PermissionOpened, QueueEntry, State, Task
from ..model.log import Log
from ..model.providers import Provider, ProviderSetting
from ..model.remembered import history_text
from ..model.result import TurnResult
from ..model.state import SessionState, Snapshot
from ..model.turn import TurnMachine
from ..permissions.policies import PermissionRequest
from .core import SessionCore, When, start_failure
from .host import SessionHost
from .interfaces import AgentSession, AgentSessions, OfferedTool
from .questions import current_origin, request_id
from .settings import (
    AskedSessions,
    SessionSettings,
    call,
    check_id,
    check_other,
    check_providers,
    checked_folder,
)
from .turn import Turn, make_turn

if TYPE_CHECKING:
    from ..files.worktree import Worktree
    from ..sandbox.wall import SandboxStatus
    from ..trace.subscription import TraceSubscription, WireSubscription
    from .checkpoints import SessionCheckpoints
    from .subscription import Subscription


class SessionQueue(Sequence[QueueEntry]):
    """The prompts that wait in a session, the next one first. It is `Session.queue`.

    A live view: length, iteration and indexing reflect the queue at that moment. The methods take
    the `id` of an entry.
    """

    _core: SessionCore
    _host: SessionHost  # the core refers to it weakly

    def __init__(self) -> None:
        raise TypeError("the queue of a session is `Session.queue`")

    @property
    def _entries(self) -> list[QueueEntry]:
        return self._core.log.state.queue

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> QueueEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueueEntry]: ...
    def __getitem__(self, index: int | slice) -> QueueEntry | list[QueueEntry]:
        return self._entries[index]

    def __repr__(self) -> str:
        return f"<SessionQueue {self._entries!r}>"

    @property
    def paused(self) -> bool:
        """True if any prompt is paused, by `Session.cancel` or by the end of an earlier process."""
        return any(entry.paused for entry in self._entries)

    def remove(self, entry: str) -> None:
        """Remove a prompt from the queue.

        A task waiting for the prompt gets an `AgentrtError`. Raises `LocalProtocolError` if the
        prompt is not in the queue any more.
        """
        with self._core.acting("queue_remove", entry=entry):
            self._core.remove(entry)

    def edit(self, entry: str, content: Prompt) -> None:
        """Replace the content of a prompt.

        Raises the same errors as `remove`, and `LimitExceeded` if the queue becomes too large.
        """
        new = blocks(content)
        with self._core.acting("queue_edit", entry=entry, content=new):
            self._core.edit(entry, new)

    def promote(self, entry: str) -> None:
        """Move a prompt to the front, or a paused one to the front of the paused ones.

        Raises the same errors as `remove`.
        """
        with self._core.acting("queue_promote", entry=entry):
            self._core.promote(entry)

    def resume(self) -> None:
        """Resume the paused prompts."""
        with self._core.acting("queue_resume"):
            self._core.resume_queue()


_WHENS: Final = get_args(When)


class Session:
    """One conversation with one agent process. Made by `open_session`.

    One turn runs at a time; further prompts wait in a queue that every viewer sees. If the agent
    has died, the next prompt starts it again and resumes the conversation if possible.
    """

    _host: SessionHost
    _core: SessionCore
    _settings: SessionSettings
    _queue: SessionQueue

    def __init__(self) -> None:
        raise TypeError("a session is opened by agentrt.open_session")

    # --- properties

    @property
    def id(self) -> str:
        """The session's id in agentrt."""
        return self.log.session

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of the conversation, as taken by `resume` of `open_session`."""
        return self._core.agent_session

    @property
    def sandbox(self) -> SandboxStatus | None:
        """The sandbox around the agent, with the permissions that were given while it ran."""
        return self._host.sandbox

    @property
    def worktree(self) -> Worktree | None:
        """The separate working tree of a session with `worktree=True`."""
        return self._host.worktree

    @property
    def log(self) -> Log:
        """The numbered event log that every viewer reads, for frontends.

        If a store keeps the session, an event appears here once it is stored.
        """
        return self._host.log.shown

    @property
    def state(self) -> State:
        """The current state. The session is busy if `state.turn is not None`.

        This, `title`, `modes`, `background_tasks`, `pending_permissions` and `queue` include events
        that are not stored yet.
        """
        return self._known.state

    @property
    def agent(self) -> AgentState:
        """The agent's name, version and process state."""
        return self.state.agent

    @property
    def limits(self) -> Limits:
        """The limits that the session was opened with."""
        return self._host.limits

    @property
    def title(self) -> str | None:
        """The title given by a person or the agent."""
        return self._known.title

    @property
    def modes(self) -> Modes | None:
        """The agent's mode, model and options, with their possible values."""
        return self._known.modes

    @property
    def background_tasks(self) -> dict[str, Task]:
        """Background work by id, including finished work."""
        return dict(self._known.tasks)

    @property
    def pending_permissions(self) -> dict[str, PermissionOpened]:
        """The open permission requests and questions, by request id."""
        return dict(self._known.permissions)

    @property
    def queue(self) -> SessionQueue:
        """The queued prompts, the next one first, and the methods that change the queue."""
        return self._queue

    @property
    def checkpoints(self) -> SessionCheckpoints:
        """The checkpoints of the session's folder.

        Raises `LocalProtocolError` unless the session was opened with `checkpoints=True`.
        """
        host = self._host
        if host.checkpoints is None:
            raise LocalProtocolError("the session was opened without checkpoints=True")
        from .checkpoints import session_checkpoints

        return session_checkpoints(
            host.checkpoints,
            lambda: self._core.turn is not None,
            host.turns_may_start,
            self._core.acting,
        )

    @property
    def capabilities(self) -> JsonObject:
        """The capabilities that the agent reported at its start.

        The keys depend on the protocol.
        """
        return dict(self._core.capabilities)

    def snapshot(self) -> Snapshot:
        """Return everything there is to show at this moment, including every turn.

        Follow it with `subscribe(snapshot.seq)`. No other task runs in the meantime, for some
        milliseconds per million events: use `full_snapshot` for a long session. `log.recent()`
        returns only the last turns, as viewers of `agentrt.v1` get them, and `log.history(earlier)`
        the turns before them, page by page.
        """
        return self.log.snapshot()

    async def full_snapshot(self) -> Snapshot:
        """Return the same as `snapshot` in short steps, between which other tasks run.

        The session may continue in the meantime: the snapshot is its state at event `seq`, the
        newest one when this returns. Follow it with `subscribe(snapshot.seq)`. To encode it in
        short steps as well, encode `items` and `turns` piece by piece. Cancelling it changes
        nothing.
        """
        from ..model.snapshot_copy import SnapshotCopy  # few sessions are copied

        copy = SnapshotCopy(self.log)
        try:
            while True:
                await trio.lowlevel.checkpoint()
                if (found := copy.step()) is not None:
                    return found
        finally:
            copy.close()

    @property
    def _known(self) -> SessionState:
        """The state of the session, including events that are not stored yet."""
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
        """Make a turn for a prompt, to be entered with `async with`; see `Turn`.

        `when` sets the behaviour during a running turn: `queue` waits for its end, `interrupt`
        cancels it and sends this prompt next, `reject` raises `Busy`. `limits` replaces the
        session's limits for this turn (`turn_timeout_s`, `idle_timeout_s`, `cancel_grace_s`,
        `cancel_resend_s`). `check`: raise when a turn has failed.
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
        """Send a prompt, wait for the end of the turn and return its result.

        The arguments are those of `prompt`. If `check` is false, failure to restart the agent does
        not raise either: the result then has the outcome `agent_died`, no `turn`, and the reason in
        `error`.

        Cancelling this call cancels the turn; the session stays usable.
        """
        turn = self._turn(content, when, limits, check=check, attended=False)
        try:
            async with turn:
                pass
        except AgentrtError as error:
            if check or not turn.agent_did_not_start:
                raise
            return TurnResult(turn="", outcome="agent_died", error=start_failure(error))
        return turn.result

    def submit(
        self,
        content: Prompt,
        *,
        when: When = "queue",
        limits: Limits | None = None,
    ) -> Turn:
        """Send or queue a prompt and return immediately, without waiting for its turn.

        The arguments are those of `prompt`. The returned `Turn` has an `entry` while it waits in
        the queue, an `id` as soon as it has started and a `result` once it has `ended`. Nothing
        iterates over it, so permission requests go to the session's policy and viewers.

        If a store keeps the session, a prompt that still waits when the block of the session, the
        runtime or the process ends stays in the stored queue, paused; see `SessionQueue`.

        Raises `Busy`, `LimitExceeded`, `SessionClosed`, `StoreUnavailable` or `LocalProtocolError`;
        in each case nothing was queued. If the agent cannot be started for it later, the log gets a
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
        """Make a turn for a prompt, in the context of this task with its budgets and telemetry.

        `attended`: the program iterates over the turn and answers its questions.
        """
        if when not in _WHENS:
            known = ", ".join(map(repr, _WHENS))
            raise LocalProtocolError(f"when={when!r} is not known; choose one of {known}")
        if limits is not None and not isinstance(limits, Limits):
            raise LocalProtocolError(
                f"`limits` must be agentrt.Limits(…), not {type(limits).__name__}"
            )
        machine = TurnMachine(
            "user", limits or self._host.limits, blocks(content), attended=attended, unused=attended
        )
        machine.context = contextvars.copy_context()
        return make_turn(self._host, machine, check=check, when=when)

    def steer(self, content: Prompt) -> None:
        """Send a prompt into the running turn.

        Raises `LocalProtocolError` if no turn runs or the agent does not support it
        (`capabilities["steer"]`).
        """
        added = blocks(content)
        with self._core.acting("steer", content=added):
            self._core.steer(added)

    def fork_point(self, at: str) -> ForkPoint:
        """Return the end of a turn, at which a copy of this session can end.

        Pass it to `open_session` as `fork_at`. `at` is the id of the turn or of an item in it. For
        history that an agent repeated from an earlier process, give the id of an item.

        Raises `LocalProtocolError` if the id is unknown, the turn still runs, or the agent has no
        id for anything in it.
        """
        from ..model.fork_point import fork_point  # few sessions are forked

        return fork_point(self.log.state, at)

    def send_history(self, *, most: int = 50_000) -> Turn:
        """Repeat this conversation to an agent that does not remember it.

        Use it if another process could not resume the conversation. Sends a prompt written by
        agentrt (it begins with `[agentrt]`) with the last `most` characters, and returns
        immediately, like `submit`.

        Raises the same errors as `submit`, and `LocalProtocolError` if the conversation is still
        empty.
        """
        words = history_text(self._known, most)
        if not words:
            raise LocalProtocolError("the conversation is empty: there is nothing to repeat")
        with self._core.acting("send_history"):
            return make_turn(self._host, self._core.prompt_agent(words), check=False)

    def set_tools(self, tools: Iterable[OfferedTool]) -> None:
        """Replace the in-process tools and notify agents that listen for changes.

        Raises `LocalProtocolError` unless the session was opened with at least one tool.
        """
        if self._host.set_tools is None:
            raise LocalProtocolError("the session was opened without tools")
        self._host.set_tools(tools)

    def cancel(self, *, now: bool = False) -> None:
        """Cancel the running turn, like a user's Stop, and pause all queued prompts.

        The agent is notified. Paused prompts stay in the queue until `queue.resume`; a prompt sent
        in the meantime goes first and leaves them paused. `now`: do not wait for the agent to end
        the turn; end its process instead. The next prompt then starts a new one. Returns
        immediately; idempotent.
        """
        with self._core.acting("cancel", now=now):
            self._core.cancel("user", current_origin())
            if now:
                self._core.end_now()

    def answer(
        self, request: PermissionOpened | PermissionRequest | str, option: str, *, note: str = ""
    ) -> None:
        """Answer a permission request, given as its event, as a
        `PermissionRequest`, or by its id.

        `option` is the id of an option, or a kind such as `"allow_once"`. `note` is sent to agents
        that accept one. Raises `LocalProtocolError` if the request is not open or has no such
        option; in that case nothing has happened.
        """
        self._core.questions.answer(request_id(request), option, note=note)

    def submit_form(
        self, request: PermissionOpened | PermissionRequest | str, content: JsonObject
    ) -> None:
        """Answer an elicitation with the fields of its `form`."""
        self._core.questions.fill(request_id(request), content)

    def dismiss(
        self, request: PermissionOpened | PermissionRequest | str, message: str = ""
    ) -> None:
        """Answer a question with neither yes nor no, which agents treat as a rejection.

        `message` is sent to agents that accept one.
        """
        self._core.questions.dismiss(request_id(request), message)

    # --- settings

    def rename(self, title: str) -> None:
        """Set the session's title. Titles from the agent are not shown any more.

        An agent that takes titles (`capabilities["set_title"]`) gets it for its own list, now or
        when it is started. If it refuses the title, a notice `title_refused` is logged.

        Raises `LocalProtocolError` if this is no text, or contains a lone surrogate.
        """
        if not isinstance(title, str):
            raise LocalProtocolError(f"title must be given as text, not {title!r}")
        check_characters(title, "a title")
        with self._core.acting("rename", title=title), self._core.step():
            self._core.rename(title)

    async def set_mode(self, mode: str) -> None:
        """Change the agent's mode (an id in `modes.modes`), for this process and later ones.

        If no process runs, the mode is set when the next one starts.

        Raises `RequestError` if the agent refuses. Cancelling this call leaves the outcome open:
        until the agent answers, `modes.unconfirmed` names the setting, and a late answer is
        applied. The session stays usable.
        """
        with self._core.acting("set_mode", mode=mode):
            await self._settings.set_mode(mode)

    async def set_model(self, model: str) -> None:
        """Change the agent's model; see `set_mode`."""
        with self._core.acting("set_model", model=model):
            await self._settings.set_model(model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change one of the agent's options (`modes.options`); see `set_mode`."""
        with self._core.acting("set_option", option=option, value=value):
            await self._settings.set_option(option, value)

    async def list_providers(self) -> list[Provider]:
        """Return the model providers of the agent, with the services that they stand for.

        Raises `RequestError` if the agent has no such list (`capabilities["providers"]`) or
        refuses, `RemoteProtocolError` if its answer is invalid, and `SessionClosed` if it is not
        running.
        """
        return await self._settings.list_providers()

    async def set_provider(self, setting: ProviderSetting) -> None:
        """Let a model provider of the agent stand for a service, or disable it.

        The setting also holds for later processes of this session and for forks, but it is not
        stored. Headers are removed from traces and from the agent's errors. Agents wait with the
        change for the end of the turn. `codex-acp` cannot change the provider of an open session:
        use `providers` of `open_session`.

        Raises `TypeError` or `LocalProtocolError` for an invalid setting, and `RequestError` if the
        agent has no providers (`capabilities["providers"]`) or refuses; see also `set_mode`.
        """
        check_providers([setting])
        host = urlsplit(setting.base_url).hostname
        names = sorted(setting.headers)
        with self._core.acting("set_provider", provider=setting.id, host=host, headers=names):
            await self._settings.set_provider(setting)

    async def stop_task(self, task: str) -> None:
        """Stop a background task; see `set_mode`."""
        with self._core.acting("stop_task", task=task):
            await self.call("stop_task", task=task)

    async def list_sessions(self, cwd: str | os.PathLike[str] | None = None) -> list[AgentSession]:
        """Return the sessions that the agent itself has stored, the newest first.

        `cwd` limits them to one folder; None means all. Use `agentrt.agents.list_sessions` for
        an agent that is not running.

        Raises `RequestError` if the agent has no list (`capabilities["list_sessions"]`) or refuses,
        `RemoteProtocolError` if its answer is invalid, and `SessionClosed` if it is not running.
        """
        return await self._stored_sessions.list(checked_folder(cwd))

    async def delete_session(self, session: str) -> None:
        """Have the agent delete another session, given by the agent's own id (`AgentSession.id`).

        Raises the same errors as `list_sessions` (with `capabilities["delete_session"]`),
        `LocalProtocolError` for this session, which is open, and `SessionNotFound` if the agent
        reports that.
        """
        check_id(session)
        check_other(session, self.agent_session)
        await self._stored_sessions.delete(session)

    @property
    def _stored_sessions(self) -> AgentSessions:
        """The source of the agent's own sessions: a source of the host, else the agent itself."""
        stored = self._host.stored_sessions
        return AskedSessions(self._core) if stored is None else stored()

    async def logout(self) -> None:
        """Log the user out of the agent; new sessions need a login.

        Raises `RequestError` if the agent does not support it (`capabilities["logout"]`) or
        refuses, and `SessionClosed` if it is not running.
        """
        await self.call("logout")

    async def call(self, method: str, **params: Any) -> Any:
        """Send any request of the agent's own protocol, by its protocol name.

        Returns the result unconverted. Use it for requests without a method here or in
        `ClaudeControl`.

        Raises `RequestError`. Cancelling this call notifies the agent if the protocol supports it;
        the session stays usable.
        """
        if not isinstance(method, str) or not method:
            raise LocalProtocolError(f"a method must be given as text, not {method!r}")
        return await call(self._core, method, params)

    async def wait_idle(self) -> None:
        """Wait until all work of the session has ended.

        That is: no turn runs or waits, the agent reports no remaining background work, and no hook
        runs that the agent did not wait for. There is no time limit. Cancelling this call changes
        nothing.
        """
        await self._host.drained()

    # --- the log

    def subscribe(self, after: int | None = None) -> Subscription:
        """Return an async iterator over every event after number `after` (default: from now on).

        Raises `EventsExpired` if those events are no longer kept; start from `snapshot()` in that
        case.
        """
        from .subscription import make_subscription  # turns have their own way to the log

        return make_subscription(self._host, self.log.cursor(after, lossless=True))

    def subscribe_all(self) -> Subscription:
        """Subscribe from the session's first event on.

        After a long history that a resumed agent has repeated, it starts at the first event that is
        still kept.
        """
        return self.subscribe(after=self.log.kept_after)

    def trace(
        self, *, secrets: Iterable[str] = (), redact: Callable[[str], str] | None = None
    ) -> TraceSubscription:
        """Return an async iterator of `TraceRecord` over the wire traffic from now on.

        It yields each line in either direction and events of the process. Secrets are removed;
        `secrets` and `redact` are those of `open_trace`.
        """
        from ..trace.subscription import subscribe_to

        return subscribe_to(self._host.tap, secrets, redact)

    def wire(self) -> WireSubscription:
        """Return an async iterator of `WireMessage` over the protocol's messages from now on.

        It yields each message in either direction, decoded, in the shape of the agent's protocol:
        for what no event has. Secrets are removed.
        """
        from ..trace.subscription import WireSubscription, subscribe_to

        return WireSubscription(subscribe_to(self._host.tap))

    # --- the end

    async def aclose(self, *, discard: bool = False) -> None:
        """End the session now: cancel the turn and end the process.

        If a store keeps the session, queued prompts stay in its queue, paused, for the next
        opening. `discard`: drop them instead; each is reported by a `Notice` (`prompt_dropped`).

        The time is bounded, and cancelling this call does not shorten it. The session is over
        afterwards, whether this returns or raises `trio.Cancelled`.
        """
        if not self._core.conversation.ended:
            with self._core.acting("close"):
                self._core.ask_close(discard=discard)
        with trio.CancelScope(shield=True):  # bounded by the shutdown ladder
            await self._host.finish()
        await trio.lowlevel.checkpoint()


def make_session(host: SessionHost) -> Session:
    """Make the session of a host, for `open_session`."""
    session = Session.__new__(Session)
    session._host = host
    session._core = host.core
    session._settings = SessionSettings(host)
    session._queue = SessionQueue.__new__(SessionQueue)
    session._queue._core, session._queue._host = host.core, host
    return session


def host_of(session: Session) -> SessionHost:
    """Return the host of a session, for other packages of agentrt."""
    return session._host
