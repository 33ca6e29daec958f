"""Opening a session: initialize, authenticate if required, then new, load, resume or fork, then the
requested mode, model and options.

Requests are sent one at a time; each response leads to the next step. The handshake ends with
`Started` or `StartFailed`.

With version 2 of ACP allowed, `initialize` has the fields of both versions, so that one round trip
settles the version. The shape of the answer decides, not its number: some agents repeat any number
that they are asked for, with a body of version 1.

ACP does not define the point at which a fork ends. The extension of JetBrains' Air does; the
adapters of Claude and of Codex accept it, and so does agentrt's own server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from msgspec import Struct, ValidationError, convert, structs, to_builtins

from ..errors import LocalProtocolError
from ..model.content import JsonObject, Text
from ..model.driver import (
    ForkPoint,
    ModesSet,
    Opening,
    SecretsSent,
    Started,
    StartFailed,
    UnsupportedSetting,
)
from ..model.events import ErrorInfo
from ..model.providers import ProviderSetting
from ..wire.channel import Channel
from ..wire.jsonrpc import INVALID_PARAMS, JsonRpcResponse
from .messages import (
    AUTH_REQUIRED_CODE,
    NOT_FOUND_CODE,
    UNSUPPORTED_VERSION_CODE,
    AcpMcpServer,
    AgentCapabilities,
    AgentSessionCapabilities,
    AuthenticateRequest,
    AuthMethod,
    ClientCapabilities,
    Implementation,
    InitializeRequest,
    McpCapabilities,
    PromptCapabilities,
    SystemPrompt,
)
from .settings import AcpSettingChange, AcpSettings, provider_change
from .stream import AcpStream
from .translate import error_of
from .wire import WIRE_1, AcpWire


def with_point(meta: JsonObject | None, point: ForkPoint) -> JsonObject:
    """Return the `_meta` of a `session/fork` that ends at `point`."""
    said = sha256(point.text.encode("utf-8", "surrogatepass")).hexdigest()
    fork = {
        "version": 1,
        "messageId": point.messages[0],
        "messageFingerprint": f"sha256:{said}",
        "messageOccurrence": point.occurrence,
    }
    given = meta or {}
    jetbrains = given.get("jetbrains") or {}
    air = {**(jetbrains.get("air") or {}), "fork": fork}
    return {**given, "jetbrains": {**jetbrains, "air": air}}


def initialize_request(
    version: int, capabilities: ClientCapabilities, client: Implementation
) -> Struct | JsonObject:
    """Return the parameters of `initialize`: for version 2 in the shapes of both versions."""
    request = InitializeRequest(version, capabilities, client)
    if version == 1:
        return request
    from .wire2 import initialize_request_2  # few sessions speak version 2

    both: JsonObject = {
        **to_builtins(request),
        **to_builtins(initialize_request_2(version, capabilities, client)),
    }
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
        from .wire2 import WIRE_2

        return NegotiatedVersion(WIRE_2)
    if "agentCapabilities" in answer or not newer:
        return NegotiatedVersion(WIRE_1, repeated=True)
    return NegotiatedVersion(None)


_NO_SESSION = re.compile(
    r"\b(session|conversation|thread)\b(?:(?!\b(?:session|conversation|thread)\b).)*"
    r"\b(not found|does not exist)"
    r"|\b(unknown|no such|invalid) session|\bno previous sessions|\bno rollout found",
    re.IGNORECASE | re.DOTALL,
)
"""Messages that mean an unknown session: few agents use the error code for it."""


ECHO = "_agentrt/echo"
"""A method that no agent implements."""


class AcpHandshake:
    """Opens one session. Calls `started` after the effects that report that prompts may be sent."""

    def __init__(
        self,
        channel: Channel,
        opening: Opening,
        settings: AcpSettings,
        stream: AcpStream,
        *,
        offered: ClientCapabilities,
        client: Implementation,
        auth_method: str | None,
        late_history: bool,
        fork_at: bool,
        meta: JsonObject,
        version: int,
        negotiated: Callable[[AcpWire], AcpStream],
        started: Callable[[], None],
    ) -> None:
        """Create a handshake.

        `version`: the highest version of the protocol to ask for. `negotiated`: takes the agreed
        version and returns the stream for it.
        """
        self.agent = AgentCapabilities()
        self._channel = channel
        self._opening = opening
        self._settings = settings
        self._stream = stream
        self._offered = offered
        self._client = client
        self._auth_method = auth_method
        self._late_history = late_history
        self._fork_at = fork_at
        self._meta = meta
        self.steers = False
        """True if the agent accepts prompts into a running turn."""
        self._servers = [_server(entry) for entry in opening.mcp_servers]
        self._version = version
        self._negotiated = negotiated
        self._started = started
        self._stdio = True
        self._method = ""
        self._replays = False
        self._auth_methods: list[AuthMethod] = []
        self._authenticated = False
        self._info: Implementation | None = None
        self._raw_capabilities: JsonObject = {}

    def begin(self) -> None:
        """Send the first request."""
        request = initialize_request(self._version, self._offered, self._client)
        self._channel.request("initialize", request, self._initialized)

    def _initialized(self, response: JsonRpcResponse) -> None:
        """Take the response to `initialize`: agree on the version, keep the capabilities, continue.

        If the agent refuses version 2, by its error code or because it does not accept the fields
        of that version, `initialize` is sent once more with version 1. The option `session=False`
        of the opening stops here: it serves requests to the agent itself, such as listing its
        sessions.
        """
        error = response.error
        if (
            error is not None
            and self._version > 1
            and (
                error.code == INVALID_PARAMS  # it does not accept fields that it does not know
                or (error.code == UNSUPPORTED_VERSION_CODE and 1 in _versions(error.data))
            )
        ):
            self._version = 1
            self.begin()
            return
        if error is not None and error.code == UNSUPPORTED_VERSION_CODE:
            self._fail("version", _supported(error.data, self._version))
            return
        if error is not None:
            self._fail("rejected", response)
            return
        raw = response.result if isinstance(response.result, dict) else {}
        agreed = negotiate(self._version, raw)
        if agreed.wire is None:
            self._fail("version", _unsupported(raw.get("protocolVersion"), self._version))
            return
        if agreed.repeated:
            self._channel.notice(
                "info",
                "version_repeated",
                "the agent repeats the requested version of the protocol, but speaks version 1",
                {"version": raw.get("protocolVersion")},
            )
        wire = agreed.wire
        self._stream = self._negotiated(wire)
        agent = wire.read_agent(raw, self._channel)
        self.agent, self._info, self._stdio = agent.capabilities, agent.info, agent.stdio
        self._auth_methods = agent.auth_methods
        self._raw_capabilities = agent.raw_capabilities
        self.steers = _says(raw, "steering", "supported")
        self._fork_at = self._fork_at or _says(raw, "agentrt", "forkAt")
        if self._opening.options.get("session") is False:
            self._stream.expect(
                "", replay=False
            )  # for requests to the agent itself, without a session
            self._finish("")
        else:
            self._set_providers(self._opening.providers)

    def _set_providers(self, left: tuple[ProviderSetting, ...]) -> None:
        """Set the providers one after the other, then open the session, which uses them.

        A provider that cannot be set fails the start: the agent would use another service.
        """
        if not left:
            self._open()
            return
        if self.agent.providers is None:
            self._fail("unsupported", "the providers of the agent cannot be set")
            return
        change = provider_change(left[0])

        def done(response: JsonRpcResponse) -> None:
            if response.error is not None:
                refusal = change.refusal(response.error)
                self._fail_with(ErrorInfo("rejected", refusal.message, refusal.data))
            else:
                self._set_providers(left[1:])

        if change.secrets:
            self._channel.out.append(SecretsSent(change.secrets))
        self._channel.request(change.method, change.params, done)

    def _open(self) -> None:
        """Request the session by the method that fits the opening and the agent's capabilities."""
        opening, agent = self._opening, self.agent
        sessions = agent.session_capabilities or AgentSessionCapabilities()
        servers = self._reachable_servers()
        roots = self._roots()
        meta = _merged(self._meta, opening.options.get("meta") or {}) or None
        if opening.resume is not None and opening.fork:
            if sessions.fork is None:
                self._fail("rejected", "the agent cannot fork a session")
                return
            if opening.fork_at is not None:
                if not self._fork_at:
                    self._fail("rejected", "the agent can fork a session only at its end")
                    return
                meta = with_point(meta, opening.fork_at)
        try:
            prompt = self._system_prompt()
        except LocalProtocolError as error:
            self._fail("unsupported", str(error))
            return
        # A replay is wanted unless the host says otherwise: loading repeats the conversation.
        wants_history = opening.options.get("replay", True) is not False
        opens = self._settings.wire.opening(
            opening, agent, servers, roots, meta, wants_history=wants_history
        )
        if opens is None:
            self._fail("rejected", "the agent cannot resume an earlier session")
            return
        self._method, self._replays = opens.method, opens.replays
        if self._resumes:
            assert opening.resume is not None
            self._stream.expect(opening.resume, replay=True)
        request = opens.request
        if prompt is not None:
            request = structs.replace(request, system_prompt=prompt)
        self._channel.request(self._method, request, self._answered)

    def _system_prompt(self) -> SystemPrompt | None:
        """Return the system prompt for the session, or None without one.

        Raises `LocalProtocolError` if the agent does not take it.
        """
        options = self._opening.options
        override = options.get("system_prompt")
        text = options.get("append_system_prompt") if override is None else override
        if text is None:
            return None
        sessions = self.agent.session_capabilities
        offered = sessions.system_prompt if sessions is not None else None
        if offered is None:
            raise LocalProtocolError("the agent does not take a system prompt")
        if override is not None and (offered.mode is None or offered.mode.override is None):
            raise LocalProtocolError(
                "the agent only adds to its own system prompt; use `append_system_prompt`"
            )
        return SystemPrompt("append" if override is None else "override", [Text(text)])

    @property
    def _resumes(self) -> bool:
        """True if the session exists already, so that its id is the one that was asked for."""
        return self._method in ("session/load", "session/resume")

    def _answered(self, response: JsonRpcResponse) -> None:
        """Take the response to the request for the session."""
        error = response.error
        if error is not None and error.code == AUTH_REQUIRED_CODE:
            self._authenticate(response)
        elif error is not None:
            unknown = error.code == NOT_FOUND_CODE or _NO_SESSION.search(error_of(error).message)
            lost = self._opening.resume is not None and unknown
            self._fail("session_not_found" if lost else "rejected", response)
        else:
            self._take_session(response.result)

    def _authenticate(self, refusal: JsonRpcResponse) -> None:
        """Authenticate once, and only with the configured method.

        A method that the agent merely offers may open a browser, or wait for a person who is not
        there.
        """
        method = self._auth_method
        terminals = [each.id for each in self._auth_methods if each.type not in (None, "agent")]
        if self._authenticated or method is None or method in terminals:
            self._fail("auth_required", refusal)
            return
        self._authenticated = True

        def done(response: JsonRpcResponse) -> None:
            """Ask for the session again after the login."""
            if response.error is not None:
                self._fail("auth_required", response)
            else:
                self._open()

        self._channel.request(self._settings.wire.login, AuthenticateRequest(method), done)

    def _take_session(self, result: Any) -> None:
        """Take the session's id, settings and commands from the response.

        `session/load` and `session/resume` return no id. An agent with late history is waited for.
        """
        raw = result if isinstance(result, dict) else {}
        session = raw.get("sessionId")
        if self._resumes:
            session = self._opening.resume
        if not isinstance(session, str):
            self._fail("protocol", f"the agent's answer to {self._method} names no session")
            return
        what = f"the answer to {self._method}"
        opened = self._settings.wire.read_opened(raw, self._channel, what)
        self._settings.open(opened.settings)
        self._stream.show_commands(opened.commands)
        if self._late_history and self._method == "session/load":
            self._await_history(session)
        else:
            self._opened(session)

    def _await_history(self, session: str) -> None:
        """Wait until no more history comes for as long as a response takes.

        Without this wait, late history would be taken for new output.
        """
        seen = self._stream.replayed

        def done(response: JsonRpcResponse) -> None:
            """Wait once more if updates arrived before this response."""
            if self._stream.replayed == seen:
                self._opened(session)
            else:
                self._await_history(session)

        # No agent implements it: the agent refuses it, and every agent must respond.
        self._channel.request(ECHO, {}, done)

    def _opened(self, session: str) -> None:
        """Leave the replay, then make the settings that the opening asks for."""
        self._stream.expect(session, replay=False)
        self._apply(session, self._changes(session))

    def _changes(self, session: str) -> Iterator[AcpSettingChange]:
        """Yield the requested settings.

        Each is looked up after the one before it has been made, because another model may bring
        other modes.
        """
        opening, settings = self._opening, self._settings
        if opening.model is not None:
            yield settings.change_model(session, opening.model)
        if opening.mode is not None:
            yield settings.change_mode(session, opening.mode)
        for option, value in opening.options.get("config", {}).items():
            yield settings.change_option(session, option, value)

    def _apply(self, session: str, changes: Iterator[AcpSettingChange]) -> None:
        """Make the changes one after the other.

        A change that cannot be made fails the start: a mode may be the only thing that keeps the
        agent from writing.
        """
        try:
            change = next(changes, None)
        except UnsupportedSetting as error:
            self._fail("rejected", str(error))
            return
        if change is None:
            self._finish(session)
            return

        def done(response: JsonRpcResponse) -> None:
            """Take over the confirmed setting and make the next one."""
            if response.error is not None:
                self._fail("rejected", response)
            else:
                assert change.apply is not None
                change.apply(response.result)
                self._apply(session, changes)

        self._channel.request(change.method, change.params, done)

    def _finish(self, session: str) -> None:
        """Report the end of the handshake, with the capabilities that the session has."""
        started = Started(
            session=session,
            agent_version=self._info.version if self._info is not None else None,
            resumed=self._resumes,
            repeated=self._replays,
            capabilities=self._capabilities(),
        )
        self._channel.out += [started, ModesSet(self._settings.view())]
        self._started()

    def _capabilities(self) -> JsonObject:
        """Return the agent's capabilities, with neutral names and as reported (`agent`)."""
        agent = self.agent
        sessions = agent.session_capabilities or AgentSessionCapabilities()
        prompts = agent.prompt_capabilities or PromptCapabilities()
        return {
            "protocol_version": self._settings.wire.version,
            "resume": bool(agent.load_session) or sessions.resume is not None,
            "fork": sessions.fork is not None,
            "fork_at": sessions.fork is not None and self._fork_at,
            "steer": self.steers,
            "list_sessions": sessions.list is not None,
            "delete_session": sessions.delete is not None,
            "logout": agent.auth is not None and agent.auth.logout is not None,
            "set_title": sessions.title is not None,
            "providers": agent.providers is not None,
            "image": bool(prompts.image),
            "audio": bool(prompts.audio),
            "embedded_context": bool(prompts.embedded_context),
            "agent": self._raw_capabilities,
        }

    def _reachable_servers(self) -> list[AcpMcpServer]:
        """Return the MCP servers that the agent can reach.

        Several entries with the same name are alternatives: the first whose transport the agent
        supports is used.
        """
        can = self.agent.mcp_capabilities or McpCapabilities()
        reachable = {None: self._stdio, "http": can.http, "sse": can.sse}
        taken: dict[str, AcpMcpServer] = {}
        for server in self._servers:
            if reachable.get(server.type) and server.name not in taken:
                taken[server.name] = server
        for name in sorted({server.name for server in self._servers} - taken.keys()):
            self._channel.notice(
                "warning", "mcp_unsupported", f"the agent cannot reach the MCP server {name!r}"
            )
        return self._settings.wire.servers(list(taken.values()))

    def _roots(self) -> list[str] | None:
        """Return the further folders of the session.

        None without any, or, with a notice, if the agent does not support them.
        """
        if not self._opening.roots:
            return None
        sessions = self.agent.session_capabilities or AgentSessionCapabilities()
        if sessions.additional_directories is None:
            self._channel.notice(
                "warning",
                "roots_unsupported",
                "the agent supports no folders other than the working folder",
                list(self._opening.roots),
            )
            return None
        return list(self._opening.roots)

    def _fail(self, code: str, why: JsonRpcResponse | str) -> None:
        """Report a failed start with this code.

        `why`: the agent's error, or a message of agentrt.
        """
        if isinstance(why, str):
            error = ErrorInfo(code, why)
        else:
            assert why.error is not None
            error = error_of(why.error)
            error.code = code
        self._fail_with(ErrorInfo(error.code, error.message, error.data))  # with this code's cause

    def _fail_with(self, error: ErrorInfo) -> None:
        self.add_methods(error)
        self._channel.out.append(StartFailed(error))

    def add_methods(self, error: ErrorInfo, *, said: bool = False) -> None:
        """Add the login methods to an error about a missing login. `said`: also to its message."""
        if error.code != "auth_required":
            return
        methods = [
            {"id": each.id, "name": each.name, "type": each.type or "agent"}
            | ({"args": each.args} if each.args else {})
            for each in self._auth_methods
        ]
        error.data = {**(error.data or {}), "methods": methods}
        if said and methods:
            ways = ", ".join(str(each["name"]) for each in methods)
            error.message += f". Log in, then send the prompt again; ways to log in: {ways}"


def _unsupported(version: Any, asked: int) -> str:
    """Describe an answer with a version that agentrt does not speak."""
    if type(version) is not int:
        return f"the agent's `protocolVersion` must be an integer, got {version!r:.50}"
    ours = "1" if asked == 1 else "1 or 2"
    return f"the agent speaks version {version} of the protocol, not {ours}"


def _supported(data: Any, asked: int) -> str:
    """Describe the versions that an agent supports, if it names them."""
    known = _versions(data)
    if not known:
        return f"the agent does not speak version {asked} of the protocol"
    if asked in known:
        return f"the agent refused version {asked} of the protocol, which it lists as supported"
    plural = "s" if len(known) > 1 else ""
    named = " and ".join(map(str, known[:10]))
    hint = "; allow version 2 with `acp_version = 2` (a draft)" if asked == 1 and 2 in known else ""
    return f"the agent speaks version{plural} {named} of the protocol, not {asked}{hint}"


def _versions(data: Any) -> list[int]:
    """Return the versions in the data of an error about the version."""
    versions = data.get("supported") if isinstance(data, dict) else None
    return [each for each in versions if type(each) is int] if isinstance(versions, list) else []


def _merged(below: JsonObject, above: JsonObject) -> JsonObject:
    """Merge two objects recursively. Values of `above` win."""
    merged = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            merged[name] = _merged(below[name], above[name])
    return merged


def _says(answer: JsonObject, extension: str, what: str) -> bool:
    """Return True if the agent offers an extension in the `_meta` of its initialize response."""
    meta = answer.get("_meta")
    offered = meta.get(extension) if isinstance(meta, dict) else None
    return isinstance(offered, dict) and offered.get(what) is True


def _server(entry: JsonObject) -> AcpMcpServer:
    """Convert an MCP server to its wire form, with the lists that agents require."""
    try:
        server = convert(entry, AcpMcpServer)
    except ValidationError as error:
        raise LocalProtocolError(f"not an MCP server: {error}") from error
    if server.type in (None, "stdio"):
        server.type = None
        server.args, server.env = server.args or [], server.env or []
    else:
        server.headers = server.headers or []
    return server
