"""Control requests in both directions: from the CLI and to the CLI.

The CLI may send requests at any time, also before it has replied to `initialize`, and several at a
time. Each request is answered exactly once, in any order; a request that the CLI withdrew is not
answered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from msgspec import Struct

from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import (
    DENY,
    CallReturned,
    DecisionAnswer,
    Effect,
    NewKey,
    RecentKeys,
    RequestWithdrawn,
    ServiceRequested,
    Write,
    extension_request,
)
from ..model.events import ErrorInfo
from ..wire.json import encode_line
from .checks import AFTER, BEFORE, check_response, checking
from .messages import ControlRequest, ControlResult
from .questions import (
    allows,
    ask_elicitation,
    ask_permission,
    elicitation_response,
    permission_response,
)
from .tasks import ClaudeTasks

REMEMBERED_REQUESTS: Final = 256
"""At least this many answered requests are recognised when they are repeated: after a reattach,
the CLI repeats the requests that it believes to be unanswered."""

INTERNAL_ERROR_CODE: Final = -32603

SERVED: Final = frozenset({"can_use_tool", "elicitation", "hook_callback", "mcp_message"})
"""Subtypes of the CLI's requests that the driver serves itself."""


class _OpenClaudeRequest(Struct):
    """A request of the CLI that waits for an answer."""

    id: str
    key: str
    request: JsonObject
    rpc: tuple[str, Any] | None = None
    """For a request to an in-process MCP server: the server and the JSON-RPC id."""


class ClaudeRequests:
    """The CLI's requests."""

    def __init__(
        self,
        new_key: NewKey,
        tasks: ClaudeTasks,
        background: set[str],
        denied: set[str],
        extensions: Collection[str] = (),
    ) -> None:
        """Create an empty set of requests.

        `extensions`: further subtypes, which the host serves. Raises `LocalProtocolError` for one
        that the driver serves itself.
        """
        for subtype in SERVED.intersection(extensions):
            raise LocalProtocolError(f"{subtype} is served by agentrt itself")
        self._extensions = tuple(extensions)
        self._new_key = new_key
        self._tasks = tasks
        self._background = background
        """The tool calls of background agents."""
        self._denied = denied
        self._open: dict[str, _OpenClaudeRequest] = {}  # by the CLI's id
        self._keys: dict[str, _OpenClaudeRequest] = {}  # the same requests, by our keys
        self._answered = RecentKeys(REMEMBERED_REQUESTS)

    def received(self, m: ControlRequest, out: list[Effect]) -> None:
        """Take a request. An unknown one is refused immediately."""
        id, request = m.request_id, m.request
        if id in self._open or id in self._answered:
            return
        asking = _OpenClaudeRequest(id, self._new_key(), request)
        match request.get("subtype"):
            case "can_use_tool":
                self._add(asking)
                background = self._tasks.in_background(request.get("agent_id"))
                out.append(ask_permission(asking.key, request, background=background))
            case "elicitation":
                self._add(asking)
                out.append(ask_elicitation(asking.key, request))
            case "hook_callback" if request.get("callback_id") in (BEFORE, AFTER):
                self._add(asking)
                given = request.get("input")
                agent = given.get("agent_id") if isinstance(given, dict) else None
                background = self._tasks.in_background(agent)
                out.append(checking(asking.key, request, background=background))
            case "hook_callback":
                self._add(asking)
                params = {n: request.get(n) for n in ("callback_id", "input", "tool_use_id")}
                given = params["input"]
                agent = given.get("agent_id") if isinstance(given, dict) else None
                background = self._tasks.in_background(agent)
                out.append(
                    ServiceRequested(
                        key=asking.key,
                        method="hook",
                        params=params,
                        background=background,
                        unawaited=True,  # true for `StopFailure`, `Notification` and others
                    )
                )
            case "mcp_message" if isinstance(request.get("message"), dict):
                self._mcp(asking, request["message"], out)
            case str(subtype) if subtype in self._extensions:
                self._add(asking)
                params = {name: value for name, value in request.items() if name != "subtype"}
                requested = extension_request(asking.key, subtype, params)
                requested.background = self._tasks.in_background(request.get("agent_id"))
                out.append(requested)
            case subtype:
                self._answered.add(id)
                out.append(_failure(id, f"unsupported_request: {subtype}"))

    def _add(self, asking: _OpenClaudeRequest) -> None:
        """Keep a request until it is answered, by the CLI's id and by ours."""
        self._open[asking.id] = self._keys[asking.key] = asking

    def _mcp(self, asking: _OpenClaudeRequest, message: JsonObject, out: list[Effect]) -> None:
        """Take a message for an in-process server.

        Only a JSON-RPC request waits for an answer. A control request with any other message is
        acknowledged immediately.
        """
        server = str(asking.request.get("server_name"))
        if "id" in message and "method" in message:
            asking.rpc = (server, message["id"])
            self._add(asking)
        else:
            self._answered.add(asking.id)
            out.append(_success(asking.id, {"mcp_response": {"jsonrpc": "2.0", "result": {}}}))
            if message.get("method") == "notifications/cancelled":
                self._mcp_cancelled(server, message.get("params"), out)
                return
        params = {"server": server, "message": message}
        background = _tool_call(message) in self._background
        out.append(
            ServiceRequested(key=asking.key, method="mcp", params=params, background=background)
        )

    def _mcp_cancelled(self, server: str, params: Any, out: list[Effect]) -> None:
        """Withdraw a cancelled MCP call; the CLI has no control message for that."""
        if isinstance(params, dict):
            meant = (server, params.get("requestId"))
            for asking in list(self._open.values()):
                if asking.rpc == meant:
                    self._drop(asking)
                    out.append(RequestWithdrawn(asking.key))

    def cancelled(self, id: str, out: list[Effect]) -> None:
        """Withdraw a request that the CLI took back."""
        asking = self._open.get(id)
        if asking is not None:
            self._drop(asking)
            out.append(RequestWithdrawn(asking.key))

    def _drop(self, asking: _OpenClaudeRequest) -> None:
        """Forget a request that needs no answer any more."""
        del self._open[asking.id], self._keys[asking.key]
        self._answered.add(asking.id)

    def _take(self, key: str) -> _OpenClaudeRequest | None:
        """Return an open request and forget it; None if it is not open."""
        asking = self._keys.get(key)
        if asking is not None:
            self._drop(asking)
        return asking

    # --- answers

    def answer(self, key: str, answer: DecisionAnswer) -> list[Effect]:
        """Answer a permission request, an elicitation or a check. A key that is not open is
        ignored."""
        asking = self._keys.get(key)
        if asking is None:
            return []
        if asking.request.get("subtype") == "elicitation":
            line = _success(asking.id, elicitation_response(answer))
        elif asking.request.get("subtype") == "hook_callback":
            line = _success(asking.id, check_response(asking.request, answer))
            call = asking.request.get("tool_use_id")
            if answer.option == DENY and isinstance(call, str):
                self._denied.add(call)
        else:
            response = permission_response(asking.request, answer)
            line = _success(asking.id, response)
            call = asking.request.get("tool_use_id")
            if not allows(response) and isinstance(call, str):
                self._denied.add(call)
        self._drop(asking)  # after encoding: a request whose answer cannot be encoded stays open
        return [line]

    def reply(self, key: str, result: Any) -> list[Effect]:
        """Answer a request that the host serves. A key that is not open is ignored."""
        asking = self._take(key)
        if asking is None:
            return []
        try:
            if asking.rpc is None:
                return [_success(asking.id, {} if result is None else result)]
            if not isinstance(result, dict):
                result = _rpc_error(asking.rpc[1], INTERNAL_ERROR_CODE, "no result", None)
            return [_success(asking.id, {"mcp_response": result})]
        except (
            TypeError,
            ValueError,
            RecursionError,
        ) as error:  # a handler's result that is not JSON
            return self._refuse(asking, INTERNAL_ERROR_CODE, f"no JSON: {error}", None)

    def refuse(self, key: str, code: int, message: str, data: Any) -> list[Effect]:
        """Answer a request with an error. A key that is not open is ignored."""
        asking = self._take(key)
        return [] if asking is None else self._refuse(asking, code, message, data)

    @staticmethod
    def _refuse(asking: _OpenClaudeRequest, code: int, message: str, data: Any) -> list[Effect]:
        """Return the error answer: as an MCP error for an in-process server, else as a failure."""
        if asking.rpc is None:
            return [_failure(asking.id, message or f"error {code}")]
        # An error of the control request itself would fail the whole MCP server.
        error = _rpc_error(asking.rpc[1], code, message, data)
        return [_success(asking.id, {"mcp_response": error})]


def _tool_call(message: JsonObject) -> str | None:
    """Return the CLI's id of the tool call that an MCP call is made for, or None."""
    match message.get("params"):
        case {"_meta": {"claudecode/toolUseId": str(call)}}:
            return call
        case _:
            return None


def _success(id: str, response: Any) -> Write:
    """Return the write of a successful `control_response`."""
    body = {"subtype": "success", "request_id": id, "response": response}
    return Write(encode_line({"type": "control_response", "response": body}))


def _failure(id: str, error: str) -> Write:
    """Return the write of an unsuccessful `control_response`, which has a text only."""
    body = {"subtype": "error", "request_id": id, "error": error}
    return Write(encode_line({"type": "control_response", "response": body}))


def _rpc_error(id: Any, code: int, message: str, data: Any) -> JsonObject:
    """Return a JSON-RPC error response."""
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": id, "error": error}


class SentControl(Struct):
    """A request to the CLI that waits for a response. `call` is set if a caller waits for it."""

    request: JsonObject
    call: str | None = None


class ControlCalls:
    """The requests to the CLI."""

    def __init__(self) -> None:
        """Begin without requests."""
        self._sent: dict[str, SentControl] = {}
        self._count = 0

    def send(self, request: JsonObject, call: str | None = None) -> Write:
        """Return the write of a request, which goes before prompts that are still queued."""
        self._count += 1
        id = f"agentrt-{self._count}"  # the CLI echoes answers to its own ids, which are UUIDs
        self._sent[id] = SentControl(request, call)
        return Write(encode_line({"type": "control_request", "request_id": id, "request": request}))

    def call(self, call: str, method: str, params: JsonObject) -> list[Effect]:
        """Send a caller's request, by its neutral name or by Claude's."""
        request = _translated(method, params)
        if request is None:
            text = f"Claude Code has no {method} for a running session"
            return [CallReturned(call, error=ErrorInfo("unsupported", text))]
        return [self.send(request, call)]

    def uncall(self, call: str) -> list[Effect]:
        """Cancel a caller's request; its response is then ignored."""
        for id, sent in list(self._sent.items()):
            if sent.call == call:
                del self._sent[id]
                line = encode_line({"type": "control_cancel_request", "request_id": id})
                return [Write(line)]
        return []

    def answered(self, result: ControlResult) -> SentControl | None:
        """Return the request for a response, or None if no request with its id is pending."""
        return self._sent.pop(result.request_id, None)

    def closed(self) -> list[Effect]:
        """Fail the pending calls: the CLI has exited and no response will come."""
        gone = ErrorInfo("closed", "the agent ended before it answered")
        waiting = [sent.call for sent in self._sent.values() if sent.call is not None]
        self._sent.clear()
        return [CallReturned(call, error=gone) for call in waiting]


UNAVAILABLE = frozenset({"initialize", "set_option", "list_sessions", "delete_session", "logout"})
"""Methods that a running session cannot be asked for: `initialize` is not for callers, the others
do not exist."""

_NEUTRAL: dict[str, tuple[str, dict[str, str]]] = {
    "set_mode": ("set_permission_mode", {"mode": "mode"}),
    "set_model": ("set_model", {"model": "model"}),
    "stop_task": ("stop_task", {"task": "task_id"}),
    "mcp_notify": ("mcp_message", {"server": "server_name", "message": "message"}),
}


def _translated(method: str, params: JsonObject) -> JsonObject | None:
    """Return the control request for a neutral method; None if the CLI has none for it.

    Methods without a neutral name are sent under their own name.
    """
    if method in UNAVAILABLE:
        return None
    subtype, names = _NEUTRAL.get(method, (method, {}))
    return {"subtype": subtype, **{names.get(name, name): v for name, v in params.items()}}


def error_of(result: ControlResult) -> ErrorInfo:
    """Return the CLI's error for a refused request."""
    code = result.error_code if isinstance(result.error_code, str) else "rejected"
    message = result.error if isinstance(result.error, str) else "the agent refused the request"
    return ErrorInfo("unsupported" if code == "unsupported_request" else code, message)
