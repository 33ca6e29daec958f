"""The messages of `codex app-server`, as far as agentrt uses them.

Made by `tests/agents/codex_schema.py` of the schema that codex-cli 0.169.0 prints;
not to be edited.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

VERSION = "0.169.0"
"""Of the program that the schema is from."""


class CodexMessage(Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base of all: None is what was left out. Enumerations are plain strings, for every program
    may be newer."""


class TextUserInput(CodexMessage, tag_field="type", tag="text"):
    text: str


class ImageUserInput(CodexMessage, tag_field="type", tag="image"):
    url: str | None = None


class AudioUserInput(CodexMessage, tag_field="type", tag="audio"):
    url: str | None = None


class MentionUserInput(CodexMessage, tag_field="type", tag="mention"):
    name: str
    path: str


UserInput: TypeAlias = TextUserInput | ImageUserInput | AudioUserInput | MentionUserInput


class AddPatchChangeKind(CodexMessage, tag_field="type", tag="add"):
    pass


class DeletePatchChangeKind(CodexMessage, tag_field="type", tag="delete"):
    pass


class UpdatePatchChangeKind(CodexMessage, tag_field="type", tag="update"):
    move_path: str | None = field(default=None, name="move_path")


PatchChangeKind: TypeAlias = AddPatchChangeKind | DeletePatchChangeKind | UpdatePatchChangeKind


class FileUpdateChange(CodexMessage):
    path: str
    kind: PatchChangeKind
    diff: str


class InputTextDynamicToolCallOutputContentItem(CodexMessage, tag_field="type", tag="inputText"):
    text: str


class InputImageDynamicToolCallOutputContentItem(CodexMessage, tag_field="type", tag="inputImage"):
    image_url: str


class InputAudioDynamicToolCallOutputContentItem(CodexMessage, tag_field="type", tag="inputAudio"):
    audio_url: str


DynamicToolCallOutputContentItem: TypeAlias = (
    InputTextDynamicToolCallOutputContentItem
    | InputImageDynamicToolCallOutputContentItem
    | InputAudioDynamicToolCallOutputContentItem
)


class McpToolCallResult(CodexMessage):
    content: list[Any]
    structured_content: Any = None
    meta: Any = field(default=None, name="_meta")


class McpToolCallError(CodexMessage):
    message: str


class HookPromptFragment(CodexMessage):
    text: str


class AsyncUserInputQuestion(CodexMessage):
    title: str
    options: list[str] | None = None


class SearchWebSearchAction(CodexMessage, tag_field="type", tag="search"):
    query: str | None = None
    queries: list[str] | None = None


class OpenPageWebSearchAction(CodexMessage, tag_field="type", tag="openPage"):
    url: str | None = None


class FindInPageWebSearchAction(CodexMessage, tag_field="type", tag="findInPage"):
    pattern: str | None = None
    url: str | None = None


class OtherWebSearchAction(CodexMessage, tag_field="type", tag="other"):
    pass


WebSearchAction: TypeAlias = (
    SearchWebSearchAction
    | OpenPageWebSearchAction
    | FindInPageWebSearchAction
    | OtherWebSearchAction
)


class ImageGenerationInputImage(CodexMessage):
    path: str


class UserMessageThreadItem(CodexMessage, tag_field="type", tag="userMessage"):
    id: str
    content: list[UserInput]
    client_id: str | None = None


class HookPromptThreadItem(CodexMessage, tag_field="type", tag="hookPrompt"):
    id: str
    fragments: list[HookPromptFragment]


class AgentMessageThreadItem(CodexMessage, tag_field="type", tag="agentMessage"):
    id: str
    text: str
    questions: list[AsyncUserInputQuestion] | None = None


class FunctionCallOutputThreadItem(CodexMessage, tag_field="type", tag="functionCallOutput"):
    id: str
    name: str
    output: Any
    namespace: str | None = None


class PlanThreadItem(CodexMessage, tag_field="type", tag="plan"):
    id: str
    text: str


class ReasoningThreadItem(CodexMessage, tag_field="type", tag="reasoning"):
    id: str
    summary: list[str] | None = None
    content: list[str] | None = None


class CommandExecutionThreadItem(CodexMessage, tag_field="type", tag="commandExecution"):
    id: str
    command: str
    cwd: str
    status: str
    aggregated_output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None


class FileChangeThreadItem(CodexMessage, tag_field="type", tag="fileChange"):
    id: str
    changes: list[FileUpdateChange]
    status: str


class McpToolCallThreadItem(CodexMessage, tag_field="type", tag="mcpToolCall"):
    id: str
    server: str
    tool: str
    status: str
    arguments: Any
    result: McpToolCallResult | None = None
    error: McpToolCallError | None = None


class DynamicToolCallThreadItem(CodexMessage, tag_field="type", tag="dynamicToolCall"):
    id: str
    tool: str
    arguments: Any
    status: str
    namespace: str | None = None
    content_items: list[DynamicToolCallOutputContentItem] | None = None
    success: bool | None = None


class CollabAgentToolCallThreadItem(CodexMessage, tag_field="type", tag="collabAgentToolCall"):
    id: str
    tool: str
    status: str
    receiver_thread_ids: list[str]
    agents_states: dict[str, Any]
    prompt: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None


class SubAgentActivityThreadItem(CodexMessage, tag_field="type", tag="subAgentActivity"):
    id: str
    kind: str
    agent_path: str
    agent_thread_id: str
    model: str | None = None
    reasoning_effort: str | None = None


class WebSearchThreadItem(CodexMessage, tag_field="type", tag="webSearch"):
    id: str
    query: str
    action: WebSearchAction | None = None
    results: list[Any] | None = None


class ImageViewThreadItem(CodexMessage, tag_field="type", tag="imageView"):
    id: str
    path: str


class SleepThreadItem(CodexMessage, tag_field="type", tag="sleep"):
    id: str
    duration_ms: int


class ImageGenerationThreadItem(CodexMessage, tag_field="type", tag="imageGeneration"):
    id: str
    status: str
    revised_prompt: str | None = None
    saved_path: str | None = None
    result: str | None = None
    input_images: list[ImageGenerationInputImage] | None = None
    failure: Any = None


class EnteredReviewModeThreadItem(CodexMessage, tag_field="type", tag="enteredReviewMode"):
    id: str
    review: str


class ExitedReviewModeThreadItem(CodexMessage, tag_field="type", tag="exitedReviewMode"):
    id: str
    review: str


class ContextCompactionThreadItem(CodexMessage, tag_field="type", tag="contextCompaction"):
    id: str


ThreadItem: TypeAlias = (
    UserMessageThreadItem
    | HookPromptThreadItem
    | AgentMessageThreadItem
    | FunctionCallOutputThreadItem
    | PlanThreadItem
    | ReasoningThreadItem
    | CommandExecutionThreadItem
    | FileChangeThreadItem
    | McpToolCallThreadItem
    | DynamicToolCallThreadItem
    | CollabAgentToolCallThreadItem
    | SubAgentActivityThreadItem
    | WebSearchThreadItem
    | ImageViewThreadItem
    | SleepThreadItem
    | ImageGenerationThreadItem
    | EnteredReviewModeThreadItem
    | ExitedReviewModeThreadItem
    | ContextCompactionThreadItem
)


class TurnError(CodexMessage):
    message: str
    codex_error_info: Any = None
    additional_details: str | None = None
    misalignment: dict[str, Any] | None = None


class CodexTurnRecord(CodexMessage):
    id: str
    status: str
    items: list[ThreadItem]
    root_turn_id: str | None = None
    error: TurnError | None = None


class Thread(CodexMessage):
    id: str
    preview: str
    cwd: str
    updated_at: int
    name: str | None = None


class ReadOnlySandboxPolicy(CodexMessage, tag_field="type", tag="readOnly"):
    pass


class WorkspaceWriteSandboxPolicy(CodexMessage, tag_field="type", tag="workspaceWrite"):
    writable_roots: list[str] | None = None
    network_access: bool | None = None


class DangerFullAccessSandboxPolicy(CodexMessage, tag_field="type", tag="dangerFullAccess"):
    pass


class ExternalSandboxSandboxPolicy(CodexMessage, tag_field="type", tag="externalSandbox"):
    pass


SandboxPolicy: TypeAlias = (
    ReadOnlySandboxPolicy
    | WorkspaceWriteSandboxPolicy
    | DangerFullAccessSandboxPolicy
    | ExternalSandboxSandboxPolicy
)


class CodexClientInfo(CodexMessage):
    """The client as codex sees it: its `name`, its `version` and a `title` for people."""

    name: str
    version: str
    title: str | None = None


class InitializeCapabilities(CodexMessage):
    experimental_api: bool | None = None
    request_attestation: bool | None = None


class InitializeParams(CodexMessage):
    client_info: CodexClientInfo
    capabilities: InitializeCapabilities | None = None


class CodexInitializeResponse(CodexMessage):
    user_agent: str


class GetAccountResponse(CodexMessage):
    requires_openai_auth: bool
    account: Any = None


class ReasoningEffortOption(CodexMessage):
    reasoning_effort: str
    description: str


class Model(CodexMessage):
    model: str
    display_name: str
    description: str
    hidden: bool
    supported_reasoning_efforts: list[ReasoningEffortOption]


class ModelListResponse(CodexMessage):
    data: list[Model]


class FunctionDynamicToolSpec(CodexMessage, tag_field="type", tag="function"):
    name: str
    description: str
    input_schema: Any


DynamicToolSpec: TypeAlias = FunctionDynamicToolSpec


class ThreadStartParams(CodexMessage):
    cwd: str | None = None
    runtime_workspace_roots: list[str] | None = None
    approval_policy: Any = None
    approvals_reviewer: str | None = None
    sandbox: str | None = None
    model: str | None = None
    config: dict[str, Any] | None = None
    dynamic_tools: list[DynamicToolSpec] | None = None


class ThreadResumeParams(CodexMessage):
    thread_id: str
    cwd: str | None = None
    runtime_workspace_roots: list[str] | None = None
    approval_policy: Any = None
    approvals_reviewer: str | None = None
    sandbox: str | None = None
    model: str | None = None
    config: dict[str, Any] | None = None
    exclude_turns: bool | None = None


class ThreadForkParams(CodexMessage):
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


class ThreadStartResponse(CodexMessage):
    thread: Thread
    model: str
    approval_policy: Any
    sandbox: SandboxPolicy
    reasoning_effort: str | None = None


class ThreadTurnsListParams(CodexMessage):
    thread_id: str
    cursor: str | None = None
    sort_direction: str | None = None
    items_view: Any = None


class ThreadTurnsListResponse(CodexMessage):
    data: list[CodexTurnRecord]
    next_cursor: str | None = None


class ThreadListParams(CodexMessage):
    cursor: str | None = None
    cwd: Any = None


class ThreadListResponse(CodexMessage):
    data: list[Thread]
    next_cursor: str | None = None


class ThreadDeleteParams(CodexMessage):
    thread_id: str


class ThreadSettingsUpdateParams(CodexMessage):
    thread_id: str
    approval_policy: Any = None
    approvals_reviewer: str | None = None
    sandbox_policy: SandboxPolicy | None = None
    model: str | None = None
    effort: str | None = None


class ThreadSettings(CodexMessage):
    approval_policy: Any
    sandbox_policy: SandboxPolicy
    model: str
    effort: str | None = None


class ThreadBackgroundTerminalsListParams(CodexMessage):
    thread_id: str


class ThreadBackgroundTerminal(CodexMessage):
    item_id: str
    process_id: str


class ThreadBackgroundTerminalsListResponse(CodexMessage):
    data: list[ThreadBackgroundTerminal]


class ThreadBackgroundTerminalsTerminateParams(CodexMessage):
    thread_id: str
    process_id: str


class TurnStartParams(CodexMessage):
    thread_id: str
    input: list[UserInput]
    output_schema: Any = None


class TurnSteerParams(CodexMessage):
    thread_id: str
    expected_turn_id: str
    input: list[UserInput]
    client_user_message_id: str | None = None


class TurnInterruptParams(CodexMessage):
    thread_id: str
    turn_id: str


class ThreadCompactStartParams(CodexMessage):
    thread_id: str


class UncommittedChangesReviewTarget(CodexMessage, tag_field="type", tag="uncommittedChanges"):
    pass


class CustomReviewTarget(CodexMessage, tag_field="type", tag="custom"):
    instructions: str


ReviewTarget: TypeAlias = UncommittedChangesReviewTarget | CustomReviewTarget


class ReviewStartParams(CodexMessage):
    thread_id: str
    target: ReviewTarget
    delivery: str | None = None


class AgentMessageDeltaNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningSummaryTextDeltaNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningTextDeltaNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningSummaryPartAddedNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    summary_index: int


class PlanDeltaNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class CommandExecutionOutputDeltaNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class FileChangeOutputDeltaNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class TerminalInteractionNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    stdin: str


class FileChangePatchUpdatedNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    changes: list[FileUpdateChange]


class McpToolCallProgressNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item_id: str
    message: str


class ItemStartedNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item: ThreadItem


class ItemCompletedNotification(CodexMessage):
    thread_id: str
    turn_id: str
    item: ThreadItem


class TurnStartedNotification(CodexMessage):
    thread_id: str
    turn: CodexTurnRecord


class TurnCompletedNotification(CodexMessage):
    thread_id: str
    turn: CodexTurnRecord


class TurnPlanStep(CodexMessage):
    step: str
    status: str


class TurnPlanUpdatedNotification(CodexMessage):
    thread_id: str
    turn_id: str
    plan: list[TurnPlanStep]
    explanation: str | None = None


class TokenUsageBreakdown(CodexMessage):
    total_tokens: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_output_tokens: int
    cache_write_input_tokens: int | None = None


class ThreadTokenUsage(CodexMessage):
    total: TokenUsageBreakdown
    last: TokenUsageBreakdown
    model_context_window: int | None = None


class ThreadTokenUsageUpdatedNotification(CodexMessage):
    thread_id: str
    token_usage: ThreadTokenUsage


class RateLimitWindow(CodexMessage):
    used_percent: int
    window_duration_mins: int | None = None
    resets_at: int | None = None


class CreditsSnapshot(CodexMessage):
    has_credits: bool
    unlimited: bool
    balance: str | None = None


class SpendControlLimitSnapshot(CodexMessage):
    limit: str
    used: str
    remaining_percent: int
    resets_at: int


class RateLimitSnapshot(CodexMessage):
    limit_id: str | None = None
    limit_name: str | None = None
    primary: RateLimitWindow | None = None
    secondary: RateLimitWindow | None = None
    credits: CreditsSnapshot | None = None
    individual_limit: SpendControlLimitSnapshot | None = None
    spend_control_reached: bool | None = None
    plan_type: str | None = None
    rate_limit_reached_type: str | None = None


class AccountRateLimitsUpdatedNotification(CodexMessage):
    rate_limits: RateLimitSnapshot


class ThreadSettingsUpdatedNotification(CodexMessage):
    thread_id: str
    thread_settings: ThreadSettings


class ThreadNameUpdatedNotification(CodexMessage):
    thread_id: str
    thread_name: str | None = None


class ErrorNotification(CodexMessage):
    thread_id: str
    turn_id: str
    error: TurnError
    will_retry: bool


class WarningNotification(CodexMessage):
    message: str
    thread_id: str | None = None


class TextPosition(CodexMessage):
    line: int
    column: int


class TextRange(CodexMessage):
    start: TextPosition
    end: TextPosition


class ConfigWarningNotification(CodexMessage):
    summary: str
    details: str | None = None
    path: str | None = None
    range: TextRange | None = None


class DeprecationNoticeNotification(CodexMessage):
    summary: str
    details: str | None = None


class GuardianWarningNotification(CodexMessage):
    thread_id: str
    message: str


class ModelReroutedNotification(CodexMessage):
    thread_id: str
    from_model: str
    to_model: str
    reason: str


class ModelVerificationNotification(CodexMessage):
    thread_id: str
    verifications: list[str]


class ModelSafetyBufferingUpdatedNotification(CodexMessage):
    thread_id: str
    model: str
    reasons: list[str]
    use_cases: list[str]
    show_buffering_ui: bool
    faster_model: str | None = None


class AuthRecoveryNotification(CodexMessage):
    thread_id: str
    provider: str
    message: str


class GatewayOAuthChangedNotification(CodexMessage):
    provider_id: str
    status: str
    auth_url: str | None = None
    error: str | None = None


class AccountLoginCompletedNotification(CodexMessage):
    success: bool
    error: str | None = None


class McpServerStatusUpdatedNotification(CodexMessage):
    name: str
    status: str
    error: str | None = None
    failure_reason: str | None = None


class McpServerOauthLoginCompletedNotification(CodexMessage):
    name: str
    success: bool
    error: str | None = None


class ThreadGoal(CodexMessage):
    objective: str
    status: str
    tokens_used: int
    time_used_seconds: int
    token_budget: int | None = None


class ThreadGoalUpdatedNotification(CodexMessage):
    thread_id: str
    goal: ThreadGoal


class ThreadGoalClearedNotification(CodexMessage):
    thread_id: str


class HookOutputEntry(CodexMessage):
    kind: str
    text: str


class HookRunSummary(CodexMessage):
    id: str
    event_name: str
    status: str
    entries: list[HookOutputEntry]
    source_path: str
    status_message: str | None = None
    source: str | None = None
    duration_ms: int | None = None


class HookCompletedNotification(CodexMessage):
    thread_id: str
    run: HookRunSummary
    turn_id: str | None = None


class GuardianApprovalReview(CodexMessage):
    status: str
    risk_level: str | None = None
    user_authorization: str | None = None
    rationale: str | None = None


class ItemGuardianApprovalReviewCompletedNotification(CodexMessage):
    thread_id: str
    turn_id: str
    action: Any
    review: GuardianApprovalReview
    decision_source: str
    target_item_id: str | None = None


class StrictReviewRequiredNotification(CodexMessage):
    thread_id: str
    turn_id: str


class ServerRequestResolvedNotification(CodexMessage):
    thread_id: str
    request_id: Any


class NetworkApprovalContext(CodexMessage):
    host: str
    protocol: str


class CommandExecutionRequestApprovalParams(CodexMessage):
    thread_id: str
    item_id: str
    kind: Any = None
    reason: str | None = None
    network_approval_context: NetworkApprovalContext | None = None
    command: str | None = None
    cwd: str | None = None
    available_decisions: list[Any] | None = None


class FileChangeRequestApprovalParams(CodexMessage):
    thread_id: str
    item_id: str
    reason: str | None = None
    grant_root: str | None = None


class AdditionalNetworkPermissions(CodexMessage):
    enabled: bool | None = None


class AdditionalFileSystemPermissions(CodexMessage):
    read: list[str] | None = None
    write: list[str] | None = None
    entries: list[dict[str, Any]] | None = None


class RequestPermissionProfile(CodexMessage):
    network: AdditionalNetworkPermissions | None = None
    file_system: AdditionalFileSystemPermissions | None = None


class PermissionsRequestApprovalParams(CodexMessage):
    thread_id: str
    item_id: str
    cwd: str
    permissions: RequestPermissionProfile
    reason: str | None = None


class ToolRequestUserInputOption(CodexMessage):
    label: str
    description: str


class ToolRequestUserInputQuestion(CodexMessage):
    id: str
    header: str
    question: str
    is_other: bool | None = None
    is_secret: bool | None = None
    options: list[ToolRequestUserInputOption] | None = None


class ToolRequestUserInputParams(CodexMessage):
    thread_id: str
    item_id: str
    questions: list[ToolRequestUserInputQuestion]


class FormMcpServerElicitationRequest(CodexMessage, tag_field="mode", tag="form"):
    thread_id: str
    server_name: str
    message: str
    requested_schema: dict[str, Any]
    meta: Any = field(default=None, name="_meta")


class UrlMcpServerElicitationRequest(CodexMessage, tag_field="mode", tag="url"):
    thread_id: str
    server_name: str
    message: str
    url: str
    meta: Any = field(default=None, name="_meta")


McpServerElicitationRequestParams: TypeAlias = (
    FormMcpServerElicitationRequest | UrlMcpServerElicitationRequest
)


class DynamicToolCallParams(CodexMessage):
    thread_id: str
    call_id: str
    tool: str
    arguments: Any


class DynamicToolCallResponse(CodexMessage):
    content_items: list[DynamicToolCallOutputContentItem]
    success: bool
