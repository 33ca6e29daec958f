"""The vocabulary of the log: what viewers in Python, browsers and terminals see.

One struct per `kind` of the browser protocol (`agentrt.v1`); they encode to exactly the `event`
field of its frames. Instants are seconds since the Unix epoch.

The commonest are kept from the cyclic garbage collector (`gc=False`): they hold plain data.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .causes import Cause, cause_of
from .content import Block, JsonObject, ToolContent

Phase: TypeAlias = Literal["starting", "idle", "running", "waiting", "cancelling", "closed", "dead"]
"""What a session is doing. `waiting`: a person must answer. `dead`: the process is gone and the
next prompt starts another one. `closed` is final."""

Origin: TypeAlias = Literal["user", "agent"]
"""Who started a turn: a prompt, or the agent by itself."""

Outcome: TypeAlias = Literal[
    "completed", "cancelled", "refused", "limit", "failed", "timed_out", "agent_died"
]
"""How a turn ended, by agentrt's own knowledge; the agent's word is the `stop_reason`."""

CancelledBy: TypeAlias = Literal["user", "caller", "agent"]

ItemType: TypeAlias = Literal["user", "text", "thought", "tool", "notice", "task"]

ItemStatus: TypeAlias = Literal[
    "pending", "waiting", "running", "completed", "failed", "denied", "cancelled", "orphaned"
]
"""`orphaned`: the process died and nobody knows. The last five are terminal."""

TERMINAL: frozenset[str] = frozenset({"completed", "failed", "denied", "cancelled", "orphaned"})


class Error(Struct, omit_defaults=True):
    """What went wrong, for people (`message`) and programs (`cause`; `code`, `data`).

    `code` and `data` are the agent's or agentrt's own. `cause` is the same for every agent
    (`auth`, `rate_limit`, `overloaded`, `quota`, `context_too_large`, `model_unknown`, `network`,
    `agent_bug` or `refused`), None if it is not known."""

    code: str
    message: str
    data: Any = None
    cause: Cause | None = None

    def __post_init__(self) -> None:
        if self.cause is None:
            self.cause = cause_of(self.code, self.message, self.data)


class Usage(Struct, omit_defaults=True, kw_only=True, gc=False):
    """Tokens and money. `used` of `size` tokens are in the context window now; the rest counts
    the turn (in `turn.ended`) or the session (in `usage`). `cost` is in `currency` (USD), `steps`
    are the agent's own count of its rounds with the model, and `models` has the same for each
    model, by its name."""

    used: int | None = None
    size: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    thought_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None
    currency: str | None = None
    steps: int | None = None
    models: dict[str, Usage] = {}


class Tool(Struct, omit_defaults=True, kw_only=True):
    """A tool call. `call` is the agent's own id for it. Only `owner: "client"` calls are a
    viewer's to complete."""

    call: str = ""
    name: str = ""
    kind: str = "other"
    title: str = ""
    owner: Literal["agent", "host", "client"] = "agent"
    input: Any = None
    output: Any = None
    locations: list[JsonObject] = []
    content: list[ToolContent] = []


class Item(Struct, omit_defaults=True, kw_only=True, gc=False):
    """One thing shown. `parent` is the tool call (a sub-agent's) that it belongs to. `turn` is None
    for a step of a sub-agent that works in the background, and for repeated history."""

    id: str
    type: ItemType
    turn: str | None = None
    parent: str | None = None
    status: ItemStatus = "running"
    text: str = ""
    content: list[Block] = []
    tool: Tool | None = None
    message: str | None = None
    replay: bool = False
    """True for what the agent repeats of an earlier process's conversation."""


class PermissionOption(Struct, omit_defaults=True):
    """One answer to a permission request. Choose by `kind`, show `name`."""

    id: str
    name: str
    kind: str
    """`allow_once`, `allow_always`, `reject_once` or `reject_always`."""
    effect: str = ""
    """A further effect of choosing it: `mode` (the session's mode changes) or `folder` (the agent
    may work in another folder). Such an option is chosen by its id, never by its kind alone."""


class PlanEntry(Struct, omit_defaults=True):
    content: str
    status: str = "pending"
    priority: str = "medium"


class Choice(Struct, omit_defaults=True):
    """One value of a mode or of an option."""

    id: str
    name: str
    description: str | None = None


class Option(Struct, omit_defaults=True, kw_only=True):
    """A setting of the session, such as its model: a choice or, without `choices`, a switch."""

    id: str
    name: str
    category: str | None = None
    description: str | None = None
    value: str | bool
    choices: list[Choice] = []


class Modes(Struct, omit_defaults=True, kw_only=True):
    """The session's mode, model and other options, each with what it can be set to.

    `unconfirmed`: the settings (`mode`, `model`, or the id of an option) that somebody has asked
    the agent to change and that it has not answered, although nobody waits for that any more. The
    values shown for them may not be the agent's.
    """

    mode: str | None = None
    modes: list[Choice] = []
    model: str | None = None
    models: list[Choice] = []
    options: list[Option] = []
    unconfirmed: list[str] = []


class Command(Struct, omit_defaults=True):
    """A slash command of the agent."""

    name: str
    description: str = ""
    hint: str | None = None


class Task(Struct, omit_defaults=True, kw_only=True):
    """Background work that the agent reports. It outlives turns and never makes a session busy.

    `item` is the tool call that started it; the steps of a background sub-agent are items below
    that one, without a turn. `detail` is the latest progress, and the final report once `status` is
    terminal, as far as the agent gives one."""

    id: str
    title: str = ""
    status: str = "running"
    turn: str | None = None
    kind: str | None = None
    detail: str | None = None
    item: str | None = None


class QueueEntry(Struct, omit_defaults=True):
    """A prompt that waits for its turn. `paused`: it is not sent until the queue is resumed."""

    id: str
    content: list[Block]
    paused: bool = False


class TurnState(Struct, gc=False):
    """The running turn, as far as a viewer needs it. `deadline` is the hard limit's."""

    id: str
    origin: Origin
    since: float
    deadline: float | None = None
    cancel_deadline: float | None = None


class AgentState(Struct, frozen=True, gc=False):
    name: str
    protocol: Literal["acp", "claude", "codex"]
    version: str | None = None
    pid: int | None = None
    alive: bool = False


class State(Struct, gc=False):
    """The session's state. Busy means `turn is not None`, by definition."""

    phase: Phase
    turn: TurnState | None
    agent: AgentState
    error: Error | None = None


# --- the events


class StateChanged(Struct, tag_field="kind", tag="state", gc=False):
    """The session's state is another one."""

    state: State


class TurnStarted(Struct, tag_field="kind", tag="turn.started", omit_defaults=True, gc=False):
    turn: str
    origin: Origin
    prompt: list[Block] | None = None


class TurnEnded(
    Struct, tag_field="kind", tag="turn.ended", omit_defaults=True, kw_only=True, gc=False
):
    """Exactly one per turn, after every item and permission request of it is closed."""

    turn: str
    outcome: Outcome
    by: CancelledBy | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    error: Error | None = None
    structured_output: Any = None


class ItemOpened(Struct, tag_field="kind", tag="item.opened", gc=False):
    item: Item


class ItemDelta(Struct, tag_field="kind", tag="item.delta", gc=False):
    """`text` was appended to an item. `TextDelta` and `ThoughtDelta` say which kind of item."""

    item: str
    text: str


class TextDelta(ItemDelta, tag_field="kind", tag="item.delta", gc=False):
    """A piece of the answer."""


class ThoughtDelta(ItemDelta, tag_field="kind", tag="item.delta", gc=False):
    """A piece of the agent's thinking."""


class ItemUpdated(Struct, tag_field="kind", tag="item.updated"):
    """Fields of an item were replaced; `patch` holds their new values. `tool` is merged: only the
    fields of it that are named are replaced."""

    item: str
    patch: JsonObject


class ItemClosed(Struct, tag_field="kind", tag="item.closed", gc=False):
    item: str
    status: ItemStatus


class PermissionOpened(
    Struct, tag_field="kind", tag="permission.opened", omit_defaults=True, kw_only=True
):
    """The agent asks. Also used for elicitations: `form` is then the JSON schema of the wanted
    answer, or `url` a page to visit."""

    request: str
    title: str
    item: str | None = None
    detail: Any = None
    options: list[PermissionOption] = []
    expires: float | None = None
    form: JsonObject | None = None
    url: str | None = None
    background: bool = False
    """Work in the background asks: no turn waits for the answer, or ends the question."""
    orphaned: bool = False
    """The process that asked is gone, and its own question closed. The answer goes to the agent in
    a prompt of agentrt's own, which begins with `[agentrt]`; a dismissal only closes this."""


class PermissionClosed(
    Struct, tag_field="kind", tag="permission.closed", omit_defaults=True, kw_only=True
):
    request: str
    outcome: Literal["selected", "cancelled", "expired"]
    option: str | None = None
    by: str = "agent"
    """`user` (a viewer), `policy`, `unattended` (nobody was there to answer, or the turn's reader
    went on without an answer), `turn` (it ended), `agent` (it withdrew) or `timeout`."""
    reason: str = ""
    """Why it was denied, if that was said: by a rule, a policy or a person."""
    who: str = ""
    """The one who answered, as far as it is known: a tenant or the holder of a token, such as
    `tenant alice` or `the server's token`; empty for a policy and for a program's own code."""
    via: str = ""
    """Where the answer came from: `program`, `terminal`, or a client's protocol with the name that
    it gave itself, such as `agentrt.v1 (page)` or `acp (zed)`."""
    rule: str = ""
    """The rule that decided, such as `deny Bash(rm:*)`, or the name of the policy."""


class AnswerOrigin(Struct, frozen=True):
    """The origin of an answer; see `PermissionClosed`."""

    who: str = ""
    via: str = ""


NO_ORIGIN = AnswerOrigin()


class QueueChanged(Struct, tag_field="kind", tag="queue"):
    """The waiting prompts, in the order in which they are sent. `paused`: some of them are."""

    queue: list[QueueEntry]
    paused: bool = False


class PlanChanged(Struct, tag_field="kind", tag="plan"):
    plan: list[PlanEntry]


class UsageChanged(Struct, tag_field="kind", tag="usage", gc=False):
    usage: Usage


class ModesChanged(Struct, tag_field="kind", tag="modes"):
    modes: Modes


class CommandsChanged(Struct, tag_field="kind", tag="commands"):
    commands: list[Command]


class TitleChanged(Struct, tag_field="kind", tag="title"):
    title: str | None


class TaskChanged(Struct, tag_field="kind", tag="task"):
    task: Task


class Notice(Struct, tag_field="kind", tag="notice", omit_defaults=True):
    """Something a person may want to know and no program needs to act on."""

    level: Literal["info", "warning", "error"]
    code: str
    message: str
    data: Any = None


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
