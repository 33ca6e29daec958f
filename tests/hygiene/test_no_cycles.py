"""Sessions and turns that end are freed by reference counting, and leave next to nothing to the
cyclic collector, whose pauses stop every session of the process.

Each ending is led twice for what is loaded or cached once, then once more with the collector
switched off, and the objects that only a collection frees are counted.
"""

from __future__ import annotations

import gc
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

import agentrt
from agentrt.testing import MemoryAgent, open_fake_session
from faults import real
from faults.life import LIMITS, Protocol
from faults.programs import PROGRAMS
from web.slow_line import slow_line
from web.sockets import TOKEN, frame

from . import kit

MOST = 20
"""Objects that an ending may leave to the collector. A closed session used to leave 300."""


@agentrt.tool
async def record(n: int) -> str:
    """Write a number down."""
    await trio.lowlevel.checkpoint()
    return f"recorded {n}"


def opened(
    protocol: Protocol, program: Program | None = None
) -> AbstractAsyncContextManager[agentrt.Session]:
    """A session with an agent in memory and a tool."""
    script = PROGRAMS[protocol] if program is None else program
    return open_fake_session(
        lambda: MemoryAgent(script),
        protocol=protocol,
        tools=[record],
        limits=LIMITS,
        permissions=None,
    )


Program = Callable[[MemoryAgent], Awaitable[None]]
Ending = Callable[[agentrt.Session], Awaitable[object]]


async def nothing(session: agentrt.Session) -> None:
    await trio.lowlevel.checkpoint()


async def completed(session: agentrt.Session) -> None:
    await session.run("again")


async def with_question(session: agentrt.Session) -> None:
    async with session.prompt("work") as turn:
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                turn.answer(event.request, "allow_once")


async def cancelled(session: agentrt.Session) -> None:
    async with session.prompt("stream") as turn:
        async for event in turn:
            if isinstance(event, agentrt.TextDelta):
                turn.cancel()


async def given_up(session: agentrt.Session) -> None:
    with trio.move_on_after(1):
        await session.run("stream")


async def died(session: agentrt.Session) -> None:
    await session.run("die", check=False)


async def revived(session: agentrt.Session) -> None:
    await session.run("die", check=False)
    await session.run("again")


async def left_by_error(session: agentrt.Session) -> None:
    await trio.lowlevel.checkpoint()
    raise ZeroDivisionError


async def left_by_cancel(session: agentrt.Session) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.run("stream")


async def cyclic(lead: Callable[[], Awaitable[object]]) -> Counter[str]:
    """The types of the objects that `lead` leaves to the collector."""
    for _ in range(2):
        await lead()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await lead()
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        return Counter(type(each).__qualname__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


ENDINGS: dict[str, Ending] = {
    "a session without turns": nothing,
    "a turn that completes": completed,
    "a turn with a question and a tool": with_question,
    "a turn that is cancelled": cancelled,
    "a turn that its caller gives up": given_up,
    "an agent that dies": died,
    "an agent that is started again": revived,
    "a block that an error leaves": left_by_error,
    "a prompt under a cancelled scope": left_by_cancel,
}


@pytest.mark.parametrize("protocol", ["acp", "claude"])
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_nothing_is_left_to_the_collector(
    ending: Ending, protocol: Protocol, autojump_clock: trio.testing.MockClock
) -> None:
    async def lead() -> None:
        try:
            async with opened(protocol) as session:
                await ending(session)
        except ZeroDivisionError:
            pass

    left = await cyclic(lead)
    assert left.total() <= MOST, left


async def exits(process: MemoryAgent) -> None:
    """End before the handshake."""
    await trio.lowlevel.checkpoint()


async def hangs(process: MemoryAgent) -> None:
    """Read everything, and answer nothing."""
    while await process.receive_line() is not None:
        pass


@pytest.mark.parametrize("protocol", ["acp", "claude"])
@pytest.mark.parametrize("program", [exits, hangs])
async def test_an_agent_that_fails_to_start_leaves_nothing_to_the_collector(
    program: Program, protocol: Protocol, autojump_clock: trio.testing.MockClock
) -> None:
    async def lead() -> None:
        with pytest.raises(agentrt.AgentStartError):
            async with opened(protocol, program):
                pass

    left = await cyclic(lead)
    assert left.total() <= MOST, left


async def test_a_viewer_that_leaves_leaves_nothing_to_the_collector() -> None:
    security = agentrt.web.Security(token=TOKEN)

    async def lead() -> None:
        async with agentrt.open_runtime() as runtime, trio.open_nursery() as server:
            site = await server.start(partial(agentrt.web.serve, runtime, security=security))
            for _ in range(2):
                async with slow_line(site.port) as (client, _):
                    await client.send(frame('{"type": "hello", "id": "h"}'))
                    await client.message()
            server.cancel_scope.cancel()

    left = await cyclic(lead)
    assert left.total() <= MOST, left


async def test_commands_of_viewers_leave_nothing_to_the_collector() -> None:
    async with (
        agentrt.open_runtime() as runtime,
        trio.open_nursery() as server,
    ):
        security = agentrt.web.Security(token=TOKEN)
        site = await server.start(partial(agentrt.web.serve, runtime, security=security))

        async def lead() -> None:
            for _ in range(5):
                prompt = {"type": "prompt", "id": f"{next(ids)}", "session": "x", "content": said}
                await client.send(frame(json.dumps(prompt)))
                answer = await client.message()
                assert answer["error"]["code"] == "unknown_session", answer

        said, ids = [{"type": "text", "text": "hello"}], itertools.count()
        async with slow_line(site.port) as (client, _):
            await client.send(frame('{"type": "hello", "id": "h"}'))
            while (await client.message()).get("id") != "h":
                pass
            left = await cyclic(lead)
        server.cancel_scope.cancel()
    assert left.total() <= MOST, left


async def test_a_queue_can_be_used_when_nothing_else_is_left_of_its_session() -> None:
    async with opened("acp") as session:
        queue = session.queue
    del session
    queue.resume()
    assert not queue


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["acp", "claude"])
async def test_real_agents_in_a_runtime_leave_nothing_to_the_collector(protocol: Protocol) -> None:
    options: Any = {"tools": [record], "permissions": agentrt.allow_all}

    async def lead() -> None:
        async with agentrt.open_runtime(limits=kit.LIMITS, **options) as runtime:
            session = await runtime.create(real.agent(protocol))
            await session.run("work")
            await session.run("die", check=False)
            with trio.move_on_after(0.05):
                await session.run("stream")
            await runtime.close(session.id)

    left = await cyclic(lead)
    assert left.total() <= MOST, left
