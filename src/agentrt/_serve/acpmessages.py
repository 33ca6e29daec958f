"""ACP's messages: the fields that are read from a client, and the encoding of the server's
messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from .. import jsonrpc as rpc
from ..events import Block, JsonObject
from ..lowlevel import CommandRefused
from .answers import pack
from .commands import Name

SERVED_ACP_VERSION: Final = 1
"""The version of ACP for clients that ask for it, or for none that is served."""
NEWEST_ACP_VERSION: Final = 2
"""The version for clients that ask for it, or for a newer one, in its shape. It is a draft."""


class Meta(Struct):
    """agentrt's own fields in `_meta.agentrt` of `session/new`. `session`: an existing session to
    view from its beginning, instead of opening a new one.
    """

    agent: str | None = None
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    session: str | None = None


class _Metas(Struct):
    agentrt: Meta = msgspec.field(default_factory=Meta)


class ElicitationSupport(Struct):
    """The kinds of elicitation that a client can show."""

    form: JsonObject | None = None
    url: JsonObject | None = None


class OptionSupport(Struct):
    """The kinds of options that a client can show."""

    boolean: JsonObject | None = None


class SessionSupport(Struct, rename="camel"):
    """The session features that a client supports."""

    notices: JsonObject | None = None
    config_options: OptionSupport | None = None


class FileSupport(Struct, rename="camel"):
    """The file operations that a client offers."""

    read_text_file: bool = False
    write_text_file: bool = False


class Capabilities(Struct):
    """The client's capabilities."""

    elicitation: ElicitationSupport | None = None
    session: SessionSupport | None = None
    fs: FileSupport | None = None
    terminal: bool = False

    @property
    def notices(self) -> bool:
        """True if the client shows notices."""
        return self.session is not None and self.session.notices is not None

    @property
    def switches(self) -> bool:
        """True if the client shows options that are on or off."""
        options = self.session.config_options if self.session is not None else None
        return options is not None and options.boolean is not None


class AcpClientInfo(Struct, rename="camel"):
    """The name and version that a client gives itself."""

    name: str = ""
    version: str = ""


class AcpInitializeParams(Struct, rename="camel"):
    """The parameters of `initialize`, in the shape of version 1 and of version 2."""

    protocol_version: int | None = None
    client_capabilities: Capabilities | None = None
    client_info: AcpClientInfo | None = None
    capabilities: Capabilities | None = None
    info: AcpClientInfo | None = None

    @property
    def version(self) -> int:
        """The version to speak: 2 requires the fields of version 2."""
        newer = self.info is not None and (self.protocol_version or 0) >= NEWEST_ACP_VERSION
        return NEWEST_ACP_VERSION if newer else SERVED_ACP_VERSION

    @property
    def supported(self) -> bool:
        """True if a version of agentrt is at or below the requested one, as version 2 requires.
        Version 1 is the answer to any request in its own shape.
        """
        requested = self.protocol_version
        return self.info is None or requested is None or requested >= SERVED_ACP_VERSION

    @property
    def offered(self) -> Capabilities:
        """The client's capabilities. Version 2 has neither files nor terminals of a client, and
        every client shows notices and options that are on or off.
        """
        if self.version > SERVED_ACP_VERSION:
            given = self.capabilities or Capabilities()
            everything = SessionSupport(notices={}, config_options=OptionSupport(boolean={}))
            return Capabilities(elicitation=given.elicitation, session=everything)
        if self.client_capabilities is None and self.capabilities is not None:
            return Capabilities(elicitation=self.capabilities.elicitation)
        return self.client_capabilities or Capabilities()


class AcpAuthenticateParams(Struct, rename="camel"):
    """The parameters of `authenticate`."""

    method_id: str


class AcpSessionParams(Struct, rename="camel"):
    """The parameters of a method for one session."""

    session_id: Name


class AcpExistingSessionParams(AcpSessionParams):
    """The parameters of a method for an existing session.

    `cwd`: the session's folder, according to the client. `mcp_servers`, `additional_directories`:
    for the session's agent, if none is running.
    """

    cwd: str | None = None
    mcp_servers: list[JsonObject] = []
    additional_directories: list[str] | None = None


class AcpForkParams(AcpExistingSessionParams):
    """The parameters of `session/fork`. `_meta.jetbrains.air.fork` names the message with which the
    fork ends, by its id for clients.
    """

    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    @property
    def at(self) -> str | None:
        """The id of the last message of the fork; None for a complete copy."""
        found: Any = self.meta
        for name in ("jetbrains", "air", "fork", "messageId"):
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, str) and found else None


class AcpNewSessionParams(Struct, rename="camel"):
    """The parameters of `session/new`."""

    cwd: str
    mcp_servers: list[JsonObject] = []
    additional_directories: list[str] | None = None
    meta: _Metas | None = msgspec.field(default=None, name="_meta")


def check_folders(method: str, given: Struct) -> None:
    """Raise `CommandRefused` for a folder that is not an absolute path: it would be relative to the
    folder of this process, and the client may have a different one.
    """
    if not isinstance(given, AcpNewSessionParams | AcpExistingSessionParams):
        return
    named = [] if given.cwd is None else [("cwd", given.cwd)]
    named += [("additionalDirectories", folder) for folder in given.additional_directories or ()]
    for name, folder in named:
        if not os.path.isabs(folder):
            why = f"{method}: {name} must be an absolute path, not {folder!r:.200}"
            raise CommandRefused("bad_request", why)


class AcpListParams(Struct):
    """The parameters of `session/list`. `cursor`: the `nextCursor` of the previous page."""

    cwd: str | None = None
    cursor: str | None = None


class AcpPromptParams(AcpSessionParams, rename="camel"):
    """The parameters of `session/prompt`."""

    prompt: list[Block]


class AcpStopTaskParams(AcpSessionParams):
    """The work has the id that `_meta.agentrt.task` of its tool call has."""

    async_task_id: str


class AcpCancelCallParams(AcpSessionParams):
    """The work is named by the tool call that shows it."""

    tool_call_id: str


class AcpSteerParams(AcpPromptParams):
    """A message for the running turn. `_meta.steering.idleBehavior`: the handling if no turn
    runs.
    """

    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    @property
    def begins(self) -> bool:
        """True if the message starts a turn when none runs."""
        steering = (self.meta or {}).get("steering")
        wanted = steering.get("idleBehavior") if isinstance(steering, dict) else None
        return wanted != "promptRequired"


class AcpSetModeParams(AcpSessionParams, rename="camel"):
    """The parameters of `session/set_mode`."""

    mode_id: Name


class AcpSetModelParams(AcpSessionParams, rename="camel"):
    """The parameters of `session/set_model`."""

    model_id: Name


class AcpSetOptionParams(AcpSessionParams, rename="camel"):
    """The parameters of `session/set_config_option`."""

    config_id: Name
    value: str | bool


class AcpResumeParams2(AcpExistingSessionParams):
    """The parameters of `session/resume` in version 2."""

    replay_from: JsonObject | None = None


class AcpSetTypedOptionParams(AcpSetOptionParams, rename="camel"):
    """The parameters of `session/set_config_option` in version 2: `type` is that of the value."""

    type: str = msgspec.field(name="type")


class AcpCancelRequestParams(Struct, rename="camel"):
    """The parameters of `$/cancel_request`."""

    request_id: int | str | None = None


def call(id: int | None, method: str, params: JsonObject) -> bytes:
    """Encode a request, or a notification if it has no id."""
    head: JsonObject = {"jsonrpc": "2.0"} if id is None else {"jsonrpc": "2.0", "id": id}
    return pack(**head, method=method, params=params)


def answered(id: rpc.Id, **result: Any) -> bytes:
    """Encode the result of a request."""
    return pack(jsonrpc="2.0", id=id, result=result)


def failed(id: rpc.Id, code: int, message: str, data: Any = None) -> bytes:
    """Encode the error of a request."""
    return pack(jsonrpc="2.0", id=id, error=rpc.JsonRpcError(code, message, data))


OurCalls: TypeAlias = rpc.OutstandingCalls[Callable[[rpc.JsonRpcResponse], None]]
"""The server's requests to one client, each with the function that takes its answer."""


def unanswered(said: rpc.JsonRpcResponse) -> None:
    """Ignore an answer that nothing waits for any more."""
