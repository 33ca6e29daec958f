"""State of one client that outlives its connection: the answers to its commands, the tools that it
runs, and its running commands.

A client sends a command until it gets an answer, also on another connection or to another server.
That is safe because of three memories, each of which covers one case: `_answers` has the commands
that this server has seen, running or answered; `_unstored` those that were carried out and whose
answers could not be stored; and the store has the answers of other servers and of earlier ones.

A request is a generator of steps (`serve`). It runs synchronously until it has to wait for a job;
from then on a task continues it, which does not end with the connection, unless the request only
shows something to that connection.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, KeysView, Sequence
from contextlib import closing
from typing import Final, TypeAlias

import msgspec
import trio
from msgspec import Struct

from ..events import JsonObject
from ..hosting import ClientTools, RuntimeHost, answering
from ..jsonrpc import encode_line
from ..lowlevel import CommandFields, CommandRefused, Steps
from ..store import CommandAnswer
from ..tools import Tool
from .answers import ack, refusal
from .command_machine import CommandEvent, CommandMachine, CommandOrder, CommandPlace
from .commands import READS, ToolOffer, ViewerCommand
from .refusal import CloseCode
from .viewer import Viewer

REMEMBERED_ANSWERS: Final = 512
"""Number of answers remembered for each client: more than a client can have running."""

MAX_TOOLS: Final = 64
"""Maximum number of tools that a client offers."""

MAX_TOOLS_BYTES: Final = 256 * 1024
"""Maximum size of the tools that a client offers, as JSON. They are kept until it is forgotten."""

MAX_JOBS: Final = 32
"""Maximum running commands of one client: most end immediately, opening a session does not."""

NOT_HERE: Final = b""
"""The answer to a command that another server carries out."""

Job: TypeAlias = Callable[[], Awaitable[CommandFields]]
Reply: TypeAlias = Callable[[bytes], None]


class Unstored(Struct):
    """A command that was carried out, and whose answer could not be stored in time: sent again, it
    is not carried out again. `stored`: waits until it is stored.
    """

    sent: bytes
    machine: CommandMachine
    fields: CommandFields
    stored: Job


class GivenUp(CommandRefused):
    """A command that was not carried out here because its client has left. The client sends it
    again.
    """


class AnswerRoom:
    """A limit in bytes on the remembered answers of all clients of a tenant. The oldest answers are
    forgotten first.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._sizes: OrderedDict[tuple[Client, str], int] = OrderedDict()
        self.used_bytes = 0

    def remember(self, client: Client, id: str, size_bytes: int) -> None:
        """Count an answer, and forget the oldest ones if there is no room."""
        self.forget(client, id)
        self._sizes[client, id] = size_bytes
        self.used_bytes += size_bytes
        while self.used_bytes > self._limit_bytes:
            oldest, name = next(iter(self._sizes))
            oldest.drop(name)

    def forget(self, client: Client, id: str) -> None:
        """Stop counting an answer, if it was counted."""
        self.used_bytes -= self._sizes.pop((client, id), 0)


class _Answer(Struct):
    """The state of one command.

    `sent` is the digest of the command. `frame` is None while it is running. `waiting`: the
    callbacks that get the answer; true for those of another server. `once`: the answer is forgotten
    once it was given. `looks`: the command changes nothing, so its answer is not remembered.
    """

    sent: bytes
    frame: bytes | None = None
    waiting: dict[Reply, bool] = {}
    once: bool = False
    looks: bool = False


def encoded_offers(tools: Iterable[ToolOffer]) -> dict[str, bytes]:
    """Return the tools that a client offers, encoded, by name.

    Raises `CommandRefused` if they are too many or too large.
    """
    offers = {tool.name: msgspec.json.encode(tool) for tool in tools}
    size = sum(map(len, offers.values()))
    if len(offers) > MAX_TOOLS or size > MAX_TOOLS_BYTES:
        raise CommandRefused(
            "limit",
            f"a client offers at most {MAX_TOOLS} tools with {MAX_TOOLS_BYTES:,} bytes in all,"
            f" not {len(offers)} with {size:,}",
        )
    return offers


_decode_offer: Final = msgspec.json.Decoder(ToolOffer).decode


class Client:
    """One client.

    `name`: the name by which another connection can become this client; None if none can.
    `answered`: answers that an earlier server gave it.
    """

    def __init__(
        self,
        runtime: RuntimeHost,
        room: AnswerRoom,
        *,
        name: str | None,
        answered: Iterable[CommandAnswer] = (),
    ) -> None:
        self.viewer: Viewer | None = None
        self._offers: dict[str, bytes] = {}  # encoded, which takes a twentieth of the memory
        self.calls = ClientTools()
        self.mcp_servers: dict[str, Sequence[JsonObject]] = {}
        """By session: the MCP servers for its agent when this client has it reopened."""
        self.roots: dict[str, Sequence[str]] = {}
        """By session: the roots when this client has it reopened, instead of the stored ones."""
        self._runtime = runtime
        tenant = runtime.tenant
        self.who = f"tenant {tenant.name}" if tenant is not None else "the server's token"
        """The owner of the credentials that the client used."""
        self._grace = runtime.limits.client_return_timeout_s if name is not None else 0.0
        self._name = name
        self.key = name or f"~{secrets.token_hex(16)}"
        """The key by which other servers know it, while this server knows it."""
        self.at: int | None = None
        """The lease of the server where the client is, if that is another one."""
        self.away: set[str] = set()
        """The sessions of other servers in which it may be asked to run a tool."""
        self._room = room
        self._answers = OrderedDict(
            (each.id, _Answer(each.digest, each.body))
            for each in list(answered)[-REMEMBERED_ANSWERS:]
        )
        for id, each in list(self._answers.items()):
            room.remember(self, id, len(each.frame or b""))
        self._unstored: OrderedDict[str, Unstored] = OrderedDict()
        self._jobs = 0
        self._looks: set[trio.CancelScope] = set()
        self.order = CommandOrder()
        self._order_changed = trio.lowlevel.ParkingLot()

    @property
    def via(self) -> str:
        """The protocol that the client speaks, and the name that it gave itself."""
        return "another server" if self.viewer is None else self.viewer.via

    def offer(self, tools: Iterable[ToolOffer]) -> None:
        """Replace the tools that the client runs. The sessions that it opens get them.

        Raises `CommandRefused`, and keeps the earlier ones, if they are too many or too large.
        """
        offers = encoded_offers(tools)
        self._offers = offers
        self.calls.offer(offers)

    @property
    def tool_names(self) -> KeysView[str]:
        """The names of the tools that the client runs."""
        return self._offers.keys()

    @property
    def offers(self) -> dict[str, ToolOffer]:
        """The tools that the client runs, by name; a new dict each time."""
        return {name: _decode_offer(offer) for name, offer in self._offers.items()}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The client's tools for a session; new objects each time."""
        deadline = self._runtime.limits.client_tool_timeout_s
        return tuple(
            self.calls.make(tool.name, tool.description, tool.input_schema, deadline=deadline)
            for tool in self.offers.values()
        )

    def join(self, viewer: Viewer) -> None:
        """Take a new connection, which replaces an older one."""
        if self.viewer is not None:
            self.viewer.end(CloseCode.REPLACED, "this client has connected again")
            self.leave()
        self.viewer = viewer

    def leave(self) -> None:
        """Handle the end of its connection; its running commands continue."""
        self.viewer = None
        for scope in self._looks:
            scope.cancel()
        self.calls.disconnect(self._grace)

    def seen(self, command: ViewerCommand, reply: Reply, *, elsewhere: bool = False) -> bool:
        """Return True if a command was sent before, else register it.

        `reply` is called with its one answer, immediately if there is one, else when it is given.
        `elsewhere`: true if another server asks.
        """
        id, digest = command.id, digest_of(command)
        known = self._answers.get(id)
        if known is None:
            looks = isinstance(command, READS)
            self._answers[id] = _Answer(digest, waiting={reply: elsewhere}, looks=looks)
            while len(self._answers) > REMEMBERED_ANSWERS:
                self.drop(next(iter(self._answers)))
            return False
        if known.sent != digest:
            error = CommandRefused("bad_request", f"the id {id!r} was used for another command")
            reply(refusal(id, error))
        elif known.frame is not None:
            reply(known.frame)
            if known.once:
                self.drop(id)
        else:
            known.waiting[reply] = elsewhere
        return True

    def drop(self, id: str) -> _Answer | None:
        """Forget the answer to a command."""
        self._room.forget(self, id)
        return self._answers.pop(id, None)

    def end(self) -> None:
        """Forget all answers: no connection can become this client any more."""
        for id in list(self._answers):
            self.drop(id)

    def forget(self, id: str) -> None:
        """Drop a command that was not carried out here because it is another server's."""
        message = "another server has this session now: send the command again"
        error = refusal(id, CommandRefused("unavailable", message))
        known = self.drop(id)
        for reply, elsewhere in known.waiting.items() if known else ():
            reply(NOT_HERE if elsewhere else error)

    def give_up(self, id: str) -> GivenUp:
        """Drop a command that the client must send again. Returns the error to refuse it with."""
        self.forget(id)
        return GivenUp("unavailable", "another server has answered this command")

    async def answered_elsewhere(self, command: ViewerCommand) -> CommandFields | None:
        """Return the answer to a command from another process that shares the store, or None.
        Raises `CommandRefused` if the id was used for another command.
        """
        known = None if self._name is None else await self._runtime.answer(self._name, command.id)
        if known is None:
            return None
        if known.digest != digest_of(command):
            raise CommandRefused(
                "bad_request", f"the id {command.id!r} was used for another command"
            )
        fields: CommandFields = msgspec.json.decode(known.body)
        return {name: value for name, value in fields.items() if name not in ("type", "id", "ok")}

    def answer_to(self, command: ViewerCommand, fields: CommandFields) -> CommandAnswer | None:
        """Return the answer to store for a command that was carried out, so that no other server
        repeats it. None if it cannot be sent again.
        """
        if self._name is None:
            return None
        return CommandAnswer(self._name, command.id, digest_of(command), ack(command.id, fields))

    def answer(self, id: str, frame: bytes) -> None:
        """Give the one answer to a command."""
        known = self._answers.get(id)
        if known is None:
            self._reply(frame)
            return
        known.frame = frame
        waiting, known.waiting = known.waiting, {}
        if known.looks:
            self.drop(id)
        else:
            self._room.remember(self, id, len(frame))
        for reply in waiting:
            reply(frame)

    def refuse(self, id: str, error: CommandRefused) -> None:
        """Refuse a command.

        If the store or another server is unreachable, the refusal is not final: sent again, the
        command is carried out, unless another server did so.
        """
        if isinstance(error, GivenUp):
            return  # `forget` has informed all who waited
        known = self._answers.get(id)
        given = self.is_here or (known is not None and any(known.waiting.values()))
        self.answer(id, refusal(id, error))
        if error.code == "unavailable" and known is not None:
            known.once = True
            if given:
                self.drop(id)

    def unstored(self, command: ViewerCommand) -> Unstored | None:
        """Return a command that is sent again, if it was carried out and not stored. Raises
        `CommandRefused` if the id was used for another command.
        """
        known = self._unstored.get(command.id)
        if known is not None and known.sent != digest_of(command):
            raise CommandRefused(
                "bad_request", f"the id {command.id!r} was used for another command"
            )
        return known

    def keep_unstored(self, id: str, unstored: Unstored | None) -> None:
        """Remember a command that was carried out and not stored; None: it is stored now."""
        self._unstored.pop(id, None)
        if unstored is None:
            return
        self._unstored[id] = unstored
        while len(self._unstored) > REMEMBERED_ANSWERS:
            self._unstored.popitem(last=False)

    def serve(self, steps: Steps[None], *, looks: bool = False) -> None:
        """Carry out a request until it has to wait; then a task continues it, whatever happens to
        the connection. The steps handle their own errors. The client is the origin of whatever they
        change.

        `looks`: they only show something to this connection, and end with it.
        """
        who, via = self.who, self.via
        with answering(who, via):
            job = next(steps, None)
        if job is not None:
            self._jobs += 1
            scope = trio.CancelScope()
            if looks:
                self._looks.add(scope)
            self._runtime.start_soon(self._serve, steps, job, who, via, scope)

    async def _serve(
        self, steps: Steps[None], job: Job | None, who: str, via: str, scope: trio.CancelScope
    ) -> None:
        try:
            with scope, answering(who, via), closing(steps):
                await self._finish(steps, job)
        finally:
            self._looks.discard(scope)

    async def _finish(self, steps: Steps[None], job: Job | None) -> None:
        """Continue a request after each of its waits, until it ends.

        Errors of a job are raised inside the steps, which handle them.
        """
        while job is not None:
            error: Exception | None = None
            fields: CommandFields = {}
            try:
                fields = await job()
            except Exception as raised:
                error = raised
            finally:
                self._jobs -= 1
            try:
                job = steps.send(fields) if error is None else steps.throw(error)
            except StopIteration:
                return
            self._jobs += 1

    def wait(self, job: Job, *, always: bool = False) -> Steps[CommandFields]:
        """Wait for a job within a request, and return its result. Raises its error.

        `always`: however many jobs are running. Raises `CommandRefused` if there are too many.
        """
        if not always:
            self.check_room()
        return (yield job)

    async def wait_for_earlier(self, place: CommandPlace, patience_s: float) -> CommandEvent:
        """Wait until the earlier commands are over, at most `patience_s` seconds. Returns the input
        for the command's machine.
        """
        with trio.move_on_after(patience_s):
            while (given := place.look()) is None:
                await self._order_changed.park()
            return given
        return CommandEvent.CLOCK

    def leave_order(self, session: str, place: CommandPlace, *, given_up: bool) -> None:
        """Let later commands to the session begin. `given_up`: this one must be sent again."""
        self.order.leave(session, place, given_up=given_up)
        self._order_changed.unpark_all()

    @property
    def can_return(self) -> bool:
        """True if another connection can become this client."""
        return self._name is not None

    @property
    def busy(self) -> bool:
        """True if something is running."""
        return self._jobs > 0

    @property
    def is_needed(self) -> bool:
        """True if the client is connected, or something waits for it."""
        return self.viewer is not None or self.at is not None or self.busy or self.calls.waiting

    @property
    def is_here(self) -> bool:
        """True if this server reports the results of its commands to it."""
        return self._name is None or self.viewer is not None

    @property
    def has_room(self) -> bool:
        """True if more can be started."""
        return self._jobs < MAX_JOBS

    def check_room(self) -> None:
        """Raise `CommandRefused` if nothing more can be started."""
        if not self.has_room:
            raise CommandRefused("limit", f"{MAX_JOBS} of your commands are already running")

    def _reply(self, frame: bytes) -> None:
        """Send a frame to the client's connection, if it has one."""
        if self.viewer is not None:
            self.viewer.reply(frame)


def digest_of(command: ViewerCommand) -> bytes:
    """Return a digest of a command that is the same in every process."""
    return hashlib.blake2b(encode_line(command), digest_size=16).digest()
