"""The client's line to a server: successive connections, without losing or repeating anything.

Each command has an id and stays open until it is answered. If a connection is cut, the next one
sends the open commands again with the same ids, and the server carries out each of them once. Each
followed session has a cursor, from which the next connection continues.
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

from ..._base.nesting import bare_errors
from ..._public import Limits, SessionInfo
from ...errors import (
    AgentrtError,
    Busy,
    LimitExceeded,
    LocalProtocolError,
    SessionNotFound,
    StoreUnavailable,
)
from ...events import Event, JsonObject, Snapshot
from ...jsonrpc import encode_json
from .. import commands as c
from ..address import ServerAddress
from ..dial import Unreachable, dial
from ..native_frames import (
    AckFrame,
    ClosingFrame,
    EventFrame,
    ReadyFrame,
    SessionsFrame,
    SnapshotFrame,
)
from .frames import Frame, UnknownEvent, fields_of, frames_of

FIRST_RETRY_PAUSE_S: Final = 0.2
MAX_RETRY_PAUSE_S: Final = 5.0
"""Seconds before another try: the first pause and the maximum; it doubles each time."""

MAX_MISSED_BEATS: Final = 2.5
"""Number of server beats that may be missing before the connection counts as cut."""

Where: TypeAlias = Callable[[], tuple[ServerAddress, str]]
"""Returns the server's address and its token; both may change when the server is restarted."""
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
"""Exceptions for the codes of refused commands; `LocalProtocolError` for all other codes."""


class FollowedSession(Protocol):
    """A session that is followed."""

    @property
    def cursor(self) -> c.Known:
        """The session, and the position up to which it is known."""
        ...

    def attached(self, answer: str) -> None:
        """Handle the answer to attaching: `replay`, `snapshot` or `unknown_session`."""
        ...

    def refused(self, error: AgentrtError) -> None:
        """Handle the server's refusal to show the session. Raises the error if another connection
        should be tried.
        """
        ...

    def take_snapshot(self, snapshot: Snapshot) -> None: ...

    def take_event(self, epoch: str, seq: int, event: Event | None, since: int) -> None:
        """Take the next event; None stands for an event that this client does not know.

        `since`: the number of the event before it, because it may stand for several. Raises
        `OutOfOrder`.
        """
        ...

    def cut(self, why: str) -> None:
        """Handle the loss of the connection. Called once until there is a connection again."""
        ...

    async def room(self) -> None:
        """Wait until the follower has room for more events."""
        ...


class OutOfOrder(Exception):
    """Something is missing between the known events and those received."""


class _OpenCommand(Struct):
    """A command that is not answered yet."""

    frame: bytes
    done: Done
    fail: Fail
    again: bool = True
    """True if the next connection sends it again; false if that connection's `hello` replaces
    it.
    """


class ServerLine:
    """One client's successive connections to a server. Start `run` as a task."""

    def __init__(self, where: Where, limits: Limits) -> None:
        self.server: ServerAddress | None = None
        """The server's current address, or the last one at which it could be reached."""
        self.ready: ReadyFrame | None = None
        """The server's `ready` frame; None before the first one."""
        self.sessions: list[SessionInfo] = []
        """The sessions that the server lists by itself, the newest last."""
        self.trouble = ""
        """The reason for the missing connection; empty while connected."""
        self._where = where
        self._limits = limits
        self._name = secrets.token_hex(16)
        self._ids = 0
        self._open: dict[str, _OpenCommand] = {}
        self._followers: dict[str, FollowedSession] = {}
        self._out: trio.MemorySendChannel[bytes] | None = None
        self._reason = ""

    # --- commands

    def send(self, command: c.ViewerCommand, done: Done, fail: Fail, *, again: bool = True) -> None:
        """Send a command, on this connection or a later one, with a new id.

        `done` gets the server's answer, `fail` the error if the command is refused. `again`: if
        false, it is not sent again on a later connection. Raises `LimitExceeded` if it is longer
        than the server accepts.
        """
        self._ids += 1
        command.id = f"{self._ids}"
        frame = encode_json(command)
        most = self.ready.limits.frame if self.ready is not None else None
        if most and len(frame) > most:
            raise LimitExceeded(
                f"the message is longer than the {most} bytes that the server accepts"
            )
        self._open[command.id] = _OpenCommand(frame, done, fail, again)
        if self._out is not None:
            self._out.send_nowait(frame)

    async def ask(self, command: c.ViewerCommand) -> JsonObject:
        """Send a command and wait for the answer, if necessary until there is a connection again.

        Raises the error with which the server refused it. Cancelling it leaves the outcome open.
        """
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

    def follow(self, session: str, follower: FollowedSession) -> None:
        """Receive the events of a session from now on."""
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
        """Stop receiving the events of a session."""
        if self._followers.pop(session, None) is not None and self._out is not None:
            self.send(c.Detach(id="", session=session), _nothing, _nothing, again=False)

    # --- successive connections

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep up the line until cancelled.

        It counts as started when the server has sent `ready`. Raises `AgentrtError` if the first
        connection does not get that far.
        """
        pause = FIRST_RETRY_PAUSE_S
        while True:
            self._reason = ""
            refused = False
            try:
                server, token = self._where()
                async with dial(server, "/ws", token, self._limits) as socket:
                    await self._use_connection(server, socket, lambda: task_status.started())
                if self.ready is None:
                    raise Unreachable(self._reason or f"{server} has closed the connection")
            except AgentrtError as error:
                if self.ready is None:
                    raise
                self._reason = str(error)
                refused = isinstance(error, StoreUnavailable)
            if not self.trouble:
                pause = pause if refused else FIRST_RETRY_PAUSE_S
                self.trouble = self._reason or "the connection is cut"
                for follower in list(self._followers.values()):
                    follower.cut(self.trouble)
            await trio.sleep(pause * random.uniform(0.5, 1.0))  # spreads the clients' retries
            pause = min(2 * pause, MAX_RETRY_PAUSE_S)

    async def _use_connection(
        self, server: ServerAddress, socket: WebSocketConnection, greeted: Callable[[], None]
    ) -> None:
        """Use a connection until it is cut."""
        send, out = trio.open_memory_channel[bytes](float("inf"))  # bounded by the open commands
        hello = c.Hello(
            id=f"hello-{secrets.token_hex(4)}",
            client=self._name,
            name="agentrt",
            sessions=[each.cursor for each in self._followers.values()],
        )
        send.send_nowait(encode_json(hello))
        self._open = {id: said for id, said in self._open.items() if said.again}
        for said in self._open.values():
            send.send_nowait(said.frame)
        self._open[hello.id] = _OpenCommand(b"", self._attached, _nothing, again=False)
        self._out = send

        async def write() -> None:
            """Send the queued frames. The end of the connection is noticed by reading, so it is
            ignored here.
            """
            try:
                async for frame in out:
                    await socket.send_message(frame.decode())
            except ConnectionClosed:
                pass  # the reader notices it, too

        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(write)
                await self._read(server, socket, greeted)
                nursery.cancel_scope.cancel(reason="the connection is over")
        finally:
            self._out = None

    async def _read(
        self, server: ServerAddress, socket: WebSocketConnection, greeted: Callable[[], None]
    ) -> None:
        """Read frames until the connection ends, is silent for too long, or breaks the protocol.

        The reason is kept for the next attempt's message. After each WebSocket message it waits
        until every follower has room: a slow reader slows the server down instead of filling
        memory.
        """
        while True:
            beat = self.ready.beat_s if self.ready is not None else self._limits.position_interval_s
            with trio.move_on_after(MAX_MISSED_BEATS * beat) as silence:
                try:
                    message = await socket.get_message()
                except ConnectionClosed:
                    return
            if silence.cancelled_caught:
                self._reason = "the server has sent nothing for too long"
                return
            try:
                for frame, raw in frames_of(message if isinstance(message, str) else ""):
                    if isinstance(frame, ReadyFrame):
                        self.server, self.trouble = server, ""
                        self.sessions = frame.sessions
                        if self.ready is None:
                            greeted()
                        self.ready = frame
                    elif isinstance(frame, AckFrame):
                        self._answered(frame, fields_of(raw))
                    else:
                        self._take(frame)
            except (msgspec.DecodeError, OutOfOrder) as error:
                self._reason = f"the server sent an invalid message: {error}"
                return
            for follower in list(self._followers.values()):
                await follower.room()

    def _take(self, frame: Frame | UnknownEvent) -> None:
        """Pass a frame to the session that it is about. Frames of sessions that are not followed
        any more are dropped. Raises `OutOfOrder`.

        An event that this version does not know counts as received, so that the numbers stay in
        order.
        """
        match frame:
            case EventFrame(session=session) | UnknownEvent(session=session):
                if (follower := self._followers.get(session)) is not None:
                    event = frame.event if isinstance(frame, EventFrame) else None
                    since = frame.since if isinstance(frame.since, int) else frame.seq - 1
                    follower.take_event(frame.epoch, frame.seq, event, since)
            case SnapshotFrame(session=session):
                if (follower := self._followers.get(session)) is not None:
                    follower.take_snapshot(frame)
            case SessionsFrame(sessions=sessions):
                self.sessions = sessions
            case ClosingFrame(reason=reason):
                self._reason = reason

    def _answered(self, ack: AckFrame, fields: JsonObject) -> None:
        """Finish an open command. An answer to an unknown id is ignored: it is that of an earlier
        connection.
        """
        said = self._open.pop(ack.id or "", None)
        if said is None:
            return
        if ack.error is None:
            said.done(fields)
        else:
            said.fail(_ERRORS.get(ack.error.code, LocalProtocolError)(ack.error.message))

    def _attached(self, fields: JsonObject) -> None:
        """Handle the answer to `hello`."""
        answers = fields.get("sessions")
        for session, answer in answers.items() if isinstance(answers, dict) else ():
            if (follower := self._followers.get(session)) is not None:
                if answer == "unavailable":
                    follower.refused(StoreUnavailable("the server cannot read the session now"))
                else:
                    follower.attached(str(answer))


def _nothing(_: object) -> None:
    pass
