"""Commands from clients of other servers to sessions that are open here."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
import trio

from .._errors import LimitExceeded, SessionClosed, SessionElsewhere, SessionMoved
from .._journal.base import StoredCommand as Row
from . import commands as c
from .answers import Refused, ack, as_refusal, refusal
from .client import NOT_HERE, Client
from .hub import Hub
from .operations import ENDS, carry_out, in_hand, in_order
from .routing import Carried, is_elsewhere, present

_carried: Final = msgspec.json.Decoder(Carried)


class Forwarded:
    """Carries out forwarded commands as if their clients were connected here."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._met: set[Client] = set()
        """The clients that run tools and are connected to other servers."""

    async def carry_out(self, row: Row) -> bytes:
        """Carry out a command, as `Port.carry_out`."""
        try:
            carried = _carried.decode(row.body)
            hub = self._hub.of(carried.tenant)
            client = self._meet(hub, row, carried)
            if bytes(carried.command) == b"null":
                return ack(row.id, {})
            command = c.decode(bytes(carried.command).decode())
            assert isinstance(command, c.Command)
        except (msgspec.DecodeError, Refused, ValueError) as error:  # from a newer version
            return refusal(row.id, Refused("unsupported", f"this is not understood: {error}"))
        return await self._answer(hub, client, command)

    def _meet(self, hub: Hub, row: Row, carried: Carried) -> Client:
        """Return the client of a command. Its tools run where it is connected."""
        client = hub.client("controller", row.client)
        if client.viewer is not None:
            return client  # it has connected here in the meantime
        offers = {tool.name: tool for tool in carried.tools}
        if not carried.there:
            if client.at == row.asker:
                self._leave(client)
        elif offers:
            client.at = row.asker
            self._met.add(client)
            if client.offers != offers or not client.calls.expected:
                client.offer(offers.values())
        return client

    def _leave(self, client: Client) -> None:
        client.at = None
        self._met.discard(client)
        if client.viewer is None:
            client.leave()

    def tend(self, alive: frozenset[int]) -> None:
        """Drop clients whose server is gone."""
        for client in [each for each in self._met if each.at not in alive]:
            self._leave(client)

    async def _answer(self, hub: Hub, client: Client, command: c.Command) -> bytes:
        frames: list[bytes] = []
        answered = trio.Event()

        def reply(frame: bytes) -> None:
            frames.append(frame)
            answered.set()

        if not client.seen(command, reply, elsewhere=True):
            session = command.session if isinstance(command, c.ForSession) else None
            at_once = isinstance(command, ENDS) and hub.is_open(session or "")
            if isinstance(command, c.StopAll):
                stopped = hub.runtime.cancel_all()
                client.answer(command.id, ack(command.id, {"cancelled": stopped}))
            elif session is None or at_once:
                carry_out(
                    hub,
                    client,
                    command,
                    lambda fields: client.answer(command.id, ack(command.id, fields)),
                    lambda error: client.refuse(command.id, error),
                )
            elif not await self._open(hub, client, command):
                client.forget(command.id)
                return NOT_HERE
        await answered.wait()
        return frames[0]

    async def _open(self, hub: Hub, client: Client, command: c.Command) -> bool:
        """Carry out a command to a session that may not be open here. Returns False if another
        server must do so.
        """
        store = hub.runtime.store
        assert store is not None
        try:
            job = partial(in_hand, hub, store, client, command)
            fields = await in_order(client, command, job)()
        except SessionElsewhere as error:
            if error.node is not None:
                return False
            client.refuse(command.id, as_refusal(error))
        except SessionMoved:
            return False  # it may be stored with its answer; the session's owner checks that
        except (LimitExceeded, SessionClosed) as error:
            leaves = not hub.runtime.runs_here() or isinstance(error, SessionClosed)
            if leaves and is_elsewhere(hub, command):
                return False
            client.refuse(command.id, as_refusal(error))
        except Exception as error:
            client.refuse(command.id, as_refusal(error))
        else:
            client.answer(command.id, ack(command.id, fields))
        return True


def serve_forwarded(hub: Hub) -> None:
    """Carry out commands from clients of other servers that share the store, while the hub
    exists.
    """
    store = hub.runtime.store
    if store is not None and store.port is not None:
        forwarded = Forwarded(hub)
        store.port.carry_out, store.port.tended = forwarded.carry_out, forwarded.tend
        hub.present = present
        assert store.membership is not None
        store.membership.report()  # from now on this server accepts sessions of others
