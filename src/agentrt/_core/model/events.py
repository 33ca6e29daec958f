"""The events of the log, as seen by viewers in Python, browsers and terminals.

One struct per `kind` of the browser protocol (`agentrt.v1`). Each encodes to exactly the `event`
field of that protocol's frames. Times are seconds since the Unix epoch.

The most frequent structs are exempt from cyclic garbage collection (`gc=False`), because they hold
plain data.

Texts in lists that every viewer gets again and again are limited: titles, commands, modes. Output
that an agent sends once, such as an answer or a tool's output, is not cut.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from ..errors import Cause
from .causes import cause_of
from .content import Block, Cut, JsonObject, ToolContent

Phase: TypeAlias = Literal["starting", "idle", "running", "waiting", "cancelling", "closed", "dead"]
"""The current activity of a session. `waiting`: a person must answer. `dead`: the process has ended
and the next prompt starts a new one. `closed` is final.
"""

Origin: TypeAlias = Literal["user", "agent"]
"""The starter of a turn: the user with a prompt, or the agent by itself."""

Outcome: TypeAlias = Literal[
    "completed", "cancelled", "refused", "limit", "failed", "timed_out", "agent_died"
]
"""The end of a turn as determined by agentrt; the agent's own value is the `stop_reason`."""

CancelledBy: TypeAlias = Literal["user", "caller", "agent", "budget"]
"""The party that cancelled a turn. `budget`: a limit of `agentrt.budget` was reached."""

ItemType: TypeAlias = Literal["user", "text", "thought", "tool", "notice", "task"]
"""The type of an item."""

ItemStatus: TypeAlias = Literal[
    "pending", "waiting", "running", "completed", "failed", "denied", "cancelled", "orphaned"
]
"""The status of an item. `orphaned`: the process died and the result is unknown. The last five
values are terminal.
"""

TERMINAL: frozenset[str] = frozenset({"completed", "failed", "denied", "cancelled", "orphaned"})
"""The terminal values of `ItemStatus`."""


class ErrorInfo(Struct, omit_defaults=True, gc=False):
    """An error, for people (`message`) and for programs (`cause`, `code`, `data`).

    `code` and `data` come from the agent or from agentrt. `cause` has the same meaning for every
    agent: `auth`, `rate_limit`, `overloaded`, `quota`, `context_too_large`, `model_unknown`,
    `network`, `agent_bug` or `refused`, or None if it is unknown.
    """

    code: str
    """The code, from the agent or from agentrt."""
    message: str
    """The message for people."""
    data: Any = None
    """Further data, from the agent or from agentrt."""
    cause: Cause | None = None
    retry_at: float | None = None
    """The time at which a limit ends according to the agent, in Unix seconds. None if unknown."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""

    def __post_init__(self) -> None:
        if self.cause is None:
            self.cause = cause_of(self.code, self.message, self.data)


class LimitWindow(Struct, omit_defaults=True, kw_only=True, gc=False):
    """A limit of the user's account, as far as the agent reports it."""

    name: str
    """The agent's name for it, such as `primary` or `five_hour`."""
    used_percent: float | None = None
    """The used part in percent; None if the agent does not report it."""
    resets_at: float | None = None
    """The time at which it begins anew, in Unix seconds."""
    window_s: float | None = None
    """Its length in seconds."""
    reached: bool = False
    """True if the agent reports that the limit was reached."""


class Usage(Struct, omit_defaults=True, kw_only=True, gc=False):
    """Token counts and cost.

    `used` of `size` tokens are in the context window now. The other counts are for the turn (in
    `turn.ended`) or for the session (in `usage`). `cost` is in `currency` (USD). `steps` is the
    agent's own count of its rounds with the model. `models` has the same figures per model name.
    """

    used: int | None = None
    """Tokens that are in the context window now."""
    size: int | None = None
    """Tokens that fit into the context window."""
    input_tokens: int | None = None
    """Tokens sent to the model, without those read from or written to its cache."""
    output_tokens: int | None = None
    """Tokens written by the model."""
    cache_read_tokens: int | None = None
    """Tokens read from the model's cache."""
    cache_write_tokens: int | None = None
    """Tokens written to the model's cache."""
    thought_tokens: int | None = None
    """Tokens of thinking."""
    total_tokens: int | None = None
    """The agent's own sum."""
    cost: float | None = None
    currency: str | None = None
    """The currency of `cost`."""
    steps: int | None = None
    api_s: float | None = None
    """Seconds of the turn that its requests to the model took."""
    first_token_s: float | None = None
    """Seconds from the first request to the first token."""
    models: dict[str, Usage] = {}
    limits: list[LimitWindow] | None = None
    """The limits of the user's account; None if the agent has reported none."""


class ToolCall(Struct, omit_defaults=True, kw_only=True, gc=False):
    """A tool call.

    `call` is the agent's id for it. Viewers may complete only calls with `owner: "client"`.
    """

    call: str = ""
    name: str = ""
    """The tool's name; empty if the agent does not report it (many ACP agents do not)."""
    kind: str = "other"
    """The kind of work, such as `read`, `edit`, `execute` or `other`. Chosen by the agent."""
    title: str = ""
    """One line for people, such as the command or the file."""
    owner: Literal["agent", "host", "client"] = "agent"
    """The party that runs the tool: the agent, the program (`host`), or a viewer (`client`)."""
    input: Any = None
    """The parsed arguments, usually an object; None until the agent has sent them."""
    input_text: str = ""
    """The arguments as far as the agent has written them, as JSON text. Empty once `input` is
    known. It grows in steps, not with every character.
    """
    output: Any = None
    """The raw result, if the agent reports one. `content` has its form for people."""
    locations: tuple[JsonObject, ...] = ()
    """The files that the call works on: objects with `path` and, if known, `line`."""
    content: tuple[ToolContent, ...] = ()
    """The result for people: blocks, changes to files, and output of terminals."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class Item(Struct, omit_defaults=True, kw_only=True, gc=False):
    """An entry of the transcript.

    `parent` is the (sub-agent's) tool call that it belongs to. `turn` is None for repeated history
    and for a step of a sub-agent that works in the background.
    """

    id: str
    """Unique in the log, such as `i12`."""
    type: ItemType
    """The type decides which of the following fields are used."""
    turn: str | None = None
    parent: str | None = None
    status: ItemStatus = "running"
    """A text is `running` while it grows; see `ItemStatus` for tool calls."""
    text: str = ""
    """The text so far, of a text, a thought or a notice."""
    content: tuple[Block, ...] = ()
    """Blocks that are not text, and the blocks of a user's prompt."""
    tool: ToolCall | None = None
    """The call, for an item of type `tool`."""
    message: str | None = None
    """The agent's id of the message, if it has one."""
    replay: bool = False
    """True if the agent repeats this item from the conversation of an earlier process."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class PermissionOption(Struct, omit_defaults=True, gc=False):
    """A possible answer to a permission request. Choose by `kind`, display `name`."""

    id: str
    """The value to answer with."""
    name: str
    """The label for people."""
    kind: str
    """`allow_once`, `allow_always`, `reject_once` or `reject_always`."""
    effect: str = ""
    """A further effect of this choice: `mode` (changes the session's mode) or `folder` (lets the
    agent work in another folder). Choose such an option by its id, never by its kind alone.
    """


class PlanEntry(Struct, omit_defaults=True, gc=False):
    """A step of the agent's plan."""

    content: str
    """One line for people."""
    status: str = "pending"
    """`pending`, `in_progress` or `completed`."""
    priority: str = "medium"
    """`high`, `medium` or `low`."""


class Choice(Struct, omit_defaults=True):
    """A possible value of a mode or of an option."""

    id: str
    """The value to set."""
    name: str
    """The label for people."""
    description: str | None = None
    """An explanation for people, if the agent gives one."""


class Option(Struct, omit_defaults=True, kw_only=True):
    """A setting of the session, such as its model: a choice, or a switch if `choices` is empty."""

    id: str
    """The name to set it by."""
    name: str
    """The label for people."""
    category: str | None = None
    """The agent's grouping, such as `model` or `thought_level`."""
    description: str | None = None
    """An explanation for people, if the agent gives one."""
    value: str | bool
    """The current value: the id of a choice, or a boolean for a switch."""
    choices: list[Choice] = []
    """The possible values; empty for a switch."""


class Modes(Struct, omit_defaults=True, kw_only=True):
    """The session's mode, model and other options, each with its possible values.

    `unconfirmed` lists the settings (`mode`, `model`, or the id of an option) with a change request
    that the agent has not answered and that no caller waits for any more. The values shown for them
    may differ from the agent's.
    """

    mode: str | None = None
    """The id of the current mode."""
    modes: list[Choice] = []
    """The modes to choose from; empty if the agent has none."""
    model: str | None = None
    """The id of the current model."""
    models: list[Choice] = []
    """The models to choose from; empty if the agent does not list them."""
    options: list[Option] = []
    """Further settings."""
    unconfirmed: list[str] = []


class Command(Struct, omit_defaults=True):
    """A slash command of the agent."""

    name: str
    """The name without the slash."""
    description: str = ""
    """An explanation for people."""
    hint: str | None = None
    """A placeholder for the argument, such as `path`. None if it takes no argument."""


class Task(Struct, omit_defaults=True, kw_only=True, gc=False):
    """Background work that the agent reports. It outlives turns and never makes a session busy.

    `item` is the tool call that started it; the steps of a background sub-agent are items below
    that one, without a turn. `detail` is the latest progress or, once `status` is terminal, the
    final report, if the agent gives one.
    """

    id: str
    """The agent's id of the work."""
    title: str = ""
    """One line for people."""
    status: str = "running"
    """As in `Item`."""
    turn: str | None = None
    """The turn in which it started."""
    kind: str | None = None
    """The agent's kind of work, such as a shell command or a sub-agent."""
    detail: str | None = None
    item: str | None = None
    usage: Usage | None = None
    """Tokens and steps of this work, if the agent reports them."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class QueueEntry(Struct, omit_defaults=True, gc=False):
    """A queued prompt. A `paused` prompt is not sent until the queue is resumed."""

    id: str
    """The id to remove it or to send it next."""
    content: list[Block]
    """The content of the prompt."""
    paused: bool = False
    """True if it is not sent until the queue is resumed."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class RunningTurn(Struct, gc=False):
    """The running turn, as far as viewers need it. `deadline` is that of the hard limit."""

    id: str
    """The id of the turn."""
    origin: Origin
    """The starter of the turn."""
    since: float
    """The time at which the turn started."""
    deadline: float | None = None
    """The time of the turn's hard limit."""
    cancel_deadline: float | None = None
    """The time at which agentrt ends a turn that is being cancelled."""
    waits_until: float | UnsetType = UNSET
    """The time until which the turn waits for the end of a rate limit, if it does."""


class AgentState(Struct, frozen=True, gc=False):
    """The agent of a session. `alive` is true while its process runs."""

    name: str
    """The name that the session was opened with."""
    protocol: Literal["acp", "claude", "codex", "own"]
    """The protocol that the agent speaks; `own` for one with a driver of the program."""
    version: str | None = None
    """The version that the agent reports."""
    pid: int | None = None
    """The process id; None if it does not run on this machine."""
    alive: bool = False


class State(Struct, gc=False):
    """The session's state. By definition the session is busy if `turn` is not None."""

    phase: Phase
    """The current activity."""
    turn: RunningTurn | None
    """The running turn. The session is busy if there is one."""
    agent: AgentState
    """The agent and its process."""
    error: ErrorInfo | None = None
    """The reason for the phase `dead` or `closed`, if there is one."""


# --- the events


class StateChanged(Struct, tag_field="kind", tag="state", gc=False):
    """The session's state has changed."""

    state: State
    """The new state."""


class TurnStarted(Struct, tag_field="kind", tag="turn.started", omit_defaults=True, gc=False):
    """A turn has started."""

    turn: str
    """The id of the turn."""
    origin: Origin
    """`user` for a prompt, `agent` for a turn that the agent began by itself."""
    prompt: list[Block] | None = None
    """The content of the prompt; None in a turn that the agent began."""


class TurnEnded(
    Struct, tag_field="kind", tag="turn.ended", omit_defaults=True, kw_only=True, gc=False
):
    """A turn has ended.

    Emitted exactly once per turn, after its items and permission requests have been closed.
    """

    turn: str
    """The id of the turn."""
    outcome: Outcome
    """The end of the turn as agentrt determined it."""
    by: CancelledBy | None = None
    """The party that cancelled the turn; None for every other outcome."""
    who: str = ""
    """Of a turn that was cancelled by `user` or `caller`: as in `PermissionClosed.who`."""
    via: str = ""
    """The interface from which the turn was cancelled, as in `PermissionClosed.via`."""
    stop_reason: str | None = None
    """The agent's own reason, such as `end_turn`; None if it gave none."""
    usage: Usage | None = None
    """Tokens and cost of the turn, if the agent reports them."""
    error: ErrorInfo | None = None
    """The error of a turn that did not end well, if one is known."""
    structured_output: Any = None
    """The parsed answer, if the session has a JSON schema for answers (`json_schema`)."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class ItemOpened(Struct, tag_field="kind", tag="item.opened", gc=False):
    """An item was added to the transcript."""

    item: Item
    """The item as it is now."""


class ItemDelta(Struct, tag_field="kind", tag="item.delta", gc=False):
    """`text` was appended to an item. `TextDelta` and `ThoughtDelta` tell the item's type."""

    item: str
    """The id of the item."""
    text: str


class TextDelta(ItemDelta, tag_field="kind", tag="item.delta", gc=False):
    """A piece of the answer's text."""


class ThoughtDelta(ItemDelta, tag_field="kind", tag="item.delta", gc=False):
    """A piece of the agent's thinking."""


class ItemUpdated(Struct, tag_field="kind", tag="item.updated", gc=False):
    """Fields of an item were replaced. `patch` holds their new values.

    `tool` is merged: only the fields present in the patch are replaced.
    """

    item: str
    """The id of the item."""
    patch: JsonObject
    """Field names of `Item` with their new values."""


class ItemClosed(Struct, tag_field="kind", tag="item.closed", gc=False):
    """An item reached a terminal status."""

    item: str
    """The id of the item."""
    status: ItemStatus
    """The terminal status: one of `TERMINAL`."""


class PermissionOpened(
    Struct, tag_field="kind", tag="permission.opened", omit_defaults=True, kw_only=True, gc=False
):
    """The agent requests a permission or an answer.

    Also used for elicitations: `form` is then the JSON schema of the requested answer, or `url` a
    page to visit.
    """

    request: str
    """The id to answer with."""
    title: str
    """One line for people, such as the command or the question."""
    item: str | None = None
    """The tool call that the request is about, if any."""
    detail: Any = None
    """The request as the agent sent it: show it in full before anything is allowed."""
    options: list[PermissionOption] = []
    """The possible answers, in the agent's order."""
    expires: float | None = None
    """The time at which the request is rejected if it has no answer; None if it waits for ever."""
    form: JsonObject | None = None
    """The JSON Schema of the requested answer, if the agent asks for one."""
    url: str | None = None
    """A page to visit, if the agent asks for that."""
    background: bool = False
    """True if background work asks: no turn waits for the answer, and no turn's end closes the
    request.
    """
    orphaned: bool = False
    """True if the process that asked has ended and its own request is closed. The answer goes to
    the agent in a prompt written by agentrt, which begins with `[agentrt]`. A dismissal only closes
    this request.
    """
    tool: ToolCall | None = None
    """The complete tool call of `item`, for viewers that were sent only a preview of it."""
    subject: str = ""
    """The subject of a request that agentrt itself makes: `Trust` (the files of a project), or of
    the sandbox: `Network` (a connection), `Read` or `Write` (files outside of it) or `Program`.
    Empty for a request of the agent.
    """


class PermissionClosed(
    Struct, tag_field="kind", tag="permission.closed", omit_defaults=True, kw_only=True, gc=False
):
    """A permission request was answered, withdrawn or expired."""

    request: str
    """The id of the request."""
    outcome: Literal["selected", "cancelled", "expired"]
    """`selected` if an option was chosen, else `cancelled` or `expired`, which both deny."""
    option: str | None = None
    """The id of the chosen option."""
    by: str = "agent"
    """`user` (a viewer), `policy`, `unattended` (no one was present to answer, or the turn's reader
    continued without answering), `turn` (it ended), `agent` (it withdrew the request) or `timeout`.
    """
    reason: str = ""
    """The reason for a denial, if a rule, a policy or a person gave one."""
    who: str = ""
    """The party that answered, if known: a tenant or the holder of a token, such as `tenant alice`
    or `the server's token`. Empty for a policy and for the program's own code.
    """
    via: str = ""
    """The source of the answer: `program`, `terminal`, or a client's protocol with the name that
    the client reported, such as `agentrt.v1 (page)` or `acp (zed)`.
    """
    rule: str = ""
    """The rule that decided, such as `deny Bash(rm:*)`, or the name of the policy."""


class AnswerOrigin(Struct, frozen=True):
    """The origin of an answer or of a cancellation; see `PermissionClosed`."""

    who: str = ""
    via: str = ""


NO_ORIGIN = AnswerOrigin()
"""The origin of an answer about which nothing is known."""


class QueueChanged(Struct, tag_field="kind", tag="queue"):
    """The queued prompts, in sending order. `paused` is true if any of them is paused."""

    queue: list[QueueEntry]
    """All queued prompts."""
    paused: bool = False
    """True if any of them is paused."""


class PlanChanged(Struct, tag_field="kind", tag="plan", gc=False):
    """The agent's plan has changed."""

    plan: list[PlanEntry]
    """The whole plan, in order."""


class UsageChanged(Struct, tag_field="kind", tag="usage", gc=False):
    """The usage figures of the session have changed."""

    usage: Usage
    """The new figures."""


class ModesChanged(Struct, tag_field="kind", tag="modes"):
    """The session's mode, model or options have changed."""

    modes: Modes
    """The current values with the possible ones."""


class CommandsChanged(Struct, tag_field="kind", tag="commands"):
    """The agent's slash commands have changed."""

    commands: list[Command]
    """All commands."""


class TitleChanged(Struct, tag_field="kind", tag="title", gc=False):
    """The session's title has changed."""

    title: str | None
    """The new title; None if it was removed."""


class TaskChanged(Struct, tag_field="kind", tag="task", gc=False):
    """Background work started, progressed or ended."""

    task: Task
    """The work as it is now."""


class Notice(Struct, tag_field="kind", tag="notice", omit_defaults=True, gc=False):
    """Information for people; no program needs to act on it."""

    level: Literal["info", "warning", "error"]
    """`info`, `warning` or `error`."""
    code: str
    """A stable name for programs; the reference lists all codes of agentrt."""
    message: str
    """One or two sentences for people."""
    data: Any = None
    """Further data, depending on `code`."""


def compacted(data: Any = None) -> Notice:
    """Return the notice of a completed compaction, which is the same for each protocol."""
    return Notice("info", "compacted", "the conversation so far was summarised", data)


Event: TypeAlias = (
    StateChanged
    | TurnStarted
    | TurnEnded
    | ItemOpened
    | ItemDelta
    | ItemUpdated
    | ItemClosed
    | PermissionOpened
    | PermissionClosed
    | QueueChanged
    | PlanChanged
    | UsageChanged
    | ModesChanged
    | CommandsChanged
    | TitleChanged
    | TaskChanged
    | Notice
)
"""Any event of the log."""

NAME_CHARS: Final = 256
"""Characters of a title, a display name or a version."""

DESCRIPTION_CHARS: Final = 2048
"""Characters of a description."""

ID_CHARS: Final = 1024
"""Characters of an id that a client sends back. It cannot be cut: an entry with a longer one is
left out.
"""

MAX_ENTRIES: Final = 2048
"""Entries of a list."""


def cut(text: str, limit: int = NAME_CHARS) -> str:
    """Return the text, cut to `limit` characters with an ellipsis at the end if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cut_commands(commands: list[Command]) -> list[Command]:
    """Apply the limits to slash commands."""
    return [
        replace(
            command,
            description=cut(command.description, DESCRIPTION_CHARS),
            hint=command.hint and cut(command.hint),
        )
        for command in commands[:MAX_ENTRIES]
        if len(command.name) <= NAME_CHARS
    ]


def cut_modes(modes: Modes) -> Modes:
    """Apply the limits to the settings."""
    return replace(
        modes,
        modes=_choices(modes.modes),
        models=_choices(modes.models),
        options=[
            replace(
                option,
                name=cut(option.name),
                description=option.description and cut(option.description, DESCRIPTION_CHARS),
                choices=_choices(option.choices),
            )
            for option in modes.options[:NAME_CHARS]
            if len(option.id) <= ID_CHARS
        ],
    )


def cut_task(task: Task) -> Task:
    """Apply the limits to a task. Its detail is output and is not cut."""
    return replace(task, title=cut(task.title)) if len(task.title) > NAME_CHARS else task


def _choices(choices: list[Choice]) -> list[Choice]:
    """Apply the limits to choices; one with a long id is left out, as a cut id would be wrong."""
    return [
        replace(
            choice,
            name=cut(choice.name),
            description=choice.description and cut(choice.description, DESCRIPTION_CHARS),
        )
        for choice in choices[:MAX_ENTRIES]
        if len(choice.id) <= ID_CHARS
    ]


def model_unknown(agent: str, model: str | None, offered: Collection[str]) -> Notice | None:
    """Return a warning about a model that was asked for and is not among those offered.

    Return None if no model was asked for, or the agent has named no model that it offers.
    """
    if model is None or not offered or model in offered:
        return None
    message = (
        f"{agent} does not offer the model {model!r:.200} and may refuse prompts; it offers: "
        f"{', '.join(offered)}"
    )
    return Notice("warning", "model_unknown", message, {"model": model, "offered": list(offered)})
