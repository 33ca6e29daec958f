"""An agent reached by a WebSocket: each message of its protocol is one text frame."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from ..limits import Limits
from ..process.streams import OpenStreams, Streams
from .options import check

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
    - `limits`: `ws_handshake` limits the time to connect, `line` the size of a message in either
      direction, `ping` the silence of the peer and then the time for its answer to a ping,
      `ws_close` the time to close.

    One message is one text frame, without a trailing newline. A session that is opened again, for
    example after a lost connection, connects again. A refused connection raises `AgentStartError`;
    the reason of a later close becomes part of the turn's error.

    Raises `ValueError` for an invalid URL or header, `TypeError` for a wrong type.
    """
    if not isinstance(url, str):
        raise TypeError(f"a URL is a string, not {type(url).__name__}")
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
        from .websocket_streams import open_websocket_streams

        return open_websocket_streams(parts, headers or {}, bounds, ssl_context)

    return streams


def _check_headers(headers: Mapping[str, str]) -> None:
    check("headers", headers, Mapping, "a mapping of names to values")
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"a header's name and value are strings: {name!r}")
        # The value is not shown: it may be a secret.
        if not HEADER.fullmatch(name) or not VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r} cannot be sent: it has a character that ends it")
