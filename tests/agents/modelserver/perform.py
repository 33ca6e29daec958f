"""Performs one turn of a script: its steps become the events of one answer."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from .anthropic import AnthropicAnswer
from .asks import Answer, Ask, Event, pieces
from .http import Connection, Request
from .scripts import (
    Blocks,
    Call,
    Cut,
    Edit,
    Mute,
    Pause,
    Pings,
    Shell,
    Step,
    StreamError,
    Text,
    Thinking,
    Turn,
)
from .tools import call_for


async def perform(
    connection: Connection, request: Request, ask: Ask, answer: Answer, turn: Turn
) -> str:
    """Send *answer*, step by step, and say in a word how it ended.

    A request that wants no stream takes the same time and gets everything at the end.
    """
    if turn and isinstance(turn[0], Mute):
        await trio.sleep_forever()
    performance = _Performance(connection, ask, answer)
    if ask.stream:
        await connection.start_stream()
    await performance.send(answer.start())
    for step in turn:
        if isinstance(step, Cut):
            return "cut"
        await performance.step(step)
        if isinstance(step, StreamError):
            await connection.end_stream()
            return "stream error"
    await performance.send(answer.finish())
    if ask.stream:
        await connection.end_stream()
    else:
        await connection.send_json(request, answer.whole())
    return "complete"


class _Performance:
    def __init__(self, connection: Connection, ask: Ask, answer: Answer) -> None:
        self._connection = connection
        self._ask = ask
        self._answer = answer

    async def step(self, step: Step) -> None:
        match step:
            case Text(text=text, chunk=size, pace=pace, times=times):
                await self.send(self._answer.text(list(pieces(text * times, size))), pace)
            case Thinking(text=text):
                await self.send(self._answer.thinking(text))
            case Shell() | Edit() | Call():
                await self.send(self._answer.call(*call_for(step, self._ask.tools)))
            case Blocks(blocks=blocks) if isinstance(self._answer, AnthropicAnswer):
                for block in blocks:
                    await self.send(self._answer.block(block))
            case Pause(seconds=None):
                await trio.sleep_forever()
            case Pause(seconds=float(seconds)):
                await trio.sleep(seconds)
            case Pings(count=count, every=every):
                for _ in range(count):
                    await trio.sleep(every)
                    await self._ping()
            case StreamError(kind=kind):
                await self.send(self._answer.failed(kind))
            case _:
                raise ValueError(f"{step} stands where it means nothing")

    async def send(self, events: Iterable[Event], pace: float = 0.0) -> None:
        for event in events:
            if pace:
                await trio.sleep(pace)
            if self._ask.stream:
                await self._connection.send_event(event)

    async def _ping(self) -> None:
        if not self._ask.stream:
            return
        if events := list(self._answer.ping()):
            await self.send(events)
        else:
            await self._connection.send_comment()
