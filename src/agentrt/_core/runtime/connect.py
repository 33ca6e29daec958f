"""Sessions with remote agents, reached by a connection, such as a WebSocket: each message of
the agent's protocol is then one text frame.
"""

from __future__ import annotations

import inspect
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Unpack, get_args
from urllib.parse import urlsplit

import trio

from ..agents import Agent
from ..agents.agent import ProtocolName
from ..errors import AgentStartError
from ..limits import Limits
from ..process.streams import OpenStreams, Streams
from ..trio_task import check_trio
from .open import open_session
from .options import SessionOptions, check

if TYPE_CHECKING:
    from ..session.session import Session


def connect(
    send: trio.abc.SendStream | OpenStreams,
    receive: trio.abc.ReceiveStream | None = None,
    *,
    name: str = "agent",
    protocol: ProtocolName = "acp",
    **options: Unpack[SessionOptions],
) -> AbstractAsyncContextManager[Session]:
    """Open a session with an agent at the other end of a connection.

    - `send`, `receive`: the two streams of the connection. Or `send` alone: a `trio.abc.Stream`, or
      a function that returns an async context manager for both streams; it is called again to
      reconnect.
    - `name`: name of the agent; `protocol`: its protocol.
    - `options`: as in `open_session`. `cwd` is an absolute path on the agent's machine. `files` and
      `terminals` are off by default, because they would be those of this machine.

    The agent's process is not known here: it cannot be signalled, and neither can programs started
    by it. The end of the connection counts as its exit (status 0; -9 if it was closed from here),
    and ends a turn as `agent_died`. After that, prompts fail unless there is a function to
    reconnect.

    Leaving the block works as with `open_session`, and so do errors. Also raises `TypeError` if the
    arguments are not streams, `ValueError` for an unknown protocol.
    """
    opening: OpenStreams
    if isinstance(send, trio.abc.SendStream):
        if receive is None and isinstance(send, trio.abc.ReceiveStream):
            receive = send
        if not isinstance(receive, trio.abc.ReceiveStream):
            raise TypeError("connect() needs two streams, one that is both, or a function")
        opening = _once(send, receive)
    elif callable(send) and receive is None and not inspect.iscoroutinefunction(send):
        opening = send
    else:
        raise TypeError("connect() needs two streams, one that is both, or a function")
    check("name", name, str, "a string")
    if not name:
        raise ValueError("`name` must not be empty")
    if protocol not in get_args(ProtocolName):
        known = ", ".join(get_args(ProtocolName))
        raise ValueError(f"`protocol` must be one of {known}, not {protocol!r}")
    agent = Agent(name=name, command=(name,), protocol=protocol, connect=opening)
    options.setdefault("files", False)
    options.setdefault("terminals", False)
    return _connected(agent, options)


@asynccontextmanager
async def _connected(agent: Agent, options: SessionOptions) -> AsyncIterator[Session]:
    """Open the session. The caller's task is checked when the block is entered."""
    check_trio("connect")
    async with open_session(agent, **options) as session:
        yield session


def _once(send: trio.abc.SendStream, receive: trio.abc.ReceiveStream) -> OpenStreams:
    """Return a function that yields these streams once, and raises `AgentStartError` later.

    A session connects again after each end of its agent, but two streams are one connection.
    """
    used = False

    @asynccontextmanager
    async def streams() -> AsyncIterator[Streams]:
        """Yield the streams, if they were not used before."""
        nonlocal used
        await trio.lowlevel.checkpoint()
        if used:
            raise AgentStartError(
                "the connection to the agent has ended: give connect() a function that opens one"
            )
        used = True
        yield send, receive

    return streams


HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[^\x00\r\n]*")


def websocket(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    limits: Limits | None = None,
) -> OpenStreams:
    """Return a function that connects to an agent at a WebSocket.

    Pass it to `connect` (or as the `connect` of an `Agent`)::

        far = agentrt.agents.websocket("wss://HOST/acp", headers={"authorization": "Bearer TOKEN"})
        async with agentrt.agents.connect(far, name="far", cwd="/srv/project") as session:
            ...

    - `url`: `ws://…` or `wss://…`.
    - `ssl_context`: for `wss://…`; default: the system's trusted certificates.
    - `headers`: additional headers of the handshake.
    - `limits`: `ws_handshake_timeout_s` limits the time to connect, `message_bytes` the size of a
      message in either direction, `ping_interval_s` the silence of the peer and then the time for
      its answer to a ping, `ws_close_timeout_s` the time to close.

    One message is one text frame, without a trailing newline. A session that is opened again, for
    example after a lost connection, connects again. A refused connection raises `AgentStartError`;
    the reason of a later close becomes part of the turn's error.

    Raises `ValueError` for an invalid URL or header, `TypeError` for a wrong type.
    """
    if not isinstance(url, str):
        raise TypeError(f"a URL must be a string, not {type(url).__name__}")
    _check_headers(headers or {})
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("a WebSocket has a URL such as wss://HOST/PATH; secrets go into `headers`")
    parts.port  # noqa: B018 - raises for an invalid port
    check("limits", limits, Limits | None, "agentrt.Limits(…)")
    check("ssl_context", ssl_context, ssl.SSLContext | None, "an ssl.SSLContext")
    if ssl_context is not None and parts.scheme != "wss":
        raise ValueError("ssl_context is for wss://…: over ws:// nothing is encrypted")
    bounds = limits or Limits()

    def streams() -> AbstractAsyncContextManager[Streams]:
        """Connect. The import is made here, because it takes long."""
        from .websocket_streams import open_websocket_streams

        return open_websocket_streams(parts, headers or {}, bounds, ssl_context)

    return streams


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raise `TypeError` or `ValueError` for headers that cannot be sent.

    A line break in a value would let it add further headers to the request.
    """
    check("headers", headers, Mapping, "a mapping of names to values")
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"a header's name and value are strings: {name!r}")
        # The value is not shown: it may be a secret.
        if not HEADER.fullmatch(name) or not VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r} cannot be sent: it has a character that ends it")
