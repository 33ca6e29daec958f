"""The server that must carry out a command, if several share a store."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from ..jsonrpc import encode_line
from ..lowlevel import Cluster, CommandFields, CommandRefused
from ..store import StoredCommand as Row
from . import commands as c
from .client import Client, digest_of
from .hub import Hub
from .remote_command import CommandEnvelope

NOT_OPENING: Final = (c.Cancel, c.CloseSession, c.DeleteSession, c.StopTask)
"""Commands that do not open a session on another server."""


class _Error(Struct):
    code: str
    message: str
    data: object = None


class _Ack(Struct):
    ok: bool
    session: str | None = None
    cancelled: int = 0
    error: _Error | None = None


_acks: Final = msgspec.json.Decoder(_Ack)


def is_elsewhere(hub: Hub, command: c.ViewerCommand) -> bool:
    """True if another server may have to carry out a command."""
    match command:
        case c.ForSession(session=id):
            return hub.runtime.is_shared and not hub.is_open(id)
        case c.LoadSession(session=str(id)):
            return hub.runtime.is_shared and not hub.is_open(id)
        case c.NewSession() | c.LoadSession():
            return hub.runtime.is_shared and not hub.runtime.runs_here()
        case c.StopAll():
            return hub.runtime.is_shared
    return False


def fields_of(answer: bytes) -> CommandFields:
    """Return the result in another server's answer.

    Raises `CommandRefused` if that is a refusal.
    """
    error = _acks.decode(answer).error
    if error is not None:
        raise CommandRefused(error.code, error.message, error.data)
    fields: CommandFields = msgspec.json.decode(answer)
    return {name: value for name, value in fields.items() if name not in ("type", "id", "ok")}


async def stop_others(hub: Hub, cluster: Cluster, client: Client, command: c.StopAll) -> int:
    """Have the other workers stop everything. Returns the number of cancelled turns. Raises
    `StoreError`.
    """
    answers = await cluster.ask_all(row_of(hub, client, command))
    return sum(_acks.decode(answer).cancelled for answer in answers)


def session_of(command: c.ViewerCommand) -> str:
    """Return the session of a command; empty if it has none yet."""
    return (command.session or "") if isinstance(command, c.ForSession | c.LoadSession) else ""


def row_of(hub: Hub, client: Client, command: c.ViewerCommand) -> Row:
    """Return a command as a row for another server."""
    envelope = CommandEnvelope(
        msgspec.Raw(encode_line(command)), list(client.offers.values()), tenant=hub.runtime.tenant
    )
    return Row(
        client=client.key,
        id=command.id,
        session=session_of(command),
        digest=digest_of(command),
        body=encode_line(envelope),
    )
