"""The proxy of a sandbox: HTTP `CONNECT`, plain HTTP and SOCKS5 on one port.

It runs in this process and accepts on a socket that was opened inside the sandbox. It does not look
into encrypted connections: an allowed host is allowed for everything.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
import sys
from typing import Final
from urllib.parse import urlsplit

import trio

from ..logging import get_logger
from .gateway import Gateway
from .hosts import HostRefused, normal_host, split_authority

logger = get_logger("sandbox")

MAX_HEAD_BYTES: Final = 64 * 1024
HEAD_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 30.0
MAX_CONNECTIONS: Final = 512
_COPY_BYTES: Final = 256 * 1024
_REQUEST: Final = re.compile(rb"([A-Z]{1,20}) (\S+) HTTP/1\.[01]")
_SOCKS: Final = 5


class _BadRequest(Exception):
    """The client does not follow the protocol of a proxy."""


async def serve_proxy(
    listener: trio.SocketListener, gateway: Gateway, *, own: bool = False
) -> None:
    """Serve the proxy until cancelled. `own`: serve only programs of this user."""
    limiter = trio.CapacityLimiter(MAX_CONNECTIONS)

    async def handle(stream: trio.SocketStream) -> None:
        """Serve one connection, if the client may use the proxy.

        With `own` the proxy listens on this machine, where other users could connect to it.
        """
        async with limiter:
            if own and not await trio.to_thread.run_sync(_is_of_this_user, stream):
                await stream.aclose()
                return
            await _contained(stream, gateway)

    await trio.serve_listeners(handle, [listener])


def _is_of_this_user(stream: trio.SocketStream) -> bool:
    """Return True if the client of a loopback connection runs as this user. Blocks."""
    here, there = (
        f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"
        for host, port in (stream.socket.getsockname(), stream.socket.getpeername())
    )
    with open("/proc/net/tcp") as table:
        found = (line.split() for line in table)
        return any(line[1:3] == [there, here] and int(line[7]) == os.getuid() for line in found)


async def serve_port(listener: trio.SocketListener, port: int) -> None:
    """Connect a port inside with the port of this machine, until cancelled.

    Some services listen on only one of IPv4 and IPv6.
    """

    async def handle(stream: trio.SocketStream) -> None:
        """Connect a client inside with the service on this machine."""
        try:
            async with stream:
                try:
                    far = await trio.open_tcp_stream("127.0.0.1", port)
                except OSError:
                    far = await trio.open_tcp_stream("::1", port)
                async with far:
                    await _copy_both(stream, far)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the service does not run, or one side has gone

    await trio.serve_listeners(handle, [listener])


async def _contained(stream: trio.SocketStream, gateway: Gateway) -> None:
    """Serve a client; its failure does not affect others."""
    try:
        async with stream:
            first = b""
            with trio.move_on_after(HEAD_TIMEOUT_S):
                first = await stream.receive_some(_COPY_BYTES)
            if first[:1] == bytes([_SOCKS]):
                await _serve_socks(_ClientReader(stream, first), gateway)
            elif first:
                await _serve_http(_ClientReader(stream, first), gateway)
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, _BadRequest):
        pass
    except Exception:
        logger.exception("a connection of the sandbox's proxy failed")


class _ClientReader:
    """Reads from a stream that has a beginning already."""

    def __init__(self, stream: trio.SocketStream, first: bytes) -> None:
        """`first`: the bytes that were read to recognize the protocol."""
        self.stream = stream
        self.data = first

    async def exactly(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises `_BadRequest` if the client ends or is silent."""
        while len(self.data) < size:
            await self._more()
        found, self.data = self.data[:size], self.data[size:]
        return found

    async def head(self) -> bytes:
        """Return the head of an HTTP request without its empty line; what follows stays in `data`.

        Raises `_BadRequest` if it is too long.
        """
        while b"\r\n\r\n" not in self.data:
            if len(self.data) > MAX_HEAD_BYTES:
                raise _BadRequest
            await self._more()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        return head

    async def _more(self) -> None:
        """Read more. Raises `_BadRequest` at the end, or after `HEAD_TIMEOUT_S` seconds."""
        with trio.move_on_after(HEAD_TIMEOUT_S):
            more = await self.stream.receive_some(_COPY_BYTES)
            if more:
                self.data += more
                return
        raise _BadRequest


async def _dial(gateway: Gateway, host: str, port: int) -> trio.SocketStream:
    """Connect to a host that is allowed. Raises `HostRefused` or OSError."""
    by_person = await gateway.check(host, port)
    problem: OSError | None = None
    for address in await gateway.resolve(host, port, by_person=by_person):
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                return await gateway.dial(address, port)
        except OSError as error:
            problem = error
        except trio.TooSlowError as error:
            problem = OSError(f"{host}:{port} does not answer")
            problem.__cause__ = error
    raise problem or OSError(f"{host}:{port} has no address")


# --- HTTP


async def _serve_http(reader: _ClientReader, gateway: Gateway) -> None:
    """Serve one HTTP client: a tunnel for CONNECT, otherwise one forwarded request.

    A refused host is answered with status 403, an unreachable one with 502.
    """
    head = await reader.head()
    lines = head.split(b"\r\n")
    request = _REQUEST.fullmatch(lines[0])
    if request is None:
        await _refuse(reader.stream, 400, "this is an HTTP proxy: the request line is not valid")
        return
    method, target = request[1].decode(), request[2].decode("latin-1")
    try:
        if method == "CONNECT":
            (host, port), path = split_authority(target), None
        else:
            host, port, path = _plain_target(target)
        far = await _dial(gateway, host, port)
    except HostRefused as error:
        await _refuse(reader.stream, 403, f"sandbox: {error}")
        return
    except OSError as error:
        await _refuse(reader.stream, 502, f"sandbox: the host cannot be reached: {error}")
        return
    async with far:
        if path is None:
            await reader.stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await far.send_all(reader.data)
        else:
            begin = f"{method} {path} HTTP/1.1".encode()
            await far.send_all(_forwarded(begin, lines[1:], host, port) + reader.data)
        await _copy_both(reader.stream, far)


def _plain_target(target: str) -> tuple[str, int, str]:
    """Return host, port and path of a request for a plain HTTP page. Raises `HostRefused`."""
    if "\\" in target or not target.isascii():
        raise HostRefused("the address can be read in more than one way")
    try:
        url = urlsplit(target)
    except ValueError as error:
        raise HostRefused(f"the address is not valid: {error}") from None
    if url.scheme.lower() != "http" or not url.netloc:
        raise HostRefused("only http:// addresses can be requested without CONNECT")
    host, port = split_authority(url.netloc, 80)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return host, port, path


def _forwarded(begin: bytes, lines: list[bytes], host: str, port: int) -> bytes:
    """Return the head of a request for the server itself.

    One request is sent per connection, because the next one could name another host. The host
    header is that of the judged address.
    """
    dropped = (b"proxy-", b"connection:", b"keep-alive:", b"host:", b"upgrade:")
    kept = [
        line
        for line in lines
        if line[:1] not in (b" ", b"\t") and not line.lower().startswith(dropped)
    ]
    name = f"[{host}]" if ":" in host else host
    shown = name if port == 80 else f"{name}:{port}"
    own = [f"Host: {shown}".encode(), b"Connection: close"]
    return b"\r\n".join([begin, *own, *kept]) + b"\r\n\r\n"


async def _refuse(stream: trio.SocketStream, status: int, text: str) -> None:
    """Answer an HTTP request with an error page.

    The text is for the model, which may see it in the output of its command.
    """
    body = f"{text}\n".encode()
    reasons = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}
    head = (
        f"HTTP/1.1 {status} {reasons[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"X-Proxy-Error: {'blocked-by-agentrt' if status == 403 else 'failed'}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    await stream.send_all(head.encode() + body)


# --- SOCKS5


_REFUSED: Final = 2
_UNREACHABLE: Final = 4
_NOT_SUPPORTED: Final = 7
_BAD_ADDRESS: Final = 8


async def _serve_socks(reader: _ClientReader, gateway: Gateway) -> None:
    """Serve one SOCKS 5 client without authentication; the only command is CONNECT."""
    _, count = await reader.exactly(2)
    methods = await reader.exactly(count)
    if 0 not in methods:
        await reader.stream.send_all(bytes([_SOCKS, 0xFF]))
        return
    await reader.stream.send_all(bytes([_SOCKS, 0]))
    _, command, _, kind = await reader.exactly(4)
    try:
        host = await _socks_host(reader, kind)
        (port,) = struct.unpack("!H", await reader.exactly(2))
        if command != 1:
            await _reply_socks(reader.stream, _NOT_SUPPORTED)
            return
        far = await _dial(gateway, normal_host(host), port)
    except HostRefused:
        await _reply_socks(reader.stream, _REFUSED)
        return
    except OSError:
        await _reply_socks(reader.stream, _UNREACHABLE)
        return
    async with far:
        await _reply_socks(reader.stream, 0)
        await far.send_all(reader.data)
        await _copy_both(reader.stream, far)


async def _socks_host(reader: _ClientReader, kind: int) -> str:
    """Return the host of a request by the type of its address (RFC 1928, section 5).

    1: IPv4, 3: a name with its length before it, 4: IPv6. Another type is answered with an error,
    and raises `_BadRequest`.
    """
    match kind:
        case 1:
            return str(ipaddress.IPv4Address(await reader.exactly(4)))
        case 3:
            (size,) = await reader.exactly(1)
            return (await reader.exactly(size)).decode("ascii", "replace")
        case 4:
            return f"[{ipaddress.IPv6Address(await reader.exactly(16))}]"
        case _:
            await _reply_socks(reader.stream, _BAD_ADDRESS)
            raise _BadRequest


async def _reply_socks(stream: trio.SocketStream, status: int) -> None:
    """Answer a request with a status (RFC 1928, section 6).

    The bound address after it is always 0.0.0.0:0.
    """
    await stream.send_all(bytes([_SOCKS, status, 0, 1, 0, 0, 0, 0, 0, 0]))


# --- data


async def _copy_both(near: trio.SocketStream, far: trio.SocketStream) -> None:
    """Copy in both directions until both sides have ended."""

    async def copy(source: trio.SocketStream, sink: trio.SocketStream) -> None:
        """Copy one direction.

        The end is passed on alone, since the other direction may have more data.

        An error ends both directions.
        """
        try:
            while data := await source.receive_some(_COPY_BYTES):
                await sink.send_all(data)
            await sink.send_eof()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(copy, near, far)
        nursery.start_soon(copy, far, near)
