"""The agent's requests (permission, elicitation, files, terminals) and their responses.

The agent numbers its own requests. The runtime knows each by a key, so that a late, second or
foreign answer can never reach another request. Every request is answered exactly once.

File requests are passed on a few at a time, because an agent may send thousands together. The
others wait here, where they cost little, up to a limit on the size of all.

The tables list every method of both versions of ACP, in both directions, with its parameters and
its result. A method without a result is a notification. Drafts that are not listed
(`mcp/message`, …) are passed on as raw JSON.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Set
from typing import Any, Final, NamedTuple

from msgspec import Struct, ValidationError, to_builtins

from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import (
    DecisionAnswer,
    DecisionRequested,
    NewKey,
    RequestWithdrawn,
    ServiceRequested,
    extension_request,
)
from ..model.events import PermissionOption
from ..wire.channel import Channel
from ..wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    JsonRpcError,
    JsonRpcRequest,
    error_line,
    result_line,
)
from .messages import (
    REQUEST_CANCELLED_CODE,
    AuthenticateRequest,
    CancelledOutcome,
    CancelRequestNotification,
    ClientCapabilities,
    CreateTerminalRequest,
    CreateTerminalResponse,
    DisableProviderRequest,
    ElicitationComplete,
    ElicitationRequest,
    ElicitationResponse,
    Empty,
    ExitStatus,
    ForkSessionRequest,
    ForkSessionResponse,
    InitializeRequest,
    InitializeResponse,
    ListProvidersRequest,
    ListProvidersResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    LogoutRequest,
    NewSessionRequest,
    NewSessionResponse,
    PermissionAsked,
    PromptRequest,
    PromptResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SelectedOutcome,
    SessionNotification,
    SessionRequest,
    SetConfigOptionRequest,
    SetConfigOptionResponse,
    SetModelRequest,
    SetModeRequest,
    SetProviderRequest,
    SetTitleRequest,
    SetTitleResponse,
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
    "session/set_title": AcpMethod(SetTitleRequest, SetTitleResponse),
    "providers/list": AcpMethod(ListProvidersRequest, ListProvidersResponse),
    "providers/set": AcpMethod(SetProviderRequest, Empty),
    "providers/disable": AcpMethod(DisableProviderRequest, Empty),
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

ELICITATION_OPTIONS = [
    PermissionOption("accept", "Accept", "allow_once"),
    PermissionOption("decline", "Decline", "reject_once"),
]


CONCURRENT_FILE_REQUESTS: Final = 8
"""File requests that are passed on at a time: more would only wait for the same disk."""

_REQUEST_OVERHEAD_BYTES: Final = 4096
"""Approximate cost of a request in bytes, in addition to its text."""


class _OpenAcpRequest(Struct):
    """A request that waits for an answer."""

    id: Id
    method: str
    options: Set[str] = frozenset()
    """The ids of the options of a permission request."""
    size: int = 0
    """Its part of the total size of pending requests."""


class AcpRequests:
    """The agent's open requests."""

    _files: frozenset[str] = frozenset()
    """Keys of the file requests that are passed on."""

    def __init__(
        self,
        channel: Channel,
        new_key: NewKey,
        offered: ClientCapabilities,
        held: int,
        extensions: Collection[str] = (),
    ) -> None:
        """Create an empty set of requests.

        `held`: limit on the total size of open requests other than questions. `extensions`: methods
        that are not part of the protocol. Raises `LocalProtocolError` if one of them is.
        """
        for method in extensions:
            if method in CLIENT_METHODS or method.startswith(("$/", "session/")):
                raise LocalProtocolError(f"{method} is ACP's, and served by agentrt itself")
        self._channel = channel
        self._new_key = new_key
        self._offered = offered
        self.extensions = tuple(extensions)
        """The methods that the host serves and ACP does not have."""
        self._methods: Mapping[str, AcpMethod] = CLIENT_METHODS
        """The client's methods in the version of the protocol, offered or not."""
        self._most_held = held
        self._held = 0
        self._open: dict[str, _OpenAcpRequest] = {}
        self._keys: dict[tuple[type, Id], list[str]] = {}
        """Keys of the open requests by the agent's ids. The agent may use an id twice."""
        self._waiting: OrderedDict[str, ServiceRequested] = OrderedDict()
        """File requests that are not passed on yet."""

    def serve_methods(self, methods: Mapping[str, AcpMethod]) -> None:
        """Take the client's methods in a version of the protocol."""
        self._methods = methods

    def _offers(self, method: str) -> bool:
        """Return True if the agent was offered a method of the client."""
        files, offered = self._offered.fs, self._offered
        match method:
            case "session/request_permission":
                return True
            case "fs/read_text_file":
                return files is not None and bool(files.read_text_file)
            case "fs/write_text_file":
                return files is not None and bool(files.write_text_file)
            case "elicitation/create":
                return offered.elicitation is not None
        return bool(offered.terminal) and method.startswith("terminal/")

    def accept(self, request: JsonRpcRequest) -> Struct | None:
        """Return the typed parameters of a request, or None after refusing it.

        A request that was not offered, or that has unusable parameters, is refused immediately.
        """
        method = request.method
        types = self._methods.get(method)
        if types is None or not self._offers(method):
            self._channel.notice(
                "info",
                "unknown_request",
                f"the agent asked for {method}, which it was not offered",
                request.params,
                about=method,
            )
            self._refuse(request, METHOD_NOT_FOUND, f"{method} is not supported")
            return None
        try:
            return self._channel.read(request.params, types.params, method)
        except ValidationError as error:
            why = f"{method} without a usable {error}"
            self._channel.notice("warning", "invalid_request", why, request.params)
            self._refuse(request, INVALID_PARAMS, why)
            return None

    def serve(self, request: JsonRpcRequest, params: Struct) -> None:
        """Pass a file or terminal request on to the host."""
        plain: JsonObject = to_builtins(params)
        key = self._hold(request, plain)
        if key is None:
            return
        requested = ServiceRequested(key=key, method=request.method, params=plain)
        if request.method.startswith("fs/"):
            self._waiting[key] = requested
            self._pass_on()
        else:
            self._channel.out.append(requested)

    def _hold(self, request: JsonRpcRequest, params: Any) -> str | None:
        """Return a key for the request, or None after refusing it because too much is pending."""
        size = _REQUEST_OVERHEAD_BYTES + _length(params)
        if self._held and self._held + size > self._most_held:
            self._refuse(
                request, INTERNAL_ERROR, "too many requests are open: wait for some answers"
            )
            return None
        self._held += size
        return self._add(_OpenAcpRequest(request.id, request.method, size=size))

    def _pass_on(self) -> None:
        while self._waiting and len(self._files) < CONCURRENT_FILE_REQUESTS:
            key, requested = self._waiting.popitem(last=False)
            self._files |= {key}
            self._channel.out.append(requested)

    def extend(self, request: JsonRpcRequest) -> None:
        """Pass an extension request on to the host."""
        key = self._hold(request, request.params)
        if key is not None:
            self._channel.out.append(extension_request(key, request.method, request.params))

    def notified(self, method: str, params: Any) -> None:
        """Pass an extension notification on to the host."""
        requested = extension_request(self._new_key(), method, params, notification=True)
        self._channel.out.append(requested)

    def ask_permission(
        self,
        request: JsonRpcRequest,
        params: PermissionAsked,
        asked: DecisionRequested,
    ) -> None:
        """Ask about a permission request. `asked` describes its subject."""
        asked.options = options = []
        ids = set()
        for each in params.options:
            id = each.option_id
            options.append(PermissionOption(id, each.name or id, each.kind or ""))
            ids.add(id)
        asked.key = self._add(_OpenAcpRequest(request.id, request.method, ids))
        asked.raw = request.params
        if asked.tool_call is None and asked.input is None and isinstance(request.params, dict):
            subject = request.params.get("subject")  # of a kind that is newer than this driver
            asked.detail = [*(asked.detail or ()), subject] if subject else asked.detail
        self._channel.out.append(asked)

    def elicit(self, request: JsonRpcRequest, params: ElicitationRequest) -> None:
        """Ask about an elicitation, if its mode was offered."""
        offered = self._offered.elicitation
        form = params.mode == "form" and params.requested_schema is not None
        url = params.mode == "url" and params.url is not None
        if offered is None or not ((form and offered.form) or (url and offered.url)):
            self._refuse(request, INVALID_PARAMS, f"elicitation mode {params.mode} is not offered")
            return
        key = self._add(_OpenAcpRequest(request.id, request.method))
        self._channel.out.append(
            DecisionRequested(
                key=key,
                kind="elicitation",
                title=params.message,
                options=ELICITATION_OPTIONS,
                tool_call=params.tool_call_id,
                form=params.requested_schema if form else None,
                url=params.url if url else None,
                raw=request.params,
            )
        )

    def withdraw(self, id: Any) -> None:
        """Answer and withdraw a request that the agent gave up (`$/cancel_request`)."""
        named = (type(id), id) if isinstance(id, int | float | str | None) else None
        for key in tuple(self._keys.get(named, ()) if named else ()):
            self._channel.out.append(RequestWithdrawn(key))
            self.say_cancelled(id, self._remove(key).method)

    def say_cancelled(self, id: Id, method: str) -> None:
        """Answer a request that will not be decided or served."""
        if method == "session/request_permission":
            self._channel.write(result_line(id, RequestPermissionResponse(CancelledOutcome())))
        elif method == "elicitation/create":
            self._channel.write(result_line(id, ElicitationResponse("cancel")))
        else:
            self._channel.write(error_line(id, JsonRpcError(REQUEST_CANCELLED_CODE, "cancelled")))

    def answer(self, key: str, answer: DecisionAnswer) -> None:
        """Answer a question. A key that is not open any more is ignored.

        Raises `LocalProtocolError` for an answer that the request does not allow.
        """
        request = self._open.get(key)
        if request is None:
            return
        result: Struct
        if request.method == "elicitation/create":
            action = answer.option or "cancel"
            if action not in ("accept", "decline", "cancel"):
                raise LocalProtocolError(f"an elicitation has no answer {action!r}")
            content = answer.content if action == "accept" else None
            result = ElicitationResponse(action, content)
        elif request.method != "session/request_permission":
            raise LocalProtocolError(f"{request.method} requires a reply, not a decision")
        elif answer.option is None:
            result = RequestPermissionResponse(CancelledOutcome())
        elif answer.option in request.options:
            result = RequestPermissionResponse(SelectedOutcome(answer.option))
        else:  # agents fail their turn over an option that they did not offer
            raise LocalProtocolError(f"the request has no option {answer.option!r}")
        self._close(key, result_line(request.id, result))

    def reply(self, key: str, result: Any) -> None:
        """Answer a service request. None stands for an empty result."""
        request = self._open.get(key)
        if request is not None:
            self._close(key, result_line(request.id, {} if result is None else result))

    def refuse(self, key: str, error: JsonRpcError) -> None:
        """Answer a request with an error. A key that is not open any more is ignored."""
        request = self._open.get(key)
        if request is not None:
            self._close(key, error_line(request.id, error))

    def _close(self, key: str, line: bytes) -> None:
        """Forget a request, and send its answer."""
        # The line is encoded already: a request whose answer cannot be encoded stays open.
        self._remove(key)
        self._channel.write(line)

    def _add(self, request: _OpenAcpRequest) -> str:
        """Note an open request under a new key, and return the key.

        The agent's own id is not the key, because the agent may use an id twice.
        """
        key = self._new_key()
        self._open[key] = request
        self._keys.setdefault((type(request.id), request.id), []).append(key)
        return key

    def _remove(self, key: str) -> _OpenAcpRequest:
        """Forget a request. File requests that waited for it may then be passed on."""
        request = self._open.pop(key)
        named = type(request.id), request.id
        self._keys[named].remove(key)
        if not self._keys[named]:
            del self._keys[named]
        self._held -= request.size
        self._files -= {key}
        self._waiting.pop(key, None)
        self._pass_on()
        return request

    def _refuse(self, request: JsonRpcRequest, code: int, message: str) -> None:
        """Answer a request with an error, without opening it."""
        self._channel.write(error_line(request.id, JsonRpcError(code, message)))


def _length(value: object) -> int:
    """Return the number of characters in the values of a decoded message."""
    match value:
        case str():
            return len(value)
        case list():
            return sum(map(_length, value))
        case dict():
            return sum(len(name) + _length(each) for name, each in value.items())
        case _:
            return 0
