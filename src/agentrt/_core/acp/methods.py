"""Every method of ACP version 1, in both directions, with its parameters and its result.

A method without a result is a notification. Drafts that are not listed (`providers/*`,
`mcp/message`, …) are passed on as raw JSON.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from .messages import (
    AuthenticateRequest,
    CancelRequestNotification,
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
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    TerminalOutputResponse,
    TerminalRequest,
    WriteTextFileRequest,
)


class AcpMethod(NamedTuple):
    """The types of a method's parameters and result."""

    params: type[Struct]
    result: type[Struct] | None = None


# Methods that a client may call.
AGENT_METHODS: dict[str, AcpMethod] = {
    "initialize": AcpMethod(InitializeRequest, InitializeResponse),
    "authenticate": AcpMethod(AuthenticateRequest, Empty),
    "logout": AcpMethod(LogoutRequest, Empty),
    "session/new": AcpMethod(NewSessionRequest, NewSessionResponse),
    "session/load": AcpMethod(LoadSessionRequest, LoadSessionResponse),
    "session/resume": AcpMethod(ResumeSessionRequest, ResumeSessionResponse),
    "session/fork": AcpMethod(ForkSessionRequest, ForkSessionResponse),
    "session/list": AcpMethod(ListSessionsRequest, ListSessionsResponse),
    "session/delete": AcpMethod(SessionRequest, Empty),
    "session/close": AcpMethod(SessionRequest, Empty),
    "session/set_mode": AcpMethod(SetModeRequest, Empty),
    "session/set_model": AcpMethod(SetModelRequest, Empty),
    "session/set_config_option": AcpMethod(SetConfigOptionRequest, SetConfigOptionResponse),
    "session/prompt": AcpMethod(PromptRequest, PromptResponse),
    "session/cancel": AcpMethod(SessionRequest),
    "$/cancel_request": AcpMethod(CancelRequestNotification),
}

# Methods that an agent may call.
CLIENT_METHODS: dict[str, AcpMethod] = {
    "session/update": AcpMethod(SessionNotification),
    "session/request_permission": AcpMethod(RequestPermissionRequest, RequestPermissionResponse),
    "fs/read_text_file": AcpMethod(ReadTextFileRequest, ReadTextFileResponse),
    "fs/write_text_file": AcpMethod(WriteTextFileRequest, Empty),
    "terminal/create": AcpMethod(CreateTerminalRequest, CreateTerminalResponse),
    "terminal/output": AcpMethod(TerminalRequest, TerminalOutputResponse),
    "terminal/wait_for_exit": AcpMethod(TerminalRequest, ExitStatus),
    "terminal/kill": AcpMethod(TerminalRequest, Empty),
    "terminal/release": AcpMethod(TerminalRequest, Empty),
    "elicitation/create": AcpMethod(ElicitationRequest, ElicitationResponse),
    "elicitation/complete": AcpMethod(ElicitationComplete),
    "$/cancel_request": AcpMethod(CancelRequestNotification),
}
