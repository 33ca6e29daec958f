"""A site as an ASGI application: another server owns the sockets and passes messages."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

import trio

from .._base.nesting import bare_errors
from .._public import Limits
from .connection import Gone, ViewerConnection
from .connections import Connections
from .frames import Bucket, largest
from .http import (
    RESPONSE_PIECE_BYTES,
    BadRequest,
    HttpRequest,
    HttpResponse,
    check_target,
    read_form,
    response,
)
from .hub import ServedDialect
from .refusal import CloseCode, ConnectionRefusal
from .security import Role
from .stream import CHUNK_BYTES
from .viewer import Viewer

logger = logging.getLogger("agentrt.server")

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]


class Outbox:
    """Sends messages one after another.

    A server may shield its sending (Hypercorn does), so a send to a client that does not read
    cannot be cancelled. Each send therefore runs as a task in `sender`, the nursery of the whole
    request, and the connection waits at most `write_timeout_s` for each `CHUNK_BYTES` of it.
    """

    def __init__(self, send: Send, sender: trio.Nursery, write_timeout_s: float) -> None:
        self._send = send
        self._sender = sender
        self._write_timeout_s = write_timeout_s
        self._waiting: deque[AsgiMessage] = deque()
        self._sending = False
        self._lost = False
        self._more = trio.Event()
        self._empty = trio.Event()

    def put(self, text: bytes) -> None:
        """Queue a text message."""
        self.put_message({"type": "websocket.send", "text": text.decode()})

    def put_message(self, message: AsgiMessage) -> None:
        """Queue an ASGI message."""
        self._waiting.append(message)
        self._more.set()

    @property
    def written(self) -> bool:
        """True if the server has taken everything."""
        return not self._waiting and not self._sending

    async def drained(self) -> None:
        """Wait until the server has taken everything. Cancelling it changes nothing."""
        while not self.written:
            await self._empty.wait()

    async def pump(self) -> None:
        """Send until cancelled.

        Raises `trio.TooSlowError` if the client does not read, `trio.BrokenResourceError` if it is
        gone.
        """
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._waiting:
                self._sending = True
                sent = trio.Event()
                message = self._waiting.popleft()
                self._sender.start_soon(self._send_one, message, sent)
                chunks = 1 + len(message.get("text", "")) // CHUNK_BYTES
                with trio.fail_after(chunks * self._write_timeout_s):
                    await sent.wait()
                if self._lost:
                    raise trio.BrokenResourceError("the client has disconnected")
                self._sending = False
            self._empty.set()
            self._empty = trio.Event()

    async def _send_one(self, message: AsgiMessage, sent: trio.Event) -> None:
        """Send one message, in a separate task, as the server's `send` may not be cancellable."""
        try:
            await self._send(message)
        except Exception:  # the exception type depends on the server
            self._lost = True
        finally:
            sent.set()


class AsgiConnection(ViewerConnection):
    """A WebSocket on a socket of another server."""

    def __init__(
        self,
        receive: Receive,
        outbox: Outbox,
        protocol: str | None,
        dialect: ServedDialect,
        limits: Limits,
        role: Role | None,
    ) -> None:
        """Set up the connection. `protocol`: the accepted subprotocol, if any."""
        super().__init__(outbox, dialect, limits)
        self._receive = receive
        self._outbox = outbox
        self._protocol = protocol
        self._largest = largest(limits, role)
        self._frames = Bucket(limits.ws_frames_per_s, 2 * limits.ws_frames_per_s)
        self._gone = False

    async def _accept(self, nursery: trio.Nursery, headers: list[tuple[bytes, bytes]]) -> None:
        """Accept the WebSocket, and wait until the server has taken the answer."""
        lower = [(name.lower(), value) for name, value in headers]
        self._outbox.put_message(
            {"type": "websocket.accept", "subprotocol": self._protocol, "headers": lower}
        )
        await self._outbox.drained()

    async def _message(self) -> str | bytes:
        """Return the client's next message; empty bytes stand for a binary one, which is refused.

        The server has read the whole message already. Size and rate are checked here, because its
        own limits may be larger.
        """
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._gone = True
            raise Gone
        text: str | None = message.get("text")
        if text is None:
            return b""
        if len(text) > self._largest or len(text.encode()) > self._largest:
            raise ConnectionRefusal(
                CloseCode.TOO_BIG, f"a message may have at most {self._largest} bytes"
            )
        if not self._frames.take(1, trio.current_time()):
            raise ConnectionRefusal(CloseCode.TOO_MANY, "too many frames in too little time")
        return text

    async def _check_alive(self, viewer: Viewer) -> None:
        """The server checks that the client is alive; `Outbox.pump` checks that it reads."""
        await trio.sleep_forever()

    @property
    def _open(self) -> bool:
        return not self._gone

    async def _send_close(self, refusal: ConnectionRefusal) -> None:
        """Queue the close, unless the client has left."""
        await trio.lowlevel.checkpoint()
        if not self._gone:
            self._outbox.put_message(
                {"type": "websocket.close", "code": int(refusal.code), "reason": refusal.reason}
            )


class AsgiHandler:
    """Handles the requests of an ASGI server."""

    def __init__(self, connections: Connections, root: str) -> None:
        """Serve `connections`. `root`: the path where the site is mounted, ending with a slash."""
        self._connections = connections
        self._root = root
        self._limits = connections.limits
        self._count = connections.count

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. An error in it does not affect other requests."""
        async with bare_errors(), trio.open_nursery() as sender:
            try:
                if scope["type"] == "websocket":
                    await self._web_socket(scope, receive, send, sender)
                elif scope["path"] in (self._root[:-1], ""):
                    moved = response(308, headers=(("Location", self._root),))
                    await self._respond(moved, send)
                else:
                    await self._page(scope, receive, send)
            except* trio.TooSlowError:
                self._count.dropped += 1
            except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the client is gone
            except* BadRequest as group:
                for error in group.exceptions:
                    logger.warning("a client was refused: %s", error)
                self._count.refused += 1
                await send({"type": "websocket.close", "code": int(CloseCode.BAD_REQUEST)})
            except* Exception:
                self._count.broken += 1
                logger.exception("a connection broke")
            sender.cancel_scope.cancel()

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request that comes through an ASGI server.

        The limits are those of `ConnectionHandler`: reading the request is bounded in time, and
        only requests without a valid sign-in count as pending while they are answered.
        """
        site = self._connections.site
        request = download = None
        with site.pending.place():
            try:
                with trio.move_on_after(self._limits.ws_handshake_timeout_s):
                    request = await self._read(scope, receive)
                if request is None:
                    return
                answer = site.page(request)
                if site.is_signed_in(request):
                    download = answer
            except BadRequest as error:
                self._connections.refused(error)
                if error.status == 401:
                    await self._connections.slow_down()
                answer = response(error.status, f"{error}\n")
            if download is None:
                await self._respond(answer, send)
        if download is not None:
            with site.downloads.place():
                await self._respond(download, send)

    async def _respond(self, answer: HttpResponse, send: Send) -> None:
        """Send a response. The client must accept each piece within the write deadline."""
        for message in _messages(answer):
            with trio.fail_after(self._limits.ws_write_timeout_s):
                await send(message)

    async def _read(self, scope: Scope, receive: Receive) -> HttpRequest:
        """Return the request, including its form if it has one. Raises `BadRequest`."""
        return await read_form(self._request(scope), partial(_next_body, receive))

    def _request(self, scope: Scope) -> HttpRequest:
        """Return the request as the site knows it, with a path relative to the place where it is
        mounted.

        Servers and frameworks disagree on whether `path` contains `root_path`, so both forms are
        accepted. Subprotocols are in the scope instead of the headers; they may carry a token.
        """
        path, outer = scope["path"], scope.get("root_path", "").rstrip("/")
        if outer and path.startswith(outer + "/"):  # some servers include it in the path
            path = path[len(outer) :]
        elif self._root != "/" and path.startswith(self._root):
            path = path[len(self._root) - 1 :]
        query = scope.get("query_string", b"").decode("latin-1")
        target = quote(path) + ("?" + query if query else "")
        headers = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in scope["headers"]
        ]
        if protocols := scope.get("subprotocols"):
            headers = [each for each in headers if each[0] != "sec-websocket-protocol"]
            headers.append(("sec-websocket-protocol", ", ".join(protocols)))
        return check_target(HttpRequest(scope.get("method", "GET"), target, tuple(headers)))

    async def _web_socket(
        self, scope: Scope, receive: Receive, send: Send, sender: trio.Nursery
    ) -> None:
        """Serve a WebSocket that an ASGI server passes on.

        Until it is admitted it counts as pending, for as long as a handshake may take.
        """
        admitted = None
        with self._connections.site.pending.place():
            connecting = False
            with trio.move_on_after(self._limits.ws_handshake_timeout_s):
                connecting = (await receive())["type"] == "websocket.connect"
            if not connecting:
                return
            request = self._request(scope)
            dialect = self._connections.dialect(request.path)
            offered = dialect.protocol in request.listed("sec-websocket-protocol")
            protocol = dialect.protocol if offered else None
            outbox = Outbox(send, sender, self._limits.ws_write_timeout_s)
            connect = partial(AsgiConnection, receive, outbox, protocol, dialect, self._limits)
            admitted = await self._connections.let_in(request, connect)
        if admitted is not None:
            await self._connections.serve(*admitted, dialect)


def _messages(answer: HttpResponse) -> Iterator[AsgiMessage]:
    """Yield the ASGI messages of a response."""
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers
    ]
    yield {"type": "http.response.start", "status": answer.status, "headers": headers}
    size = len(answer.body)
    for start in range(0, max(size, 1), RESPONSE_PIECE_BYTES):
        end = start + RESPONSE_PIECE_BYTES
        yield {
            "type": "http.response.body",
            "body": answer.body[start:end],
            "more_body": end < size,
        }


async def _next_body(receive: Receive) -> tuple[bytes, bool]:
    """Return the next bytes of a body, and True if more follow."""
    message = await receive()
    if message["type"] != "http.request":
        raise trio.BrokenResourceError("the client has disconnected")
    return message.get("body", b""), message.get("more_body", False)
