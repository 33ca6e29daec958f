"""What is remembered of one client, which may come back on another connection: the answers to its
commands, the tools that it runs, and what it has under way.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
import trio
from msgspec import Struct

from .._errors import StoreUnavailable
from .._journal.base import Answer
from .._journal.store import Store
from .._model.content import JsonObject
from .._runtime.runtime import Runtime
from .._tools.client_tools import ClientTools
from .._tools.tools import Tool
from .._wire.json import encode_line
from .answers import Fields, Refused, ack, as_refusal, refusal
from .commands import Command, FindFiles, ToolOffer
from .viewer import Viewer

ANSWERS: Final = 512
"""Answers that are remembered for each: more than a client can have under way."""

JOBS: Final = 32
"""Commands of one client that may be under way: most are over at once, opening a session is not."""

NOT_HERE: Final = b""
"""The answer to a command that another server is to carry out."""

Job: TypeAlias = Callable[[], Awaitable[Fields]]
Done: TypeAlias = Callable[[Fields], None]
Fail: TypeAlias = Callable[[Refused], None]
Reply: TypeAlias = Callable[[bytes], None]


class _Begun(Struct):
    """A command that was carried out, but refused as `unavailable` because that could not be stored
    in time. `job` waits for it once more."""

    sent: bytes
    job: Job


class GivenUp(Refused):
    """A command was not carried out here, as its client is not here any more: it sends it again."""


class AnswerRoom:
    """The bytes that all clients of a tenant may have in remembered answers. The oldest answers
    are forgotten first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._sizes: OrderedDict[tuple[Client, str], int] = OrderedDict()
        self.used_bytes = 0

    def remember(self, client: Client, id: str, size_bytes: int) -> None:
        """Count an answer, and forget older ones that there is no room for."""
        self.forget(client, id)
        self._sizes[client, id] = size_bytes
        self.used_bytes += size_bytes
        while self.used_bytes > self._limit_bytes:
            oldest, name = next(iter(self._sizes))
            oldest.drop(name)

    def forget(self, client: Client, id: str) -> None:
        """An answer is not remembered any more, if it was."""
        self.used_bytes -= self._sizes.pop((client, id), 0)


class _Answer(Struct):
    """What became of one command: `sent` stands for what it said. `frame` is None while it is under
    way; `waiting`: who is given it then, and whether that is another server. `once`: it is no
    answer any more when somebody was given it. `looks`: the command changes nothing, so that its
    answer is not remembered."""

    sent: bytes
    frame: bytes | None = None
    waiting: dict[Reply, bool] = {}
    once: bool = False
    looks: bool = False


class _Place:
    """A command's, in the order of what its client says to a session."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.given_up = False


class Client:
    """`name`: what another connection can say to be this client; None if none can be. `answered`:
    what an earlier server has answered it."""

    def __init__(
        self,
        runtime: Runtime,
        room: AnswerRoom,
        *,
        name: str | None,
        answered: Iterable[Answer] = (),
    ) -> None:
        self.viewer: Viewer | None = None
        self.offers: dict[str, ToolOffer] = {}
        self.tools: tuple[Tool, ...] = ()
        self.calls = ClientTools()
        self.mcp_servers: dict[str, Sequence[JsonObject]] = {}
        """By session: what its agent gets when this client has it opened again."""
        self.roots: dict[str, Sequence[str]] = {}
        """By session: as above, in the place of those that are stored."""
        self._runtime = runtime
        self._grace = runtime.limits.client_return if name is not None else 0.0
        self._name = name
        self.key = name or f"~{secrets.token_hex(16)}"
        """What other servers know it by, for as long as this one does."""
        self.at: int | None = None
        """The lease of the server where it is, if that is another one."""
        self.away: set[str] = set()
        """The sessions of other servers in which it may be asked to run a tool."""
        self._room = room
        self._answers = OrderedDict(
            (each.id, _Answer(each.digest, each.body)) for each in list(answered)[-ANSWERS:]
        )
        for id, each in list(self._answers.items()):
            room.remember(self, id, len(each.frame or b""))
        self._begun: OrderedDict[str, _Begun] = OrderedDict()
        """Commands that were carried out and have no answer that is stored."""
        self._jobs = 0
        self._ahead: dict[str, _Place] = {}
        """By session: that of the last command that others wait behind."""

    @property
    def who(self) -> str:
        """The holder of the credentials that it came with."""
        tenant = self._runtime.tenant
        return f"tenant {tenant.name}" if tenant is not None else "the server's token"

    @property
    def via(self) -> str:
        """The protocol that it speaks, and the name that it gave itself."""
        return "another server" if self.viewer is None else self.viewer.via

    def offer(self, tools: Iterable[ToolOffer]) -> None:
        """It runs these tools, and no others; the sessions that it opens get them."""
        deadline = self._runtime.limits.client_tool
        self.offers = {tool.name: tool for tool in tools}
        self.tools = tuple(
            self.calls.make(tool.name, tool.description, tool.input_schema, deadline=deadline)
            for tool in self.offers.values()
        )
        self.calls.offer(self.offers)

    def leave(self) -> None:
        """Its connection is gone; what it asked for goes on."""
        self.viewer = None
        self.calls.disconnect(self._grace)

    def seen(self, command: Command, reply: Reply, *, elsewhere: bool = False) -> bool:
        """Whether a command was sent before. `reply` is given the one answer to it: that of then,
        or what is answered yet. `elsewhere`: it is another server that asks."""
        id, digest = command.id, digest_of(command)
        known = self._answers.get(id)
        if known is None:
            looks = isinstance(command, FindFiles)
            self._answers[id] = _Answer(digest, waiting={reply: elsewhere}, looks=looks)
            while len(self._answers) > ANSWERS:
                self.drop(next(iter(self._answers)))
            return False
        if known.sent != digest:
            error = Refused("bad_request", f"the id {id!r} was used for another command")
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
        """Nobody can come back as this client."""
        for id in list(self._answers):
            self.drop(id)

    def forget(self, id: str) -> None:
        """A command was not carried out here: it is another server's."""
        message = "another server has this session now: send the command again"
        error = refusal(id, Refused("unavailable", message))
        known = self.drop(id)
        for reply, elsewhere in known.waiting.items() if known else ():
            reply(NOT_HERE if elsewhere else error)

    def give_up(self, id: str) -> GivenUp:
        """A command is left to be sent again: what it is refused for."""
        self.forget(id)
        return GivenUp("unavailable", "another server has answered this command")

    async def answered_elsewhere(self, store: Store, command: Command) -> Fields | None:
        """What another process that shares the store has answered to a command, if any has. Raises
        `Refused` if the id was used for another one."""
        known = None if self._name is None else await store.answer(self._name, command.id)
        if known is None:
            return None
        if known.digest != digest_of(command):
            raise Refused("bad_request", f"the id {command.id!r} was used for another command")
        fields: Fields = msgspec.json.decode(known.body)
        return {name: value for name, value in fields.items() if name not in ("type", "id", "ok")}

    def answer_to(self, command: Command, fields: Fields) -> Answer | None:
        """What is to be stored of a command that was carried out, so that another server does not
        do it again. None: nobody could send it again."""
        if self._name is None:
            return None
        return Answer(self._name, command.id, digest_of(command), ack(command.id, fields))

    def answer(self, id: str, frame: bytes) -> None:
        """The one answer to a command."""
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

    def refuse(self, id: str, error: Refused) -> None:
        """The same where it was not carried out. That the store, or another server, is out of reach
        is no answer for ever: sent again, it is carried out, unless it has been elsewhere."""
        if isinstance(error, GivenUp):
            return  # `forget` has said so to whoever waited
        known = self._answers.get(id)
        given = self.is_here or (known is not None and any(known.waiting.values()))
        self.answer(id, refusal(id, error))
        if error.code == "unavailable" and known is not None:
            known.once = True
            if given:
                self.drop(id)

    def begun(self, command: Command) -> Job | None:
        """The rest of a command that was carried out before, and is sent again because its answer
        could not be stored: what is to be waited for in the place of carrying it out once more.
        Raises `Refused` if the id was used for another command."""
        known = self._begun.get(command.id)
        if known is not None and known.sent != digest_of(command):
            raise Refused("bad_request", f"the id {command.id!r} was used for another command")
        return None if known is None else known.job

    def once(self, command: Command, job: Job) -> Job:
        """Make sure that a command which has been carried out is not carried out again if `job`,
        which waits until that is stored, is given up."""

        async def waits() -> Fields:
            try:
                fields = await job()
            except StoreUnavailable:
                self._begun[command.id] = _Begun(digest_of(command), waits)
                self._begun.move_to_end(command.id)
                while len(self._begun) > ANSWERS:
                    self._begun.popitem(last=False)
                raise
            self._begun.pop(command.id, None)
            return fields

        return waits

    def start(self, job: Job, done: Done, fail: Fail, *, always: bool = False) -> None:
        """Carry out what takes time, whatever becomes of the connection; then `done`, or `fail`
        with what went wrong, also in `done`. `always`: however much is under way. Raises
        `Refused`."""
        if not always:
            self.check_room()
        self._jobs += 1
        self._runtime.start_soon(self._run, job, done, fail)

    def in_order(self, session: str, id: str, job: Job, *, holds: bool, patience: float) -> Job:
        """A job that begins behind those of the session that were made before it and that hold up
        others; `holds`: so does this one, until it is over. It is to be started. `patience`:
        seconds that it waits at most."""
        ahead, mine = self._ahead.get(session), _Place()
        if holds:
            self._ahead[session] = mine

        async def begun_in_order() -> Fields:
            try:
                if ahead is not None:
                    with trio.move_on_after(patience):
                        await ahead.over.wait()
                    if holds and ahead.given_up:
                        raise self.give_up(id)  # they are sent again in their order
                return await job()
            except GivenUp:
                mine.given_up = True
                raise
            finally:
                mine.over.set()
                if self._ahead.get(session) is mine:
                    del self._ahead[session]

        return begun_in_order

    @property
    def can_return(self) -> bool:
        """Whether another connection can be this client."""
        return self._name is not None

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return self._jobs > 0

    @property
    def is_needed(self) -> bool:
        """Whether it is there, or something waits for it."""
        return self.viewer is not None or self.at is not None or self.busy or self.calls.waiting

    @property
    def is_here(self) -> bool:
        """Whether it is this server that tells it what comes of its commands."""
        return self._name is None or self.viewer is not None

    @property
    def has_room(self) -> bool:
        """Whether more can be started."""
        return self._jobs < JOBS

    def check_room(self) -> None:
        """Raises `Refused` if nothing more can be started."""
        if not self.has_room:
            raise Refused("limit", f"{JOBS} commands of yours are under way already")

    async def _run(self, job: Job, done: Done, fail: Fail) -> None:
        try:
            try:
                fields = await job()
            finally:
                self._jobs -= 1
            done(fields)
        except Exception as error:
            fail(as_refusal(error))

    def _reply(self, frame: bytes) -> None:
        if self.viewer is not None:
            self.viewer.reply(frame)


def digest_of(command: Command) -> bytes:
    """The same in every process."""
    return hashlib.blake2b(encode_line(command), digest_size=16).digest()
