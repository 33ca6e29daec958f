"""The kinds of access that a sandbox refuses until a permission request is allowed."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ..model.content import JsonObject

NETWORK: Final = "Network"
READ: Final = "Read"
WRITE: Final = "Write"
PROGRAM: Final = "Program"

Scope: TypeAlias = Literal["once", "session", "no"]
"""An answer to a question."""


class HostAccess(Struct, frozen=True):
    """A connection to a host, in its normal form."""

    host: str
    port: int

    @property
    def tool(self) -> str:
        """The name of such requests, and of rules about them."""
        return NETWORK

    @property
    def input(self) -> JsonObject:
        """The arguments, as a permission request shows them."""
        return {"host": self.host, "port": self.port}

    @property
    def target(self) -> str:
        """The subject in one line."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class PathAccess(Struct, frozen=True):
    """Access to a file, or to a folder and everything below it, by its real path."""

    path: str
    writing: bool

    @property
    def tool(self) -> str:
        """As in `HostAccess`."""
        return WRITE if self.writing else READ

    @property
    def input(self) -> JsonObject:
        """As in `HostAccess`."""
        return {"path": self.path}

    @property
    def target(self) -> str:
        """As in `HostAccess`."""
        return self.path


class ProgramAccess(Struct, frozen=True):
    """A start of a program for which the sandbox asks."""

    name: str
    argv: tuple[str, ...]

    @property
    def tool(self) -> str:
        """As in `HostAccess`."""
        return PROGRAM

    @property
    def input(self) -> JsonObject:
        """As in `HostAccess`."""
        return {"name": self.name, "argv": list(self.argv)}

    @property
    def target(self) -> str:
        """As in `HostAccess`."""
        return self.name


Access: TypeAlias = HostAccess | PathAccess | ProgramAccess
"""The `raw` of a permission request of a sandbox.

No agent can make one: a tool of an agent that is called `Network` is not about the sandbox.
"""


class AccessRefused(Exception):
    """Access is not given; the message is for the model."""


class Granted(Struct, frozen=True):
    """A permission that was given while the session ran."""

    tool: str
    """The kind of access: `Network`, `Read`, `Write` or `Program`."""
    target: str
    """The host with its port, the path, or the name of the program."""
