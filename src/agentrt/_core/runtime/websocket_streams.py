"""The connection to an agent at a WebSocket, as streams of lines.

Imported when a connection is opened, because trio-websocket takes long to import.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import SplitResult

import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
)

from ..._base.nesting import bare_errors
from ..._base.websocket import open_websocket
from ..errors import AgentStartError
from ..limits import Limits
from ..process.streams import Streams

NORMAL = (1000, 1001)
"""Close codes of a normal end: the peer is done, or is going away."""


@asynccontextmanager
async def open_websocket_streams(
    parts: SplitResult,
    headers: Mapping[str, str],
    limits: Limits,
    ssl_context: ssl.SSLContext | None,
) -> AsyncIterator[Streams]:
    """Connect to an agent, and yield the connection as two streams of lines.

    Raises `AgentStartError` if it cannot be reached.
    """
    where = f"{parts.scheme}://{parts.netloc}{parts.path}"
    async with AsyncExitStack() as stack:
        opening = open_websocket(
            parts,
            headers,
            handshake_timeout_s=limits.ws_handshake_timeout_s,
            close_timeout_s=limits.ws_close_timeout_s,
            message_bytes=limits.message_bytes,
            context=ssl_context,
        )
        try:
            socket = await stack.enter_async_context(opening)
        except trio.TooSlowError as error:
            raise AgentStartError(f"the agent at {where} does not answer") from error
        except ConnectionRejected as error:
            why = f"the server answers {error.status_code}"
            raise AgentStartError(f"no agent can be reached at {where}: {why}") from error
        except (HandshakeError, OSError, trio.BrokenResourceError) as error:
            why = str(error) or str(error.__cause__ or type(error).__name__)
            raise AgentStartError(f"no agent can be reached at {where}: {why}") from error
        stream = MessageStream(socket)
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(stream.watch, limits.ping_interval_s)
            yield stream, stream
            nursery.cancel_scope.cancel()


class MessageStream(trio.abc.Stream):
    """A WebSocket as a stream of lines: text up to a newline is sent as one message."""

    def __init__(self, socket: WebSocketConnection) -> None:
        """`socket`: an open connection. `watch` must run as long as it is used."""
        self._socket = socket
        self._unsent = bytearray()
        self._unread = bytearray()
        self._silent = False

    async def watch(self, seconds: float) -> None:
        """Ping the peer until it is gone; one that does not answer in time is treated as gone."""
        while True:
            await trio.sleep(seconds)
            try:
                with trio.fail_after(seconds):
                    await self._socket.ping()
            except ConnectionClosed:
                return
            except trio.TooSlowError:
                self._silent = True
                await self._socket.aclose()  # the reader is notified; the block limits the rest

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As `trio.abc.SendStream.send_all`."""
        self._unsent += data
        try:
            while (end := self._unsent.find(b"\n")) >= 0:
                line = self._unsent[:end].decode("utf-8", "replace")
                del self._unsent[: end + 1]
                await self._socket.send_message(line)
        except ConnectionClosed as error:
            raise trio.BrokenResourceError(self._why(error)) from error

    async def wait_send_all_might_not_block(self) -> None:
        """As `trio.abc.SendStream.wait_send_all_might_not_block`."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """As `trio.abc.ReceiveStream.receive_some`."""
        if not self._unread:
            try:
                message = await self._socket.get_message()
            except ConnectionClosed as error:
                if not self._silent and getattr(error.reason, "code", None) in NORMAL:
                    return b""
                raise trio.BrokenResourceError(self._why(error)) from error
            data = message.encode("utf-8", "replace") if isinstance(message, str) else message
            # Between the parts of a message a newline is white space; within them it does not
            # occur.
            self._unread += data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
        else:
            await trio.lowlevel.checkpoint()
        taken = bytes(self._unread[:max_bytes])
        del self._unread[: len(taken)]
        return taken

    async def aclose(self) -> None:
        """Close the WebSocket."""
        await self._socket.aclose()

    def _why(self, error: ConnectionClosed) -> str:
        """Return the reason why the connection has ended, for the error of a turn."""
        if self._silent:
            return "the connection was silent: no ping was answered"
        reason = error.reason
        if reason is None:
            return "the connection was cut"
        said = f": {reason.reason}" if reason.reason else ""
        return f"the connection was closed ({reason.code} {reason.name}){said}"
