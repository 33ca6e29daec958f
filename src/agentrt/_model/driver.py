"""What a protocol driver is: the neutral contract between one protocol and the runtime.

A driver is sans-I/O: bytes and commands go in, effects come out, in order. It knows the wire and
its ids, and nothing of processes, clocks, tasks or the log. It never raises on what an agent sent
(`receive` turns every defect into a `Notice`); illegal commands raise `LocalProtocolError` and
change nothing.

The agent's requests are known to the runtime by a `key` that the driver makes, unique within the
session (`new_key` is given to it), so that neither side's id space leaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

from .bounds import cut
from .content import Block, JsonObject, ToolContent
from .events import (
    Command,
    Error,
    ItemStatus,
    Modes,
    Notice,
    Outcome,
    PermissionOption,
    PlanEntry,
    Task,
    Usage,
)
from .fork_point import ForkPoint


class Opening(Struct, frozen=True, kw_only=True):
    """What a session is opened with. Paths are absolute."""

    cwd: str
    roots: tuple[str, ...] = ()
    """Further folders, beside `cwd`."""
    resume: str | None = None
    """The agent's own id of an earlier session, to be loaded or resumed."""
    fork: bool = False
    """Go on with a copy of it, which leaves it as it is."""
    fork_at: ForkPoint | None = None
    """Where the copy ends; default: with all of it."""
    mcp_servers: tuple[JsonObject, ...] = ()
    """Entries in ACP's shape (`McpServer`)."""
    model: str | None = None
    mode: str | None = None
    options: JsonObject = {}
    """Protocol's own extras, e.g. `system_prompt`, `json_schema` (Claude)."""
    tenant: str = ""
    """The name of the tenant whose session it is; empty: of none. No agent is told."""


# --- effects: what a driver reports to the runtime


class Write(Struct, gc=False):
    """Send these bytes (whole lines). `urgent`: ahead of prompts that still wait."""

    data: bytes
    urgent: bool = True


class Signal(Struct, gc=False):
    """Send the process this signal: the protocol has no message for what it does."""

    name: Literal["interrupt"]


class Started(Struct, kw_only=True):
    """The handshake is over and prompts may be sent. It comes again when the agent's session has
    become another one (`/clear`, a fork) or can be resumed from now on."""

    session: str
    """The agent's own session id, for a later resume."""
    agent_version: str | None = None
    resumed: bool = False
    repeated: bool = False
    """True if the agent has repeated the prompts of the resumed conversation (`Said`)."""
    capabilities: JsonObject = {}

    def __post_init__(self) -> None:
        if self.agent_version is not None:  # every change of the state repeats it
            self.agent_version = cut(self.agent_version)


class StartFailed(Struct):
    """The handshake ended in an error. `code`: `auth_required`, `version`, `session_not_found`,
    `rejected` or `protocol`."""

    error: Error


class Said(Struct, kw_only=True):
    """User content that the agent repeats (history, or an echo of the running prompt)."""

    content: list[Block]
    message: str | None = None
    replay: bool = False


class Spoke(Struct, gc=False):
    """A piece of the answer, or of the agent's thinking. Pieces of one `message` (and `parent`)
    that follow each other are one item."""

    text: str
    thought: bool = False
    message: str | None = None
    parent: str | None = None
    replay: bool = False


class Showed(Struct, kw_only=True):
    """A block of the answer that is not text."""

    block: Block
    thought: bool = False
    message: str | None = None
    parent: str | None = None
    replay: bool = False


class SpeechEnded(Struct, kw_only=True):
    """The running text or thought item is complete (Claude's blocks have an end on the wire), or
    `broken` off: the agent will say it again."""

    parent: str | None = None
    broken: bool = False


class Retracted(Struct):
    """The agent takes back what it said in these messages of the running turn."""

    messages: frozenset[str]


class ToolCalled(Struct, kw_only=True):
    """A tool call exists or changed: an upsert by `id`. Lists replace; `append` adds text to the
    live output. A terminal `status` closes the item. `opens`: the wire said that this is a new call
    (an update that comes after its turn's end is late, a new call of the same id is not)."""

    id: str
    opens: bool = False
    name: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    owner: Literal["agent", "host", "client"] | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET
    input: Any = UNSET
    output: Any = UNSET
    content: list[ToolContent] | UnsetType = UNSET
    locations: list[JsonObject] | UnsetType = UNSET
    append: str | UnsetType = UNSET
    parent: str | None = None
    replay: bool = False


class PlanSet(Struct):
    entries: list[PlanEntry]


class UsageSet(Struct):
    usage: Usage


class ModesSet(Struct):
    modes: Modes


class CommandsSet(Struct):
    commands: list[Command]


class TitleSet(Struct):
    title: str | None


class TaskSet(Struct):
    """Background work exists or changed. `call` is the tool call that started it. If `detaches`,
    what the agent reports below that call are steps of this work: they belong to no turn, and what
    they leave open is closed with the task."""

    task: Task
    call: str | None = None
    detaches: bool = False


class Asked(Struct, kw_only=True):
    """The agent asks for a person's decision; answered by `Driver.answer`.

    `kind` is `permission` (pick one of `options`) or `elicitation` (fill `form`, visit `url`).
    `tool_call`, `name`, `input` say what it is about, as far as the agent said.
    """

    key: str
    kind: Literal["permission", "elicitation"]
    title: str
    options: list[PermissionOption] = []
    tool_call: str | None = None
    name: str | None = None
    tool_kind: str | None = None
    input: Any = None
    changes: list[str] = []
    """The files of the changes that it shows."""
    created: list[str] = []
    """Those of them that it writes as a whole: no old text is shown."""
    locations: list[str] = []
    """The files that the agent says it is about."""
    detail: Any = None
    form: JsonObject | None = None
    url: str | None = None
    raw: Any = None
    background: bool = False
    """Background work asks: the question belongs to no turn, whichever runs."""


class Checking(Struct, kw_only=True):
    """The agent is about to run a tool call, whether or not it will ask for permission.

    It waits for `Driver.answer`: the option `DENY` keeps the call from running, `ASK` makes the
    agent ask for permission, and no option leaves the call to the agent's own rules.
    """

    call: Asked
    """The call. It has a key of its own, and no options."""
    ran: bool = False
    """True if the call has run already: the answer changes nothing."""


DENY: Final = "deny"
ASK: Final = "ask"


class Requested(Struct, kw_only=True):
    """The agent asks the host for a service; answered by `Driver.reply` or `Driver.refuse`.

    `method`: `fs/read_text_file` and the like (ACP's words), `mcp` (a message for an in-process
    tool server: `params = {"server", "message"}`), `hook` (Claude), `extension` (a method of the
    agent's own that the driver knows of: `params = {"method", "params"}`).
    """

    key: str
    method: str
    params: JsonObject
    background: bool = False
    """Background work asks: its handler belongs to no turn, whichever runs."""
    unawaited: bool = False
    """The agent may end its turn without the answer: the handler may run on behind that end."""
    notification: bool = False
    """No answer is owed: its handlers run one after the other, in the order of arrival."""


def extended(key: str, method: str, params: Any, *, notification: bool = False) -> Requested:
    """The agent asks for, or tells, something of its own."""
    return Requested(
        key=key,
        method="extension",
        params={"method": method, "params": params},
        unawaited=notification,
        notification=notification,
    )


class Withdrawn(Struct, gc=False):
    """The agent took back its request: stop its handler. Whether an answer is still owed is the
    driver's business: `answer`, `reply` and `refuse` of a withdrawn key are no-ops."""

    key: str


class TurnBegan(Struct, gc=False):
    """The agent began to work by itself. `explicit`: its end will be a `TurnFinished`;
    otherwise the wire has no such thing and silence must do."""

    explicit: bool = True


class TurnFinished(Struct, kw_only=True):
    """A turn is over, by the agent's word. `turn` is the id given to `prompt`, or None for a turn
    that the agent began. `outcome` ignores that we may have cancelled: the runtime knows that."""

    turn: str | None
    outcome: Outcome
    stop_reason: str | None = None
    usage: Usage | None = None
    error: Error | None = None
    structured_output: Any = None
    folded: tuple[str, ...] = ()
    """Further prompts (their ids) that this same end belongs to."""


class Returned(Struct):
    """The result of `call`: a value in the protocol's own shape, or an error."""

    call: str
    value: Any = None
    error: Error | None = None


Effect: TypeAlias = (
    Write
    | Signal
    | Started
    | StartFailed
    | Said
    | Spoke
    | Showed
    | SpeechEnded
    | Retracted
    | ToolCalled
    | PlanSet
    | UsageSet
    | ModesSet
    | CommandsSet
    | TitleSet
    | TaskSet
    | Asked
    | Checking
    | Requested
    | Withdrawn
    | TurnBegan
    | TurnFinished
    | Returned
    | Notice
)


class Answer(Struct, frozen=True, kw_only=True):
    """A decision on an `Asked`. Without `option` and `content` it is a refusal to decide
    (`cancelled`)."""

    option: str | None = None
    """The id of the chosen `PermissionOption`."""
    content: JsonObject | None = None
    """The filled form of an elicitation (with `option="accept"`)."""
    message: str = ""
    """What the agent gets about a rejection, where its protocol can carry it."""
    updated_input: JsonObject | None = None
    interrupt: bool = False


class Driver(Protocol):
    """The state machine of one agent process. Every method returns what is to be done, in order.

    One prompt at a time is in flight; `prompt` while one is raises `LocalProtocolError`.
    """

    def start(self, opening: Opening) -> list[Effect]:
        """Begin the handshake; it ends with `Started` or `StartFailed`."""
        ...

    def receive(self, data: bytes) -> list[Effect]:
        """Take what the agent wrote, cut anywhere."""
        ...

    def receive_eof(self) -> list[Effect]:
        """The agent's stdout has ended: takes a last line without its newline."""
        ...

    def prompt(
        self, turn: str, content: Sequence[Block], meta: JsonObject | None = None
    ) -> list[Effect]:
        """Send a prompt; `TurnFinished(turn)` will answer it. `meta` travels with it, where the
        protocol has a place for that."""
        ...

    def unsent(self, turn: str) -> None:
        """What `prompt` or `steer` made for `turn` was never written, and will not be: nothing
        answers it."""
        ...

    def cancel(self) -> list[Effect]:
        """Tell the agent to stop the running turn. May be called again to repeat it. Nothing is
        sent when no turn runs: a late cancel would hit the next one. Open `Asked` and `Requested`
        keys stay the runtime's to answer."""
        ...

    def answer(self, key: str, answer: Answer) -> list[Effect]:
        """Answer an `Asked` or a `Checking`. Unknown, withdrawn or answered keys are a no-op."""
        ...

    def reply(self, key: str, result: Any) -> list[Effect]:
        """Answer a `Requested` with its result."""
        ...

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> list[Effect]:
        """Answer a `Requested` with an error."""
        ...

    def call(self, call: str, method: str, params: JsonObject) -> list[Effect]:
        """A request of ours outside the turn, answered by `Returned(call)`. Neutral methods:
        `set_mode {"mode"}`, `set_model {"model"}`, `set_option {"option", "value"}`,
        `stop_task {"task"}`, `list_sessions {"cursor"?}`, `delete_session {"session"}`,
        `logout`; else the protocol's own name. What the agent did not advertise is answered at
        once by an error with code `unsupported`."""
        ...

    def uncall(self, call: str) -> list[Effect]:
        """Nobody waits for this call any more; notify the agent where the protocol can."""
        ...

    def goodbye(self) -> list[Effect]:
        """What to say before stdin is closed (`session/close`, `end_session`), if anything."""
        ...

    @property
    def idle(self) -> bool:
        """True when, by its own word, the agent has nothing left to do (Claude's state frames);
        True outside turns where the protocol has no such word. Any `receive` may change it, also
        one without effects."""
        ...


@runtime_checkable
class Settles(Protocol):
    """A driver whose turns end in two steps: the agent's result, and its word that it rests; and
    whose agent goes on by itself when its background work has ended."""

    @property
    def settling(self) -> bool:
        """True when only that word is missing (or, after it, only the result), or when nothing
        runs and the agent should go on. It follows within milliseconds, or never: whoever keeps a
        clock calls `settle` after a short silence."""
        ...

    def settle(self) -> list[Effect]:
        """Wait no longer: a turn that is `settling` ends now. `settling` is False afterwards."""
        ...


@runtime_checkable
class Steers(Protocol):
    """A driver whose agent takes a prompt into the turn that runs."""

    def steer(self, turn: str, content: Sequence[Block]) -> list[Effect]:
        """Send a prompt into the running turn. `turn` comes back in `TurnFinished.folded` of the
        turn that took it: the running one, or one of the agent's own that follows it. If the agent
        drops it, `TurnFinished(turn, "cancelled")` says so."""
        ...


NewKey: TypeAlias = Callable[[], str]
"""Makes a key that is unique within the session."""
