"""What `session/update` carries: every variant of the stable schema and the drafts seen in use.

Content blocks are the neutral ones of `_model.content`, whose shapes are ACP's. Optional fields are
None when absent: the schema gives null and absence one meaning (the one exception is marked).
Enumerations are plain strings: every agent may be newer than this file.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, ValidationError, field

from .._model.content import Block, JsonObject, ToolContent
from .._wire.lenient import lenient


class Message(Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base of ACP's objects: each may carry `_meta`. Decoded trees have no cycles (`gc`)."""

    meta: JsonObject | None = field(default=None, name="_meta")


def sub_agent_of(meta: JsonObject | None) -> str | None:
    """The tool call whose sub-agent a message is of. ACP has no word for it; Claude Code's adapter
    says it in `_meta.claudeCode`."""
    match meta:
        case {"claudeCode": {"parentToolUseId": str(parent)}} if parent:
            return parent
        case _:
            return None


# --- shared shapes


class ToolLocation(Message):
    path: str
    line: int | None = None


class PlanEntry(Message):
    content: str
    priority: str | None = None
    status: str | None = None


class CommandInput(Message):
    hint: str | None = None


class AvailableCommand(Message):
    name: str
    description: str | None = None
    input: CommandInput | None = None


class ConfigChoice(Message):
    """A value of a select option, or (`group`) a group of such values."""

    name: str | None = None
    value: str | None = None
    description: str | None = None
    group: str | None = None
    options: list[ConfigChoice] | None = None


class ConfigOption(Message):
    """`type` is `select` (with `options`) or `boolean`; others are to be ignored."""

    id: str
    type: str
    current_value: str | bool
    name: str | None = None
    description: str | None = None
    category: str | None = None
    options: list[ConfigChoice] | None = None


class Cost(Message):
    amount: float
    currency: str


# --- the variants


class Update(Message, tag_field="sessionUpdate"):
    """The base of all variants."""


class Chunk(Update):
    """A piece of a message; another `message_id` starts another message."""

    content: Block
    message_id: str | None = None


class UserMessageChunk(Chunk, tag="user_message_chunk"):
    """History on `session/load`, or an echo of the running prompt."""


class AgentMessageChunk(Chunk, tag="agent_message_chunk"):
    """A piece of the answer."""


class AgentThoughtChunk(Chunk, tag="agent_thought_chunk"):
    """A piece of the agent's thinking."""


class ToolFields(Message):
    """What both tool call variants, and a permission request, say of a tool call. Arrays replace,
    what is absent is unchanged."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: list[ToolContent] | None = None
    locations: list[ToolLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None


class ToolCall(ToolFields, tag_field="sessionUpdate", tag="tool_call"):
    """A tool call exists. (`title` is required by the schema, and not worth losing the call.)"""


class ToolCallUpdate(ToolFields, tag_field="sessionUpdate", tag="tool_call_update"):
    """A tool call changed; agents also send it for calls that were never announced."""


class Plan(Update, tag="plan"):
    entries: list[PlanEntry]


class AvailableCommandsUpdate(Update, tag="available_commands_update"):
    available_commands: list[AvailableCommand]


class CurrentModeUpdate(Update, tag="current_mode_update"):
    """`mode_id` is what an example in the old documentation called it."""

    current_mode_id: str | None = None
    mode_id: str | None = None


class ConfigOptionUpdate(Update, tag="config_option_update"):
    config_options: list[ConfigOption]


class SessionInfoUpdate(Update, tag="session_info_update"):
    """A patch: here null clears, and absence (UNSET) leaves unchanged."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class UsageUpdate(Update, tag="usage_update"):
    """The context window now; `cost` is cumulative."""

    used: int
    size: int
    cost: Cost | None = None


class NoticeUpdate(Update, tag="notice"):
    title: str
    severity: str | None = None
    description: str | None = None


class CompactionUpdate(Update, tag="compaction_update"):
    compaction_id: str
    status: str
    summary: list[Block] | None = None
    error: Any = None


class CompactionSummaryChunk(Update, tag="compaction_summary_chunk"):
    compaction_id: str
    content: Block


# --- drafts: declared so that they never slow a batch down, their insides kept as they came


class SubagentUpdate(Update, tag="subagent_update"):
    """Announces a child session, whose updates then come under its own id."""

    session_id: str
    title: str | None = None
    description: str | None = None
    capabilities: JsonObject | None = None
    state: JsonObject | None = None
    cwd: str | None = None
    additional_directories: list[str] | None = None


class PlanUpdate(Update, tag="plan_update"):
    plan: Any = None


class PlanRemoved(Update, tag="plan_removed"):
    plan_id: Any = None


class SessionMessage(Update, tag="session_message"):
    message_id: Any = None
    sender_session_id: Any = None
    recipient_session_id: Any = None
    sender_message_id: Any = None
    recipient_message_id: Any = None
    content: Any = None


class SessionMessageChunk(SessionMessage, tag="session_message_chunk"):
    pass


KnownUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | NoticeUpdate
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | PlanUpdate
    | PlanRemoved
    | SessionMessage
    | SessionMessageChunk
)


class UnknownUpdate(Struct):
    """A variant that this file does not know, or one that lacks what makes it usable."""

    raw: Any
    defect: str | None = None
    """What is wrong with it; None if it is only unknown."""


VARIANTS: dict[str, type[KnownUpdate]] = {
    variant.__struct_config__.tag: variant for variant in KnownUpdate.__args__
}


def read_update(raw: Any, dropped: list[str]) -> KnownUpdate | UnknownUpdate:
    """Read an update that strict decoding refused. The paths of what did not fit and was left out
    are added to `dropped`."""
    if not isinstance(raw, dict) or not isinstance(tag := raw.get("sessionUpdate"), str):
        return UnknownUpdate(raw, "an update without its kind")
    if tag not in VARIANTS:
        return UnknownUpdate(raw)
    try:
        return lenient(raw, VARIANTS[tag], dropped)
    except ValidationError as error:
        return UnknownUpdate(raw, f"{tag} without a usable {error}")


# --- the shape that a whole read of lines is decoded into at once


class Params(Struct, rename="camel", gc=False):
    session_id: str
    update: KnownUpdate


class UpdateFrame(Struct, gc=False):
    """A `session/update` as it should be; nearly all that an agent ever writes."""

    method: Literal["session/update"]
    params: Params
    id: Literal["\0"] | UnsetType = UNSET
    """An update is a notification: anything with an id is refused here."""
