"""A relay between an ACP client on standard streams and a server. Each message is forwarded
unchanged over a WebSocket to the server's `/acp`. Requests that the server did not answer before it
ended are answered here.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import trio
from msgspec.structs import asdict
from trio_websocket import ConnectionClosed, WebSocketConnection

from .. import jsonrpc as rpc
from .._public import Limits
from ..errors import RemoteProtocolError
from ..events import JsonObject
from ..jsonrpc import decode_strictly
from .acpmessages import Meta, failed
from .stdio import PeerClosed, StdioPeer

LOST: Final = "the server is gone"


class AcpRelay(StdioPeer):
    """Forwards messages between a client and a server. `defaults`: values for the client's sessions
    that it does not set itself.
    """

    def __init__(self, socket: WebSocketConnection, defaults: Meta, limits: Limits) -> None:
        self._socket = socket
        self._limit = limits.client_message_bytes
        self._close_timeout_s = limits.ws_close_timeout_s
        given = asdict(defaults).items()
        self._defaults: JsonObject = {name: value for name, value in given if value is not None}
        self._open: dict[rpc.Id, None] = {}
        """The client's unanswered requests."""
        self._ours: deque[bytes] = deque()
        """Messages to the client that do not come from the server."""
        self._has_message = trio.Event()
        self._leaving = False

    async def take(self, text: str) -> None:
        """Forward a message to the server. Requests are remembered until they are answered, so that
        they can be failed when the server ends.
        """
        said = _parsed(text)
        if isinstance(said, rpc.JsonRpcRequest):
            if said.method == "session/new" and self._defaults:
                text = self._with_defaults(said)
            self._open[said.id] = None
        if len(text.encode()) > self._limit:
            text = self._shortened(said)
            if not text:
                return
        try:
            await self._socket.send_message(text)
        except ConnectionClosed:
            await trio.sleep_forever()  # `next_message` reports it

    def _with_defaults(self, request: rpc.JsonRpcRequest) -> str:
        """Return the request with the defaults for values that the client leaves out."""
        params = dict(request.params) if isinstance(request.params, dict) else {}
        meta = params.get("_meta")
        meta = dict(meta) if isinstance(meta, dict) else {}
        said = meta.get("agentrt")
        said = said if isinstance(said, dict) else {}
        usual = self._defaults
        if said.get("agent", usual.get("agent")) != usual.get("agent"):
            usual = {}  # a model and a mode belong to one agent
        params["_meta"] = {**meta, "agentrt": {**usual, **said}}
        return rpc.request_line(request.id, request.method, params)[:-1].decode()

    def _shortened(
        self, said: rpc.JsonRpcRequest | rpc.JsonRpcNotification | rpc.JsonRpcResponse | None
    ) -> str:
        """Return a replacement for a message that is too large for the server. Empty if there is
        none; the client gets an error then.
        """
        why = f"the message is larger than the {self._limit} bytes that the server accepts"
        if isinstance(said, rpc.JsonRpcResponse):
            error = rpc.JsonRpcError(rpc.INTERNAL_ERROR, why)
            return rpc.error_line(said.id, error)[:-1].decode()
        id = said.id if isinstance(said, rpc.JsonRpcRequest) else None
        self._open.pop(id, None)
        self._send_to_client(failed(id, rpc.INVALID_REQUEST, why))
        return ""

    def lost(self, why: str) -> None:
        """Answer a line that could not be read with an error, as the server never sees it."""
        self._send_to_client(failed(None, rpc.PARSE_ERROR, why))

    def _send_to_client(self, message: bytes) -> None:
        """Queue a message of the relay itself, and wake `next_message`."""
        self._ours.append(message)
        self._has_message.set()

    async def next_message(self) -> bytes:
        """Return the next message of the relay or the server. Raises `PeerClosed` after the last
        one.
        """
        while not self._ours:
            self._has_message = trio.Event()
            message = await self._received()
            if message is not None:
                said = _parsed(message)
                if isinstance(said, rpc.JsonRpcResponse):
                    self._open.pop(said.id, None)
                return message.encode()
        return self._ours.popleft()

    async def _received(self) -> str | None:
        """Return the server's next message; None if there is a message from the relay itself."""
        message: str | bytes | None = None
        lost = False

        async def receive() -> None:
            """Read one message of the server, and end the wait for messages of the relay.

            Cancelling it loses none: a message is taken only when it is complete.
            """
            nonlocal message, lost
            try:
                message = await self._socket.get_message()
            except ConnectionClosed:
                lost = True
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await self._has_message.wait()
            nursery.cancel_scope.cancel()
        if lost:
            self._end()
        return message if isinstance(message, str) else None

    def _end(self) -> None:
        """Handle the end of the server: fail the open requests, then end."""
        if self._leaving:
            raise PeerClosed
        closed = self._socket.closed
        reason = closed.reason if closed is not None and closed.reason else LOST
        if not self._open:
            raise PeerClosed(reason)
        for id in self._open:
            self._send_to_client(failed(id, rpc.INTERNAL_ERROR, reason))
        self._open.clear()

    async def end_of_input(self) -> None:
        """Close the connection. The client's requests continue on the server."""
        self._leaving = True
        with trio.move_on_after(self._close_timeout_s):
            await self._socket.aclose()


def _parsed(text: str) -> rpc.JsonRpcRequest | rpc.JsonRpcNotification | rpc.JsonRpcResponse | None:
    """Parse a message. Returns None if it is not valid; its recipient reports that."""
    try:
        return rpc.parse(decode_strictly(text))
    except RemoteProtocolError:
        return None
