"""The interface between a protocol driver and the runtime, independent of the protocol.

A driver is sans-I/O: bytes and commands go in, effects come out, in order. It knows the wire format
and its ids, but no processes, clocks, tasks or the log. It never raises because of input from an
agent (`receive` turns every defect into a `Notice`). Illegal commands raise `LocalProtocolError`
and change nothing.

The runtime refers to the agent's requests by a `key` that the driver makes with a `new_key`
function given to it. Keys are unique within the session, so neither side's id space leaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

from .content import Block, JsonObject, ToolContent
from .events import (
    Choice,
    Command,
    ErrorInfo,
    ItemStatus,
    Modes,
    Notice,
    Outcome,
    PermissionOption,
    PlanEntry,
    Task,
    Usage,
    cut,
)
from .providers import ProviderSetting


class ForkPoint(Struct, frozen=True, kw_only=True):
    """The end of the last turn in a copy of a conversation; see `Session.fork_point`."""

    messages: tuple[str, ...]
    """The agent's ids of the messages in that turn, newest first: its answers, then all others."""
    text: str = ""
    """The text of the first of them."""
    occurrence: int = 1
    """The number of times the agent had sent exactly this text up to that point. Some agents do not
    recognize their messages by id in another process.
    """


class WorktreeOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The separate working tree of a session."""

    folder: str
    """The original folder. `cwd` of the session has its place in the working tree."""
    copy: tuple[str, ...] = ()
    """Ignored files and folders that are copied into it."""
    setup: tuple[str, ...] = ()
    """The command that prepares it."""


class Opening(Struct, frozen=True, kw_only=True):
    """The parameters for opening a session. Paths are absolute."""

    cwd: str
    """The working directory."""
    roots: tuple[str, ...] = ()
    """Further folders in addition to `cwd`."""
    resume: str | None = None
    """The agent's id of an earlier session to load or resume."""
    fork: bool = False
    """Continue with a copy of that session and leave the original unchanged."""
    fork_at: ForkPoint | None = None
    """The end of the copy; None copies all of it."""
    mcp_servers: tuple[JsonObject, ...] = ()
    """Entries in ACP's shape (`McpServer`)."""
    model: str | None = None
    """The model to choose, by the agent's name for it; None keeps the agent's choice."""
    mode: str | None = None
    """The mode to choose, by its id; None keeps the agent's choice."""
    options: JsonObject = {}
    """Options specific to a protocol, such as `system_prompt` and `json_schema` (Claude)."""
    providers: tuple[ProviderSetting, ...] = ()
    """Settings of the agent's model providers, which are never stored."""
    tenant: str = ""
    """The name of the tenant that owns the session, or empty. It is not sent to the agent."""
    sandbox: JsonObject | None = None
    """The fields of the sandbox around the agent; None: no sandbox. It is not sent to the agent."""
    worktree: WorktreeOptions | None = None
    """The working tree that the session runs in; None: the folder itself."""


# --- effects: reports of a driver to the runtime


class Write(Struct, gc=False):
    """Send these bytes, which are whole lines. `urgent`: before prompts that still wait."""

    data: bytes
    """One or more whole lines."""
    urgent: bool = True


class Signal(Struct, gc=False):
    """Send this signal to the process, because the protocol has no message for its purpose."""

    name: Literal["interrupt"]
    """`interrupt`: SIGINT."""


class Started(Struct, kw_only=True):
    """The handshake has finished and prompts may be sent.

    Reported again when the agent's session has been replaced by another (`/clear`, a fork) or has
    become resumable.
    """

    session: str
    """The agent's own session id, for resuming later."""
    agent_version: str | None = None
    """The version that the agent reported, cut to a sensible length."""
    resumed: bool = False
    """True if an earlier session was continued."""
    repeated: bool = False
    """True if the agent has repeated the prompts of the resumed conversation
    (`UserContentReceived`).
    """
    capabilities: JsonObject = {}
    """The abilities that the agent reported, in its protocol's shape."""

    def __post_init__(self) -> None:
        if self.agent_version is not None:  # every change of the state repeats it
            self.agent_version = cut(self.agent_version)


class StartFailed(Struct):
    """The handshake ended in an error.

    Its `code` is `auth_required`, `version`, `session_not_found`, `rejected` or `protocol`.
    """

    error: ErrorInfo
    """The cause."""


class UserContentReceived(Struct, kw_only=True):
    """User content that the agent repeats: history, or an echo of the running prompt."""

    content: list[Block]
    """The blocks."""
    message: str | None = None
    """The agent's id of the message, if any."""
    replay: bool = False
    """True for the history of an earlier process."""


class TextReceived(Struct, gc=False):
    """A piece of the answer's text or of the agent's thinking.

    Consecutive pieces with the same `message` and `parent` form one item.
    """

    text: str
    """The piece."""
    thought: bool = False
    """True for the agent's thinking."""
    message: str | None = None
    parent: str | None = None
    replay: bool = False
    """As in `UserContentReceived`."""


class BlockReceived(Struct, kw_only=True):
    """A block of the answer that is not text."""

    block: Block
    """The block."""
    thought: bool = False
    """True for the agent's thinking."""
    message: str | None = None
    """The agent's id of the message, if any."""
    parent: str | None = None
    """The tool call of the sub-agent that wrote it; None for the main agent."""
    replay: bool = False
    """As in `UserContentReceived`."""


class TextEnded(Struct, kw_only=True):
    """The current text or thought item is complete (Claude marks the end of a block).

    `broken`: it was interrupted and the agent will send it again.
    """

    parent: str | None = None
    """As in `BlockReceived`."""
    broken: bool = False


class Retracted(Struct):
    """The agent retracts its output in these messages of the running turn."""

    messages: frozenset[str]
    """The agent's ids of the messages."""


class ToolCalled(Struct, kw_only=True):
    """A tool call is new or has changed: an upsert by `id`.

    Lists replace the earlier values; `append` adds text to the live output. A terminal `status`
    closes the item. `opens`: according to the wire this is a new call. After the end of the turn,
    an update is late, but a new call with the same id is not.

    `name`, `title`, `kind`, `owner`, `input`, `input_text`, `output`, `content` and `locations` are
    those of `ToolCall`; UNSET keeps the earlier value.
    """

    id: str
    opens: bool = False
    name: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    owner: Literal["agent", "host", "client"] | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET
    input: Any = UNSET
    input_text: str | UnsetType = UNSET
    output: Any = UNSET
    content: list[ToolContent] | UnsetType = UNSET
    locations: list[JsonObject] | UnsetType = UNSET
    append: str | UnsetType = UNSET
    parent: str | None = None
    """As in `BlockReceived`."""
    replay: bool = False
    """As in `UserContentReceived`."""


class PlanSet(Struct):
    """The agent's plan."""

    entries: list[PlanEntry]
    """The whole plan, in order."""


class UsageSet(Struct):
    """Usage figures of the session."""

    usage: Usage
    """The figures; each replaces the earlier one."""


class ModesSet(Struct):
    """The session's mode, model and options."""

    modes: Modes
    """The current values with the possible ones."""


class CommandsSet(Struct):
    """The agent's slash commands."""

    commands: list[Command]
    """All commands."""


class TitleSet(Struct):
    """The agent's title for the session."""

    title: str | None
    """None removes it."""


class TaskSet(Struct):
    """Background work is new or has changed.

    `call` is the tool call that started it. If `detaches` is true, reports below that call are
    steps of this work: they belong to no turn, and items they leave open are closed with the task.
    """

    task: Task
    """The work as it is now."""
    call: str | None = None
    detaches: bool = False


class DecisionRequested(Struct, kw_only=True):
    """The agent requests a decision by a person; answer it with `Driver.answer`.

    `kind` is `permission` (choose one of `options`) or `elicitation` (fill in `form` or visit
    `url`). `tool_call`, `name` and `input` describe the subject, as far as the agent reported it.
    """

    key: str
    """The driver's key, to answer with."""
    kind: Literal["permission", "elicitation"]
    title: str
    """One line for people."""
    options: list[PermissionOption] = []
    tool_call: str | None = None
    name: str | None = None
    tool_kind: str | None = None
    """The kind of work, as in `ToolCall.kind`, if the agent reported it."""
    input: Any = None
    changes: list[str] = []
    """The files of the changes that the request shows."""
    created: list[str] = []
    """The `changes` that write a whole file: no old text is shown."""
    locations: list[str] = []
    """The files that the request is about, according to the agent."""
    detail: Any = None
    """The request in a form for people."""
    form: JsonObject | None = None
    url: str | None = None
    raw: Any = None
    """The request as the protocol transmitted it."""
    background: bool = False
    """True if background work asks: the question belongs to no turn, even if one is running."""
    subject: str = ""
    """As in `PermissionOpened`: the subject of a question that agentrt itself asks."""


class ToolCheckRequested(Struct, kw_only=True):
    """The agent is about to run a tool call, with or without asking for permission.

    It waits for `Driver.answer`: the option `DENY` keeps the call from running, `ASK` makes the
    agent ask for permission, and no option leaves the decision to the agent's own rules.
    """

    call: DecisionRequested
    """The call. It has its own key and no options."""
    ran: bool = False
    """True if the call has already run, so the answer has no effect."""


DENY: Final = "deny"
ASK: Final = "ask"
"""The options that answer a `ToolCheckRequested`."""


class ServiceRequested(Struct, kw_only=True):
    """The agent requests a service from the host; answer with `Driver.reply` or `Driver.refuse`.

    `method` is `fs/read_text_file` or another ACP name, `mcp` (a message for an in-process tool
    server: `params = {"server", "message"}`), `hook` (Claude) or `extension` (an agent-specific
    method that the driver knows: `params = {"method", "params"}`).
    """

    key: str
    """The driver's key, to answer with."""
    method: str
    params: JsonObject
    """The parameters, in the shape of `method`."""
    background: bool = False
    """True if background work asks: its handler belongs to no turn, even if one is running."""
    unawaited: bool = False
    """True if the agent may end its turn without the answer. The handler may then
    outlive the turn.
    """
    notification: bool = False
    """True if no answer is expected. Handlers of notifications run one at a time, in
    arrival order.
    """


def extension_request(
    key: str, method: str, params: Any, *, notification: bool = False
) -> ServiceRequested:
    """Make the effect of an agent-specific request or notification."""
    return ServiceRequested(
        key=key,
        method="extension",
        params={"method": method, "params": params},
        unawaited=notification,
        notification=notification,
    )


class RequestWithdrawn(Struct, gc=False):
    """The agent withdrew its request: stop the handler.

    The driver knows whether an answer is still required: `answer`, `reply` and `refuse` do nothing
    for a withdrawn key.
    """

    key: str
    """The key of the request."""


class TurnBegan(Struct, gc=False):
    """The agent began to work by itself.

    `explicit`: the end will be reported by a `TurnFinished`. Otherwise the wire has no such message
    and the runtime infers the end from silence.
    """

    explicit: bool = True


class TurnFinished(Struct, kw_only=True):
    """The agent has reported the end of a turn.

    `turn` is the id given to `prompt`, or None for a turn that the agent began. `outcome` ignores a
    cancellation by agentrt, which the runtime knows about.
    """

    turn: str | None
    outcome: Outcome
    stop_reason: str | None = None
    """The agent's own reason, such as `end_turn`, if it gave one."""
    usage: Usage | None = None
    """Tokens and cost of the turn, if the agent reported them."""
    error: ErrorInfo | None = None
    """The cause of a failure, if known."""
    structured_output: Any = None
    """The parsed answer to a prompt with a JSON schema."""
    folded: tuple[str, ...] = ()
    """The ids of further prompts that end with this turn."""


class SecretsSent(Struct):
    """The following messages contain these secrets: a trace must not show them."""

    values: tuple[str, ...]
    """The secrets."""


class CallReturned(Struct):
    """The result of `Driver.call`: a value in the protocol's own shape, or an error."""

    call: str
    """The id given to the method that began the call."""
    value: Any = None
    """The result."""
    error: ErrorInfo | None = None
    """The error; the result is then None."""


Effect: TypeAlias = (
    Write
    | Signal
    | Started
    | StartFailed
    | UserContentReceived
    | TextReceived
    | BlockReceived
    | TextEnded
    | Retracted
    | ToolCalled
    | PlanSet
    | UsageSet
    | ModesSet
    | CommandsSet
    | TitleSet
    | TaskSet
    | DecisionRequested
    | ToolCheckRequested
    | ServiceRequested
    | RequestWithdrawn
    | TurnBegan
    | TurnFinished
    | CallReturned
    | SecretsSent
    | Notice
)
"""Any effect that a driver reports."""


class DecisionAnswer(Struct, frozen=True, kw_only=True):
    """The answer to an `DecisionRequested`.

    Without `option` and `content` it declines to decide (`cancelled`).
    """

    option: str | None = None
    """The id of the chosen `PermissionOption`."""
    content: JsonObject | None = None
    """The filled-in form of an elicitation (with `option="accept"`)."""
    message: str = ""
    """The reason for a rejection, sent to the agent if its protocol supports that."""
    updated_input: JsonObject | None = None
    """Arguments to run the tool with instead of its own, if the protocol can carry them."""
    interrupt: bool = False
    """True if the agent should also stop the turn, if the protocol can carry it."""


class Driver(Protocol):
    """The state machine of one agent process. Methods return effects to carry out in order.

    One prompt at a time is in flight: `prompt` raises `LocalProtocolError` while one is.
    """

    def start(self, opening: Opening) -> list[Effect]:
        """Begin the handshake, which ends with `Started` or `StartFailed`."""
        ...

    def receive(self, data: bytes) -> list[Effect]:
        """Process output of the agent, split at any position."""
        ...

    def receive_eof(self) -> list[Effect]:
        """Process the end of the agent's stdout, including a last line without a newline."""
        ...

    def prompt(
        self, turn: str, content: Sequence[Block], meta: JsonObject | None = None
    ) -> list[Effect]:
        """Send a prompt, to be answered by `TurnFinished(turn)`.

        `meta` is sent along if the protocol has a field for it.
        """
        ...

    def discard_prompt(self, turn: str) -> None:
        """Forget the unsent message of `prompt` or `steer` for `turn`: it will not be written."""
        ...

    def cancel(self) -> list[Effect]:
        """Ask the agent to stop the running turn. Call again to repeat the request.

        Sends nothing if no turn runs, because a late cancel would hit the next one. The runtime
        must still answer open `DecisionRequested` and `ServiceRequested` keys.
        """
        ...

    def answer(self, key: str, answer: DecisionAnswer) -> list[Effect]:
        """Answer a `DecisionRequested` or a `ToolCheckRequested`.

        Does nothing if the key is unknown or closed.
        """
        ...

    def reply(self, key: str, result: Any) -> list[Effect]:
        """Answer a `ServiceRequested` with its result."""
        ...

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> list[Effect]:
        """Answer a `ServiceRequested` with an error."""
        ...

    def call(self, call: str, method: str, params: JsonObject) -> list[Effect]:
        """Send a request outside the turn, to be answered by `CallReturned(call)`.

        Neutral methods are `set_mode {"mode"}`, `set_model {"model"}`, `set_option {"option",
        "value"}`, `stop_task {"task"}`, `list_sessions {"cursor"?}`, `delete_session {"session"}`
        and `logout`; other names are the protocol's own. A method that the agent did not advertise
        is answered immediately by an error with code `unsupported`.
        """
        ...

    def cancel_call(self, call: str) -> list[Effect]:
        """Abandon a call, and notify the agent if the protocol supports it."""
        ...

    def shutdown_message(self) -> list[Effect]:
        """Return the message to send before stdin is closed, if any.

        Examples are `session/close` and `end_session`.
        """
        ...

    @property
    def idle(self) -> bool:
        """True if the agent has reported that it has nothing left to do (Claude's state frames).

        In protocols without such a report, true outside turns. Any `receive` may change it, even
        one without effects.
        """
        ...


@runtime_checkable
class EndsBySilence(Protocol):
    """A driver with turns that end in two steps: the agent's result and its report that it is idle.

    Its agent also continues by itself when its background work has ended.
    """

    @property
    def awaits_silence(self) -> bool:
        """True if a second step is missing, or if nothing runs but the agent should continue.

        The missing message follows within milliseconds or never, so the runtime calls
        `end_by_silence` after a short silence.
        """
        ...

    def end_by_silence(self) -> list[Effect]:
        """Stop waiting, and end the turn that waits now. `awaits_silence` is false afterwards."""
        ...


@runtime_checkable
class Steers(Protocol):
    """A driver that accepts a prompt during a running turn."""

    def steer(self, turn: str, content: Sequence[Block]) -> list[Effect]:
        """Send a prompt into the running turn.

        `turn` is returned in `TurnFinished.folded` of the turn that took it: the running one, or a
        following one begun by the agent. If the agent drops the prompt, `TurnFinished(turn,
        "cancelled")` reports it.
        """
        ...


class RecentKeys:
    """The last keys of many, each with a value: at least the last `count`, at most twice as many.

    They are in plain dictionaries of strings, which the garbage collector does not look through.
    """

    __slots__ = ("_count", "_new", "_old")

    def __init__(self, count: int) -> None:
        """Begin without keys."""
        self._count = count
        self._new: dict[str, str | None] = {}
        self._old: dict[str, str | None] = {}

    def add(self, key: str, value: str | None = None) -> bool:
        """Add a key, or make it the newest one. Returns True if it was not known."""
        new = key not in self._new and key not in self._old
        self._new[key] = value
        if len(self._new) >= self._count:
            self._old, self._new = self._new, {}
        return new

    def __contains__(self, key: str) -> bool:
        return key in self._new or key in self._old

    def get(self, key: str) -> str | None:
        """Return the value of a key, or None if the key is not known."""
        return self._new.get(key, self._old.get(key))


NewKey: TypeAlias = Callable[[], str]
"""Makes a key that is unique within the session."""


class UnsupportedSetting(Exception):
    """The agent does not offer the requested setting; the text lists its offers."""


def pick_choice(what: str, wanted: str, offered: Sequence[Choice], *, owner: str) -> str:
    """Return the id of a choice given by id or name.

    `owner`: the agent, for the message. Raises `UnsupportedSetting` if there is no such choice.
    """
    for choice in offered:
        if choice.id == wanted:
            return wanted
    for choice in offered:
        if choice.name.casefold() == wanted.casefold():
            return choice.id
    known = ", ".join(choice.id for choice in offered) or "none"
    raise UnsupportedSetting(f"{owner} has no {what} {wanted!r}; it has: {known}")
