"""A crowd in front of one session: some never read, some are cut off; the others miss nothing."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import trio
from hub_kit import stage_with
from sockets import TEXT, Client, frame, site, websocket
from wire_client import Wire, WireClient

import agentrt
from agentrt.testing import FakeAcpAgent

pytestmark = pytest.mark.slow

WORDS = 2_000
ALL, DEAF, CUT = 200, 20, 20


async def chatty(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        for n in range(WORDS):
            agent.say(f"word {n} {'x' * 100}\n")
            if n % 20 == 0:
                await trio.sleep(0.001)
        prompt.end()


class Healthy:
    """Takes what comes as bytes; looks into it when all is over, so that it costs little."""

    def __init__(self) -> None:
        self.client = WireClient(None)
        self.frames: list[bytes] = []

    def receive(self, text: str) -> None:
        self.hello = text

    async def read(self, socket: Client, session: str) -> None:
        wire = Wire(self.client, self)
        wire.hello(session)
        await socket.send(frame(self.hello))
        while True:
            opcode, payload = await socket.frame()
            if opcode == TEXT:
                self.frames.append(payload)
                if b'"outcome":"completed"' in payload:  # in the last event, or in a snapshot
                    break
        for payload in self.frames:
            wire.take(payload)


async def test_w8_a_crowd_of_which_some_never_read_and_some_are_cut_off() -> None:
    limits = agentrt.Limits(ws_write_timeout_s=10.0, viewer_outbox_bytes=200_000)
    healthy = [Healthy() for _ in range(ALL - DEAF - CUT)]
    dice = random.Random(7)
    ready: list[Any] = []

    with trio.fail_after(120):
        async with (
            stage_with(chatty, limits=limits) as stage,
            site(stage.hub, limits=limits) as served,
            trio.open_nursery() as everybody,
        ):
            session = await stage.session()
            hello = json.dumps({"type": "hello", "id": "h", "sessions": [{"session": session}]})

            async def attend(each: Healthy) -> None:
                async with websocket(served.port) as socket:
                    ready.append(each)
                    await each.read(socket, session)

            async def never_read() -> None:
                async with websocket(served.port) as socket:
                    await socket.send(frame(hello))
                    ready.append(socket)
                    await trio.sleep_forever()

            async def be_cut_off(after: int) -> None:
                async with websocket(served.port) as socket:
                    await socket.send(frame(hello))
                    ready.append(socket)
                    for _ in range(after):
                        await socket.frame()

            async with trio.open_nursery() as nursery:
                for each in healthy:
                    nursery.start_soon(attend, each)
                for _ in range(DEAF):
                    everybody.start_soon(never_read)
                for _ in range(CUT):
                    everybody.start_soon(be_cut_off, dice.randrange(3, 10))
                while len(ready) < ALL:  # noqa: ASYNC110 - a crowd has no event
                    await trio.sleep(0.01)
                await stage.runtime.get(session).run("talk")
            assert served.statistics().broken == 0
            everybody.cancel_scope.cancel()
    wanted = "".join(f"word {n} {'x' * 100}\n" for n in range(WORDS))
    for each in healthy:
        assert each.client.views[session].texts() == [wanted]
