"""The content of `session/update`: every variant of the stable schema, and drafts seen in use.

Content blocks are the neutral ones of `_core.model.content`, which have ACP's shapes. Optional
fields hold None when absent: in the schema null and absence have the same meaning (the one
exception is marked). Enumerations are plain strings, because an agent may be newer than this file.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, ValidationError, field

from ..model.content import Block, JsonObject, ToolContent
from ..wire.lenient import lenient


class AcpMessage(Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base of ACP's objects: each may carry `_meta`. Decoded trees have no cycles (`gc`)."""

    meta: JsonObject | None = field(default=None, name="_meta")


def sub_agent_of(meta: JsonObject | None) -> str | None:
    """Return the tool call of the sub-agent that sent a message, or None.

    ACP does not define this; Claude Code's adapter sends it in `_meta.claudeCode`.
    """
    match meta:
        case {"claudeCode": {"parentToolUseId": str(parent)}} if parent:
            return parent
        case _:
            return None


# --- shared shapes


class ToolLocation(AcpMessage):
    """A file that a tool call is about."""

    path: str
    line: int | None = None


class AcpPlanEntry(AcpMessage):
    """One entry of a plan."""

    content: str
    priority: str | None = None
    status: str | None = None


class CommandInput(AcpMessage):
    """The input of a slash command."""

    hint: str | None = None


class AvailableCommand(AcpMessage):
    """A slash command."""

    name: str
    description: str | None = None
    input: CommandInput | None = None


class ConfigChoice(AcpMessage):
    """A value of a select option, or (`group`) a group of such values."""

    name: str | None = None
    value: str | None = None
    description: str | None = None
    group: str | None = None
    options: list[ConfigChoice] | None = None


class ConfigOption(AcpMessage):
    """A config option. `type` is `select` (with `options`) or `boolean`; others must be ignored."""

    id: str
    type: str
    current_value: str | bool
    name: str | None = None
    description: str | None = None
    category: str | None = None
    options: list[ConfigChoice] | None = None


class Cost(AcpMessage):
    """A cost, in `currency`."""

    amount: float
    currency: str


# --- the variants


class Update(AcpMessage, tag_field="sessionUpdate"):
    """The base of all variants."""


class Chunk(Update):
    """A piece of a message; a different `message_id` starts another message."""

    content: Block
    message_id: str | None = None


class UserMessageChunk(Chunk, tag="user_message_chunk"):
    """History on `session/load`, or an echo of the running prompt."""


class AgentMessageChunk(Chunk, tag="agent_message_chunk"):
    """A piece of the answer."""


class AgentThoughtChunk(Chunk, tag="agent_thought_chunk"):
    """A piece of the agent's thinking."""


class ToolFields(AcpMessage):
    """Fields of a tool call, shared by both variants and permission requests.

    Arrays replace the previous ones; absent fields are unchanged.
    """

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: list[ToolContent] | None = None
    locations: list[ToolLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None


class AcpToolCall(ToolFields, tag_field="sessionUpdate", tag="tool_call"):
    """A new tool call. (The schema requires `title`, but its absence is not worth losing the
    call.)"""


class ToolCallUpdate(ToolFields, tag_field="sessionUpdate", tag="tool_call_update"):
    """A change of a tool call; agents also send it for calls that were never announced."""


class AcpPlan(Update, tag="plan"):
    """The agent's whole plan."""

    entries: list[AcpPlanEntry]


class AvailableCommandsUpdate(Update, tag="available_commands_update"):
    """The available slash commands."""

    available_commands: list[AvailableCommand]


class CurrentModeUpdate(Update, tag="current_mode_update"):
    """A change of the mode. `mode_id` is the name in an example of the old documentation."""

    current_mode_id: str | None = None
    mode_id: str | None = None


class ConfigOptionUpdate(Update, tag="config_option_update"):
    """The complete list of config options."""

    config_options: list[ConfigOption]


class SessionInfoUpdate(Update, tag="session_info_update"):
    """A patch of the session's metadata: here null clears, and absence (UNSET) leaves unchanged."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class UsageUpdate(Update, tag="usage_update"):
    """The current state of the context window; `cost` is cumulative."""

    used: int
    size: int
    cost: Cost | None = None


class NoticeUpdate(Update, tag="notice"):
    """A notice for the user."""

    title: str
    severity: str | None = None
    description: str | None = None


class CompactionUpdate(Update, tag="compaction_update"):
    """The state of a compaction of the conversation."""

    compaction_id: str
    status: str
    summary: list[Block] | None = None
    error: Any = None


class CompactionSummaryChunk(Update, tag="compaction_summary_chunk"):
    """A piece of a compaction's summary."""

    compaction_id: str
    content: Block


# --- drafts: declared so that they never slow a batch down; their contents are not decoded


class SubagentUpdate(Update, tag="subagent_update"):
    """Announces a child session, whose updates then come with its own id."""

    session_id: str
    title: str | None = None
    description: str | None = None
    capabilities: JsonObject | None = None
    state: JsonObject | None = None
    cwd: str | None = None
    additional_directories: list[str] | None = None


class PlanUpdate(Update, tag="plan_update"):
    """A draft: a change of one plan."""

    plan: Any = None


class PlanRemoved(Update, tag="plan_removed"):
    """A draft: the removal of one plan."""

    plan_id: Any = None


class SessionMessage(Update, tag="session_message"):
    """A draft: a message between sessions."""

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
    | AcpToolCall
    | ToolCallUpdate
    | AcpPlan
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
    """An unknown variant, or one that lacks a required field."""

    raw: Any
    defect: str | None = None
    """The defect; None if the variant is only unknown."""


VARIANTS: dict[str, type[KnownUpdate]] = {
    variant.__struct_config__.tag: variant for variant in KnownUpdate.__args__
}


def read_update(raw: Any, dropped: list[str]) -> KnownUpdate | UnknownUpdate:
    """Read an update that strict decoding refused.

    The paths of invalid fields, which are omitted, are added to `dropped`.
    """
    if not isinstance(raw, dict) or not isinstance(tag := raw.get("sessionUpdate"), str):
        return UnknownUpdate(raw, "an update without its kind")
    if tag not in VARIANTS:
        return UnknownUpdate(raw)
    try:
        return lenient(raw, VARIANTS[tag], dropped)
    except ValidationError as error:
        return UnknownUpdate(raw, f"{tag} without a usable {error}")


# --- the shape into which a whole read of lines is decoded in one go


class Params(Struct, rename="camel", gc=False):
    """Parameters of `session/update`."""

    session_id: str
    update: KnownUpdate


class UpdateFrame(Struct, gc=False):
    """A valid `session/update`; nearly all that an agent ever writes."""

    method: Literal["session/update"]
    params: Params
    id: Literal["\0"] | UnsetType = UNSET
    """An update is a notification: a message with an id is refused here."""
