"""A recorded agent, played back under the same drivers.

It repeats its output for a host that repeats the recorded host's messages.

A message of the host is matched with the recording by its method and its significant parameters,
not by its place or id. Each message of the agent waits for the same messages as in the recording,
and has the recorded delay, by Trio's clock.

A recording has one list of records for each start of the agent; a `_ReplayPlayer` plays one list in
the place of that process. It goes through the records in order. At a record of the agent it writes
the recorded output, after the recorded pause. At a record of the host it waits until the host has
sent that message: `_expected` has the messages that are outstanding, and a message that arrives
early is taken from it.

Times are Trio's, so with a `MockClock` a recorded night takes no time. `speed` divides the pauses
of the agent, but not `patience`.

Ids are chosen anew by each host, so the recorded ids are replaced in the agent's output by those
that the present host has used for the same messages.

agentrt differs from some recorded hosts: it queues a prompt that was sent during a turn, and always
answers the agent's requests. Such places do not end the session but are reported by `Replay.check`,
because the agent can continue as recorded.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import trio
from msgspec import Struct

from .._base.nesting import bare_errors
from .._public import Session
from ..agents import ProtocolName
from ..effects import ServiceRequested
from ..errors import AgentrtError, RequestError
from ..events import JsonObject
from ..jsonrpc import INTERNAL_ERROR
from ..tracing import TraceRecord, read_trace
from .enacting import RecordedAgent
from .memory import MemoryAgent
from .sessions import open_fake_session

_MATTERS: Final = (
    "prompt",
    "modeId",
    "modelId",
    "configId",
    "optionId",
    "value",
    "mode",
    "model",
    "input",
    "effort",
    "sandboxPolicy",
)
"""Parameters that distinguish requests. Folders, servers, versions and ids do not."""
_FIRST_PID: Final = 100_000
"""The first process id, if it was not recorded."""
_GOODBYES: Final = frozenset({"session/close", "end_session"})
"""Messages of hosts that leave sooner than the recorded one did."""
_CANCELS: Final = frozenset({"session/cancel", "$/cancel_request", "interrupt", "turn/interrupt"})
_IN_A_TURN: Final = "the recorded host prompted while a turn ran, which agentrt does not"
_SERVICES: Final = ("fs", "terminal")
_json: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


class ReplayMismatch(AgentrtError):
    """The host did not do the same as in the recording.

    `number` is the record's place in the recording of its process, starting at 1, and `record` is
    that record; None if the host's message is not in the recording. `number` is 0 if the number of
    processes or sessions is different.
    """

    def __init__(self, message: str, number: int, record: TraceRecord | None) -> None:
        super().__init__(message)
        self.number = number
        self.record = record


class _RecordedMessage(Struct, kw_only=True):
    """A message of the recorded host, or of the current one."""

    what: str
    """Method or kind, for people."""
    key: Any
    """The value that messages are matched by."""
    ids: list[str | int] = []
    """Ids that the host chose and that the agent's answer repeats."""
    answers: bool = False
    uncompared: bool = False
    """True if part of it was redacted, so only its kind is compared."""

    def fits(self, other: _RecordedMessage) -> bool:
        """Return True if a message of the present host stands for this recorded one."""
        if self.what != other.what or self.answers != other.answers:
            return False
        return self.uncompared or self.key == other.key


class Replay:
    """The processes of a recorded session, one for each start of the agent. Made by `replay`.

    A replay can be played once. Open its session by `open_session`, then either prompt it yourself,
    with the recorded prompts, or let `enact` repeat all of the recorded user's actions. Call
    `check` after it.
    """

    def __init__(
        self,
        records: Iterable[TraceRecord],
        *,
        speed: float = 1.0,
        patience: float = 60.0,
        stop: TraceRecord | None = None,
    ) -> None:
        """Create the playback.

        - `records`: those of one session, of all its processes.
        - `speed`, `patience`: see `replay`.
        - `stop`: one of the records. The session's turn is cancelled when the replay reaches it.
        """
        records = list(records)
        self.agent: str = next((r.agent for r in records if r.agent), "replayed")
        """The agent's name."""
        self.protocol: ProtocolName = (
            "claude"
            if any(r.protocol == "claude" for r in records)
            else "codex"
            if any(r.protocol == "codex" for r in records)
            else "acp"
        )
        """The agent's protocol."""
        self.acp_version: Literal[1, 2] = 2 if any(map(_asks_for_2, records)) else 1
        """The version of ACP that the recorded host asked for."""
        self._began = records[0].t if records else 0.0
        self._processes = [
            list(group) for _, group in groupby((r for r in records if r.process), _process_of)
        ]
        self._speed = speed
        self._patience = patience
        self._stop = stop
        self._session: Session | None = None
        self._started: list[_ReplayPlayer] = []
        self._starts = trio.lowlevel.ParkingLot()

    def start(self) -> MemoryAgent:
        """Return the next recorded process, for `open_fake_session`.

        The first call returns the first process, and each restart of the agent the next one. Raises
        `ReplayMismatch` if the recording has no further process.
        """
        number = len(self._started)
        if number == len(self._processes):
            raise ReplayMismatch(
                f"the agent was started {number} time(s), and the recording starts it once more",
                0,
                None,
            )
        records = self._processes[number]
        player = _ReplayPlayer(records, self._speed, self._patience)
        if self._stop is not None:
            player.cancels_at(self._stop, self._cancel)
        self._started.append(player)
        self._starts.unpark_all()
        pid = next((r.pid for r in records if r.kind == "started"), None)
        return MemoryAgent(player.play, pid=pid or _FIRST_PID + number)

    @asynccontextmanager
    async def open_session(self, **options: Any) -> AsyncIterator[Session]:
        """Open a session with the recorded agent.

        Its times begin with the recording's; `options` are those of `open_fake_session`. Raises
        `ReplayMismatch` without the errors that follow from it, such as the agent's exit. Yields
        the `Session`. Leaving the block before the end of the recording is not an error; `check`
        reports what the host left out.
        """
        began = self._began - trio.current_time()
        now = partial(_later, began)
        options = {
            "name": self.agent,
            "protocol": self.protocol,
            "acp_version": self.acp_version,
            "now": now,
            **options,
        }
        try:
            async with open_fake_session(self.start, services=self.services, **options) as session:
                self.plays_for(session)
                yield session
        except BaseExceptionGroup as errors:
            if (departed := _departed_in(errors)) is None:
                raise
            raise departed from None

    def plays_for(self, session: Session) -> None:
        """Set the session in which `stop` cancels the turn.

        Only needed for sessions that `open_session` has not opened.
        """
        self._session = session

    def _cancel(self) -> None:
        """Cancel the session's turn, at the record where the replay must stop."""
        if self._session is not None:
            self._session.cancel()

    @property
    def services(self) -> dict[str, Callable[[ServiceRequested], Awaitable[Any]]]:
        """Services that answer the agent's requests as the recorded host did.

        Files are neither read nor written, and no command is run: the answers are the recorded
        ones. Give it to `open_fake_session` as `services`.
        """
        return dict.fromkeys(_SERVICES, self._serve)

    async def _serve(self, asked: ServiceRequested) -> Any:
        """Answer a request of the agent with the recorded answer, in the process that runs now."""
        return await self._started[-1].serve(asked)

    async def enact(self, session: Session) -> None:
        """Repeat the recorded host's actions on `session`, each at its recorded place.

        The actions are prompts, answers to the agent's requests, cancels and settings. Returns at
        the end of the recording, even in the middle of a turn. The session must come from
        `open_session`, with `permissions=agentrt.ask`.
        """
        async with bare_errors(), trio.open_nursery() as nursery:
            host = RecordedAgent(session, nursery)
            for number, records in enumerate(self._processes):
                if number >= len(self._started):
                    host.begin(records)
                while number >= len(self._started):
                    await self._starts.park()
                await host.run(self._started[number])
            nursery.cancel_scope.cancel()

    def check(self) -> None:
        """Raise `ReplayMismatch` if the host left out something that was done in the recording.

        Call it after the session. Not reported are a farewell of the recorded host, and anything
        that would have followed the agent's exit.
        """
        for player in self._started:
            player.check()
        if len(self._started) < len(self._processes):
            raise ReplayMismatch(
                f"the agent was started {len(self._processes)} time(s), and now"
                f" {len(self._started)}",
                0,
                None,
            )


def replay(
    file: str | Path, *, session: str = "", speed: float = 1.0, patience: float = 60.0
) -> Replay:
    """Return a recorded agent (see `open_trace`).

    Open a session with it::

        async with replay("night.trace").open_session() as session:
            result = await session.run("the recorded prompt")

    - `session`: prefix of the session's id, if the trace has several sessions.
    - `speed`: 2 plays twice as fast; `math.inf` plays without pauses. With a `MockClock` pauses
      take no time.
    - `patience`: seconds, by Trio's clock, to wait for the host's next recorded action.

    If the host sends a message that was not recorded, the session ends with `ReplayMismatch`. If it
    has cancelled, has answered a request that was left open in the recording, or has left something
    out, `Replay.check` raises it.

    Messages are compared by their method and by the parameters that a user chooses: the prompt, the
    model, the mode, the answer to a question. Ids, folders and versions may differ, so a recording
    can be played on another machine. Texts that were redacted in the trace are not compared.

    Raises `TraceError` if the file is not a trace, and `ReplayMismatch` if it has no session with
    that prefix or more than one.
    """
    return Replay(records_of(file, session), speed=speed, patience=patience)


def records_of(file: str | Path, session: str) -> list[TraceRecord]:
    """Return the records of the only session with this id prefix.

    Raises `TraceError` if the file is not a trace, and `ReplayMismatch` if there is no such session
    or more than one.
    """
    records = [record for record in read_trace(file) if record.session.startswith(session)]
    sessions = list(dict.fromkeys(record.session for record in records if record.session))
    if len(sessions) != 1:
        found = f"{len(sessions)}: {', '.join(sessions)}" if sessions else "none"
        raise ReplayMismatch(f"{file}: a replay is of one session, and there are {found}", 0, None)
    return [record for record in records if record.session]


def _departed_in(errors: BaseExceptionGroup[BaseException]) -> ReplayMismatch | None:
    """Return the mismatch in a group of errors, or None.

    The other errors, such as the agent's exit, follow from it.
    """
    for error in errors.exceptions:
        found = _departed_in(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, ReplayMismatch):
            return found
    return None


def _later(began: float) -> float:
    """Return the time of the recording that corresponds to Trio's clock now."""
    return began + trio.current_time()


def _asks_for_2(record: TraceRecord) -> bool:
    """Return True for an `initialize` of version 2 of ACP."""
    if record.kind != "sent":
        return False
    match _decoded(record.data):
        case {"method": "initialize", "params": {"protocolVersion": 2, "info": dict()}}:
            return True
    return False


def _process_of(record: TraceRecord) -> int:
    """Return the number of the process of a record, for grouping."""
    return record.process


class _ReplayPlayer:
    """One process."""

    def __init__(self, records: list[TraceRecord], speed: float, patience: float) -> None:
        kinds = ("sent", "received", "stderr", "stdin_closed", "stdout_closed", "exited")
        self.records = sorted((r for r in records if r.kind in kinds), key=lambda r: r.t)
        self._speed = speed
        self._patience = patience
        self._expected = dict(_expected(self.records))
        """The host's outstanding messages, by record; after the agent's end they are optional."""
        ends = (n for n, record in enumerate(self.records) if record.kind == "exited")
        self._ends = next(ends, len(self.records))
        self._in_a_turn, self._left_open = _oddities(self.records)
        self._served = list(_served(self.records))
        self._ids: dict[str | int, str | int] = {}
        """Ids of the recorded host, and the ids that replace them now."""
        self._let_wait: dict[int, _RecordedMessage] = {}
        """Prompts that were sent while a turn ran."""
        self._news = trio.lowlevel.ParkingLot()
        self._left = False
        self._awaited: int | None = None
        self._over = False
        self._cancelled: set[str] = set()
        self._stop: tuple[TraceRecord, Callable[[], None]] | None = None
        self._surprise: ReplayMismatch | None = None
        """A cancel that was not recorded, an answer that the recorded host left out, or a prompt
        that agentrt queues. `check` raises it."""

    def cancels_at(self, stop: TraceRecord, cancel: Callable[[], None]) -> None:
        """Call `cancel` when this record is reached."""
        self._stop = stop, cancel

    def check(self) -> None:
        """Raise the kept mismatch, or one for a message that the host has left out."""
        if self._surprise is not None:
            raise self._surprise
        for number, said in self._expected.items():
            if number < self._ends:
                raise self._departed(f"the host did not send {said.what}", number)

    async def serve(self, asked: ServiceRequested) -> Any:
        """Return the recorded host's answer to the same request. Raises `RequestError`."""
        said = (asked.method, asked.params)
        found = (n for n, (request, _) in enumerate(self._served) if request == said)
        if (number := next(found, None)) is None:
            raise RequestError(INTERNAL_ERROR, f"{asked.method} differs from the recorded request")
        _, answer = self._served.pop(number)
        match answer:
            case {"error": {"code": int(code), "message": str(message), **more}}:
                raise RequestError(code, message, more.get("data"))
            case {"result": result}:
                await trio.lowlevel.checkpoint()
                return result
        return await trio.sleep_forever()

    async def next_due(self, after: int | None) -> int | None:
        """Wait until the host must send a message, and return the number of its record.

        `after`: the number that was returned before, which may still be outstanding. None at the
        end of the recording. `RecordedAgent` calls it, to repeat the recorded host's action.
        """
        while not self._over:
            if (number := self._awaited) is not None and number != after and self.is_due(number):
                return number
            await self._news.park()
        return None

    def is_due(self, number: int) -> bool:
        """True if the host has not sent the message of this record yet."""
        return number in self._expected

    def _departed(self, message: str, number: int) -> ReplayMismatch:
        """Return the error for a message of the recording, with the text of its record."""
        record = self.records[number]
        return ReplayMismatch(
            f"{message} (record {number + 1}: {record.text:.200})", number + 1, record
        )

    async def play(self, process: MemoryAgent) -> None:
        """Play the recording as the program of a `MemoryAgent`."""
        try:
            await self._play(process)
        finally:
            self._end()  # also if the host has killed it

    async def _play(self, process: MemoryAgent) -> None:
        """Play the records in order, with their pauses divided by the speed.

        After the last one, the output ends, and the process stays until the host leaves.
        """
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, process)
            before = self.records[0].t if self.records else 0.0
            for number, record in enumerate(self.records):
                if record.kind in ("received", "exited") and math.isfinite(self._speed):
                    await trio.sleep(max(0.0, record.t - before) / self._speed)
                before = record.t
                if not await self._step(process, number, record):
                    break
            self._end()
            while not self._left:
                await self._news.park()
            nursery.cancel_scope.cancel()

    async def _step(self, process: MemoryAgent, number: int, record: TraceRecord) -> bool:
        """Play one record. Returns False if the process has ended or the host has left."""
        if self._stop is not None and record is self._stop[0]:
            self._stop[1]()
            return True
        match record.kind:
            case "sent":
                return await self._wait_for(number)
            case "received":
                process.send(self._now(record))
            case "stderr":
                process.complain(record.text + "\n")
            case "stdin_closed":
                self._end()
                while not self._left:
                    await self._news.park()
            case "stdout_closed":
                process.close_stdout()
            case _:
                self._end()
                process.exit(record.code or 0)
                return False
        return True

    def _end(self) -> None:
        """Note that the host has nothing more to do."""
        self._over = True
        self._news.unpark_all()

    async def _wait_for(self, number: int) -> bool:
        """Wait until the host has sent the message at this place of the recording.

        Returns False if it cannot come any more, because the host has left. Raises `ReplayMismatch`
        after the patience, which is in seconds.
        """
        if number in self._in_a_turn and number in self._expected:
            # The agent continues as recorded; its answer to this prompt now answers nothing.
            said = self._let_wait[number] = self._expected.pop(number)
            self._ids.update({id: f"never-asked-{id}" for id in said.ids})
            self._surprise = self._surprise or self._departed(_IN_A_TURN, number)
            return True
        self._awaited = number
        if number in self._expected and self._expected[number].what in _GOODBYES:
            self._end()
        self._news.unpark_all()
        with trio.move_on_after(self._patience) as scope:
            while number in self._expected and not self._left:
                await self._news.park()
        if scope.cancelled_caught:
            what = self._expected[number].what
            raise self._departed(f"the host has not sent {what} for {self._patience:g} s", number)
        return number not in self._expected

    async def _listen(self, process: MemoryAgent) -> None:
        """Take the host's messages until it closes the input."""
        while (line := await process.receive_line()) is not None:
            self._receive(process, line)
            self._news.unpark_all()
        self._left = True
        self._news.unpark_all()

    def _receive(self, process: MemoryAgent, line: bytes) -> None:
        """Take a message of the host. Raises `ReplayMismatch` if the recording lacks it."""
        said = _parsed_message(line)
        if said is None or self._take_expected(said):
            return
        if said.what in _GOODBYES:
            if said.ids:
                answer: JsonObject = {"jsonrpc": "2.0", "id": said.ids[0], "result": {}}
                process.send(msgspec.json.encode(answer) + b"\n")
        elif not self._ends_something(said):
            self._mismatched(said, line[:200].decode(errors="replace"))

    def _take_expected(self, said: _RecordedMessage) -> bool:
        """Return True if this is a message that the recording expects now."""
        for number, expected in self._expected.items():
            if expected.fits(said):
                del self._expected[number]
                if said.what in _CANCELS:
                    self._cancelled.add(said.what)
                self._ids.update(zip(expected.ids, said.ids, strict=False))
                return True
        return False

    def _ends_something(self, said: _RecordedMessage) -> bool:
        """Return True for a repeated cancel, and for answers and cancels of a host that leaves."""
        if self._over and (said.answers or said.what in _CANCELS):
            return True
        return said.what in self._cancelled

    def _mismatched(self, said: _RecordedMessage, text: str) -> None:
        """Raise `ReplayMismatch`, now or at the end.

        It is kept for the end if an agent may ignore the message and continue as recorded.
        """
        for number, expected in self._expected.items():
            if expected.what == said.what:
                raise self._departed(f"{said.what} differs from the recording: {text}", number)
        for number, prompt in self._let_wait.items():
            if prompt.fits(said):
                raise self._departed(_IN_A_TURN, number)
        message = f"the host sent {said.what}, which is not in the recording: {text}"
        departed = ReplayMismatch(message, 0, None)
        if said.what not in _CANCELS and not (said.answers and said.key[0] in self._left_open):
            raise departed
        self._surprise = self._surprise or departed

    def _now(self, record: TraceRecord) -> bytes:
        """Return the agent's message with the ids of the current host."""
        data, end = record.data, b"" if record.cut else b"\n"
        changed = {old: new for old, new in self._ids.items() if old != new}
        if not changed:
            return data + end
        try:
            body = _json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return data + end
        if isinstance(body, dict) and "type" not in body:
            if "method" not in body and body.get("id") in changed:
                body["id"] = changed[body["id"]]
        else:
            body = _replaced(body, changed)
        return msgspec.json.encode(body) + end


def _expected(records: list[TraceRecord]) -> Iterator[tuple[int, _RecordedMessage]]:
    """Yield the messages that the host must send, with the numbers of their records.

    The content of some is not compared: redacted ones, and answers to requests that the agent
    withdrew.
    """
    withdrawn = set()
    for number, record in enumerate(records):
        if record.kind == "received":
            withdrawn.add(_withdrawn(record.data))
        elif record.kind == "sent" and (
            said := _parsed_message(record.data, uncompared=record.redacted)
        ):
            if said.answers and said.key[0] in withdrawn:
                said.uncompared = True  # nothing was waiting for it
            yield number, said


def _served(records: list[TraceRecord]) -> Iterator[tuple[tuple[str, JsonObject], Any]]:
    """Yield the agent's requests for the host's files and terminals, with the answer to each."""
    for number, body in _messages(records):
        if records[number].kind != "received":
            continue
        match body:
            case {"method": str(method), "id": id, "params": dict(params)} if _is_service(method):
                yield (method, params), _answer_to(id, records[number:])


def _is_service(method: str) -> bool:
    """True for a request for the host's files or terminals."""
    return method.partition("/")[0] in _SERVICES


def _answer_to(id: object, records: list[TraceRecord]) -> Any:
    """Return the recorded answer to a request; None if it got none."""
    for record in records:
        body = _decoded(record.data) if record.kind == "sent" else None
        if isinstance(body, dict) and "method" not in body and body.get("id") == id:
            return body
    return None


def _oddities(records: list[TraceRecord]) -> tuple[set[int], set[str | int]]:
    """Find recorded behaviour that agentrt never has.

    Returns the places of ACP prompts that were sent while a turn ran, and the ids of the agent's
    requests that were left without an answer.
    """
    in_a_turn: set[int] = set()
    running: set[str | int] = set()
    left_open: set[str | int] = set()
    for number, body in _messages(records):
        match records[number].kind, body:
            case "sent", {"method": "session/prompt", "id": str() | int() as id}:
                if running:
                    in_a_turn.add(number)
                running.add(id)
            case "received", {"method": _, "id": str() | int() as id} | {
                "type": "control_request",
                "request_id": str() as id,
            }:
                left_open.add(id)
            case "received", {"id": str() | int() as id}:
                running.discard(id)
            case "sent", {"id": str() | int() as id} | {"response": {"request_id": str() as id}}:
                left_open.discard(id)
    return in_a_turn, left_open


def _messages(records: list[TraceRecord]) -> Iterator[tuple[int, Any]]:
    """Yield the messages in both directions; a line in pieces is at the place of its end."""
    begun = b""
    for number, record in enumerate(records):
        if record.kind == "sent":
            yield number, _decoded(record.data)
        elif record.kind == "received":
            line = begun + record.data
            begun = line if record.cut and not record.left_out else b""
            yield number, _decoded(line)


def _decoded(line: bytes) -> Any:
    """Return a line as JSON; None if it is not, such as a message in pieces."""
    try:
        return _json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _withdrawn(line: bytes) -> Any:
    """Return the id of the request for which the agent no longer wants an answer."""
    if b"cancel_request" not in line:
        return None
    try:
        body = _json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    match body:
        case {"type": "control_cancel_request", "request_id": str() | int() as id} | {
            "method": "$/cancel_request",
            "params": {"requestId": str() | int() as id},
        }:
            return id
    return None


def _parsed_message(line: bytes, *, uncompared: bool = False) -> _RecordedMessage | None:
    """Parse a message of a host; None if the line is not a message."""
    try:
        body = _json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    key: Any
    match body:
        case {"method": str(method)}:
            params = body.get("params") or {}
            ids = [body["id"]] if "id" in body else []
            return _RecordedMessage(
                what=method, key=_matters(params), ids=ids, uncompared=uncompared
            )
        case {"jsonrpc": _, "id": id}:
            key = (id, "error" if "error" in body else _decision(body.get("result")))
            return _RecordedMessage(
                what=f"the answer to request {id!r}", key=key, answers=True, uncompared=uncompared
            )
        case {"type": "control_request", "request_id": id, "request": {"subtype": what, **more}}:
            return _RecordedMessage(
                what=str(what), key=_matters(more), ids=[id], uncompared=uncompared
            )
        case {"type": "control_response", "response": {"request_id": id, **more}}:
            inner = more.get("response")
            decision = inner.get("behavior") if isinstance(inner, dict) else None
            key = (id, more.get("subtype"), decision)
            return _RecordedMessage(
                what=f"the answer to request {id!r}", key=key, answers=True, uncompared=uncompared
            )
        case {"type": "user", "message": {"content": content}}:
            uuid = body.get("uuid")
            ids = [uuid] if isinstance(uuid, str | int) else []
            return _RecordedMessage(
                what="a prompt", key=_plain(content), ids=ids, uncompared=uncompared
            )
        case {"type": str(kind)}:
            return _RecordedMessage(what=kind, key=None, uncompared=True)
    return None


def _matters(params: Any) -> Any:
    """Return the parameters that distinguish a request from others of the same method."""
    if not isinstance(params, dict):
        return params
    return {name: params[name] for name in _MATTERS if name in params}


def _decision(result: Any) -> Any:
    """Return the decision in an answer to a question."""
    if not isinstance(result, dict):
        return None
    names = ("outcome", "action", "decision", "answers")
    return next((result[name] for name in names if name in result), None)


def _plain(content: Any) -> Any:
    """Return a prompt of a single text as that text: hosts send either form."""
    match content:
        case [{"type": "text", "text": text}]:
            return text
    return content


def _replaced(body: Any, changed: dict[str | int, str | int]) -> Any:
    """Replace the ids of the recorded host in a message, wherever they occur."""
    if isinstance(body, dict):
        return {name: _replaced(value, changed) for name, value in body.items()}
    if isinstance(body, list):
        return [_replaced(value, changed) for value in body]
    return changed.get(body, body) if isinstance(body, str) else body
