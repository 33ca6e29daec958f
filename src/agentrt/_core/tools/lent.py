"""Servers of the package `mcp`, which a program may provide in addition to tools."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from msgspec import Struct

from ..permissions.mcp_calls import OWN_NAME as OWN_NAME
from .tools import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp.server import Server

_MAX_NAME_CHARS: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class McpServer(Protocol):
    """A server of the package `mcp`: an `mcp.server.MCPServer`, or an `mcp.server.Server`."""

    @property
    def name(self) -> str:
        """The server's own name."""
        ...

    @property
    def instructions(self) -> str | None:
        """The server's instructions for clients."""
        ...


class ProvidedServer(Struct, frozen=True):
    """A server, and its name for agents."""

    name: str
    server: Server[Any]
    run: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]] | None = None
    """Runs the server outside Trio."""

    @property
    def instructions(self) -> str | None:
        """The server's instructions for clients."""
        return self.server.instructions


Provided: TypeAlias = Tool | ProvidedServer
Tools: TypeAlias = "Iterable[Tool | McpServer] | McpServer"
"""The tools and servers accepted by `open_session`."""


def as_provided_server(value: object) -> ProvidedServer | None:
    """Return the server, or None if the value is not one.

    Raises `TypeError` for a server that cannot be served, with the remedy, and `ValueError` for one
    without a usable name.
    """
    if isinstance(value, ProvidedServer):
        return value
    packages = {each.__module__.partition(".")[0] for each in type(value).__mro__}
    if not packages & {"mcp", "fastmcp"}:
        return None
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        from mcp.server import MCPServer, Server
    except ImportError as error:
        raise TypeError(
            f"{kind} needs a newer version of `mcp`: pip install 'agentrt[mcp]'"
        ) from error
    # The package's own client and transports take it from there, too.
    low = value._lowlevel_server if isinstance(value, MCPServer) else value
    if not isinstance(low, Server):
        raise TypeError(
            f"{kind} is not a server that agentrt can provide to an agent; use an"
            " mcp.server.MCPServer or an mcp.server.Server"
        )
    name = _NOT_IN_NAMES.sub("-", low.name)[:_MAX_NAME_CHARS].strip("-")
    if not name:
        raise ValueError(f"an MCP server needs a name with letters or digits, not {low.name!r}")
    return ProvidedServer(name, low)


def split(provided: Iterable[Provided]) -> tuple[tuple[Tool, ...], tuple[ProvidedServer, ...]]:
    """Split the values into tools and servers."""
    provided = tuple(provided)
    tools = tuple(each for each in provided if isinstance(each, Tool))
    return tools, tuple(each for each in provided if isinstance(each, ProvidedServer))
