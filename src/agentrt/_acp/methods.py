"""Every method of ACP version 1, in both directions, with its parameters and its result.

A method without a result is a notification. Drafts that are not listed (`providers/*`,
`mcp/message`, …) are passed on as raw JSON.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from .messages import (
    AuthenticateRequest,
    CancelRequest,
    Empty,
    ForkSessionRequest,
    ForkSessionResponse,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    LogoutRequest,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionNotification,
    SessionRequest,
    SetConfigOptionRequest,
    SetConfigOptionResponse,
    SetModelRequest,
    SetModeRequest,
)
from .services import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationComplete,
    ElicitationRequest,
    ElicitationResponse,
    ExitStatus,
    PermissionRequest,
    PermissionResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    TerminalOutputResponse,
    TerminalRequest,
    WriteTextFileRequest,
)


class Method(NamedTuple):
    """The types of a method's parameters and result."""

    params: type[Struct]
    result: type[Struct] | None = None


# Methods that a client may call.
AGENT_METHODS: dict[str, Method] = {
    "initialize": Method(InitializeRequest, InitializeResponse),
    "authenticate": Method(AuthenticateRequest, Empty),
    "logout": Method(LogoutRequest, Empty),
    "session/new": Method(NewSessionRequest, NewSessionResponse),
    "session/load": Method(LoadSessionRequest, LoadSessionResponse),
    "session/resume": Method(ResumeSessionRequest, ResumeSessionResponse),
    "session/fork": Method(ForkSessionRequest, ForkSessionResponse),
    "session/list": Method(ListSessionsRequest, ListSessionsResponse),
    "session/delete": Method(SessionRequest, Empty),
    "session/close": Method(SessionRequest, Empty),
    "session/set_mode": Method(SetModeRequest, Empty),
    "session/set_model": Method(SetModelRequest, Empty),
    "session/set_config_option": Method(SetConfigOptionRequest, SetConfigOptionResponse),
    "session/prompt": Method(PromptRequest, PromptResponse),
    "session/cancel": Method(SessionRequest),
    "$/cancel_request": Method(CancelRequest),
}

# Methods that an agent may call.
CLIENT_METHODS: dict[str, Method] = {
    "session/update": Method(SessionNotification),
    "session/request_permission": Method(PermissionRequest, PermissionResponse),
    "fs/read_text_file": Method(ReadTextFileRequest, ReadTextFileResponse),
    "fs/write_text_file": Method(WriteTextFileRequest, Empty),
    "terminal/create": Method(CreateTerminalRequest, CreateTerminalResponse),
    "terminal/output": Method(TerminalRequest, TerminalOutputResponse),
    "terminal/wait_for_exit": Method(TerminalRequest, ExitStatus),
    "terminal/kill": Method(TerminalRequest, Empty),
    "terminal/release": Method(TerminalRequest, Empty),
    "elicitation/create": Method(ElicitationRequest, ElicitationResponse),
    "elicitation/complete": Method(ElicitationComplete),
    "$/cancel_request": Method(CancelRequest),
}
