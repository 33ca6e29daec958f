"""A program's server of the package `mcp`, for the agents of one session.

The package serves it in the session's nursery. Messages are passed unchanged: the server itself is
responsible for its tools, resources, prompts and the protocol revision. For tool calls agentrt
gives the same guarantees as for its own tools: a call runs as part of the turn, in its span, is
cancelled with it, and has a time limit.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import trio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from ..._base.nesting import bare_errors
from ..errors import RemoteProtocolError
from ..logging import get_logger
from ..model.content import JsonObject
from ..wire.json import decode
from ..wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Id,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    parse,
)
from ..wire.mcp import Message, ToolOutcome, answer_to_call
from .server import Around, Notify, Refuse, Reply, Spawn, nothing_around, nothing_refused
from .tools import ProvidedServer

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream

logger = get_logger("tools")

LIFESPAN_END_TIMEOUT_S: Final = 2.0
"""Seconds for a server to end, including its lifespan."""

_Item = tuple[contextvars.Context, SessionMessage]


@asynccontextmanager
async def open_relay(
    provided: ProvidedServer,
    *,
    timeout: float | None = None,
    around: Around | None = None,
    refuse: Refuse = nothing_refused,
) -> AsyncIterator[McpRelay]:
    """Serve a server while the block runs.

    `timeout`: seconds for a tool call; `around` returns the context manager for a call; `refuse`
    returns the reason why a call must not run. Raises the errors of the server's own lifespan.
    """
    async with bare_errors(), trio.open_nursery() as nursery:
        relay = McpRelay(provided, timeout, around or nothing_around, refuse)
        try:
            nursery.start_soon(relay._run)
            await relay._serving.wait()
            yield relay
        finally:
            relay._close()
            nursery.cancel_scope.deadline = trio.current_time() + LIFESPAN_END_TIMEOUT_S


class McpRelay:
    """The connection to a server. Created by `open_relay`."""

    def __init__(
        self, provided: ProvidedServer, timeout: float | None, around: Around, refuse: Refuse
    ) -> None:
        """Prepare a relay; `open_relay` runs it."""
        self.name = provided.name
        self._refuse = refuse
        self._provided = provided
        self._timeout = timeout
        self._around = around
        self._serving = trio.Event()
        self._connections, self._connected = anyio.create_memory_object_stream[RelayConnection](
            math.inf
        )
        self._clients: set[RelayConnection] = set()
        # The server may run on another loop, whose steps are not Trio's.
        self._soon = trio.lowlevel.current_trio_token().run_sync_soon

    def connect(self, notify: Notify, *, both_ways: bool = False) -> RelayConnection:
        """Connect a new client. Close the connection when the client has gone.

        `both_ways`: the client also answers requests of the server.
        """
        connection = RelayConnection(self, notify, both_ways=both_ways)
        self._clients.add(connection)
        self._connections.send_nowait(connection)
        return connection

    def _close(self) -> None:
        """Disconnect all clients, after which the server ends."""
        self._connections.close()
        for connection in self._clients:
            connection.close()

    async def _run(self) -> None:
        """Run the server, here or on the event loop that it needs."""
        run = self._provided.run
        await (self._serve() if run is None else run(self._serve))

    async def _serve(self) -> None:
        """Serve clients within the server's lifespan. May run on another event loop than Trio's."""
        server = self._provided.server
        async with (
            self._connected,
            server.lifespan(server) as state,
            anyio.create_task_group() as clients,
        ):
            self._soon(self._serving.set)
            async for connection in self._connected:
                clients.start_soon(connection._serve, state)


class RelayConnection:
    """One client of a server, with its unanswered requests."""

    def __init__(self, relay: McpRelay, notify: Notify, *, both_ways: bool) -> None:
        """Connect a client; `McpRelay` serves it."""
        self._relay = relay
        self._notify = notify
        self._both_ways = both_ways
        self._waiting: dict[Id, Reply] = {}
        self._over = False
        self._in, self._out = anyio.create_memory_object_stream[_Item](math.inf)

    def handle(
        self,
        message: bytes | bytearray | JsonObject,
        spawn: Spawn,
        reply: Reply,
        *,
        background: bool = False,
    ) -> None:
        """Handle one message of the client.

        A tool call is awaited in a task of `spawn`; other messages are answered when the server
        does.
        """
        try:
            decoded = decode(message) if isinstance(message, bytes | bytearray) else message
        except RemoteProtocolError as error:
            reply(_error(None, PARSE_ERROR, str(error)))
            return
        try:
            match parse(decoded):
                case JsonRpcRequest(id) if id in self._waiting:
                    reply(None)  # delivered twice
                case JsonRpcRequest(id) if self._over:
                    reply(_error(id, INTERNAL_ERROR, f"the server {self._relay.name} has ended"))
                case JsonRpcRequest(id, "tools/call", params) if why := self._refused(params):
                    reply(answer_to_call(decoded, ToolOutcome.error(why)))
                case JsonRpcRequest(id, "tools/call"):
                    call = _RelayedCall(self, decoded, reply)
                    self._waiting[id] = call.answered
                    try:
                        spawn(call.run)
                    except Exception as error:  # there is no longer a turn for it
                        del self._waiting[id]
                        reply(_error(id, INTERNAL_ERROR, f"it cannot run now: {error}"))
                case JsonRpcRequest(id):
                    self._waiting[id] = reply
                    self._put(decoded)
                case JsonRpcNotification("notifications/cancelled", params):
                    self._put(decoded)
                    id = params.get("requestId") if isinstance(params, dict) else None
                    if isinstance(id, str | int) and id in self._waiting:
                        self._waiting.pop(id)(None)
                    reply(None)
                case _:
                    self._put(decoded)
                    reply(None)
        except RemoteProtocolError as error:
            reply(_error(None, INVALID_REQUEST, str(error)))

    def _refused(self, params: Any) -> str | None:
        """Return the reason why a call must not run, or None."""
        given = params if isinstance(params, dict) else {}
        return self._relay._refuse(str(given.get("name")), given.get("arguments"), self._relay.name)

    def close(self) -> None:
        """Disconnect the client: the server stops its work for it. Idempotent."""
        self._in.close()

    def _put(self, message: JsonObject) -> None:
        """Pass a message to the server, with the context for handling it."""
        try:
            model = jsonrpc_message_adapter.validate_python(message, by_name=False)
        except ValidationError as error:
            id = message.get("id")
            if id in self._waiting:
                self._waiting.pop(id)(_error(id, INVALID_REQUEST, f"not a message: {error}"))
            return
        try:
            self._in.send_nowait((contextvars.copy_context(), SessionMessage(model)))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # it has ended, and every request was answered

    # --- the server's side: it may run on another loop, and only schedules calls in Trio's

    async def _serve(self, state: Any) -> None:
        """Run the server for this client, until the client is disconnected."""
        server, soon = self._relay._provided.server, self._relay._soon
        try:
            await serve_dual_era_loop(
                server,
                _Incoming(self._out),
                _Outgoing(lambda message: soon(self._received, message)),
                lifespan_state=state,
                init_options=server.create_initialization_options(),
            )
        except Exception:
            logger.exception("the MCP server %s failed", self._relay.name)
        finally:
            soon(self._ended)

    def _received(self, message: JsonObject) -> None:
        """Pass on a message of the server: an answer, a notification or a request."""
        id = message.get("id")
        if "method" not in message:
            waiting = self._waiting.pop(id, None)
            if waiting is not None:
                waiting(message)
        elif id is None or self._both_ways:
            self._notify(message)
        else:
            self._put(_refusal(id, "this client answers no requests"))

    def _ended(self) -> None:
        """Answer all open requests with an error: the server has ended."""
        self._over = True
        self._relay._clients.discard(self)
        self._in.close()
        while self._waiting:
            id, waiting = self._waiting.popitem()
            waiting(_error(id, INTERNAL_ERROR, f"the server {self._relay.name} has ended"))


class _RelayedCall:
    """A tool call as part of a turn."""

    def __init__(self, connection: RelayConnection, message: JsonObject, reply: Reply) -> None:
        """Prepare a call, whose answer goes to `reply`."""
        self._connection = connection
        self._message = message
        self._reply = reply
        self._done = trio.Event()
        self._answer: Message | None = None

    def answered(self, answer: Message | None) -> None:
        """Take the server's answer, or None if the client has withdrawn the call."""
        self._answer = answer
        self._done.set()

    async def run(self) -> None:
        """Pass the call to the server, wait for its answer, and reply."""
        connection, relay, message = self._connection, self._connection._relay, self._message
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        name, named = str(params.get("name")), meta.get("claudecode/toolUseId")
        seconds = math.inf if relay._timeout is None else relay._timeout
        why = f"{name} was cancelled"
        try:
            with relay._around(name, named if isinstance(named, str) else None, meta):
                with trio.move_on_after(seconds):
                    connection._put(message)
                    await self._done.wait()
                if not self._done.is_set():
                    why = f"{name} timed out after {seconds:g} s"
        finally:
            id = message["id"]
            if not self._done.is_set():
                connection._waiting.pop(id, None)
                connection._put(_cancel(id, why))
                self._answer = answer_to_call(message, ToolOutcome.error(why))
            self._reply(self._answer)


class _Incoming(ObjectReceiveStream["SessionMessage | Exception"]):
    """The input of the server: each message has the context of its sender."""

    def __init__(self, stream: MemoryObjectReceiveStream[_Item]) -> None:
        """Read from a stream of messages with their contexts."""
        self._stream = stream
        self.last_context: contextvars.Context | None = None

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, and keep its context for the server."""
        self.last_context, message = await self._stream.receive()
        return message

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Outgoing(ObjectSendStream[SessionMessage]):
    """The output of the server."""

    def __init__(self, received: Callable[[JsonObject], None]) -> None:
        """Pass messages on to `received`."""
        self._received = received

    async def send(self, item: SessionMessage) -> None:
        """Pass on a message of the server as a plain object."""
        self._received(item.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


def _cancel(id: Id, why: str) -> JsonObject:
    """Return the notification that a call is not wanted any more."""
    params = {"requestId": id, "reason": why}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def _refusal(id: Id, why: str) -> JsonObject:
    """Return the answer to a request that the client cannot serve."""
    error = {"code": METHOD_NOT_FOUND, "message": why}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def _error(id: Id, code: int, message: str) -> Message:
    """Return an error answer."""
    return {"jsonrpc": "2.0", "id": id, "error": JsonRpcError(code, message)}
