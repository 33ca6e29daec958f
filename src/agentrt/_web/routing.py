"""Commands to sessions that are not open here. If other servers share the store, one of them may
have the session open, or opens it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

import msgspec
import trio
from msgspec import Struct

from .._errors import StoreError
from .._journal.base import StoredCommand as Row
from .._journal.port import Answered, Port, Reused
from .._limits import Tenant
from .._logging import get_logger
from .._wire.json import encode_line
from . import commands as c
from .answers import Fields, Refused
from .client import Client, digest_of
from .hub import Hub

logger = get_logger("server")

LATE: Final = 2.0
"""Maximum seconds for which an answer waits until the effects of the command are known here."""

UNOPENED: Final = (c.Cancel, c.CloseSession, c.DeleteSession, c.StopTask)
"""Commands that do not open a session on another server."""


class Carried(Struct):
    """A message to another server: a client's command, or only the news that the client has come or
    gone (`there`); with the tools that it runs, and its tenant.
    """

    command: msgspec.Raw = msgspec.Raw(b"null")
    tools: list[c.ToolOffer] = []
    there: bool = True
    tenant: Tenant | None = None


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


def is_elsewhere(hub: Hub, command: c.Command) -> bool:
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


async def send_on(hub: Hub, port: Port, client: Client, command: c.Command) -> Fields | None:
    """Have a command carried out on the server that has its session, or that opens it.

    Returns the result; None if this server must carry it out. Raises `Refused` or `StoreError`.
    """
    session = (command.session or "") if isinstance(command, c.ForSession | c.LoadSession) else ""
    if hub.runtime.tenant is not None and session and not await hub.runtime.find(session):
        raise Refused("unknown_session", f"no session {session!r} is open or stored")
    row = _row(hub, client, command, session)
    opens = not isinstance(command, UNOPENED)
    answer: bytes | None = None
    failure: StoreError | None = None
    try:
        wanted = lambda: client.is_here  # noqa: E731
        answer = await port.call(row, here=hub.runtime.runs_here, opens=opens, wanted=wanted)
    except Answered:
        raise client.give_up(command.id) from None
    except Reused:
        raise Refused(
            "bad_request", f"the id {command.id!r} was used for another command"
        ) from None
    except StoreError as error:
        failure = error
    if failure is not None:
        # The responsible server does not answer, but another one may have carried it out before.
        assert hub.runtime.store is not None
        known = await client.answered_elsewhere(hub.runtime.store, command)
        if known is None:
            raise failure
        await _seen(hub, session, known)
        return known
    if answer is None:
        return None
    said = _acks.decode(answer)
    if said.error is not None:
        raise Refused(said.error.code, said.error.message, said.error.data)
    if opens and client.offers:
        client.away.add(said.session or session)
    fields: Fields = msgspec.json.decode(answer)
    fields = {name: value for name, value in fields.items() if name not in ("type", "id", "ok")}
    await _seen(hub, session, fields)
    return fields


async def send_to_all(hub: Hub, port: Port, client: Client, command: c.StopAll) -> int:
    """Have the other workers stop everything. Returns the number of cancelled turns. Raises
    `StoreError`.
    """
    answers = await port.call_all(_row(hub, client, command, ""))
    return sum(_acks.decode(answer).cancelled for answer in answers)


def _row(hub: Hub, client: Client, command: c.Command, session: str) -> Row:
    tools = list(client.offers.values())
    carried = Carried(msgspec.Raw(encode_line(command)), tools, tenant=hub.runtime.tenant)
    return Row(
        client=client.key,
        id=command.id,
        session=session,
        digest=digest_of(command),
        body=encode_line(carried),
    )


def present(hub: Hub, client: Client, sessions: Iterable[str], there: bool) -> None:
    """Report to other servers that a client that runs tools in their sessions has come or gone."""
    if hub.runtime.is_shared:
        for session in sessions:
            hub.runtime.start_soon(_present, hub, client, session, there)


async def _present(hub: Hub, client: Client, session: str, there: bool) -> None:
    store = hub.runtime.store
    assert store is not None
    assert store.port is not None
    tools = list(client.offers.values())
    about = Carried(tools=tools, there=there, tenant=hub.runtime.tenant)
    row = Row(
        client=client.key,
        id=secrets.token_hex(16),
        session=session,
        digest=b"",
        body=encode_line(about),
    )
    try:
        await store.port.call(row, here=lambda home: False, opens=False)
    except StoreError as error:  # its lease ends, or the call timed out
        logger.info("where a client is was not said to another server: %s", error)


async def _seen(hub: Hub, session: str, fields: Fields) -> None:
    """Wait until the effects of a command are known here, so that they do not come after its
    answer, just as on the server that carried it out.
    """
    opened, seq = fields.get("session"), fields.get("seq")
    if isinstance(opened, str) and opened != session:
        await hub.read(opened)
    if isinstance(seq, int):
        with trio.move_on_after(LATE):
            await hub.reach(session, seq)
