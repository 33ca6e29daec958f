"""The line to a server: one connection after the other, over which nothing is lost and nothing is
said twice.

Each command has an id and stays open until it is answered: what a cut line has swallowed is sent
again by the next one, under the same id, and the server carries it out once. Each session that is
followed has a cursor: the next connection goes on behind it.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec
import trio
from msgspec import Struct
from trio_websocket import ConnectionClosed, WebSocketConnection

from .._errors import (
    AgentrtError,
    Busy,
    LimitExceeded,
    LocalProtocolError,
    SessionNotFound,
    StoreUnavailable,
)
from .._limits import Limits
from .._model.content import JsonObject
from .._model.events import Event
from .._model.state import Snapshot
from .._nesting import bare_errors
from .._runtime.register import SessionInfo
from .._web import commands as c
from .._web.address import Address
from .._web.dial import Unreachable, dial
from .._wire.json import encode_line
from .frames import (
    Ack,
    Closing,
    EventFrame,
    Frame,
    Ready,
    Sessions,
    SnapshotFrame,
    Unknown,
    fields_of,
    frames_of,
)

PAUSE: Final = 0.2
LONGEST: Final = 5.0
"""Seconds ahead of another try: at first, and at the most, where it doubles each time."""

SILENCE: Final = 2.5
"""Beats of the server that may be missing before the line is taken for cut."""

Where: TypeAlias = Callable[[], tuple[Address, str]]
"""Says where the server is, and its token: both may be others when it has been started anew."""
Done: TypeAlias = Callable[[JsonObject], None]
Fail: TypeAlias = Callable[[AgentrtError], None]

_ERRORS: Final[dict[str, type[AgentrtError]]] = {
    "unknown_session": SessionNotFound,
    "busy": Busy,
    "limit": LimitExceeded,
    "unavailable": StoreUnavailable,
    "agent_failed": AgentrtError,
    "internal": AgentrtError,
}
"""What a refused command raises; for all other codes `LocalProtocolError`."""


class Follower(Protocol):
    """A session that is followed."""

    @property
    def cursor(self) -> c.Known:
        """The session, and up to where it is known."""
        ...

    def attached(self, answer: str) -> None:
        """The server has been asked for it: `replay`, `snapshot` or `unknown_session`."""
        ...

    def refused(self, error: AgentrtError) -> None:
        """The server does not show it. Raises the error if another connection should be tried."""
        ...

    def take_snapshot(self, snapshot: Snapshot) -> None: ...

    def take_event(self, epoch: str, seq: int, event: Event | None) -> None:
        """The next event; None: one that nobody here knows. Raises `OutOfOrder`."""
        ...

    def cut(self, why: str) -> None:
        """There is no connection any more; once until there is one again."""
        ...

    async def room(self) -> None:
        """Wait until what has come has been read, more or less."""
        ...


class OutOfOrder(Exception):
    """Something is missing between what is known and what came."""


class _Said(Struct):
    """A command that is not answered yet."""

    frame: bytes
    done: Done
    fail: Fail
    again: bool = True
    """It is said again by the next connection, unless that one's greeting says it."""


class Line:
    """One client's connections to a server, the next one behind the last. Run `run` as a task."""

    def __init__(self, where: Where, limits: Limits) -> None:
        self.server: Address | None = None
        """Where it is, or was when it could be reached last."""
        self.ready: Ready | None = None
        """How the server has greeted; None until it has."""
        self.sessions: list[SessionInfo] = []
        """Those that the server has, as far as it lists them by itself, the newest last."""
        self.trouble = ""
        """Why there is no connection now; empty if there is one."""
        self._where = where
        self._limits = limits
        self._name = secrets.token_hex(16)
        self._ids = 0
        self._open: dict[str, _Said] = {}
        self._followers: dict[str, Follower] = {}
        self._out: trio.MemorySendChannel[bytes] | None = None
        self._reason = ""

    # --- what is said

    def send(self, command: c.Command, done: Done, fail: Fail, *, again: bool = True) -> None:
        """Have a command carried out, on this connection or a later one; its id is made here.
        `done` gets what the server answers, `fail` what keeps it from that."""
        self._ids += 1
        command.id = f"{self._ids}"
        frame = encode_line(command)[:-1]
        most = self.ready.limits.get("frame") if self.ready is not None else None
        if isinstance(most, int) and len(frame) > most:
            raise LimitExceeded(f"that is longer than {most} bytes, which the server does not take")
        self._open[command.id] = _Said(frame, done, fail, again)
        if self._out is not None:
            self._out.send_nowait(frame)

    async def ask(self, command: c.Command) -> JsonObject:
        """The same, and wait for the answer; while there is no connection, for that. Raises what
        the server has refused it for. Cancelling it leaves the outcome open."""
        answered = trio.Event()
        answer: JsonObject = {}
        problem: AgentrtError | None = None

        def done(fields: JsonObject) -> None:
            answer.update(fields)
            answered.set()

        def fail(error: AgentrtError) -> None:
            nonlocal problem
            problem = error
            answered.set()

        self.send(command, done, fail)
        await answered.wait()
        if problem is not None:
            raise problem
        return answer

    def follow(self, session: str, follower: Follower) -> None:
        """Receive what happens in a session from now on."""
        self._followers[session] = follower
        if self._out is not None:
            known = follower.cursor
            attach = c.Attach(id="", session=session, epoch=known.epoch, seq=known.seq)
            self.send(
                attach,
                lambda fields: follower.attached(str(fields.get("answer"))),
                follower.refused,
                again=False,
            )

    def unfollow(self, session: str) -> None:
        if self._followers.pop(session, None) is not None and self._out is not None:
            self.send(c.Detach(id="", session=session), _nothing, _nothing, again=False)

    # --- one connection after the other

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep up the line until cancelled; started when the server has greeted. Raises
        `AgentrtError` if it does not do so the first time."""
        pause = PAUSE
        while True:
            self._reason = ""
            refused = False
            try:
                server, token = self._where()
                async with dial(server, "/ws", token, self._limits) as socket:
                    await self._talk(server, socket, lambda: task_status.started())
                if self.ready is None:
                    raise Unreachable(self._reason or f"{server} has closed the connection")
            except AgentrtError as error:
                if self.ready is None:
                    raise
                self._reason = str(error)
                refused = isinstance(error, StoreUnavailable)
            if not self.trouble:
                pause = pause if refused else PAUSE
                self.trouble = self._reason or "the connection is cut"
                for follower in list(self._followers.values()):
                    follower.cut(self.trouble)
            await trio.sleep(pause * random.uniform(0.5, 1.0))  # not all at once
            pause = min(2 * pause, LONGEST)

    async def _talk(
        self, server: Address, socket: WebSocketConnection, greeted: Callable[[], None]
    ) -> None:
        """Use a connection until it is cut."""
        send, out = trio.open_memory_channel[bytes](float("inf"))  # what is open bounds it
        hello = c.Hello(
            id=f"hello-{secrets.token_hex(4)}",
            client=self._name,
            name="agentrt",
            sessions=[each.cursor for each in self._followers.values()],
        )
        send.send_nowait(encode_line(hello)[:-1])
        self._open = {id: said for id, said in self._open.items() if said.again}
        for said in self._open.values():
            send.send_nowait(said.frame)
        self._open[hello.id] = _Said(b"", self._attached, _nothing, again=False)
        self._out = send

        async def write() -> None:
            try:
                async for frame in out:
                    await socket.send_message(frame.decode())
            except ConnectionClosed:
                pass  # the reader sees it, too

        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(write)
                await self._read(server, socket, greeted)
                nursery.cancel_scope.cancel(reason="the connection is over")
        finally:
            self._out = None

    async def _read(
        self, server: Address, socket: WebSocketConnection, greeted: Callable[[], None]
    ) -> None:
        while True:
            beat = self.ready.beat_s if self.ready is not None else self._limits.beat
            with trio.move_on_after(SILENCE * beat) as silence:
                try:
                    message = await socket.get_message()
                except ConnectionClosed:
                    return
            if silence.cancelled_caught:
                self._reason = "nothing has come from the server for too long"
                return
            try:
                for frame, raw in frames_of(message if isinstance(message, str) else ""):
                    if isinstance(frame, Ready):
                        self.server, self.trouble = server, ""
                        self.sessions = frame.sessions
                        if self.ready is None:
                            greeted()
                        self.ready = frame
                    elif isinstance(frame, Ack):
                        self._answered(frame, fields_of(raw))
                    else:
                        self._take(frame)
            except (msgspec.DecodeError, OutOfOrder) as error:
                self._reason = f"the server says what makes no sense: {error}"
                return
            for follower in list(self._followers.values()):
                await follower.room()

    def _take(self, frame: Frame | Unknown) -> None:
        match frame:
            case EventFrame(session=session, epoch=epoch, seq=seq, event=event):
                if (follower := self._followers.get(session)) is not None:
                    follower.take_event(epoch, seq, event)
            case Unknown(session=session, epoch=epoch, seq=seq):
                if (follower := self._followers.get(session)) is not None:
                    follower.take_event(epoch, seq, None)
            case SnapshotFrame(session=session):
                if (follower := self._followers.get(session)) is not None:
                    follower.take_snapshot(frame)
            case Sessions(sessions=sessions):
                self.sessions = sessions
            case Closing(reason=reason):
                self._reason = reason

    def _answered(self, ack: Ack, fields: JsonObject) -> None:
        said = self._open.pop(ack.id or "", None)
        if said is None:
            return
        if ack.error is None:
            said.done(fields)
        else:
            said.fail(_ERRORS.get(ack.error.code, LocalProtocolError)(ack.error.message))

    def _attached(self, fields: JsonObject) -> None:
        """The answer to `hello`."""
        answers = fields.get("sessions")
        for session, answer in answers.items() if isinstance(answers, dict) else ():
            if (follower := self._followers.get(session)) is not None:
                if answer == "unavailable":
                    follower.refused(StoreUnavailable("the server cannot read the session now"))
                else:
                    follower.attached(str(answer))


def _nothing(_: object) -> None:
    pass
