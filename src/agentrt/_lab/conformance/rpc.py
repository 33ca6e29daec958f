"""The client's side of JSON-RPC, for checks: the common part of ACP and Codex's protocol."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final

import trio
from msgspec import Struct

from ...events import JsonObject
from ...jsonrpc import (
    Id,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    encode_line,
    notification_line,
    parse,
    request_line,
)
from .check import fails, shown
from .peer import ConformancePeer

UNKNOWN: Final = "_agentrt/unknown"
"""A method that no agent has."""
SYNC_TIMEOUT_S: Final = 2.0
"""Seconds to wait for the answer that shows that earlier messages have arrived."""


class ReceivedRequest(Struct, frozen=True):
    """A message of the agent: its place among all messages, and the time of its arrival."""

    at: int
    time: float
    message: Any


class RpcPeer(ConformancePeer):
    """The client of one agent process."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.unknown_answers: list[JsonRpcResponse] = []
        """Answers that belong to no request."""
        self._answers: dict[Id, ReceivedRequest] = {}
        self._next = 0
        self._sent: set[Id] = set()

    # --- incoming messages

    def take(self, message: Any) -> None:
        """Handle a message: an answer is kept for its request, the others go to `asked` or
        `notified`.

        A second answer to a request, and one with an id that was not used, are kept as unknown:
        some checks look for them.
        """
        match parse(message):
            case JsonRpcResponse(id=id) as response:
                if id in self._sent and id not in self._answers and type(id) is not float:
                    here = ReceivedRequest(len(self.heard), trio.current_time(), response)
                    self._answers[id] = here
                else:
                    self.unknown_answers.append(response)
            case JsonRpcRequest() as request:
                self.asked(request)
            case JsonRpcNotification() as notification:
                self.notified(notification)

    @abstractmethod
    def asked(self, request: JsonRpcRequest) -> None:
        """Handle a request of the agent."""

    @abstractmethod
    def notified(self, notification: JsonRpcNotification) -> None:
        """Handle a notification of the agent."""

    # --- requests

    def call(self, method: str, params: Any, id: Id = None) -> Id:
        """Send a request and return its id."""
        if id is None:
            self._next += 1
            id = self._next
        self._sent.add(id)
        self.send(request_line(id, method, params))
        return id

    def expect(self, id: Id) -> None:
        """Expect an answer with this id."""
        self._sent.add(id)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send(notification_line(method, params))

    async def heard_answer(self, id: Id, what: str) -> ReceivedRequest:
        """Wait for the answer to a request; returns it with its place and time."""
        return await self.until(f"the answer to {what}", lambda: self._answers.get(id))

    async def answered(self, id: Id, what: str) -> JsonRpcResponse:
        """Wait for the answer to a request."""
        heard = await self.heard_answer(id, what)
        assert isinstance(heard.message, JsonRpcResponse)
        return heard.message

    async def ask(self, method: str, params: Any) -> JsonRpcResponse:
        """Send a request and return its answer."""
        return await self.answered(self.call(method, params), method)

    async def result(self, method: str, params: Any) -> JsonObject:
        """Send a request and return its result. Raises `CheckEnded` if the answer is an error."""
        return result_of(await self.ask(method, params), method)

    # --- liveness

    async def alive(self) -> str:
        """Check that requests are still answered, and describe the answer."""
        id = self.call(UNKNOWN, {})
        response = await self.answered(id, f"the next request ({UNKNOWN})")
        return "continues" if response.error is not None else "continues (and knows any method)"

    async def wait_until_read(self) -> None:
        """Wait until earlier messages have arrived, even if the agent answers no unknown
        request."""
        with trio.move_on_after(SYNC_TIMEOUT_S):
            await self.alive()
        self.waits_for = ""
        await self.quiet()


def result_of(response: JsonRpcResponse, what: str) -> JsonObject:
    """Return the result in an answer. Raises `CheckEnded` if the answer is an error."""
    if response.error is not None:
        raise fails(f"{what} was refused: {described(response.error)}")
    return response.result if isinstance(response.result, dict) else {}


def described(error: JsonRpcError) -> str:
    """Describe an error, for people to read."""
    return shown(f"{error.code} {error.message}")


def raw_request(id: Id, method: str, params: Any) -> bytes:
    """Encode a request without any check."""
    return encode_line({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
