"""The common part of the fake agents: reading the host's messages and waiting for its answers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypeVar

import msgspec
import trio

from .._core.nesting import bare_errors
from ..events import JsonObject
from .memory import MemoryAgent

P = TypeVar("P")


class AgentSide(Generic[P]):
    """An agent's side of a protocol, with prompts of type `P`."""

    def __init__(self, process: MemoryAgent) -> None:
        self.process = process
        self.received: list[JsonObject] = []
        """Every message of the host, in order."""
        self.prompt: P | None = None
        """The last prompt received."""
        self.prompts: trio.MemoryReceiveChannel[P]
        self._arrived, self.prompts = trio.open_memory_channel[P](math.inf)
        self._answers: dict[Any, tuple[trio.Event, list[JsonObject]]] = {}

    @classmethod
    @asynccontextmanager
    async def serving(cls, process: MemoryAgent, **options: Any) -> AsyncIterator[Self]:
        """Create an agent that reads while the block runs; `options` go to the constructor."""
        agent = cls(process, **options)
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(agent._read)
            yield agent
            nursery.cancel_scope.cancel()

    async def _read(self) -> None:
        with self._arrived:
            while (line := await self.process.receive_line()) is not None:
                message: JsonObject = msgspec.json.decode(line)
                self.received.append(message)
                self._take(message)

    @abstractmethod
    def _take(self, message: JsonObject) -> None: ...

    def _prompted(self, prompt: P) -> None:
        self.prompt = prompt
        self._arrived.send_nowait(prompt)

    def send(self, message: JsonObject) -> None:
        """Send a line to the host."""
        self.process.send(msgspec.json.encode(message) + b"\n")

    async def _ask(self, id: Any, message: JsonObject) -> JsonObject:
        """Send a request and wait for its answer."""
        event, box = trio.Event(), list[JsonObject]()
        self._answers[id] = (event, box)
        self.send(message)
        await event.wait()
        return box[0]

    def _answered(self, id: Any, answer: JsonObject) -> None:
        waiting = self._answers.pop(id, None)
        if waiting is not None:
            waiting[1].append(answer)
            waiting[0].set()
