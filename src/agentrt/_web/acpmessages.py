"""ACP's messages: what a client says, as far as it is read, and how the server's are written."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from .._model.content import Block, JsonObject
from .._wire import jsonrpc as rpc
from .answers import pack
from .commands import Name

VERSION: Final = 1


class Meta(Struct):
    """What a client may say of agentrt's own in `_meta.agentrt`."""

    agent: str | None = None
    title: str | None = None


class _Metas(Struct):
    agentrt: Meta = msgspec.field(default_factory=Meta)


class Form(Struct):
    form: JsonObject | None = None
    url: JsonObject | None = None


class SessionCapabilities(Struct):
    notices: JsonObject | None = None


class Capabilities(Struct):
    elicitation: Form | None = None
    session: SessionCapabilities | None = None


class Initialize(Struct, rename="camel"):
    client_capabilities: Capabilities = msgspec.field(default_factory=Capabilities)


class ForSession(Struct, rename="camel"):
    session_id: Name


class New(Struct, rename="camel"):
    cwd: str
    mcp_servers: list[JsonObject] = []
    meta: _Metas | None = msgspec.field(default=None, name="_meta")


class List(Struct):
    cwd: str | None = None


class Prompt(ForSession, rename="camel"):
    prompt: list[Block]


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
