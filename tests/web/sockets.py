"""A site on loopback with viewers of our own, and a client that writes its frames by hand.

The site of `agentrt.web.serve` has a hub of its own; here the test has the hub, or none. There is
also one without a port, whose clients are connected in memory, and its meter of frames: a socket
does not let a client choose the pieces in which bytes arrive.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any
from unittest.mock import patch

import trio
from msgspec import structs

from agentrt import Limits
from agentrt._serve.connections import Connections
from agentrt._serve.frames import Bucket, Meter
from agentrt._serve.handler import ConnectionHandler
from agentrt._serve.http import RESPONSE_PIECE_BYTES, load_page
from agentrt._serve.refusal import CloseCode, ConnectionRefusal
from agentrt._serve.security import Grant, redeem_ticket
from agentrt._serve.server import open_site
from agentrt._serve.site import SiteServer
from agentrt.web import Role, Security, Site

TOKEN = "the-token-of-the-controllers"
WATCH = "the-token-of-the-viewers"

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class Echo:
    """A viewer that answers each message with it, and with nothing else of its own accord."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.heard: list[str] = []
        self.closed = False
        self.send, self.frames = trio.open_memory_channel[bytes | Exception](10_000)

    def receive(self, text: str) -> None:
        self.heard.append(text)
        if text == "raise":
            raise RuntimeError("a mistake in what serves this client")
        if not text.startswith("quiet"):
            self.send.send_nowait(text.encode())

    def connect(self, outlet: object) -> None:
        pass

    async def caught_up(self) -> None:
        await trio.lowlevel.checkpoint()

    async def next_frame(self) -> bytes:
        frame = await self.frames.receive()
        if isinstance(frame, Exception):
            raise frame
        return frame

    def close(self) -> None:
        self.closed = True


class Echoes:
    """A hub of such viewers."""

    def __init__(self) -> None:
        self.viewers: list[Echo] = []

    def attach_viewer(self, dialect: object, *, role: Role) -> Echo:
        self.viewers.append(Echo(role))
        return self.viewers[-1]

    @property
    def last(self) -> Echo:
        return self.viewers[-1]


@asynccontextmanager
async def site(
    hub: Any = None,
    *,
    limits: Limits | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    security: Security | None = None,
    tls: ssl.SSLContext | None = None,
    serves_clients: bool = True,
    not_ready_reason: Callable[[], str | None] | None = None,
    metrics: Callable[[], bytes] | None = None,
    **bounds: Any,
) -> AsyncIterator[Site]:
    """A site for viewers of ours, or those of a hub; `bounds` change its limits."""
    limits = structs.replace(limits or Limits(), **bounds)
    security = security or Security(token=TOKEN, viewer_token=WATCH)
    hub = hub if hub is not None else Echoes()
    async with open_site(
        hub,
        limits,
        host,
        port,
        security,
        tls,
        serves_clients=serves_clients,
        not_ready_reason=not_ready_reason,
        metrics=metrics,
    ) as running:
        yield running


def replaced() -> Exception:
    """The end of a connection whose client has connected again."""
    return ConnectionRefusal(CloseCode.REPLACED, "connected again")


def everybody_is_let_in() -> AbstractContextManager[object]:
    """Let each site take whoever comes for a controller, in the block."""
    return patch.object(SiteServer, "admit", lambda *args: Grant(TOKEN, "controller"))


PIECE_BYTES = RESPONSE_PIECE_BYTES
"""Bytes of a response that are written at once."""


def page_files() -> dict[str, bytes]:
    """The files of the page, by their paths."""
    return {path: file.body for path, file in load_page().items()}


class Served:
    """A site without a port; its clients are connected in memory."""

    def __init__(self, **limits: float) -> None:
        self.limits = structs.replace(Limits(), **limits)
        security = Security(token=TOKEN)
        self.site = SiteServer(security, "127.0.0.1", 1, self.limits, tls=False)
        hub: Any = Echoes()
        self._handler = ConnectionHandler(Connections(self.site, hub, self.limits, {}))
        granted = redeem_ticket(security, self.site.link().partition("t=")[2])
        assert granted is not None
        self._cookie = granted.cookie

    async def handle(self, stream: trio.abc.Stream) -> None:
        await self._handler.handle(stream)

    def request(self, path: str, *, signed_in: bool = True) -> bytes:
        lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1:1"]
        if signed_in:
            lines.append(f"Cookie: agentrt-1={self._cookie}")
        return "\r\n".join((*lines, "", "")).encode()


def bucket_of(rate: float, burst: int) -> Bucket:
    """A bucket that bounds the frames of a client."""
    return Bucket(rate, burst)


def metered(pieces: Iterable[bytes], message_bytes: int) -> tuple[int, list[int]]:
    """Return how many frames count in these pieces, of ten, and the codes of their refusals."""
    bucket = Bucket(0, 10)
    meter, refusals = Meter(message_bytes, bucket), list[int]()
    for piece in pieces:
        try:
            meter.feed(piece, 0.0)
        except ConnectionRefusal as refusal:
            refusals.append(refusal.code)
    left = 0
    while bucket.take(1, 0.0):
        left += 1
    return 10 - left, refusals


def offer(token: str = TOKEN) -> str:
    coded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return f"agentrt.v1, agentrt.token.{coded}"


def frame(
    payload: bytes | str = b"",
    opcode: int = TEXT,
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bytes | None = b"\1\2\3\4",
) -> bytes:
    """A client's frame; without a mask a forbidden one."""
    data = payload.encode() if isinstance(payload, str) else payload
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    bit = 0 if mask is None else 0x80
    if len(data) < 126:
        head = bytes((first, bit | len(data)))
    elif len(data) < 1 << 16:
        head = struct.pack("!BBH", first, bit | 126, len(data))
    else:
        head = struct.pack("!BBQ", first, bit | 127, len(data))
    if mask is None:
        return head + data
    key = mask * (len(data) // 4 + 1)
    masked = (int.from_bytes(data, "big") ^ int.from_bytes(key[: len(data)], "big")).to_bytes(
        len(data), "big"
    )
    return head + mask + masked


def handshake(port: int, *, target: str = "/ws", **headers: str | None) -> bytes:
    """The head of an upgrade request; a header given as None is left out."""
    fields: dict[str, str | None] = {
        "host": f"127.0.0.1:{port}",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
        "sec-websocket-protocol": offer(),
    }
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join((f"GET {target} HTTP/1.1", *lines, "", "")).encode()


class Client:
    """One TCP connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.head = b""
        self._data = bytearray()
        self._messages: deque[Any] = deque()

    async def _need(self, size: int) -> None:
        while len(self._data) < size:
            data = await self.stream.receive_some(65536)
            if not data:
                raise EOFError(bytes(self._data))
            self._data += data

    def _take(self, size: int) -> bytes:
        taken = bytes(self._data[:size])
        del self._data[:size]
        return taken

    async def read_head(self) -> int:
        """The status of an HTTP response, whose head is then in `head`."""
        while (at := self._data.find(b"\r\n\r\n")) < 0:
            await self._need(len(self._data) + 1)
        self.head = self._take(at + 4)
        return int(self.head.split()[1])

    async def read_rest(self) -> bytes:
        """All that comes until the other side closes."""
        while data := await self.stream.receive_some(65536):
            self._data += data
        return self._take(len(self._data))

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: its opcode and payload. The server never fragments."""
        await self._need(2)
        first, size = self._data[0], self._data[1]
        assert first & 0xF0 == 0x80
        assert size < 128, "a server does not mask"
        extended = {126: 2, 127: 8}.get(size, 0)
        await self._need(2 + extended)
        if extended:
            size = int.from_bytes(self._data[2 : 2 + extended], "big")
        await self._need(2 + extended + size)
        self._take(2 + extended)
        return first & 15, self._take(size)

    async def text(self) -> str:
        opcode, payload = await self.frame()
        while opcode == PING:  # the server asks whether this side, or the machine, is only slow
            await self.send(frame(payload, PONG))
            opcode, payload = await self.frame()
        assert opcode == TEXT, (opcode, payload)
        return payload.decode()

    async def message(self) -> Any:
        """The next object; arrays are taken apart."""
        while not self._messages:
            value = json.loads(await self.text())
            self._messages.extend(value if isinstance(value, list) else [value])
        return self._messages.popleft()

    async def until_closed(self) -> tuple[list[tuple[int, bytes]], int | None]:
        """The frames before the close frame, and its code; None if it never came."""
        frames = []
        while True:
            try:
                opcode, payload = await self.frame()
            except (EOFError, trio.BrokenResourceError):
                return frames, None
            if opcode == CLOSE:
                return frames, int.from_bytes(payload[:2], "big") if payload else 1005
            frames.append((opcode, payload))

    async def refusal(self) -> tuple[int | None, str]:
        """The code and the reason that the server closes with, which must agree with each other;
        answers the close."""
        frames, code = await self.until_closed()
        closing = [json.loads(data) for opcode, data in frames if opcode == TEXT]
        assert closing, f"closed with {code} without a word"
        assert closing[-1]["type"] == "closing"
        if code is not None:
            await self.send(frame(struct.pack("!H", code), CLOSE))
            assert await self.read_rest() == b""
        return code, closing[-1]["reason"]


@asynccontextmanager
async def connect(port: int, address: str = "127.0.0.1") -> AsyncIterator[Client]:
    stream = await trio.open_tcp_stream(address, port)
    try:
        yield Client(stream)
    finally:
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def websocket(
    port: int,
    *,
    address: str = "127.0.0.1",
    more: bytes = b"",
    target: str = "/ws",
    **headers: str | None,
) -> AsyncIterator[Client]:
    """A WebSocket whose handshake was answered; `more` is sent in one piece with it."""
    async with connect(port, address) as client:
        await client.send(handshake(port, target=target, **headers) + more)
        assert await client.read_head() == 101, client.head
        yield client


async def get(port: int, target: str = "/", method: str = "GET", **headers: str) -> Client:
    """A plain request; its answer is read to the end, the body is in `head` behind the head."""
    fields = {"host": f"127.0.0.1:{port}"} | {k.replace("_", "-"): v for k, v in headers.items()}
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
    async with connect(port) as client:
        await client.send("\r\n".join(lines).encode())
        await client.read_head()
        client.head += await client.read_rest()
        return client


async def post(port: int, body: str, target: str = "/", **headers: str) -> Client:
    """The form of the page for the token, as `get`."""
    type = "application/x-www-form-urlencoded"
    fields = {"host": f"127.0.0.1:{port}", "content-type": type, "content-length": str(len(body))}
    lines = [f"{k}: {v}" for k, v in (fields | headers).items()]
    async with connect(port) as client:
        await client.send("\r\n".join([f"POST {target} HTTP/1.1", *lines, "", body]).encode())
        await client.read_head()
        client.head += await client.read_rest()
        return client


def status(client: Client) -> int:
    return int(client.head.split()[1])


def header(client: Client, name: str) -> str | None:
    for line in client.head.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name.lower():
            return value.strip()
    return None
