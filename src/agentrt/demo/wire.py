"""Lines of JSON-RPC 2.0 on two byte streams: the agent's end of the wire.

A line is written by one task only, which lives longer than any turn: were a turn to write for
itself, its cancellation could leave half a line on the pipe. So `send` only appends, and whoever
sends much waits for `room`.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import msgspec
import trio
from msgspec import UNSET, Raw, Struct, UnsetType

JsonObject: TypeAlias = dict[str, Any]
Id: TypeAlias = int | str | None

OUTBOX = 256 * 1024
"""Bytes that may wait for a slow client before whoever sends has to wait, too."""
READ = 64 * 1024
LINE = 64 * 1024 * 1024
"""The longest line taken: a prompt may carry images, but nobody sends more than this on purpose."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
RESOURCE_NOT_FOUND, REQUEST_CANCELLED = -32002, -32800


class RpcError(Exception):
    """An error answer, given or received."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Message(Struct):
    """A request (`method` and `id`), a notification (`method` alone) or an answer (neither)."""

    id: Id | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Any = None
    error: JsonObject | None = None


GONE = Message(error={"code": INTERNAL_ERROR, "message": "the client is gone"})


class _Answer:
    """What a request of ours waits for."""

    def __init__(self) -> None:
        self.arrived = trio.Event()
        self.message = GONE

    def take(self, message: Message) -> None:
        self.message = message
        self.arrived.set()


class Connection:
    """Both directions. `write` must run as a task for as long as anything is sent."""

    def __init__(self, stdin: trio.abc.ReceiveStream, stdout: trio.abc.SendStream) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._buffer = bytearray()
        self._searched = 0
        self._outbox = bytearray()
        self._writing = False
        self._filled = trio.Event()
        self._sent = trio.lowlevel.ParkingLot()
        self._decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
        self._requests: dict[Id, _Answer] = {}
        self._next_id = 0
        self._gone = False

    # --- out

    def send(self, message: JsonObject) -> None:
        """Append one line; the writer sends it."""
        self._outbox += msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"
        self._filled.set()

    def notify(self, method: str, params: JsonObject) -> None:
        self.send({"method": method, "params": params})

    def reply(self, id: Id, result: JsonObject) -> None:
        self.send({"id": id, "result": result})

    def refuse(self, id: Id, error: RpcError) -> None:
        body: JsonObject = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        self.send({"id": id, "error": body})

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the client; raises `RpcError` if it answers with an error.

        Cancelling takes the question back (`$/cancel_request`); a late answer is ignored.
        """
        id, self._next_id = self._next_id, self._next_id + 1
        answer = self._requests[id] = _Answer()
        self.send({"id": id, "method": method, "params": params})
        if self._gone:
            answer.take(GONE)
        try:
            await answer.arrived.wait()
        except trio.Cancelled:
            self.notify("$/cancel_request", {"requestId": id})
            raise
        finally:
            del self._requests[id]
        if error := answer.message.error:
            code = error.get("code")
            raise RpcError(
                code if isinstance(code, int) else INTERNAL_ERROR,
                str(error.get("message", "unknown error")),
                error.get("data"),
            )
        return answer.message.result if isinstance(answer.message.result, dict) else {}

    async def room(self) -> None:
        """Wait until a slow client has taken most of what was sent."""
        await trio.lowlevel.checkpoint()
        while len(self._outbox) > OUTBOX:
            await self._sent.park()

    async def drained(self) -> None:
        """Wait until everything that was sent is in the pipe."""
        while self._outbox or self._writing:
            await self._sent.park()

    async def write(self) -> None:
        """The writer task. A client that is gone is none of its worries: the reader learns it."""
        while True:
            await self._filled.wait()
            self._filled = trio.Event()
            batch, self._outbox = self._outbox, bytearray()
            self._writing = True
            try:
                await self._stdout.send_all(batch)
            except trio.BrokenResourceError:
                self._outbox.clear()
            finally:
                self._writing = False
                self._sent.unpark_all()

    async def write_raw(self, data: bytes) -> None:
        """Write what is no line, after everything else: only a crash on request wants this."""
        await self.drained()
        await self._stdout.send_all(data)

    # --- in

    async def receive(self) -> list[Message] | None:
        """The requests and notifications of the next read; None when the client has gone.

        Answers are taken to whoever waits for them, nonsense is answered here.
        """
        try:
            data = await self._stdin.receive_some(READ)
        except trio.BrokenResourceError:
            data = b""
        if len(self._buffer) > LINE:
            print("agentrt demo: a line is longer than 64 MiB", file=sys.stderr)
            data = b""
        if not data:
            self._gone = True
            for answer in self._requests.values():
                answer.take(GONE)
            return None
        self._buffer += data
        messages = [self._decode(line) for line in self._lines()]
        return [message for message in messages if message is not None]

    def _lines(self) -> list[bytes]:
        end = self._buffer.rfind(b"\n", self._searched)
        self._searched = len(self._buffer)
        if end < 0:
            return []
        lines = bytes(self._buffer[:end]).split(b"\n")
        del self._buffer[: end + 1]
        self._searched = len(self._buffer)
        return [line for line in lines if line.strip()]

    def _decode(self, line: bytes) -> Message | None:
        try:
            message = self._decoder.decode(line)
        except msgspec.ValidationError as error:
            self.refuse(None, RpcError(INVALID_REQUEST, "Invalid request", str(error)))
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.refuse(None, RpcError(PARSE_ERROR, "Parse error", str(error)))
            return None
        if message.method is not UNSET:
            return message
        answer = self._requests.get(message.id) if message.id is not UNSET else None
        if answer is not None:
            answer.take(message)
        return None  # an answer that nobody waits for is late, and so of no interest
