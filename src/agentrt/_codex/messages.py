"""The messages of `codex app-server`, as far as agentrt uses them.

Made by `tests/agents/codex_schema.py` of the schema that codex-cli 0.169.0 prints;
not to be edited.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

VERSION = "0.169.0"
"""Of the program that the schema is from."""


class Message(Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base of all: None is what was left out. Enumerations are plain strings, for every program
    may be newer."""


class TextUserInput(Message, tag_field="type", tag="text"):
    text: str


class ImageUserInput(Message, tag_field="type", tag="image"):
    url: str


class AudioUserInput(Message, tag_field="type", tag="audio"):
    url: str


class MentionUserInput(Message, tag_field="type", tag="mention"):
    name: str
    path: str


UserInput: TypeAlias = TextUserInput | ImageUserInput | AudioUserInput | MentionUserInput


class AddPatchChangeKind(Message, tag_field="type", tag="add"):
    pass


class DeletePatchChangeKind(Message, tag_field="type", tag="delete"):
    pass


class UpdatePatchChangeKind(Message, tag_field="type", tag="update"):
    move_path: str | None = field(default=None, name="move_path")


PatchChangeKind: TypeAlias = AddPatchChangeKind | DeletePatchChangeKind | UpdatePatchChangeKind


class FileUpdateChange(Message):
    path: str
    kind: PatchChangeKind
    diff: str


class InputTextDynamicToolCallOutputContentItem(Message, tag_field="type", tag="inputText"):
    text: str


class InputImageDynamicToolCallOutputContentItem(Message, tag_field="type", tag="inputImage"):
    image_url: str


DynamicToolCallOutputContentItem: TypeAlias = (
    InputTextDynamicToolCallOutputContentItem | InputImageDynamicToolCallOutputContentItem
)


class McpToolCallResult(Message):
    content: list[Any]


class McpToolCallError(Message):
    message: str


class UserMessageThreadItem(Message, tag_field="type", tag="userMessage"):
    id: str
    content: list[UserInput]
    client_id: str | None = None


class AgentMessageThreadItem(Message, tag_field="type", tag="agentMessage"):
    id: str
    text: str


class PlanThreadItem(Message, tag_field="type", tag="plan"):
    id: str
    text: str


class ReasoningThreadItem(Message, tag_field="type", tag="reasoning"):
    id: str
    summary: list[str] | None = None
    content: list[str] | None = None


class CommandExecutionThreadItem(Message, tag_field="type", tag="commandExecution"):
    id: str
    command: str
    cwd: str
    status: str
    aggregated_output: str | None = None
    exit_code: int | None = None


class FileChangeThreadItem(Message, tag_field="type", tag="fileChange"):
    id: str
    changes: list[FileUpdateChange]
    status: str


class McpToolCallThreadItem(Message, tag_field="type", tag="mcpToolCall"):
    id: str
    server: str
    tool: str
    status: str
    arguments: Any
    result: McpToolCallResult | None = None
    error: McpToolCallError | None = None


class DynamicToolCallThreadItem(Message, tag_field="type", tag="dynamicToolCall"):
    id: str
    tool: str
    arguments: Any
    status: str
    content_items: list[DynamicToolCallOutputContentItem] | None = None


class CollabAgentToolCallThreadItem(Message, tag_field="type", tag="collabAgentToolCall"):
    id: str
    tool: str
    status: str
    prompt: str | None = None


class WebSearchThreadItem(Message, tag_field="type", tag="webSearch"):
    id: str
    query: str


class ImageViewThreadItem(Message, tag_field="type", tag="imageView"):
    id: str
    path: str


class ContextCompactionThreadItem(Message, tag_field="type", tag="contextCompaction"):
    id: str


ThreadItem: TypeAlias = (
    UserMessageThreadItem
    | AgentMessageThreadItem
    | PlanThreadItem
    | ReasoningThreadItem
    | CommandExecutionThreadItem
    | FileChangeThreadItem
    | McpToolCallThreadItem
    | DynamicToolCallThreadItem
    | CollabAgentToolCallThreadItem
    | WebSearchThreadItem
    | ImageViewThreadItem
    | ContextCompactionThreadItem
)


class TurnError(Message):
    message: str
    codex_error_info: Any = None
    additional_details: str | None = None


class Turn(Message):
    id: str
    status: str
    items: list[ThreadItem]
    error: TurnError | None = None


class Thread(Message):
    id: str
    preview: str
    cwd: str
    updated_at: int
    name: str | None = None


class ReadOnlySandboxPolicy(Message, tag_field="type", tag="readOnly"):
    pass


class WorkspaceWriteSandboxPolicy(Message, tag_field="type", tag="workspaceWrite"):
    writable_roots: list[str] | None = None
    network_access: bool | None = None


class DangerFullAccessSandboxPolicy(Message, tag_field="type", tag="dangerFullAccess"):
    pass


class ExternalSandboxSandboxPolicy(Message, tag_field="type", tag="externalSandbox"):
    pass


SandboxPolicy: TypeAlias = (
    ReadOnlySandboxPolicy
    | WorkspaceWriteSandboxPolicy
    | DangerFullAccessSandboxPolicy
    | ExternalSandboxSandboxPolicy
)


class ClientInfo(Message):
    name: str
    version: str
    title: str | None = None


class InitializeCapabilities(Message):
    experimental_api: bool | None = None
    request_attestation: bool | None = None


class InitializeParams(Message):
    client_info: ClientInfo
    capabilities: InitializeCapabilities | None = None


class InitializeResponse(Message):
    user_agent: str


class GetAccountResponse(Message):
    requires_openai_auth: bool
    account: Any = None


class ReasoningEffortOption(Message):
    reasoning_effort: str
    description: str


class Model(Message):
    model: str
    display_name: str
    description: str
    hidden: bool
    supported_reasoning_efforts: list[ReasoningEffortOption]


class ModelListResponse(Message):
    data: list[Model]


class FunctionDynamicToolSpec(Message, tag_field="type", tag="function"):
    name: str
    description: str
    input_schema: Any


DynamicToolSpec: TypeAlias = FunctionDynamicToolSpec


class ThreadStartParams(Message):
    cwd: str | None = None
    runtime_workspace_roots: list[str] | None = None
    approval_policy: Any = None
    approvals_reviewer: str | None = None
    sandbox: str | None = None
    model: str | None = None
    config: dict[str, Any] | None = None
    dynamic_tools: list[DynamicToolSpec] | None = None


class ThreadResumeParams(Message):
    thread_id: str
    cwd: str | None = None
    runtime_workspace_roots: list[str] | None = None
    approval_policy: Any = None
    approvals_reviewer: str | None = None
    sandbox: str | None = None
    model: str | None = None
    config: dict[str, Any] | None = None
    exclude_turns: bool | None = None


class ThreadForkParams(Message):
    thread_id: str
    cwd: str | None = None
    runtime_workspace_roots: list[str] | None = None
    approval_policy: Any = None
    approvals_reviewer: str | None = None
    sandbox: str | None = None
    model: str | None = None
    config: dict[str, Any] | None = None
    exclude_turns: bool | None = None
    last_turn_id: str | None = None


class ThreadStartResponse(Message):
    thread: Thread
    model: str
    approval_policy: Any
    sandbox: SandboxPolicy
    reasoning_effort: str | None = None


class ThreadTurnsListParams(Message):
    thread_id: str
    cursor: str | None = None
    sort_direction: str | None = None
    items_view: Any = None


class ThreadTurnsListResponse(Message):
    data: list[Turn]
    next_cursor: str | None = None


class ThreadListParams(Message):
    cursor: str | None = None
    cwd: Any = None


class ThreadListResponse(Message):
    data: list[Thread]
    next_cursor: str | None = None


class ThreadDeleteParams(Message):
    thread_id: str


class ThreadSettingsUpdateParams(Message):
    thread_id: str
    approval_policy: Any = None
    approvals_reviewer: str | None = None
    sandbox_policy: SandboxPolicy | None = None
    model: str | None = None
    effort: str | None = None


class ThreadSettings(Message):
    approval_policy: Any
    sandbox_policy: SandboxPolicy
    model: str
    effort: str | None = None


class ThreadBackgroundTerminalsListParams(Message):
    thread_id: str


class ThreadBackgroundTerminal(Message):
    item_id: str
    process_id: str


class ThreadBackgroundTerminalsListResponse(Message):
    data: list[ThreadBackgroundTerminal]


class ThreadBackgroundTerminalsTerminateParams(Message):
    thread_id: str
    process_id: str


class TurnStartParams(Message):
    thread_id: str
    input: list[UserInput]
    output_schema: Any = None


class TurnStartResponse(Message):
    turn: Turn


class TurnSteerParams(Message):
    thread_id: str
    expected_turn_id: str
    input: list[UserInput]
    client_user_message_id: str | None = None


class TurnInterruptParams(Message):
    thread_id: str
    turn_id: str


class AgentMessageDeltaNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningSummaryTextDeltaNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningTextDeltaNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningSummaryPartAddedNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    summary_index: int


class PlanDeltaNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class CommandExecutionOutputDeltaNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class FileChangePatchUpdatedNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    changes: list[FileUpdateChange]


class McpToolCallProgressNotification(Message):
    thread_id: str
    turn_id: str
    item_id: str
    message: str


class ItemStartedNotification(Message):
    thread_id: str
    turn_id: str
    item: ThreadItem


class ItemCompletedNotification(Message):
    thread_id: str
    turn_id: str
    item: ThreadItem


class TurnStartedNotification(Message):
    thread_id: str
    turn: Turn


class TurnCompletedNotification(Message):
    thread_id: str
    turn: Turn


class TurnPlanStep(Message):
    step: str
    status: str


class TurnPlanUpdatedNotification(Message):
    thread_id: str
    turn_id: str
    plan: list[TurnPlanStep]


class TokenUsageBreakdown(Message):
    total_tokens: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_output_tokens: int
    cache_write_input_tokens: int | None = None


class ThreadTokenUsage(Message):
    total: TokenUsageBreakdown
    last: TokenUsageBreakdown
    model_context_window: int | None = None


class ThreadTokenUsageUpdatedNotification(Message):
    thread_id: str
    token_usage: ThreadTokenUsage


class RateLimitWindow(Message):
    used_percent: int
    window_duration_mins: int | None = None
    resets_at: int | None = None


class RateLimitSnapshot(Message):
    limit_id: str | None = None
    primary: RateLimitWindow | None = None
    secondary: RateLimitWindow | None = None
    rate_limit_reached_type: str | None = None


class AccountRateLimitsUpdatedNotification(Message):
    rate_limits: RateLimitSnapshot


class ThreadSettingsUpdatedNotification(Message):
    thread_id: str
    thread_settings: ThreadSettings


class ThreadNameUpdatedNotification(Message):
    thread_id: str
    thread_name: str | None = None


class ErrorNotification(Message):
    thread_id: str
    turn_id: str
    error: TurnError
    will_retry: bool


class WarningNotification(Message):
    message: str
    thread_id: str | None = None


class ConfigWarningNotification(Message):
    summary: str
    details: str | None = None


class DeprecationNoticeNotification(Message):
    summary: str
    details: str | None = None


class ModelReroutedNotification(Message):
    thread_id: str
    from_model: str
    to_model: str


class McpServerStatusUpdatedNotification(Message):
    name: str
    status: str
    error: str | None = None


class ServerRequestResolvedNotification(Message):
    thread_id: str
    request_id: Any


class NetworkApprovalContext(Message):
    host: str
    protocol: str


class CommandExecutionRequestApprovalParams(Message):
    thread_id: str
    item_id: str
    kind: Any = None
    reason: str | None = None
    network_approval_context: NetworkApprovalContext | None = None
    command: str | None = None
    cwd: str | None = None
    available_decisions: list[Any] | None = None


class FileChangeRequestApprovalParams(Message):
    thread_id: str
    item_id: str
    reason: str | None = None
    grant_root: str | None = None


class AdditionalNetworkPermissions(Message):
    enabled: bool | None = None


class AdditionalFileSystemPermissions(Message):
    read: list[str] | None = None
    write: list[str] | None = None
    entries: list[dict[str, Any]] | None = None


class RequestPermissionProfile(Message):
    network: AdditionalNetworkPermissions | None = None
    file_system: AdditionalFileSystemPermissions | None = None


class PermissionsRequestApprovalParams(Message):
    thread_id: str
    item_id: str
    cwd: str
    permissions: RequestPermissionProfile
    reason: str | None = None


class ToolRequestUserInputOption(Message):
    label: str
    description: str


class ToolRequestUserInputQuestion(Message):
    id: str
    header: str
    question: str
    is_other: bool | None = None
    is_secret: bool | None = None
    options: list[ToolRequestUserInputOption] | None = None


class ToolRequestUserInputParams(Message):
    thread_id: str
    item_id: str
    questions: list[ToolRequestUserInputQuestion]


class FormMcpServerElicitationRequest(Message, tag_field="mode", tag="form"):
    thread_id: str
    server_name: str
    message: str
    requested_schema: dict[str, Any]
    meta: Any = field(default=None, name="_meta")


class UrlMcpServerElicitationRequest(Message, tag_field="mode", tag="url"):
    thread_id: str
    server_name: str
    message: str
    url: str
    meta: Any = field(default=None, name="_meta")


McpServerElicitationRequestParams: TypeAlias = (
    FormMcpServerElicitationRequest | UrlMcpServerElicitationRequest
)


class DynamicToolCallParams(Message):
    thread_id: str
    call_id: str
    tool: str
    arguments: Any


class McpServerElicitationRequestResponse(Message):
    action: str
    content: Any = None
    meta: Any = field(default=None, name="_meta")


class DynamicToolCallResponse(Message):
    content_items: list[DynamicToolCallOutputContentItem]
    success: bool
