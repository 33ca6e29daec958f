"""A minimal MCP server that supports only tools.

Sans-I/O: `McpToolServer.receive` takes one JSON-RPC message and returns the action to take. It
tracks the running calls, so that each is answered exactly once, or not at all if its client has
cancelled it. Each client needs its own server object, because ids are the client's own.

Both eras of the protocol are supported: with a handshake (2024-11-05 to 2025-11-25) and stateless
(2026-07-28), where each request names its revision and `server/discover` replaces the handshake.
Each request shows which era it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct, field

from ..errors import RemoteProtocolError
from ..model.content import Block, JsonObject, Text
from .json import decode
from .jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Id,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    parse,
)

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The protocol revisions that begin with `initialize`, newest first."""

STATELESS: Final = ("2026-07-28",)
"""The protocol revisions without a handshake, newest first."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
"""The key in the `_meta` of a stateless request."""

_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
UNSUPPORTED_VERSION: Final = -32022
"""The error code for a stateless request of an unknown revision."""

_SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

_FRESH: Final = {"ttlMs": 0, "cacheScope": "private"}
"""The tools may change at any time."""

Message: TypeAlias = JsonObject
"""A JSON-RPC message, ready to be encoded."""


class ToolInfo(Struct, rename="camel", omit_defaults=True, frozen=True):
    """A tool as clients see it."""

    name: str
    """The name that the model calls it by."""
    description: str
    """The description that the model reads."""
    input_schema: JsonObject
    """The JSON schema of the arguments."""
    annotations: JsonObject | None = None
    """Hints such as `{"readOnlyHint": true}`, by which clients decide which tools may run in
    parallel.
    """


class ToolOutcome(Struct, rename={"structured": "structuredContent", "is_error": "isError"}):
    """The result of a tool call. The model reads `content`, even of an error."""

    content: list[Block]
    is_error: bool = False
    """True if the tool failed, or the arguments did not fit."""
    structured: JsonObject | msgspec.UnsetType = msgspec.UNSET
    """The result as an object, if the tool returns one."""

    @classmethod
    def error(cls, message: str) -> ToolOutcome:
        """Make a failure for the model to read."""
        return cls([Text(message)], is_error=True)


class CallTool(Struct, frozen=True):
    """Run a tool; answer with `McpToolServer.reply` or `McpToolServer.refuse`."""

    request_id: Id
    name: str
    arguments: JsonObject
    progress_token: int | str | None = None
    meta: JsonObject = {}


class CancelTool(Struct, frozen=True):
    """The client no longer wants this call or subscription. A reply to it is discarded."""

    request_id: Id
    reason: str = ""


class ListenForChanges(Struct, frozen=True):
    """The client subscribes to changes.

    Send `acknowledgement` first. To end the reports, answer with
    `McpToolServer.end_listening`.
    """

    request_id: Id
    acknowledgement: Message


class _Filter(Struct, rename="camel"):
    """The changes that a client wants to be notified of."""

    tools_list_changed: bool | None = None


class _ListenParams(Struct):
    """The parameters of `subscriptions/listen`."""

    notifications: _Filter


class _CallParams(Struct):
    """The parameters of `tools/call`."""

    name: str
    arguments: JsonObject | None = None
    meta: JsonObject | None = field(name="_meta", default=None)


class McpToolServer:
    """One client's view of a set of tools."""

    def __init__(self, name: str, version: str, tools: Iterable[ToolInfo] = ()) -> None:
        """Create the server for one client, with the tools that it sees."""
        self._info = {"name": name, "version": version}
        self._tools = {tool.name: tool for tool in tools}
        self._greeted = False
        self.listed = False
        """True once the client has asked for the tools."""
        self._running: dict[Id, int | str | None] = {}
        """The progress token of each call that is not answered yet."""
        self._stateless: set[Id] = set()
        """The unanswered calls that were made without a handshake."""
        self._listening: dict[Id, bool] = {}
        """The open subscriptions, each with True if it includes changes of the tools."""

    def receive(
        self, message: bytes | bytearray | JsonObject
    ) -> Message | CallTool | CancelTool | ListenForChanges | None:
        """Process one message and return the action to take.

        The action is to send a reply, call a tool, stop a call or let the client listen; None means
        nothing. Never raises: an invalid message is answered with an error.
        """
        try:
            decoded = decode(message) if isinstance(message, bytes | bytearray) else message
        except RemoteProtocolError as error:
            return _error(None, PARSE_ERROR, str(error))
        try:
            match parse(decoded):
                case JsonRpcRequest(id, method, params):
                    return self._request(id, method, params)
                case JsonRpcNotification("notifications/cancelled", params):
                    return self._cancelled(params)
        except RemoteProtocolError as error:
            return _error(None, INVALID_REQUEST, str(error))
        return None  # a notification without an effect, or an answer without a request

    def reply(self, request_id: Id, outcome: ToolOutcome) -> Message | None:
        """Return the answer to a call, or None if it was cancelled or already answered."""
        stateless = request_id in self._stateless
        if not self._finish(request_id):
            return None
        if stateless:
            return _result(request_id, {**_plain(outcome), "resultType": "complete"})
        return _result(request_id, outcome)

    def refuse(self, request_id: Id, code: int, message: str) -> Message | None:
        """Return the error answer to a call that could not even be tried; None as with `reply`."""
        if not self._finish(request_id):
            return None
        return _error(request_id, code, message)

    def progress(
        self, request_id: Id, progress: float, total: float | None, message: str | None
    ) -> Message | None:
        """Return a progress message; None if the client did not ask for it or the call is over."""
        token = self._running.get(request_id)
        if token is None:
            return None
        params: JsonObject = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def set_tools(self, tools: Iterable[ToolInfo]) -> list[Message]:
        """Replace the tools and return the notifications to send.

        A client that completed the handshake gets one, and each of its subscriptions another.
        """
        self._tools = {tool.name: tool for tool in tools}
        changed: Message = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        messages = [changed] if self._greeted else []
        for id, wanted in self._listening.items():
            if wanted:
                messages.append({**changed, "params": {"_meta": {_SUBSCRIPTION_KEY: id}}})
        return messages

    def end_listening(self, request_id: Id) -> Message | None:
        """Return the answer to a subscription; None if it was cancelled or is already answered."""
        if self._listening.pop(request_id, None) is None:
            return None
        meta = {_SUBSCRIPTION_KEY: request_id}
        return _result(request_id, {"resultType": "complete", "_meta": meta})

    def _request(
        self, id: Id, method: str, params: Any
    ) -> Message | CallTool | ListenForChanges | None:
        """Handle a request, of a revision with or without a handshake.

        A stateless request names its revision in its `_meta`; all others belong to a session that
        began with `initialize`. Both are served at the same time.
        """
        version = stateless_version(params)
        if version is not None and version not in STATELESS:
            data = {"supported": [*STATELESS, *VERSIONS], "requested": version}
            error = JsonRpcError(
                UNSUPPORTED_VERSION, f"Unsupported protocol version: {version}", data
            )
            return {"jsonrpc": "2.0", "id": id, "error": error}
        match method:
            case "tools/call":
                return self._call(id, params, stateless=version is not None)
            case "server/discover" if version is not None:
                return self._discover(id)
            case "subscriptions/listen" if version is not None:
                return self._listen(id, params)
            case "tools/list" if version is not None:
                self.listed = True
                tools = list(self._tools.values())
                return _result(id, {"tools": tools, "resultType": "complete", **_FRESH})
            case "tools/list":
                self.listed = True
                return _result(id, {"tools": list(self._tools.values())})
            case "initialize":
                return self._initialize(id, params)
            case "ping":
                return _result(id, {})
            case _:
                return _error(id, METHOD_NOT_FOUND, f"Method not found: {method}")

    def _discover(self, id: Id) -> Message:
        """Answer `server/discover`, the stateless counterpart of `initialize`."""
        return _result(
            id,
            {
                "supportedVersions": [*STATELESS, *VERSIONS],
                "capabilities": {"tools": {"listChanged": True}},
                "resultType": "complete",
                **_FRESH,
                "_meta": {_SERVER_KEY: self._info},
            },
        )

    def _initialize(self, id: Id, params: Any) -> Message:
        """Answer `initialize` with the client's revision if it is known, else with the newest."""
        wanted = params.get("protocolVersion") if isinstance(params, dict) else None
        self._greeted = True
        return _result(
            id,
            {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": self._info,
            },
        )

    def _listen(self, id: Id, params: Any) -> Message | ListenForChanges | None:
        """Open a subscription, which its acknowledgement must precede."""
        try:
            wanted = msgspec.convert(params, _ListenParams).notifications
        except msgspec.ValidationError as error:
            return _error(id, INVALID_PARAMS, f"Invalid parameters: {error}")
        if id in self._running or id in self._listening:
            return None
        tools = self._listening[id] = wanted.tools_list_changed is True
        params = {
            "notifications": {"toolsListChanged": True} if tools else {},
            "_meta": {_SUBSCRIPTION_KEY: id},
        }
        method = "notifications/subscriptions/acknowledged"
        return ListenForChanges(id, {"jsonrpc": "2.0", "method": method, "params": params})

    def _call(self, id: Id, params: Any, *, stateless: bool = False) -> Message | CallTool | None:
        """Begin a call of a tool. A request that comes twice is answered once."""
        try:
            call = msgspec.convert(params, _CallParams)
        except msgspec.ValidationError as error:
            return _error(id, INVALID_PARAMS, f"Invalid parameters: {error}")
        if call.name not in self._tools:
            return _error(id, INVALID_PARAMS, f"Unknown tool: {call.name}")
        if id in self._running or id in self._listening:
            return None  # delivered twice: one answer serves both
        meta = call.meta or {}
        token = meta.get("progressToken")
        if not isinstance(token, int | str):
            token = None
        self._running[id] = token
        if stateless:
            self._stateless.add(id)
        return CallTool(id, call.name, call.arguments or {}, token, meta)

    def _cancelled(self, params: Any) -> CancelTool | None:
        """Cancel a call or a subscription, unless it was answered."""
        if not isinstance(params, dict):
            return None
        id = params.get("requestId")
        if isinstance(id, bool | list | dict) or not self._finish(id):
            return None  # already answered, or never requested
        reason = params.get("reason")
        return CancelTool(id, reason if isinstance(reason, str) else "")

    def _finish(self, id: Id) -> bool:
        """Forget a running call or subscription. Returns False for an unknown id."""
        if self._listening.pop(id, None) is not None:
            return True
        if id not in self._running:
            return False
        del self._running[id]
        self._stateless.discard(id)
        return True


def answer_to_call(request: JsonObject, outcome: ToolOutcome) -> Message:
    """Return the answer to a call that was meant for another server."""
    plain = _plain(outcome)
    if stateless_version(request.get("params")) is not None:
        plain["resultType"] = "complete"
    return _result(request["id"], plain)


def stateless_version(params: Any) -> str | None:
    """Return the revision named by a request, if the request is stateless."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def _plain(outcome: ToolOutcome) -> JsonObject:
    """Return an outcome as a plain object."""
    plain: JsonObject = msgspec.to_builtins(outcome)
    return plain


def _result(id: Id, result: object) -> Message:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(id: Id, code: int, message: str) -> Message:
    """Return the error answer to a request."""
    return {"jsonrpc": "2.0", "id": id, "error": JsonRpcError(code, message)}
