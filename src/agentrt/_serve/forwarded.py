"""Commands from clients of other servers to sessions that are open here."""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from ..hosting import answering
from ..lowlevel import CommandRefused
from ..store import StoredCommand as Row
from . import commands as c
from .answers import ack, as_refusal, refusal
from .client import Client
from .hub import Hub
from .operations import ENDS, CommandRun, answer
from .remote_command import CommandEnvelope

_envelopes: Final = msgspec.json.Decoder(CommandEnvelope)


class ClusterCommandHandler:
    """Carries out commands from clients of other servers as if they were connected here.

    Implements `CommandHandler` of the cluster client.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._met: set[Client] = set()
        """The clients that run tools and are connected to other servers."""

    async def carry_out(self, command: Row) -> bytes:
        """Carry out a command and return its answer; empty if the session is not this server's."""
        try:
            envelope = _envelopes.decode(command.body)
            hub = self._hub.of(envelope.tenant)
            client = self._meet(hub, command, envelope)
            if bytes(envelope.command) == b"null":
                return ack(command.id, {})
            decoded = c.decode(bytes(envelope.command).decode())
            assert isinstance(decoded, c.ViewerCommand)
        except (msgspec.DecodeError, CommandRefused, ValueError) as error:  # from a newer version
            message = f"the command is invalid: {error}"
            return refusal(command.id, CommandRefused("unsupported", message))
        return await self._answer(hub, client, decoded)

    def _meet(self, hub: Hub, row: Row, envelope: CommandEnvelope) -> Client:
        """Return the client of a command. Its tools run where it is connected."""
        client = hub.client("controller", row.client)
        if client.viewer is not None:
            return client  # it has connected here in the meantime
        offers = {tool.name: tool for tool in envelope.tools}
        if not envelope.there:
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

    def on_leases_changed(self, alive: frozenset[int]) -> None:
        """Drop clients whose server is gone."""
        for client in [each for each in self._met if each.at not in alive]:
            self._leave(client)

    async def _answer(self, hub: Hub, client: Client, command: c.ViewerCommand) -> bytes:
        """Carry out a command from another server, and return its answer as a frame.

        A command that was seen before is not carried out again: its first answer is returned.
        """
        frames: list[bytes] = []
        answered = trio.Event()

        def reply(frame: bytes) -> None:
            frames.append(frame)
            answered.set()

        if not client.seen(command, reply, elsewhere=True):
            session = command.session if isinstance(command, c.ForSession) else None
            at_once = isinstance(command, ENDS) and hub.is_open(session or "")
            if isinstance(command, c.StopAll):
                with answering(client.who, client.via):
                    stopped = hub.runtime.cancel_all()
                client.answer(command.id, ack(command.id, {"cancelled": stopped}))
            elif session is None or at_once:
                client.serve(answer(hub, client, command))
            else:
                with answering(client.who, client.via):
                    await self._carry_out(hub, client, command)
        await answered.wait()
        return frames[0]

    async def _carry_out(self, hub: Hub, client: Client, command: c.ViewerCommand) -> None:
        """Carry out a command to a session that may not be this server's any more."""
        try:
            run = CommandRun(hub, client, command, forwarded=True)
            run.begin()
            await run.finish()
            fields = run.result()
        except Exception as error:
            client.refuse(command.id, as_refusal(error))
        else:
            client.answer(command.id, ack(command.id, fields))


def serve_forwarded(hub: Hub) -> None:
    """Carry out commands from clients of other servers that share the store, while the hub's
    runtime exists.
    """
    cluster = hub.runtime.cluster
    if cluster is not None:
        hub.runtime.start_soon(cluster.serve, ClusterCommandHandler(hub))
