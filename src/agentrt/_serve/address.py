"""Addresses of servers, as people write them."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

SECURE: Final = {"http": False, "ws": False, "https": True, "wss": True}


class ServerAddress(Struct, frozen=True):
    """The address of a server.

    `place`: its host and port, as in a URL. `root`: the path below which a proxy serves it, without
    a slash at the end; empty if there is none.
    """

    place: str
    secure: bool = False
    root: str = ""

    def __str__(self) -> str:
        return f"{self.origin}{self.root}"

    @property
    def origin(self) -> str:
        """The address without the path."""
        return f"{'https' if self.secure else 'http'}://{self.place}"

    @property
    def is_private(self) -> bool:
        """True if no other machine can read messages to the server: it is local or uses TLS."""
        host = urlsplit(f"//{self.place}").hostname or ""
        try:
            return self.secure or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    def at(self, path: str) -> str:
        """Return the URL of a WebSocket."""
        return f"{'wss' if self.secure else 'ws'}://{self.place}{self.root}{path}"


def address(url: str) -> ServerAddress:
    """Return the server of a URL; HOST:PORT is enough. Raises `ValueError`."""
    wrong = f"{url!r} is not a server URL such as http://127.0.0.1:8000"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        parts.port  # noqa: B018 - raises for an invalid port
    except ValueError as error:
        raise ValueError(f"{wrong}: {error}") from error
    if parts.scheme not in SECURE or not parts.hostname or "@" in parts.netloc:
        raise ValueError(wrong)
    return ServerAddress(parts.netloc.lower(), SECURE[parts.scheme], parts.path.rstrip("/"))
