"""The types of ACP: the updates of a session, and the client's requests to an agent.

`session/update` has every variant of the stable schema, and drafts seen in use. Content blocks are
the neutral ones of `_core.model.content`, which have ACP's shapes. Optional fields hold None when
absent: in the schema null and absence have the same meaning (the one exception is marked).
Enumerations are plain strings, because an agent may be newer than this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, ValidationError, field

from ..model.content import Block, JsonObject, Text, ToolContent
from ..wire.json import lenient


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


# --- drafts: declared so that they never slow a batch down


class SubagentUpdate(Update, tag="subagent_update"):
    """Announces a child session, whose updates then come with its own id."""

    session_id: str
    title: str | None = None
    description: str | None = None
    capabilities: JsonObject | None = None
    state: JsonObject | None = None
    cwd: str | None = None
    additional_directories: list[str] | None = None


class PlanItems(AcpMessage):
    """A plan that is a list of steps: `type` is `items`."""

    type: str
    plan_id: str
    entries: list[AcpPlanEntry]


class PlanUpdate(Update, tag="plan_update"):
    """A draft: a change of one plan."""

    plan: Any = None


class PlanRemoved(Update, tag="plan_removed"):
    """A draft: the removal of one plan."""

    plan_id: Any = None


class SessionMessage(Update, tag="session_message"):
    """A draft: a message between a session and one of its child sessions."""

    content: list[Block] | None = None
    sender_session_id: str | None = None
    recipient_session_id: str | None = None
    message_id: Any = None
    sender_message_id: Any = None
    recipient_message_id: Any = None


class SessionMessageChunk(Update, tag="session_message_chunk"):
    """A draft: a piece of such a message. No known agent sends it."""

    content: Any = None
    message_id: Any = None
    sender_session_id: Any = None
    recipient_session_id: Any = None
    sender_message_id: Any = None
    recipient_message_id: Any = None


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


def read_update(
    raw: Any, dropped: list[str], variants: Mapping[str, type[Struct]] = VARIANTS
) -> Struct | UnknownUpdate:
    """Read an update that strict decoding refused, as one of `variants`.

    The paths of invalid fields, which are omitted, are added to `dropped`.
    """
    if not isinstance(raw, dict) or not isinstance(tag := raw.get("sessionUpdate"), str):
        return UnknownUpdate(raw, "an update without its kind")
    if tag not in variants:
        return UnknownUpdate(raw)
    try:
        return lenient(raw, variants[tag], dropped)
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


PROTOCOL_VERSION = 1

AUTH_REQUIRED_CODE = -32000
NOT_FOUND_CODE = -32002
UNSUPPORTED_VERSION_CODE = -32022
REQUEST_CANCELLED_CODE = -32800

# --- initialize, authenticate


class Implementation(AcpMessage):
    """Name and version of a client or an agent."""

    name: str
    """The name for programs, such as `agentrt`."""
    version: str | None = None
    """The version, as the program writes it."""
    title: str | None = None
    """The name for people."""


class FileSystemCapabilities(AcpMessage):
    """File methods that the client serves."""

    read_text_file: bool | None = None
    write_text_file: bool | None = None


class Marker(AcpMessage):
    """`{}` if the capability exists; absent or null if it does not."""


class ConfigOptionsCapabilities(AcpMessage):
    """Kinds of config options that the client supports, in addition to select."""

    boolean: Marker | None = None


class ClientSessionCapabilities(AcpMessage):
    """Session features that the client supports."""

    config_options: ConfigOptionsCapabilities | None = None
    notices: Marker | None = None
    compaction: Marker | None = None


class ClientAuthCapabilities(AcpMessage):
    """Login methods that the client supports."""

    terminal: bool | None = None


class ElicitationCapabilities(AcpMessage):
    """Elicitation modes that the client supports."""

    form: Marker | None = None
    url: Marker | None = None


class ClientCapabilities(AcpMessage):
    """The capabilities of the client."""

    fs: FileSystemCapabilities | None = None
    """The file methods that the client serves."""
    terminal: bool | None = None
    """True if the client serves the `terminal/` methods."""
    session: ClientSessionCapabilities | None = None
    """Abilities for sessions."""
    auth: ClientAuthCapabilities | None = None
    """Abilities for signing in."""
    elicitation: ElicitationCapabilities | None = None
    """The kinds of forms and pages that the client can show."""
    subagents: Marker | None = None
    """A draft: the client shows child sessions."""


def client_capabilities(
    *,
    read_files: bool = False,
    write_files: bool = False,
    terminals: bool = False,
    elicitation: bool = False,
    meta: JsonObject | None = None,
) -> JsonObject:
    """Return the capabilities of a host that serves these methods and shows all session features.

    `meta` advertises extensions of the protocol.
    """
    offered = ClientCapabilities(
        fs=FileSystemCapabilities(read_files, write_files),
        terminal=terminals,
        session=ClientSessionCapabilities(ConfigOptionsCapabilities(Marker()), Marker(), Marker()),
        elicitation=ElicitationCapabilities(Marker(), Marker()) if elicitation else None,
        subagents=Marker(),
        meta=meta,
    )
    encoded: JsonObject = msgspec.to_builtins(offered)
    return encoded


class PromptCapabilities(AcpMessage):
    """Content that the agent accepts in a prompt, in addition to text and links."""

    image: bool | None = None
    audio: bool | None = None
    embedded_context: bool | None = None


class McpCapabilities(AcpMessage):
    """MCP transports that the agent supports, in addition to stdio."""

    http: bool | None = None
    sse: bool | None = None


class SystemPromptModes(AcpMessage):
    """Ways to apply a client's system prompt, other than adding it to the agent's own."""

    override: Marker | None = None


class SystemPromptCapability(AcpMessage):
    """A draft: the agent takes a system prompt for a session."""

    mode: SystemPromptModes | None = None


class SystemPrompt(AcpMessage):
    """A draft: a client's system prompt. `mode` is `append` or `override`."""

    mode: str
    content: list[Text]


class AgentSessionCapabilities(AcpMessage):
    """Session methods that the agent supports."""

    list: Marker | None = None
    delete: Marker | None = None
    resume: Marker | None = None
    close: Marker | None = None
    additional_directories: Marker | None = None
    fork: Marker | None = None
    system_prompt: SystemPromptCapability | None = None
    title: Marker | None = None


class AgentAuthCapabilities(AcpMessage):
    """Authentication methods that the agent supports."""

    logout: Marker | None = None


class AgentCapabilities(AcpMessage):
    """The agent's capabilities beyond the baseline."""

    load_session: bool | None = None
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: AgentSessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None
    providers: Marker | None = None


class AuthMethod(AcpMessage):
    """A way to log in.

    `type` absent or `agent`: send `authenticate`. `terminal`: run the agent's own command with
    `args` and `env` in a terminal, and never send `authenticate`.
    """

    id: str
    name: str | None = None
    type: str | None = None
    description: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None


class InitializeRequest(AcpMessage):
    """Parameters of `initialize`."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None


class InitializeResponse(AcpMessage):
    """Result of `initialize`."""

    protocol_version: int
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] | None = None
    agent_info: Implementation | None = None


class AuthenticateRequest(AcpMessage):
    """Parameters of `authenticate`."""

    method_id: str


class LogoutRequest(AcpMessage):
    pass


class Empty(AcpMessage):
    """The result of a method without a value. Agents also send null."""


# --- sessions


class NameValue(AcpMessage):
    """An environment variable or an HTTP header."""

    name: str
    value: str


class AcpMcpServer(AcpMessage):
    """An MCP server.

    Without a `type`: a program on stdio (`command`, `args`, `env`, all three required). `http` or
    `sse`: `url` and `headers`, both required.
    """

    name: str
    type: str | None = None
    command: str | None = None
    args: list[str] | None = None
    env: list[NameValue] | None = None
    url: str | None = None
    headers: list[NameValue] | None = None


class SessionMode(AcpMessage):
    """A mode that the agent offers."""

    id: str
    name: str | None = None
    description: str | None = None


class SessionModeState(AcpMessage):
    """The current mode and the offered ones."""

    current_mode_id: str
    available_modes: list[SessionMode]


class SessionModel(AcpMessage):
    """A model that the agent offers."""

    model_id: str
    name: str | None = None
    description: str | None = None


class SessionModelState(AcpMessage):
    """The current model and the offered ones.

    Removed from the protocol in 2026; older agents still send it.
    """

    current_model_id: str
    available_models: list[SessionModel]


class OfferedSettings(AcpMessage, kw_only=True):
    """The settings of a session. A mode or model in `config_options` takes precedence."""

    modes: SessionModeState | None = None
    config_options: list[ConfigOption] | None = None
    models: SessionModelState | None = None


class NewSessionRequest(AcpMessage):
    """Parameters of `session/new`."""

    cwd: str
    mcp_servers: list[AcpMcpServer]
    additional_directories: list[str] | None = None
    system_prompt: SystemPrompt | None = None


class NewSessionResponse(OfferedSettings):
    """Result of `session/new`."""

    session_id: str


class LoadSessionRequest(AcpMessage):
    """Parameters of `session/load`."""

    session_id: str
    cwd: str
    mcp_servers: list[AcpMcpServer]
    additional_directories: list[str] | None = None
    system_prompt: SystemPrompt | None = None


class LoadSessionResponse(OfferedSettings):
    pass


class ResumeSessionRequest(AcpMessage):
    """Parameters of `session/resume`."""

    session_id: str
    cwd: str
    mcp_servers: list[AcpMcpServer] | None = None
    additional_directories: list[str] | None = None
    system_prompt: SystemPrompt | None = None


class ResumeSessionResponse(OfferedSettings):
    pass


class ForkSessionRequest(ResumeSessionRequest):
    """A draft: parameters of `session/fork`, which opens a new session with another one's
    history."""


class ForkSessionResponse(NewSessionResponse):
    pass


class ListSessionsRequest(AcpMessage):
    """Parameters of `session/list`."""

    cwd: str | None = None
    cursor: str | None = None


class AcpSessionInfo(AcpMessage):
    """A session in the result of `session/list`."""

    session_id: str
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None
    additional_directories: list[str] | None = None


class ListSessionsResponse(AcpMessage):
    """Result of `session/list`."""

    sessions: list[AcpSessionInfo]
    next_cursor: str | None = None


class SessionRequest(AcpMessage):
    """The parameters of `session/delete`, `session/close` and `session/cancel`."""

    session_id: str


class SetModeRequest(AcpMessage):
    """Parameters of `session/set_mode`."""

    session_id: str
    mode_id: str


class SetModelRequest(AcpMessage):
    """Parameters of `session/set_model`. Removed from the protocol together with `models`."""

    session_id: str
    model_id: str


class SetTitleRequest(AcpMessage):
    """Parameters of `session/set_title`, a draft."""

    session_id: str
    title: str


class SetTitleResponse(AcpMessage):
    """Result of `session/set_title`: the title as the agent stored it."""

    title: str


class ListProvidersRequest(AcpMessage):
    """Parameters of `providers/list`, a draft."""


class ProviderConfig(AcpMessage):
    """The service that a provider stands for."""

    api_type: str
    base_url: str


class ProviderInfo(AcpMessage):
    """A provider. Without `current` it is disabled."""

    provider_id: str
    supported: list[str] = []
    required: bool = False
    current: ProviderConfig | None = None


class ListProvidersResponse(AcpMessage):
    """Result of `providers/list`."""

    providers: list[ProviderInfo]


class SetProviderRequest(AcpMessage):
    """Parameters of `providers/set`, a draft. `headers` usually contains a key."""

    provider_id: str
    api_type: str
    base_url: str
    headers: dict[str, str]


class DisableProviderRequest(AcpMessage):
    """Parameters of `providers/disable`, a draft."""

    provider_id: str


class SetConfigOptionRequest(AcpMessage):
    """Parameters of `session/set_config_option`. `type` is `boolean` for a bool, and absent for a
    string."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


class SetConfigOptionResponse(AcpMessage):
    """Result of `session/set_config_option`: the complete new list."""

    config_options: list[ConfigOption]


class PromptRequest(AcpMessage):
    """Parameters of `session/prompt`."""

    session_id: str
    prompt: list[Block]


class SteerRequest(AcpMessage):
    """Parameters of `_session/steering`, an extension that agents offer in the `_meta.steering` of
    their initialize response."""

    session_id: str
    prompt: list[Block]


STEER: Final = "_session/steering"
ONLY_INTO_A_TURN: Final[JsonObject] = {"steering": {"idleBehavior": "promptRequired"}}
"""The `_meta` of a steering request: without a running turn it must not begin one."""


class TurnUsage(AcpMessage):
    """A draft: the tokens of this turn."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptResponse(AcpMessage):
    """The end of a turn.

    `stop_reason` is `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`, or
    another value of the agent's.
    """

    stop_reason: str | None = None
    usage: TurnUsage | None = None


class PromptAnswer(Struct, gc=False):
    """A valid response to `session/prompt`."""

    id: int
    result: PromptResponse
    error: None = None
    method: None = None


class CancelRequestNotification(AcpMessage):
    """Parameters of `$/cancel_request`, in either direction: gives up a request of the sender."""

    request_id: int | float | str | None


class SessionNotification(AcpMessage):
    """Parameters of `session/update`."""

    session_id: str
    update: KnownUpdate


class PermissionChoice(AcpMessage):
    """An option of a permission request. Choose by `kind`: `allow_once`, `allow_always`,
    `reject_once` or `reject_always`."""

    option_id: str
    name: str | None = None
    kind: str | None = None


class PermissionAsked(AcpMessage):
    """The part of a permission request that is the same in all versions."""

    session_id: str
    options: list[PermissionChoice]


class RequestPermissionRequest(PermissionAsked, kw_only=True):
    """Parameters of `session/request_permission`."""

    tool_call: ToolFields


class SelectedOutcome(AcpMessage, tag_field="outcome", tag="selected"):
    """The outcome of a permission request that was decided."""

    option_id: str


class CancelledOutcome(AcpMessage, tag_field="outcome", tag="cancelled"):
    pass


PermissionOutcome: TypeAlias = SelectedOutcome | CancelledOutcome


class RequestPermissionResponse(AcpMessage):
    """Result of `session/request_permission`."""

    outcome: PermissionOutcome


class ReadTextFileRequest(AcpMessage):
    """Parameters of `fs/read_text_file`. `line` counts from 1; `limit` is a number of lines."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(AcpMessage):
    """Result of `fs/read_text_file`."""

    content: str


class WriteTextFileRequest(AcpMessage):
    """Parameters of `fs/write_text_file`."""

    session_id: str
    path: str
    content: str


class CreateTerminalRequest(AcpMessage):
    """Parameters of `terminal/create`. At most the last `output_byte_limit` bytes of output are
    kept."""

    session_id: str
    command: str
    args: list[str] | None = None
    env: list[NameValue] | None = None
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResponse(AcpMessage):
    """Result of `terminal/create`."""

    terminal_id: str


class TerminalRequest(AcpMessage):
    """The parameters of the other four `terminal/*` methods."""

    session_id: str
    terminal_id: str


class ExitStatus(AcpMessage):
    """The end of a program: by itself (`exit_code`) or by a `signal`."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(AcpMessage):
    """Result of `terminal/output`."""

    output: str
    truncated: bool
    exit_status: ExitStatus | None = None


class ElicitationRequest(AcpMessage):
    """Parameters of `elicitation/create`.

    With `mode` `form`, fill in `requested_schema`; with `url`, visit `url`. The elicitation belongs
    to a session (and perhaps a tool call) or to a request.
    """

    message: str
    mode: str | None = None
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | float | str | None = None
    requested_schema: JsonObject | None = None
    elicitation_id: str | None = None
    url: str | None = None


class ElicitationResponse(AcpMessage):
    """Result of `elicitation/create`. `action` is `accept` (with `content`), `decline` or
    `cancel`."""

    action: str
    content: JsonObject | None = None


class ElicitationComplete(AcpMessage):
    """Parameters of `elicitation/complete`."""

    elicitation_id: str
