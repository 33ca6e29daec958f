"""The costs of a short turn and of a text update, counted rather than timed.

    python benchmarks/costs.py

Counted are, of agentrt alone: the Python functions that are entered (or resumed), the steps of its
tasks, the blocks of memory that stay allocated, and the objects that only the garbage collector
finds. The agent is in memory; all figures are those of one turn, or of one update.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import trio
import trio.testing

import agentrt
from agentrt.testing import MemoryAgent, open_fake_session

PACKAGE = str(Path(agentrt.__file__).parent)
AGENT = str(Path(PACKAGE, "testing"))
UPDATES = 50
TURNS = 200

Costs = dict[str, float]


# --- the agents


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def acp(agent: MemoryAgent) -> None:
    """Says a word, or as many as the prompt asks for, each for itself."""
    while (received := await agent.receive_line()) is not None:
        request = json.loads(received)
        answer: dict[str, Any] = {"protocolVersion": 1}
        if request["method"] == "session/new":
            answer = {"sessionId": "s"}
        elif request["method"] == "session/prompt":
            answer = {"stopReason": "end_turn"}
            for _ in range(int(request["params"]["prompt"][0]["text"])):
                update = {
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": "word "},
                }
                params = {"sessionId": "s", "update": update}
                agent.send(line(jsonrpc="2.0", method="session/update", params=params))
                await trio.testing.wait_all_tasks_blocked()
        agent.send(line(jsonrpc="2.0", id=request["id"], result=answer))


async def claude(agent: MemoryAgent) -> None:
    """The same."""
    while (received := await agent.receive_line()) is not None:
        message = json.loads(received)
        if message["type"] == "control_request":
            answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            agent.send(line(type="control_response", response=answer))
            continue
        begin = {"type": "message_start", "message": {"id": "m", "content": []}}
        agent.send(line(type="stream_event", event=begin))
        for _ in range(int(message["message"]["content"])):
            delta = {"type": "text_delta", "text": "word "}
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            agent.send(line(type="stream_event", event=event))
            await trio.testing.wait_all_tasks_blocked()
        usage = {"input_tokens": 1, "output_tokens": 1}
        agent.send(line(type="result", subtype="success", is_error=False, usage=usage))


AGENTS: dict[Any, Callable[[MemoryAgent], Awaitable[None]]] = {"acp": acp, "claude": claude}


# --- the instruments


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks but the agent's."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += "testing" not in task.name


class Calls:
    """Counts the functions of agentrt that are entered or resumed."""

    def __init__(self) -> None:
        self.count = 0
        self._counts: dict[str, bool] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            counts = self._counts.get(file)
            if counts is None:
                counts = file.startswith(PACKAGE) and not file.startswith(AGENT)
                self._counts[file] = counts
            self.count += counts


@contextmanager
def counting() -> Iterator[tuple[Calls, Steps]]:
    calls, steps = Calls(), Steps()
    before = sys.getprofile()
    trio.lowlevel.add_instrument(steps)
    sys.setprofile(calls)
    try:
        yield calls, steps
    finally:
        sys.setprofile(before)
        trio.lowlevel.remove_instrument(steps)


# --- what is counted


async def turn(session: agentrt.Session, updates: int) -> None:
    async with session.prompt(str(updates)) as turn:
        async for _event in turn:
            pass


async def counted(session: agentrt.Session, updates: int, times: int) -> tuple[float, float]:
    """The calls and the steps of a turn. The order of tasks is left to chance, and with it now and
    then a step: the median says what it is otherwise."""
    calls, steps = [], []
    for _ in range(times):
        with counting() as (called, stepped):
            await turn(session, updates)
        calls.append(called.count)
        steps.append(stepped.count)
    return statistics.median(calls), statistics.median(steps)


async def measure(protocol: Any) -> dict[str, Costs]:
    """The costs of a turn and of an update. To be run with a clock that stands still: a reader that
    is slow lets others run more often."""
    start = partial(MemoryAgent, AGENTS[protocol])
    async with open_fake_session(start, protocol=protocol) as session:
        for _ in range(20):
            await turn(session, 1)
        calls, steps = await counted(session, 1, 31)
        many_calls, many_steps = await counted(session, 1 + UPDATES, 11)
        gc.collect()
        gc.disable()
        try:
            blocks = sys.getallocatedblocks()
            for _ in range(TURNS):
                await turn(session, 1)
            stay = (sys.getallocatedblocks() - blocks) / TURNS
            garbage = gc.collect() / TURNS
        finally:
            gc.enable()
    return {
        "turn": {"calls": calls, "steps": steps, "blocks": round(stay, 1), "garbage": garbage},
        "update": {
            "calls": (many_calls - calls) / UPDATES,
            "steps": (many_steps - steps) / UPDATES,
        },
    }


def main() -> None:
    measured = {
        protocol: trio.run(measure, protocol, clock=trio.testing.MockClock()) for protocol in AGENTS
    }
    for protocol, things in measured.items():
        for thing, costs in things.items():
            for cost, count in costs.items():
                print(f"{protocol:7} {thing:7} {cost:8} {count:8.2f}")


if __name__ == "__main__":
    main()
