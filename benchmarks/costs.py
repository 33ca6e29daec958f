"""The costs of a short turn, a text update, a permission request and a tool call, counted.

    python benchmarks/costs.py

It counts the events of the log and, of agentrt alone, the Python functions that are entered (or
resumed), the steps of its tasks, the blocks of memory that stay allocated, and the objects that
only the garbage collector finds. The agent is in memory. All figures are those of one turn, update,
request or call of an in-process tool, which only Claude Code makes through the same pipe. The
ceilings are far above the figures: they catch a change of kind, and leave the implementation free.
The exit code is 1 if one is exceeded.
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
from uuid import uuid4

import trio
import trio.testing

import agentrt
from agentrt.testing import MemoryAgent, open_fake_session

PACKAGE = str(Path(agentrt.__file__).parent)
AGENT = str(Path(PACKAGE, "testing"))
REPEATS = 50
TURNS = 200

CEILINGS = {
    "turn": {"events": 10, "calls": 500, "steps": 10, "blocks": 80, "garbage": 1},
    "update": {"events": 1, "calls": 90, "steps": 3},
    "permission": {"events": 5, "calls": 250, "steps": 5},
    "tool": {"events": 0, "calls": 200, "steps": 4},
}

Costs = dict[str, float]


# --- the agents


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def acp(agent: MemoryAgent) -> None:
    """Writes as many updates as the prompt says, or asks as often, each by itself."""
    while (received := await agent.receive_line()) is not None:
        request = json.loads(received)
        answer: dict[str, Any] = {"protocolVersion": 1}
        if request["method"] == "session/new":
            answer = {"sessionId": "s"}
        elif request["method"] == "session/prompt":
            answer = {"stopReason": "end_turn"}
            kind, times = request["params"]["prompt"][0]["text"].split()
            for n in range(int(times)):
                if kind == "update":
                    content = {"type": "text", "text": "word "}
                    update = {"sessionUpdate": "agent_message_chunk", "content": content}
                    params = {"sessionId": "s", "update": update}
                    agent.send(line(jsonrpc="2.0", method="session/update", params=params))
                    await trio.testing.wait_all_tasks_blocked()
                else:
                    call = {"toolCallId": f"c{n}", "title": "ls", "kind": "execute"}
                    option = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
                    asked = {"sessionId": "s", "toolCall": call, "options": [option]}
                    method = "session/request_permission"
                    agent.send(line(jsonrpc="2.0", id=f"p{n}", method=method, params=asked))
                    await agent.receive_line()
        agent.send(line(jsonrpc="2.0", id=request["id"], result=answer))


async def claude(agent: MemoryAgent) -> None:
    """Does the same as `acp`."""
    while (received := await agent.receive_line()) is not None:
        message = json.loads(received)
        if message["type"] == "control_request":
            answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            agent.send(line(type="control_response", response=answer))
            continue
        begin = {"type": "message_start", "message": {"id": "m", "content": []}}
        agent.send(line(type="stream_event", event=begin))
        kind, times = message["message"]["content"].split()
        for n in range(int(times)):
            if kind == "update":
                delta = {"type": "text_delta", "text": "word "}
                event = {"type": "content_block_delta", "index": 0, "delta": delta}
                agent.send(line(type="stream_event", event=event))
                await trio.testing.wait_all_tasks_blocked()
            elif kind == "ask":
                tool = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": f"c{n}"}
                request = {"subtype": "can_use_tool", **tool}
                agent.send(line(type="control_request", request_id=str(uuid4()), request=request))
                await agent.receive_line()
            else:
                params = {"name": "echo", "arguments": {"text": "word"}}
                call = {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}
                request = {"subtype": "mcp_message", "server_name": "agentrt", "message": call}
                agent.send(line(type="control_request", request_id=str(uuid4()), request=request))
                result = await agent.receive_line()
                assert b'"word"' in (result or b""), result
        usage = {"input_tokens": 1, "output_tokens": 1}
        agent.send(line(type="result", subtype="success", is_error=False, usage=usage))


AGENTS: dict[Any, Callable[[MemoryAgent], Awaitable[None]]] = {"acp": acp, "claude": claude}


# --- the instruments


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks except for the agent's."""

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


# --- the measurement


@agentrt.tool
async def echo(text: str) -> str:
    return text


async def turn(session: agentrt.Session, prompt: str) -> int:
    """Run a turn and return the number of its events."""
    events = 0
    async with session.prompt(prompt) as turn:
        async for _event in turn:
            events += 1
    return events


async def counted(session: agentrt.Session, prompt: str, times: int) -> Costs:
    """Return the counts of one turn: medians, because the order of tasks is random."""
    counts: dict[str, list[int]] = {"events": [], "calls": [], "steps": []}
    for _ in range(times):
        with counting() as (calls, steps):
            events = await turn(session, prompt)
        for cost, count in zip(counts, (events, calls.count, steps.count), strict=True):
            counts[cost].append(count)
    return {cost: statistics.median(each) for cost, each in counts.items()}


async def measure(protocol: Any) -> dict[str, Costs]:
    """Return the costs. Run it with a clock that does not advance: with a slow reader, other tasks
    run more often."""
    start = partial(MemoryAgent, AGENTS[protocol])
    options: dict[str, Any] = {"protocol": protocol, "permissions": agentrt.allow_all}
    kinds = {"update": "update", "permission": "ask"}
    if protocol == "claude":
        options["tools"] = [echo]
        kinds["tool"] = "tool"
    async with open_fake_session(start, **options) as session:
        for _ in range(20):
            await turn(session, "update 1")
        gc.collect()
        gc.disable()
        try:
            blocks = sys.getallocatedblocks()
            for _ in range(TURNS):
                await turn(session, "update 1")
            stay = (sys.getallocatedblocks() - blocks) / TURNS
            garbage = gc.collect() / TURNS
        finally:
            gc.enable()
        short = await counted(session, "update 1", 31)
        costs = {"turn": {**short, "blocks": stay, "garbage": garbage}}
        for kind, prompt in kinds.items():
            await turn(session, f"{prompt} 2")
            few = await counted(session, f"{prompt} 1", 11)
            many = await counted(session, f"{prompt} {1 + REPEATS}", 11)
            costs[kind] = {cost: (many[cost] - few[cost]) / REPEATS for cost in few}
    return costs


def main() -> int:
    measured = {
        protocol: trio.run(measure, protocol, clock=trio.testing.MockClock()) for protocol in AGENTS
    }
    exceeded = False
    print(f"{'':20}{'ACP':>8}{'Claude':>8}{'ceiling':>9}")
    for thing, ceilings in CEILINGS.items():
        for cost, ceiling in ceilings.items():
            counts = [costs.get(thing, {}).get(cost) for costs in measured.values()]
            exceeded |= max(count for count in counts if count is not None) > ceiling
            cells = "".join(f"{'-' if count is None else f'{count:.1f}':>8}" for count in counts)
            print(f"{thing:11}{cost:9}{cells}{ceiling:9}")
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
