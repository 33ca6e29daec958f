"""The two versions of ACP: the shapes of the requests that differ, and the choice between them.

With version 2 allowed, `initialize` has the fields of both versions, so that one round trip settles
the version. The shape of the answer decides, not its number: some agents repeat any number that
they are asked for, with a body of version 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

import msgspec
from msgspec import Struct, structs

from ..model.content import JsonObject
from ..model.driver import Opening
from ..wire.channel import Channel
from ..wire.json import lenient
from .messages import (
    VARIANTS,
    AcpMcpServer,
    AgentAuthCapabilities,
    AgentCapabilities,
    AgentSessionCapabilities,
    AuthMethod,
    AvailableCommand,
    ClientCapabilities,
    ForkSessionRequest,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    Marker,
    McpCapabilities,
    NewSessionRequest,
    OfferedSettings,
    PromptCapabilities,
    ResumeSessionRequest,
    SetConfigOptionResponse,
    UpdateFrame,
)
from .messages2 import (
    VARIANTS_2,
    ClientAuth2,
    ClientCapabilities2,
    InitializeRequest2,
    InitializeResponse2,
    NewSessionRequest2,
    OfferedSettings2,
    ReplayFrom,
    ResumeSessionRequest2,
    SessionCapabilities2,
    SetConfigOptionResponse2,
    UpdateFrame2,
)
from .requests import CLIENT_METHODS, CLIENT_METHODS_2, AcpMethod


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
            _object(raw.get("agentCapabilities")),
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


class AcpWire2:
    """Version 2, a draft."""

    version: ClassVar[int] = 2
    login: ClassVar[str] = "auth/login"
    logout: ClassVar[str] = "auth/logout"
    typed_options: ClassVar[bool] = True
    client_methods: ClassVar[Mapping[str, AcpMethod]] = CLIENT_METHODS_2
    variants: ClassVar[Mapping[str, Any]] = VARIANTS_2
    updates: ClassVar[Any] = msgspec.json.Decoder(UpdateFrame2)

    def read_agent(self, raw: JsonObject, channel: Channel) -> AgentGreeting:
        """Read the answer to `initialize`. Resume, list and close are part of every agent."""
        answer = channel.read(raw, InitializeResponse2, "the answer to initialize")
        given = answer.capabilities.session if answer.capabilities is not None else None
        session = SessionCapabilities2() if given is None else given
        prompt, mcp = session.prompt, session.mcp
        capabilities = AgentCapabilities(
            prompt_capabilities=PromptCapabilities(
                prompt is not None and prompt.image is not None,
                prompt is not None and prompt.audio is not None,
                prompt is not None and prompt.embedded_context is not None,
            ),
            mcp_capabilities=McpCapabilities(http=mcp is not None and mcp.http is not None),
            session_capabilities=AgentSessionCapabilities(
                list=Marker(),
                delete=session.delete,
                resume=Marker(),
                close=Marker(),
                additional_directories=session.additional_directories,
                fork=session.fork,
                system_prompt=session.system_prompt,
                title=session.title,
            ),
            auth=AgentAuthCapabilities(logout=Marker() if answer.auth_methods else None),
            providers=None if answer.capabilities is None else answer.capabilities.providers,
        )
        methods = [
            AuthMethod(each.method_id, each.name, each.type, each.description, each.args)
            for each in answer.auth_methods or ()
        ]
        raw_capabilities = _object(raw.get("capabilities"))
        stdio = mcp is not None and mcp.stdio is not None
        return AgentGreeting(capabilities, answer.info, methods, raw_capabilities, stdio)

    def servers(self, servers: list[AcpMcpServer]) -> list[AcpMcpServer]:
        """Return MCP servers in the shape of this version."""
        return [
            structs.replace(each, type="stdio") if each.type is None else each for each in servers
        ]

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
        """Return the request that opens the session."""
        cwd, resume = opening.cwd, opening.resume
        if resume is None:
            request: Struct = NewSessionRequest2(cwd, servers, roots, meta=meta)
            return SessionOpening("session/new", request)
        if opening.fork:
            request = ResumeSessionRequest2(resume, cwd, servers, roots, meta=meta)
            return SessionOpening("session/fork", request)
        replay = ReplayFrom("start") if wants_history else None
        request = ResumeSessionRequest2(resume, cwd, servers, roots, replay, meta=meta)
        return SessionOpening("session/resume", request, replays=wants_history)

    def read_opened(self, raw: JsonObject, channel: Channel, what: str) -> OpenedSession:
        """Read the result that opened the session."""
        opened = channel.read(raw, OfferedSettings2, what)
        options = [each.as_option() for each in opened.config_options or ()]
        return OpenedSession(OfferedSettings(config_options=options), opened.available_commands)

    def read_options(self, result: Any) -> list[Any]:
        """Read the result of `session/set_config_option`. Raises `ValidationError`."""
        options = lenient(result, SetConfigOptionResponse2, []).config_options
        return [each.as_option() for each in options]


WIRE_1: Final[AcpWire] = AcpWire1()
WIRE_2: Final[AcpWire] = AcpWire2()


def initialize_request(
    version: int, capabilities: ClientCapabilities, client: Implementation
) -> Struct | JsonObject:
    """Return the parameters of `initialize`: for version 2 in the shapes of both versions."""
    request = InitializeRequest(version, capabilities, client)
    if version == 1:
        return request
    terminal = capabilities.auth is not None and capabilities.auth.terminal
    newer = InitializeRequest2(
        version,
        client,
        ClientCapabilities2(
            auth=ClientAuth2(Marker()) if terminal else None,
            elicitation=capabilities.elicitation,
            meta=capabilities.meta,
        ),
    )
    both: JsonObject = {**msgspec.to_builtins(request), **msgspec.to_builtins(newer)}
    return both


class NegotiatedVersion(Struct, frozen=True):
    """The version that the answer to `initialize` stands for."""

    wire: AcpWire | None
    """None: agentrt does not speak it."""
    repeated: bool = False
    """True if the agent only repeated the number, with a body of version 1."""


def negotiate(asked: int, answer: JsonObject) -> NegotiatedVersion:
    """Choose the version by the answer to `initialize`."""
    version = answer.get("protocolVersion")
    if type(version) is not int:
        return NegotiatedVersion(None)
    if version == 1:
        return NegotiatedVersion(WIRE_1)
    if asked == 1:
        return NegotiatedVersion(None)
    newer = isinstance(answer.get("info"), dict) or isinstance(answer.get("capabilities"), dict)
    if newer and version == 2:  # perhaps with the fields of version 1, too, as agentrt's request
        return NegotiatedVersion(WIRE_2)
    if "agentCapabilities" in answer or not newer:
        return NegotiatedVersion(WIRE_1, repeated=True)
    return NegotiatedVersion(None)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
