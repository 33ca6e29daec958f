"""In-process tools over MCP's streamable HTTP, on loopback.

Each request has one JSON answer; a request to listen is answered by a stream of events. Requests
need a random bearer token and an exact Host. A request with an Origin comes from a browser and is
refused.
"""

from __future__ import annotations

import hmac
import secrets
from http import HTTPStatus
from typing import Any, Final

import h11
import trio

from ..._base.http import BodyTooLarge, HttpConnection
from ..._base.nesting import bare_errors
from ..._base.pending import PendingConnections
from ..errors import RemoteProtocolError
from ..limits import Limits
from ..logging import get_logger
from ..model.content import JsonObject
from ..wire.json import decode, encode_line
from ..wire.mcp import UNSUPPORTED_VERSION, Message, stateless_version
from .server import InProcessConnection, InProcessServer, Spawn

logger = get_logger("tools")

MAX_CONNECTIONS: Final = 32
"""Maximum number of open connections with a token, and of those that have not sent one yet.

A client opens one for each simultaneous call. Of those without a token, the oldest is closed for a
new one.
"""

MAX_MCP_SESSIONS: Final = 32
"""Maximum number of MCP sessions; the oldest is closed for a new one."""

REQUEST_TIMEOUT_S: Final = 10.0
"""Seconds until a connection's first request must begin, and for a body to arrive."""

MAX_UNREAD_MESSAGES: Final = 1000
"""Maximum number of unread messages of a listening client, which is disconnected above it."""

SESSION: Final = "Mcp-Session-Id"

LISTEN: Final = "subscriptions/listen"

_JSON: Final = {"Content-Type": "application/json"}
_EVENTS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}


class HttpServer:
    """The HTTP endpoint. `entry` is for the agent, `run` serves it."""

    def __init__(self, server: InProcessServer, spawn: Spawn, limits: Limits) -> None:
        """Create the endpoint with a random token; `run` opens the port."""
        self._server = server
        self._spawn = spawn
        self._limits = limits
        self._authorization = f"Bearer {secrets.token_urlsafe()}"
        self._port = 0
        self._connections = 0
        self._pending = PendingConnections(MAX_CONNECTIONS)
        self._clients: dict[str, InProcessConnection] = {}

    def entry(self) -> JsonObject:
        """Return the entry for `mcpServers`."""
        return {
            "type": "http",
            "name": self._server.name,
            "url": f"http://127.0.0.1:{self._port}/mcp",
            "headers": [{"name": "Authorization", "value": self._authorization}],
        }

    @property
    def port(self) -> int:
        """The port on the loopback interface; 0 before `run` has started."""
        return self._port

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Started when the port is open."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self._port = listeners[0].socket.getsockname()[1]
        task_status.started()
        try:
            await trio.serve_listeners(self._serve, listeners)
        finally:
            for client in self._clients.values():
                client.close()

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection; its failure does not affect others."""
        try:
            async with stream:
                await self._converse(_ToolsConnection(stream))
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # the client disconnected
        except h11.RemoteProtocolError as error:
            logger.warning("the endpoint of the tools received invalid HTTP: %s", error)
        except Exception:
            logger.exception("a connection for tools failed")

    async def _converse(self, wire: _ToolsConnection) -> None:
        """Admit a connection by its first request, then answer all of its requests."""
        try:
            request = None
            with self._pending.place(), trio.move_on_after(REQUEST_TIMEOUT_S):
                request = await wire.head()
                if request is not None:
                    self._admit(request)
            if request is None:
                return
            if self._connections >= MAX_CONNECTIONS:
                logger.warning("more than %d connections for tools: one refused", MAX_CONNECTIONS)
                return
            self._connections += 1
            try:
                await self._answer_all(wire, request)
            finally:
                self._connections -= 1
        except _Refused as refused:
            await wire.send(refused.status, {"Connection": "close", **refused.headers})

    async def _answer_all(self, wire: _ToolsConnection, first: _Request) -> None:
        """Answer the requests of an authenticated connection, which may be kept open for later
        ones.
        """
        request: _Request | None = first
        while request is not None:
            self._admit(request)
            with trio.fail_after(REQUEST_TIMEOUT_S):
                try:
                    body = await wire.body(self._limits.message_bytes)
                except BodyTooLarge:
                    raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE) from None
            await self._answer(wire, request, body)
            request = await wire.head() if wire.reusable() else None

    def _admit(self, request: _Request) -> None:
        """Raise `_Refused` for a request that is not from the agent, or is not a message."""
        header = request.headers.get
        if header(b"host") not in (b"127.0.0.1:%d" % self._port, b"localhost:%d" % self._port):
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST)
        if header(b"origin") is not None:
            raise _Refused(HTTPStatus.FORBIDDEN)
        given = header(b"authorization", b"")
        if not hmac.compare_digest(given, self._authorization.encode()):
            raise _Refused(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
        if request.target != b"/mcp":
            raise _Refused(HTTPStatus.NOT_FOUND)
        if request.method not in (b"POST", b"DELETE"):
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "POST, DELETE"})

    async def _answer(self, wire: _ToolsConnection, request: _Request, body: bytes) -> None:
        """Answer one request of an MCP client over HTTP.

        `initialize` begins a session, whose id the client then sends as a header; DELETE ends it.
        An unknown id gets status 404, after which clients begin again. Raises `_Refused` with the
        status.
        """
        session = request.headers.get(SESSION.lower().encode(), b"").decode("ascii", "replace")
        client = self._clients.get(session)
        if request.method == b"DELETE":
            self._clients.pop(session, None)
            if client is not None:
                client.close()
            await wire.send(HTTPStatus.NO_CONTENT)
            return
        try:
            message: Any = decode(body)
        except RemoteProtocolError:
            raise _Refused(HTTPStatus.BAD_REQUEST) from None
        if session and client is None:
            raise _Refused(HTTPStatus.NOT_FOUND)  # MCP: the client then starts a new session
        if client is None and _is_stateless(message):
            await self._answer_stateless(wire, message)
            return
        if client is None:
            if not isinstance(message, dict) or message.get("method") != "initialize":
                raise _Refused(HTTPStatus.BAD_REQUEST)
            session, client = self._new_client()
        answer = await self._handle(client, message)
        if answer is None:
            await wire.send(HTTPStatus.ACCEPTED)
        else:
            await wire.send(HTTPStatus.OK, {**_JSON, SESSION: session}, encode_line(answer))

    async def _answer_stateless(self, wire: _ToolsConnection, message: JsonObject) -> None:
        """Answer a request of a protocol version that has no sessions."""
        if message.get("method") == LISTEN:
            await self._stream(wire, message)
            return
        answer = await self._handle_alone(message)
        if answer is None:
            await wire.send(HTTPStatus.ACCEPTED)
        else:
            failed = "error" in answer and answer["error"].code == UNSUPPORTED_VERSION
            status = HTTPStatus.BAD_REQUEST if failed else HTTPStatus.OK
            await wire.send(status, _JSON, encode_line(answer))

    async def _handle_alone(self, message: JsonObject) -> Message | None:
        """Answer a request without a session, as from a separate client, because ids are per
        client.
        """
        client = self._server.connect(lambda notification: None)
        try:
            return await self._handle(client, message)
        finally:
            client.close()

    async def _stream(self, wire: _ToolsConnection, message: JsonObject) -> None:
        """Send all notifications until the client disconnects; the answer is sent last."""
        to_send, messages = trio.open_memory_channel[Message](MAX_UNREAD_MESSAGES)

        def send(message: Message) -> None:
            """Queue a message; a client that does not read is disconnected."""
            try:
                to_send.send_nowait(message)
            except trio.WouldBlock:
                to_send.close()
            except trio.ClosedResourceError:
                pass  # it was disconnected

        def reply(answer: Message | None) -> None:
            """Queue the answer, which ends the stream."""
            if answer is not None:
                send(answer)
            to_send.close()

        client = self._server.connect(send)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                client.handle(message, self._spawn, reply)
                await wire.begin(_EVENTS)
                nursery.start_soon(wire.wait_for_end, nursery.cancel_scope)
                async for each in messages:
                    await wire.send_piece(b"data: " + encode_line(each) + b"\n")
                await wire.end()
                nursery.cancel_scope.cancel()
        finally:
            client.close()

    async def _handle(self, client: InProcessConnection, message: JsonObject) -> Message | None:
        """Return the answer to the client. Disconnecting does not cancel a call."""
        answered = trio.Event()
        answer: Message | None = None

        def reply(message: Message | None) -> None:
            """Take the answer."""
            nonlocal answer
            answer = message
            answered.set()

        client.handle(message, self._spawn, reply)
        await answered.wait()
        return answer

    def _new_client(self) -> tuple[str, InProcessConnection]:
        """Begin an MCP session and return its id."""
        if len(self._clients) >= MAX_MCP_SESSIONS:
            self._clients.pop(next(iter(self._clients))).close()
        session = secrets.token_urlsafe()
        # There is no stream for notifications; clients list the tools when they connect.
        client = self._clients[session] = self._server.connect(lambda notification: None)
        return session, client


def _is_stateless(message: Any) -> bool:
    """Return True for a request of a revision without sessions."""
    return isinstance(message, dict) and stateless_version(message.get("params")) is not None


class _Refused(Exception):
    """An HTTP status instead of an answer."""

    def __init__(self, status: HTTPStatus, headers: dict[str, str] | None = None) -> None:
        """Refuse with a status and further headers."""
        super().__init__(status.phrase)
        self.status = status
        self.headers = headers or {}


class _Request:
    """The head of a request. A repeated header counts as empty."""

    def __init__(self, event: h11.Request) -> None:
        """Take over the head of a request."""
        self.method = event.method
        self.target = event.target
        self.headers: dict[bytes, bytes] = {}
        for name, value in event.headers:
            self.headers[name] = b"" if name in self.headers else value


class _ToolsConnection(HttpConnection):
    """A client's connection, with its responses."""

    async def head(self) -> _Request | None:
        """Read the next request. Returns None when the client disconnects."""
        event = await self.request()
        return None if event is None else _Request(event)

    async def send(
        self, status: HTTPStatus, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Send a complete response."""
        fields = list((headers or {}).items())
        if status is not HTTPStatus.NO_CONTENT:
            fields.append(("Content-Length", str(len(body))))
        response = h11.Response(status_code=status, reason=status.phrase, headers=fields)
        parts = [response, h11.Data(data=body), h11.EndOfMessage()]
        await self.stream.send_all(b"".join(self.http.send(part) or b"" for part in parts))

    async def begin(self, headers: dict[str, str]) -> None:
        """Start a response that is sent in pieces."""
        fields = [*headers.items(), ("Connection", "close")]
        status = HTTPStatus.OK
        response = h11.Response(status_code=status, reason=status.phrase, headers=fields)
        await self.stream.send_all(self.http.send(response))

    async def send_piece(self, piece: bytes) -> None:
        """Send a piece of the response."""
        await self.stream.send_all(self.http.send(h11.Data(data=piece)) or b"")

    async def end(self) -> None:
        """End the response."""
        await self.stream.send_all(self.http.send(h11.EndOfMessage()) or b"")

    async def wait_for_end(self, scope: trio.CancelScope) -> None:
        """Cancel the scope when the client disconnects. It sends nothing in the meantime."""
        while await self.stream.receive_some(65536):
            pass
        scope.cancel()

    def reusable(self) -> bool:
        """Prepare for another request. Returns False if the connection cannot be reused."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        return True
