"""What a client asks of an agent: the handshake, sessions and their settings, prompts.

Optional fields are None when absent, as in `updates`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from .._model.content import Block, JsonObject
from .updates import ConfigOption, KnownUpdate, Message

PROTOCOL_VERSION = 1

AUTH_REQUIRED = -32000
NOT_FOUND = -32002
REQUEST_CANCELLED = -32800

# --- initialize, authenticate


class Implementation(Message):
    name: str
    version: str | None = None
    title: str | None = None


class FileSystemCapabilities(Message):
    read_text_file: bool | None = None
    write_text_file: bool | None = None


class Marker(Message):
    """`{}`: the capability is there; absence or null: it is not."""


class ConfigOptionsCapabilities(Message):
    boolean: Marker | None = None


class ClientSessionCapabilities(Message):
    config_options: ConfigOptionsCapabilities | None = None
    notices: Marker | None = None
    compaction: Marker | None = None


class ClientAuthCapabilities(Message):
    terminal: bool | None = None


class ElicitationCapabilities(Message):
    form: Marker | None = None
    url: Marker | None = None


class ClientCapabilities(Message):
    """What the client does for agents."""

    fs: FileSystemCapabilities | None = None
    terminal: bool | None = None
    session: ClientSessionCapabilities | None = None
    auth: ClientAuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None


def client_capabilities(
    *,
    read_files: bool = False,
    write_files: bool = False,
    terminals: bool = False,
    elicitation: bool = False,
    meta: JsonObject | None = None,
) -> ClientCapabilities:
    """The capabilities of a host that serves these, and shows all that there is to show. `meta`
    advertises what is beside the protocol."""
    return ClientCapabilities(
        fs=FileSystemCapabilities(read_files, write_files),
        terminal=terminals,
        session=ClientSessionCapabilities(ConfigOptionsCapabilities(Marker()), Marker(), Marker()),
        elicitation=ElicitationCapabilities(Marker(), Marker()) if elicitation else None,
        meta=meta,
    )


class PromptCapabilities(Message):
    image: bool | None = None
    audio: bool | None = None
    embedded_context: bool | None = None


class McpCapabilities(Message):
    http: bool | None = None
    sse: bool | None = None


class SessionCapabilities(Message):
    list: Marker | None = None
    delete: Marker | None = None
    resume: Marker | None = None
    close: Marker | None = None
    additional_directories: Marker | None = None
    fork: Marker | None = None


class AgentAuthCapabilities(Message):
    logout: Marker | None = None


class AgentCapabilities(Message):
    """What the agent can beyond the baseline."""

    load_session: bool | None = None
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None


class AuthMethod(Message):
    """`type` absent or `agent`: send `authenticate`. `terminal`: run the agent's own command with
    `args` and `env` in a terminal, and never send `authenticate`."""

    id: str
    name: str | None = None
    type: str | None = None
    description: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None


class InitializeRequest(Message):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None


class InitializeResponse(Message):
    protocol_version: int
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] | None = None
    agent_info: Implementation | None = None


class AuthenticateRequest(Message):
    method_id: str


class LogoutRequest(Message):
    pass


class Empty(Message):
    """The result of a method that only says it is done. Agents also send null."""


# --- sessions


class NameValue(Message):
    """An environment variable or an HTTP header."""

    name: str
    value: str


class McpServer(Message):
    """Without a `type`: a program on stdio (`command`, `args`, `env`, all three required).
    `http` or `sse`: `url` and `headers`, both required."""

    name: str
    type: str | None = None
    command: str | None = None
    args: list[str] | None = None
    env: list[NameValue] | None = None
    url: str | None = None
    headers: list[NameValue] | None = None


class SessionMode(Message):
    id: str
    name: str | None = None
    description: str | None = None


class SessionModeState(Message):
    current_mode_id: str
    available_modes: list[SessionMode]


class SessionModel(Message):
    model_id: str
    name: str | None = None
    description: str | None = None


class SessionModelState(Message):
    """Removed from the protocol in 2026; older agents still send it."""

    current_model_id: str
    available_models: list[SessionModel]


class OfferedSettings(Message, kw_only=True):
    """What a session can be set to. If `config_options` has a mode or a model, it is that one."""

    modes: SessionModeState | None = None
    config_options: list[ConfigOption] | None = None
    models: SessionModelState | None = None


class NewSessionRequest(Message):
    cwd: str
    mcp_servers: list[McpServer]
    additional_directories: list[str] | None = None


class NewSessionResponse(OfferedSettings):
    session_id: str


class LoadSessionRequest(Message):
    session_id: str
    cwd: str
    mcp_servers: list[McpServer]
    additional_directories: list[str] | None = None


class LoadSessionResponse(OfferedSettings):
    pass


class ResumeSessionRequest(Message):
    session_id: str
    cwd: str
    mcp_servers: list[McpServer] | None = None
    additional_directories: list[str] | None = None


class ResumeSessionResponse(OfferedSettings):
    pass


class ForkSessionRequest(ResumeSessionRequest):
    """A draft: a new session that begins with another one's history."""


class ForkSessionResponse(NewSessionResponse):
    pass


class ListSessionsRequest(Message):
    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(Message):
    session_id: str
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None
    additional_directories: list[str] | None = None


class ListSessionsResponse(Message):
    sessions: list[SessionInfo]
    next_cursor: str | None = None


class SessionRequest(Message):
    """The parameters of `session/delete`, `session/close` and `session/cancel`."""

    session_id: str


class SetModeRequest(Message):
    session_id: str
    mode_id: str


class SetModelRequest(Message):
    """Removed from the protocol together with `models`."""

    session_id: str
    model_id: str


class SetConfigOptionRequest(Message):
    """`type` is `boolean` beside a bool, and absent beside a string."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


class SetConfigOptionResponse(Message):
    """The complete new list."""

    config_options: list[ConfigOption]


class PromptRequest(Message):
    session_id: str
    prompt: list[Block]


class SteerRequest(Message):
    """`_session/steering`: an extension that agents offer as `_meta.steering` of their
    initialization."""

    session_id: str
    prompt: list[Block]


STEER: Final = "_session/steering"
ONLY_INTO_A_TURN: Final[JsonObject] = {"steering": {"idleBehavior": "promptRequired"}}
"""Of such a request: where no turn runs it is not to begin one."""


class TurnUsage(Message):
    """A draft: the tokens of this turn."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptResponse(Message):
    """The end of a turn. `stop_reason` is `end_turn`, `max_tokens`, `max_turn_requests`,
    `refusal`, `cancelled`, or what else the agent calls it."""

    stop_reason: str | None = None
    usage: TurnUsage | None = None


class PromptAnswer(Struct, gc=False):
    """The answer to `session/prompt`, with nothing wrong in it."""

    id: int
    result: PromptResponse
    error: None = None
    method: None = None


class CancelRequest(Message):
    """`$/cancel_request`, either way: give up a request that the sender made."""

    request_id: int | float | str | None


class SessionNotification(Message):
    session_id: str
    update: KnownUpdate
