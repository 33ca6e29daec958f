"""The versions of ACP: the shapes of the requests that differ. `wire2` has those of version 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

import msgspec
from msgspec import Struct

from ..model.content import JsonObject
from ..model.driver import Opening
from ..wire.channel import Channel
from ..wire.json import lenient
from .messages import (
    VARIANTS,
    AcpMcpServer,
    AgentCapabilities,
    AgentSessionCapabilities,
    AuthMethod,
    AvailableCommand,
    ForkSessionRequest,
    Implementation,
    InitializeResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    OfferedSettings,
    ResumeSessionRequest,
    SetConfigOptionResponse,
    UpdateFrame,
)
from .requests import CLIENT_METHODS, AcpMethod


class AgentGreeting(Struct):
    """The answer to `initialize`, in the terms of version 1."""

    capabilities: AgentCapabilities
    info: Implementation | None
    auth_methods: list[AuthMethod]
    raw_capabilities: JsonObject
    stdio: bool = True
    """True if it can start MCP servers."""


class OpenedSession(Struct):
    """The result that opened a session."""

    settings: OfferedSettings
    commands: list[AvailableCommand] | None = None


class SessionOpening(Struct):
    """The request that opens a session. `replays`: the agent repeats the conversation first."""

    method: str
    request: Struct
    replays: bool = False


class AcpWire(Protocol):
    """One version of ACP."""

    version: ClassVar[int]
    login: ClassVar[str]
    """The method that logs in."""
    logout: ClassVar[str]
    typed_options: ClassVar[bool]
    """True if the request that sets an option names the type of each value."""
    client_methods: ClassVar[Mapping[str, AcpMethod]]
    """The methods that the agent may call."""
    variants: ClassVar[Mapping[str, Any]]
    """The updates by kind."""
    updates: ClassVar[Any]
    """Decodes a valid `session/update`, or many of them in lines."""

    def read_agent(self, raw: JsonObject, channel: Channel) -> AgentGreeting:
        """Read the answer to `initialize`."""
        ...

    def servers(self, servers: list[AcpMcpServer]) -> list[AcpMcpServer]:
        """Return MCP servers in the shape of this version."""
        ...

    def opening(
        self,
        opening: Opening,
        agent: AgentCapabilities,
        servers: list[AcpMcpServer],
        roots: list[str] | None,
        meta: JsonObject | None,
        *,
        wants_history: bool,
    ) -> SessionOpening | None:
        """Return the request that opens the session; None if the agent has none for it."""
        ...

    def read_opened(self, raw: JsonObject, channel: Channel, what: str) -> OpenedSession:
        """Read the result that opened the session."""
        ...

    def read_options(self, result: Any) -> list[Any]:
        """Read the result of `session/set_config_option`. Raises `ValidationError`."""
        ...


class AcpWire1:
    """Version 1."""

    version: ClassVar[int] = 1
    login: ClassVar[str] = "authenticate"
    logout: ClassVar[str] = "logout"
    typed_options: ClassVar[bool] = False
    client_methods: ClassVar[Mapping[str, AcpMethod]] = CLIENT_METHODS
    variants: ClassVar[Mapping[str, Any]] = VARIANTS
    updates: ClassVar[Any] = msgspec.json.Decoder(UpdateFrame)

    def read_agent(self, raw: JsonObject, channel: Channel) -> AgentGreeting:
        """Read the answer to `initialize`."""
        answer = channel.read(raw, InitializeResponse, "the answer to initialize")
        return AgentGreeting(
            answer.agent_capabilities or AgentCapabilities(),
            answer.agent_info,
            answer.auth_methods or [],
            json_object(raw.get("agentCapabilities")),
        )

    def servers(self, servers: list[AcpMcpServer]) -> list[AcpMcpServer]:
        """Return MCP servers in the shape of this version."""
        return servers

    def opening(
        self,
        opening: Opening,
        agent: AgentCapabilities,
        servers: list[AcpMcpServer],
        roots: list[str] | None,
        meta: JsonObject | None,
        *,
        wants_history: bool,
    ) -> SessionOpening | None:
        """Return the request that opens the session; None if the agent has none for it."""
        sessions = agent.session_capabilities or AgentSessionCapabilities()
        cwd, resume = opening.cwd, opening.resume
        if resume is None:
            return SessionOpening("session/new", NewSessionRequest(cwd, servers, roots, meta=meta))
        if opening.fork:
            request: Struct = ForkSessionRequest(resume, cwd, servers, roots, meta=meta)
            return SessionOpening("session/fork", request)
        if agent.load_session and (sessions.resume is None or wants_history):
            request = LoadSessionRequest(resume, cwd, servers, roots, meta=meta)
            return SessionOpening("session/load", request, replays=True)
        if sessions.resume is not None:
            request = ResumeSessionRequest(resume, cwd, servers, roots, meta=meta)
            return SessionOpening("session/resume", request)
        return None

    def read_opened(self, raw: JsonObject, channel: Channel, what: str) -> OpenedSession:
        """Read the result that opened the session."""
        return OpenedSession(channel.read(raw, LoadSessionResponse, what))

    def read_options(self, result: Any) -> list[Any]:
        """Read the result of `session/set_config_option`. Raises `ValidationError`."""
        return lenient(result, SetConfigOptionResponse, []).config_options


WIRE_1: Final[AcpWire] = AcpWire1()


def json_object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
