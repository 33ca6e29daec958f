"""One end of a JSON-RPC connection: the agent's to its client, and to an MCP server.

Lines are written by one task only, which lives longer than any turn: if a turn wrote its own lines,
its cancellation could leave half a line in the pipe. So `notify` and the other methods only append,
and a task that sends much waits for `room`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from .. import jsonrpc
from .._base.nesting import open_service_nursery
from ..errors import RemoteProtocolError
from ..jsonrpc import Id, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, Lines, decode

JsonObject = dict[str, Any]

MAX_QUEUED_BYTES = 256 * 1024
"""Bytes that may be queued for a slow peer before senders have to wait."""
READ_BYTES = 64 * 1024
FLUSH_TIMEOUT_S = 1.0
"""Seconds for the last messages to be sent at the end."""

RESOURCE_NOT_FOUND, REQUEST_CANCELLED = -32002, -32800


class DemoRpcError(Exception):
    """An error answer, given or received."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: jsonrpc.JsonRpcError = jsonrpc.JsonRpcError(code, message, data)


def _gone() -> DemoRpcError:
    """Return the error for a request to a peer that has disconnected."""
    return DemoRpcError(jsonrpc.INTERNAL_ERROR, "the other side is gone")


class DemoConnection:
    """Both directions. `cancel_method` is the notification that withdraws one of our requests."""

    def __init__(
        self,
        incoming: trio.abc.ReceiveStream,
        outgoing: trio.abc.SendStream,
        cancel_method: str = "$/cancel_request",
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._cancel_method = cancel_method
        self._lines = Lines()
        self._outbox = bytearray()
        self._writing = False
        self._filled = trio.Event()
        self._sent = trio.lowlevel.ParkingLot()
        self._calls: dict[Id, trio.MemorySendChannel[JsonRpcResponse]] = {}
        self._next_id = 0
        self._gone = False

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write the queued messages while the block runs, also if it is cancelled, and up to
        `FLUSH_TIMEOUT_S` seconds longer."""
        async with open_service_nursery() as service:
            service.start_soon(self._write)
            try:
                yield
            finally:
                with trio.move_on_after(FLUSH_TIMEOUT_S, shield=True):
                    await self.drained()

    # --- sending

    def notify(self, method: str, params: JsonObject) -> None:
        """Queue a notification."""
        self._send(jsonrpc.notification_line(method, params))

    def reply(self, id: Id, result: JsonObject) -> None:
        """Queue the result of a request."""
        self._send(jsonrpc.result_line(id, result))

    def refuse(self, id: Id, error: DemoRpcError) -> None:
        """Queue the error answer to a request."""
        self._send(jsonrpc.error_line(id, error.error))

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request to the other side and return its result.

        Raises `DemoRpcError` if it answers with an error, or has disconnected. Cancelling withdraws
        the request; a late answer is ignored.
        """
        id, self._next_id = self._next_id, self._next_id + 1
        if self._gone:
            raise _gone()
        self._calls[id], answer = trio.open_memory_channel[JsonRpcResponse](1)
        self._send(jsonrpc.request_line(id, method, params))
        try:
            response = await answer.receive()
        except trio.EndOfChannel:
            raise _gone() from None
        except trio.Cancelled:
            self.notify(self._cancel_method, {"requestId": id})
            raise
        finally:
            self._calls.pop(id, None)
        if error := response.error:
            raise DemoRpcError(error.code, error.message, error.data)
        return response.result if isinstance(response.result, dict) else {}

    async def room(self) -> None:
        """Wait until a slow peer has read most of the queued messages."""
        await trio.lowlevel.checkpoint()
        while len(self._outbox) > MAX_QUEUED_BYTES:
            await self._sent.park()

    async def drained(self) -> None:
        """Wait until all queued messages are in the pipe."""
        while self._outbox or self._writing:
            await self._sent.park()

    async def write_raw(self, data: bytes) -> None:
        """Write bytes that are not a line, after everything else. Only a requested crash needs
        this."""
        await self.drained()
        await self._outgoing.send_all(data)

    def _send(self, line: bytes) -> None:
        """Queue a line for the writer."""
        self._outbox += line
        self._filled.set()

    async def _write(self) -> None:
        """Run the writer. The reader notices if the peer has disconnected."""
        while True:
            await self._filled.wait()
            self._filled = trio.Event()
            batch, self._outbox = self._outbox, bytearray()
            self._writing = True
            try:
                await self._outgoing.send_all(batch)
            except trio.BrokenResourceError:
                self._outbox.clear()
            finally:
                self._writing = False
                self._sent.unpark_all()

    # --- receiving

    async def receive(self) -> list[JsonRpcRequest | JsonRpcNotification] | None:
        """Return the requests and notifications of the next read; None if the other side has
        disconnected.

        Answers are passed to the tasks that wait for them. Invalid messages are answered here.
        """
        try:
            data = bytes(await self._incoming.receive_some(READ_BYTES))
        except trio.BrokenResourceError:
            data = b""
        if not data:
            self._gone = True
            for call in self._calls.values():
                call.close()
            return None
        lines = self._lines.feed(data).split(b"\n")
        messages = [self._read(line) for line in lines if line.strip()]
        for size in self._lines.oversized:
            error = DemoRpcError(jsonrpc.INVALID_REQUEST, f"A line of {size} bytes is too long")
            self.refuse(None, error)
        self._lines.oversized.clear()
        return [message for message in messages if message is not None]

    def _read(self, line: bytes | bytearray) -> JsonRpcRequest | JsonRpcNotification | None:
        """Parse a line. Returns None for an answer, which goes to its request, and for an invalid
        line, which is answered.
        """
        code = jsonrpc.PARSE_ERROR
        try:
            message: object = decode(line)
            code = jsonrpc.INVALID_REQUEST
            parsed = jsonrpc.parse(message)
        except RemoteProtocolError as error:
            self.refuse(None, DemoRpcError(code, str(error)))
            return None
        if not isinstance(parsed, JsonRpcResponse):
            return parsed
        call = self._calls.pop(parsed.id, None)
        if call is not None:
            call.send_nowait(parsed)
        return None  # an answer without a waiting task is late and can be ignored
