"""JSON-RPC 2.0, as used by both ends of a pipe: envelopes, ids, errors.

`parse` sorts a decoded message into `JsonRpcRequest`, `JsonRpcNotification` or `JsonRpcResponse`;
`OutstandingCalls` matches responses with agentrt's own requests. Each side numbers its own
requests, so the same id is often in use in both directions. The peer's ids are kept apart from
agentrt's.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from ..errors import RemoteProtocolError
from .json import encode_line

T = TypeVar("T")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_ID_CHARS = 1000
"""Characters of an id: it is kept and sent back, and many may be open."""

Id: TypeAlias = int | float | str | None
"""A request's id, echoed unchanged. Null and fractions are discouraged but legal. A bool is not a
valid id, although Python treats it as an int.
"""


class JsonRpcError(Struct, omit_defaults=True):
    """The error of a failed request: a `code` for programs and a `message` for people. Useful
    detail is usually in `data`.
    """

    code: int
    message: str
    data: Any = None


class JsonRpcRequest(Struct):
    """A call of `method` that requires an answer with the same `id`.

    `params` is the sent value, or None if it is missing.
    """

    id: Id
    method: str
    params: Any


class JsonRpcNotification(Struct):
    """A call of `method` that requires no answer. `params` is the sent value, or None."""

    method: str
    params: Any


class JsonRpcResponse(Struct):
    """The answer to a request of agentrt: its `result`, or an `error` if that is not None.

    An error with the `id` None reports that a message was not understood, without naming it.
    """

    id: Id
    result: Any = None
    error: JsonRpcError | None = None


def parse(message: Any) -> JsonRpcRequest | JsonRpcNotification | JsonRpcResponse:
    """Classify a decoded message. Raises `RemoteProtocolError` if it is not one of the three.

    Common deviations are tolerated: a missing `jsonrpc`, `error: null` next to a result, a string
    as error. If there are a result and an error, the error counts.
    """
    if not isinstance(message, dict):
        kind = "a batch" if isinstance(message, list) else "a bare value"
        raise RemoteProtocolError(f"not a message: {kind}")
    id = message.get("id")
    if isinstance(id, bool | list | dict):
        raise RemoteProtocolError(f"not a message: its id is a {type(id).__name__}")
    if isinstance(id, str) and len(id) > MAX_ID_CHARS:
        raise RemoteProtocolError(f"not a message: its id has {len(id)} characters")
    method = message.get("method")
    if isinstance(method, str):
        params = message.get("params")
        return (
            JsonRpcRequest(id, method, params)
            if "id" in message
            else JsonRpcNotification(method, params)
        )
    if method is not None:
        raise RemoteProtocolError("not a message: its method is not a string")
    error = message.get("error")
    if error is not None:
        return JsonRpcResponse(id, error=read_error(error))
    if "id" not in message:
        raise RemoteProtocolError("not a message: no method and no id")
    if "result" in message:
        return JsonRpcResponse(id, message["result"])
    if "error" in message:
        return JsonRpcResponse(id, error=JsonRpcError(INTERNAL_ERROR, "failed without a reason"))
    raise RemoteProtocolError("not a message: no method, no result and no error")


def read_error(error: Any) -> JsonRpcError:
    """Convert an error object, or another value sent instead of one, without losing content."""
    if isinstance(error, str):
        return JsonRpcError(INTERNAL_ERROR, error)
    if not isinstance(error, dict):
        return JsonRpcError(INTERNAL_ERROR, "failed", error)
    code, message, data = error.get("code"), error.get("message"), error.get("data")
    if type(code) is int and isinstance(message, str):
        return JsonRpcError(code, message, data)
    return JsonRpcError(
        code if type(code) is int else INTERNAL_ERROR,
        message if isinstance(message, str) else "failed",
        error,
    )


class OutstandingCalls(Generic[T]):
    """The requests of agentrt that wait for an answer, each with its purpose (`T`)."""

    def __init__(self) -> None:
        """Begin without requests. Ids count from 1."""
        self._last = 0
        self._waiting: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, purpose: T) -> int:
        """Register a request and return its new id."""
        self._last += 1
        self._waiting[self._last] = purpose
        return self._last

    def replace(self, id: int, purpose: T) -> None:
        """Change the purpose of a request that still waits."""
        if id in self._waiting:
            self._waiting[id] = purpose

    def take(self, id: Id) -> tuple[T | None, Literal["", "id_type", "duplicate", "foreign"]]:
        """Return the purpose of the answer with this id, and its defect.

        `id_type`: it belongs to a request, but 7 was echoed as "7" or 7.0. `duplicate`: the request
        was answered before. `foreign`: no such request was sent.
        """
        own = id if type(id) is int else _as_int(id)
        if own is None or not 0 < own <= self._last:
            return None, "foreign"
        purpose = self._waiting.pop(own, None)
        if purpose is None:
            return None, "duplicate"
        return purpose, "" if type(id) is int else "id_type"


def _as_int(id: Id) -> int | None:
    """Return an id as a number if it may be the echo of one, else None."""
    match id:
        case int():
            return id
        case str() if id.isascii() and id.isdigit() and len(id) < 20:
            return int(id)
        case float() if id.is_integer():
            return int(id)
        case _:
            return None


def request_line(id: Id, method: str, params: Any) -> bytes:
    """Encode a request."""
    return encode_line({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def notification_line(method: str, params: Any) -> bytes:
    """Encode a notification."""
    return encode_line({"jsonrpc": "2.0", "method": method, "params": params})


def result_line(id: Id, result: Any) -> bytes:
    """Encode an answer with a result."""
    return encode_line({"jsonrpc": "2.0", "id": id, "result": result})


def error_line(id: Id, error: JsonRpcError) -> bytes:
    """Encode an answer with an error."""
    return encode_line({"jsonrpc": "2.0", "id": id, "error": error})
