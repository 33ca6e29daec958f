"""The types of ACP version 2 that differ from version 1, a draft of the protocol.

Everything else has the types of `messages`. Where null clears a value and absence leaves it
unchanged, an absent field holds UNSET. Enumerations are plain strings: each of them is open.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from ..model.content import Block, JsonObject, TerminalRef, ToolText
from .messages import (
    AcpMcpServer,
    AcpMessage,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigChoice,
    ConfigOption,
    ElicitationCapabilities,
    ExitStatus,
    Implementation,
    Marker,
    NoticeUpdate,
    PermissionAsked,
    PlanRemoved,
    PlanUpdate,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SubagentUpdate,
    SystemPrompt,
    SystemPromptCapability,
    ToolLocation,
    TurnUsage,
    Update,
    UsageUpdate,
    UserMessageChunk,
)

# --- content of tool calls


class DiffChange(AcpMessage):
    """One file of a diff. `move` and `copy` have an `old_path`."""

    operation: str
    path: str | None = None
    old_path: str | None = None
    file_type: str | None = None
    mime_type: str | None = None


class FilePatch(AcpMessage):
    """The text of a diff; the only known `format` is `git_patch`."""

    format: str
    text: str


class FilesDiff(AcpMessage, tag_field="type", tag="diff"):
    """Changed files. `changes` is authoritative; `patch` may be missing."""

    changes: list[DiffChange]
    patch: FilePatch | None = None


ToolPart: TypeAlias = ToolText | FilesDiff | TerminalRef
"""One item of a tool call's content."""


# --- updates


class WholeMessage(Update):
    """The base of the messages that come as a whole. Null or an empty list clears the message."""

    message_id: str
    content: list[Block] | UnsetType | None = UNSET


class WholeUserMessage(WholeMessage, tag="user_message"):
    """A message of a user that the agent has inserted into the conversation."""


class WholeAgentMessage(WholeMessage, tag="agent_message"):
    """A message of the answer."""


class WholeAgentThought(WholeMessage, tag="agent_thought"):
    """A message of the agent's thinking."""


class BackgroundItem(AcpMessage):
    """Work that continues after the turn: a `terminal`, a `tool_call` or a `subagent`."""

    type: str
    terminal_id: str | None = None
    tool_call_id: str | None = None
    session_id: str | None = None


class StateUpdate(Update, tag="state_update"):
    """The state of the session: `running`, `requires_action`, `idle`, or an unknown one, which
    counts as busy. Only `idle` has the fields other than `background`."""

    state: str
    stop_reason: str | None = None
    error: JsonObject | None = None
    usage: TurnUsage | None = None
    background: list[BackgroundItem] | None = None


class CancelCapabilities(AcpMessage):
    """Abilities of a tool call or a terminal: `cancel` if it can be cancelled by itself."""

    cancel: Marker | None = None


class ToolChange(AcpMessage):
    """Fields of a tool call. Arrays replace, null clears, absence leaves unchanged."""

    tool_call_id: str
    title: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    kind: str | UnsetType | None = UNSET
    status: str | UnsetType | None = UNSET
    content: list[ToolPart] | UnsetType | None = UNSET
    locations: list[ToolLocation] | UnsetType | None = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    capabilities: CancelCapabilities | UnsetType | None = UNSET


class ToolChangeUpdate(ToolChange, tag_field="sessionUpdate", tag="tool_call_update"):
    """A new tool call, or a change of one: the first update of an id creates the call."""


class ToolContentChunk(Update, tag="tool_call_content_chunk"):
    """One more item of a tool call's content."""

    tool_call_id: str
    content: ToolPart


class TerminalData(AcpMessage):
    """The whole output of a terminal so far: bytes in base64."""

    data: str


class TerminalSize(AcpMessage):
    """The size of a terminal."""

    cols: int
    rows: int


class TerminalUpdate(Update, tag="terminal_update"):
    """A new terminal of the agent's, or a change of one. `output` replaces all earlier output."""

    terminal_id: str
    command: str | UnsetType | None = UNSET
    cwd: str | UnsetType | None = UNSET
    output: TerminalData | UnsetType | None = UNSET
    exit_status: ExitStatus | UnsetType | None = UNSET
    size: TerminalSize | UnsetType | None = UNSET
    capabilities: CancelCapabilities | UnsetType | None = UNSET


class TerminalOutputChunk(Update, tag="terminal_output_chunk"):
    """More output of a terminal: bytes in base64, split at any position."""

    terminal_id: str
    data: str


class TypedConfigOption(AcpMessage):
    """A config option, as version 2 writes it. `type` is `select` or `boolean`."""

    config_id: str
    type: str
    current_value: str | bool
    name: str | None = None
    description: str | None = None
    category: str | None = None
    options: list[ConfigChoice] | None = None

    def as_option(self) -> ConfigOption:
        """Return the option in the shape of version 1."""
        return ConfigOption(
            id=self.config_id,
            type=self.type,
            current_value=self.current_value,
            name=self.name,
            description=self.description,
            category=self.category,
            options=self.options,
        )


class TypedConfigUpdate(Update, tag="config_option_update"):
    """The complete list of config options."""

    config_options: list[TypedConfigOption]


KnownUpdate2: TypeAlias = (
    WholeUserMessage
    | WholeAgentMessage
    | WholeAgentThought
    | UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | StateUpdate
    | ToolChangeUpdate
    | ToolContentChunk
    | TerminalUpdate
    | TerminalOutputChunk
    | TypedConfigUpdate
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | NoticeUpdate
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
)

VARIANTS_2: Final[dict[str, type[KnownUpdate2]]] = {
    variant.__struct_config__.tag: variant for variant in KnownUpdate2.__args__
}


class UpdateParams2(Struct, rename="camel", gc=False):
    """Parameters of `session/update`."""

    session_id: str
    update: KnownUpdate2


class UpdateFrame2(Struct, gc=False):
    """A valid `session/update`."""

    method: Literal["session/update"]
    params: UpdateParams2
    id: Literal["\0"] | UnsetType = UNSET
    """An update is a notification: a message with an id is refused here."""


# --- initialize


class ClientAuth2(AcpMessage):
    """Login methods that the client supports."""

    terminal: Marker | None = None


class ClientCapabilities2(AcpMessage):
    """The capabilities of the client. It has no files and no terminals for the agent."""

    auth: ClientAuth2 | None = None
    elicitation: ElicitationCapabilities | None = None


class PromptCapabilities2(AcpMessage):
    """Content that the agent accepts in a prompt, in addition to text and links."""

    image: Marker | None = None
    audio: Marker | None = None
    embedded_context: Marker | None = None


class McpCapabilities2(AcpMessage):
    """MCP transports that the agent supports."""

    stdio: Marker | None = None
    http: Marker | None = None
    acp: Marker | None = None


class SessionCapabilities2(AcpMessage):
    """Session features beyond the baseline, which includes resume, list and close."""

    prompt: PromptCapabilities2 | None = None
    mcp: McpCapabilities2 | None = None
    delete: Marker | None = None
    fork: Marker | None = None
    additional_directories: Marker | None = None
    system_prompt: SystemPromptCapability | None = None
    archive: Marker | None = None
    status: Marker | None = None
    title: Marker | None = None


class AgentAuth2(AcpMessage):
    """Abilities for signing in, beyond the baseline of `auth/login` and `auth/logout`."""

    status: Marker | None = None


class AgentCapabilities2(AcpMessage):
    """The agent's capabilities beyond the baseline."""

    session: SessionCapabilities2 | None = None
    auth: AgentAuth2 | None = None
    providers: Marker | None = None


class AuthMethod2(AcpMessage):
    """A way to log in."""

    method_id: str
    name: str | None = None
    type: str | None = None
    description: str | None = None
    args: list[str] | None = None


class InitializeRequest2(AcpMessage):
    """Parameters of `initialize` in version 2."""

    protocol_version: int
    info: Implementation
    capabilities: ClientCapabilities2 | None = None


class InitializeResponse2(AcpMessage):
    """Result of `initialize` in version 2."""

    protocol_version: int
    info: Implementation | None = None
    capabilities: AgentCapabilities2 | None = None
    auth_methods: list[AuthMethod2] | None = None


# --- sessions


class OfferedSettings2(AcpMessage):
    """The settings and commands of a session, in the result that opens it."""

    config_options: list[TypedConfigOption] | None = None
    available_commands: list[AvailableCommand] | None = None


class ReplayFrom(AcpMessage):
    """The point from which the agent repeats the conversation. The only known `type` is
    `start`."""

    type: str


class NewSessionRequest2(AcpMessage):
    """Parameters of `session/new` in version 2."""

    cwd: str
    mcp_servers: list[AcpMcpServer] | None = None
    additional_directories: list[str] | None = None
    system_prompt: SystemPrompt | None = None


class ResumeSessionRequest2(AcpMessage):
    """Parameters of `session/resume` in version 2."""

    session_id: str
    cwd: str
    mcp_servers: list[AcpMcpServer] | None = None
    additional_directories: list[str] | None = None
    replay_from: ReplayFrom | None = None
    system_prompt: SystemPrompt | None = None


class SetConfigOptionResponse2(AcpMessage):
    """Result of `session/set_config_option`: the complete new list."""

    config_options: list[TypedConfigOption]


class CancelToolCallRequest(AcpMessage):
    """Parameters of `tool_call/cancel`."""

    session_id: str
    tool_call_id: str


class CancelTerminalRequest(AcpMessage):
    """Parameters of `terminal/cancel`."""

    session_id: str
    terminal_id: str


# --- permission


class PermissionSubject(AcpMessage):
    """The subject of a permission request: a `tool_call`, or a `command` to be run."""

    type: str
    tool_call: ToolChange | None = None
    command: str | None = None
    cwd: str | None = None
    tool_call_id: str | None = None
    terminal_id: str | None = None


class PermissionRequest2(PermissionAsked, kw_only=True):
    """Parameters of `session/request_permission` in version 2."""

    title: str
    description: str | None = None
    subject: PermissionSubject | None = None


class SessionNotification2(AcpMessage):
    """Parameters of `session/update`."""

    session_id: str
    update: KnownUpdate2
