"""Version 2 of ACP, a draft: the shapes of the requests that differ from version 1.

Loaded when a session asks for this version, together with its messages and updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct, structs

from ..model.content import JsonObject
from ..model.driver import Opening
from ..wire.channel import Channel
from ..wire.json import lenient
from .messages import (
    AcpMcpServer,
    AgentAuthCapabilities,
    AgentCapabilities,
    AgentSessionCapabilities,
    AuthMethod,
    ClientCapabilities,
    Implementation,
    Marker,
    McpCapabilities,
    OfferedSettings,
    PromptCapabilities,
    RequestPermissionResponse,
)
from .messages2 import (
    VARIANTS_2,
    ClientAuth2,
    ClientCapabilities2,
    InitializeRequest2,
    InitializeResponse2,
    NewSessionRequest2,
    OfferedSettings2,
    PermissionRequest2,
    ReplayFrom,
    ResumeSessionRequest2,
    SessionCapabilities2,
    SessionNotification2,
    SetConfigOptionResponse2,
    UpdateFrame2,
)
from .requests import CLIENT_METHODS, AcpMethod
from .wire import AcpWire, AgentGreeting, OpenedSession, SessionOpening, json_object

CLIENT_METHODS_2: Final[dict[str, AcpMethod]] = {
    "session/update": AcpMethod(SessionNotification2),
    "session/request_permission": AcpMethod(PermissionRequest2, RequestPermissionResponse),
    "elicitation/create": CLIENT_METHODS["elicitation/create"],
    "elicitation/complete": CLIENT_METHODS["elicitation/complete"],
    "$/cancel_request": CLIENT_METHODS["$/cancel_request"],
}
"""Methods that an agent may call. It has its own files and terminals."""


class AcpWire2:
    """Version 2."""

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
        raw_capabilities = json_object(raw.get("capabilities"))
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


WIRE_2: Final[AcpWire] = AcpWire2()


def initialize_request_2(
    version: int, capabilities: ClientCapabilities, client: Implementation
) -> InitializeRequest2:
    """Return the parameters of `initialize` in the shape of version 2."""
    terminal = capabilities.auth is not None and capabilities.auth.terminal
    return InitializeRequest2(
        version,
        client,
        ClientCapabilities2(
            auth=ClientAuth2(Marker()) if terminal else None,
            elicitation=capabilities.elicitation,
            meta=capabilities.meta,
        ),
    )
