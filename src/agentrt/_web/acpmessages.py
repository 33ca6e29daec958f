"""ACP's messages: what a client says, as far as it is read, and how the server's are written."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from .._model.content import Block, JsonObject
from .._wire import jsonrpc as rpc
from .answers import Refused, pack
from .commands import Name

VERSION: Final = 1


class Meta(Struct):
    """What a client may say of agentrt's own in `_meta.agentrt` of `session/new`. `session`: one
    that there is already, which is seen from its beginning instead of opening a new one."""

    agent: str | None = None
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    session: str | None = None


class _Metas(Struct):
    agentrt: Meta = msgspec.field(default_factory=Meta)


class Form(Struct):
    form: JsonObject | None = None
    url: JsonObject | None = None


class ConfigOptions(Struct):
    boolean: JsonObject | None = None


class SessionCapabilities(Struct, rename="camel"):
    notices: JsonObject | None = None
    config_options: ConfigOptions | None = None


class FileSystem(Struct, rename="camel"):
    read_text_file: bool = False
    write_text_file: bool = False


class Capabilities(Struct):
    elicitation: Form | None = None
    session: SessionCapabilities | None = None
    fs: FileSystem | None = None
    terminal: bool = False

    @property
    def notices(self) -> bool:
        return self.session is not None and self.session.notices is not None

    @property
    def switches(self) -> bool:
        """Whether the client shows options that are on or off."""
        options = self.session.config_options if self.session is not None else None
        return options is not None and options.boolean is not None


class ClientInfo(Struct, rename="camel"):
    """The name and version that a client gives itself."""

    name: str = ""
    version: str = ""


class Initialize(Struct, rename="camel"):
    client_capabilities: Capabilities = msgspec.field(default_factory=Capabilities)
    client_info: ClientInfo | None = None


class Authenticate(Struct, rename="camel"):
    method_id: str


class ForSession(Struct, rename="camel"):
    session_id: Name


class Opened(ForSession):
    """A session that there is already. `cwd`: where the client takes it to be. `mcp_servers` and
    `additional_directories`: what its agent gets, if none is running."""

    cwd: str | None = None
    mcp_servers: list[JsonObject] = []
    additional_directories: list[str] | None = None


class Fork(Opened):
    """`_meta.jetbrains.air.fork` says at which message it ends, as clients know it."""

    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    @property
    def at(self) -> str | None:
        found: Any = self.meta
        for name in ("jetbrains", "air", "fork", "messageId"):
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, str) and found else None


class New(Struct, rename="camel"):
    cwd: str
    mcp_servers: list[JsonObject] = []
    additional_directories: list[str] | None = None
    meta: _Metas | None = msgspec.field(default=None, name="_meta")


def check_folders(method: str, given: Struct) -> None:
    """Raises `Refused` for a folder that is not said in full: it would be one of this process's,
    and not of the client's, which may have another working folder."""
    if not isinstance(given, New | Opened):
        return
    named = [] if given.cwd is None else [("cwd", given.cwd)]
    named += [("additionalDirectories", folder) for folder in given.additional_directories or ()]
    for name, folder in named:
        if not os.path.isabs(folder):
            why = f"{method}: {name}: an absolute path is wanted, which {folder!r:.200} is not"
            raise Refused("bad_request", why)


class List(Struct):
    """`cursor`: the `nextCursor` of the page before."""

    cwd: str | None = None
    cursor: str | None = None


class Prompt(ForSession, rename="camel"):
    prompt: list[Block]


class Steer(Prompt):
    """Words for the running turn. `_meta.steering.idleBehavior` says what to do without one."""

    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    @property
    def begins(self) -> bool:
        """Whether they begin a turn where none runs."""
        steering = (self.meta or {}).get("steering")
        wanted = steering.get("idleBehavior") if isinstance(steering, dict) else None
        return wanted != "promptRequired"


class SetMode(ForSession, rename="camel"):
    mode_id: Name


class SetModel(ForSession, rename="camel"):
    model_id: Name


class SetOption(ForSession, rename="camel"):
    config_id: Name
    value: str | bool


class CancelRequest(Struct, rename="camel"):
    request_id: int | str | None = None


def call(id: int | None, method: str, params: JsonObject) -> bytes:
    """A request, or a notification if it has no id."""
    head: JsonObject = {"jsonrpc": "2.0"} if id is None else {"jsonrpc": "2.0", "id": id}
    return pack(**head, method=method, params=params)


def answered(id: rpc.Id, **result: Any) -> bytes:
    return pack(jsonrpc="2.0", id=id, result=result)


def failed(id: rpc.Id, code: int, message: str, data: Any = None) -> bytes:
    return pack(jsonrpc="2.0", id=id, error=rpc.RpcError(code, message, data))


OurCalls: TypeAlias = rpc.Calls[Callable[[rpc.Response], None]]
"""Our requests to one client, each with what takes its answer."""


def unanswered(said: rpc.Response) -> None:
    """Takes an answer that nobody waits for any more."""
