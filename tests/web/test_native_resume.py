"""A client that is cut off again and again, and knows only the protocol."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio
from hub_kit import Stage, stage_with, viewer_of
from trio.testing import MockClock
from wire_client import View, Wire, WireClient

import agentrt
from agentrt.testing import FakeAcpAgent
from faults.quick import mostly_slow

GOLDEN = Path(__file__).parents[1] / "model" / "golden"


@pytest.mark.parametrize("trace", sorted(path.stem for path in GOLDEN.iterdir()))
def test_w1_a_reducer_of_its_own_gets_the_recorded_snapshots(trace: str) -> None:
    start, *rest = map(json.loads, (GOLDEN / f"{trace}.ndjson").read_bytes().splitlines())
    view = View(start["session"])
    view.take_snapshot(start)
    for event, snapshot in zip(rest[::2], rest[1::2], strict=True):
        view.take_event(event)
        expected = View(view.session)
        expected.take_snapshot(snapshot)
        assert view.comparable() == expected.comparable()


async def moody(agent: FakeAcpAgent) -> None:
    """Does of everything a little: the seed is the prompt's."""
    async for prompt in agent.prompts:
        random = Random(prompt.text)
        for n in range(random.randrange(1, 12)):
            match random.randrange(6):
                case 0:
                    agent.think(f"hm {n}. ")
                case 1:
                    call = f"{prompt.text}-{n}"
                    agent.update("tool_call", toolCallId=call, title="ls", status="in_progress")
                    if random.random() < 0.7:
                        agent.update("tool_call_update", toolCallId=call, status="completed")
                case 2:
                    if not prompt.cancelled.is_set():
                        await agent.ask(f"{prompt.text}-ask-{n}")
                case _:
                    agent.say(f"word {n}, ")
            if prompt.cancelled.is_set():
                break
            await trio.sleep(random.choice((0, 0, 0.001, 0.1)))
        if random.random() < 0.05:
            agent.process.exit(1)
        prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")


class Restless:
    """A client that acts at random, and loses its connection at random frames."""

    def __init__(self, stage: Stage, session: str, seed: int) -> None:
        self.stage = stage
        self.session = session
        self.random = Random(seed)
        self.client = WireClient(f"restless-{seed}")
        self.name = seed
        self.prompts = 0
        self.connections = 0

    @property
    def view(self) -> View:
        return self.client.views[self.session]

    async def once(self) -> None:
        """One connection, from hello to its loss."""
        self.connections += 1
        viewer = viewer_of(self.stage.hub)
        wire = Wire(self.client, viewer)
        wire.hello(self.session)
        for _ in range(self.random.randrange(6)):
            with trio.move_on_after(self.random.choice((0.001, 0.05, 1))):
                wire.take(await viewer.next_frame())
                self.compare()
            if self.view.shown:
                self.act(wire)
        if self.random.random() < 0.5:
            with trio.move_on_after(0.01):
                await viewer.next_frame()  # sent, and never arrived
        viewer.close()

    def act(self, wire: Wire) -> None:
        random, view = self.random, self.view
        match random.randrange(8):
            case 0 | 1 if len(view.shown["queue"]) < 3:
                self.prompts += 1
                content = [{"type": "text", "text": f"{self.name}/{self.prompts}"}]
                when = random.choice(("queue", "queue", "interrupt"))
                wire.send("prompt", session=self.session, content=content, when=when)
            case 2 if random.random() < 0.3:
                wire.send("cancel", session=self.session)
            case 3:
                wire.send("queue", session=self.session, op="resume")
            case 4 if view.earlier is not None:
                self.look_back(wire)
            case _:
                for request in view.shown["permissions"]:
                    option = random.choice(("yes", "no"))
                    wire.send("permission", session=self.session, request=request, option=option)

    def compare(self) -> None:
        """What is shown is what the server would show now, if nothing is under way."""
        session = self.stage.runtime.get(self.session)
        if self.view.shown and self.view.seq == session.log.seq:
            expected = View(self.session)
            expected.take_snapshot(json.loads(msgspec.json.encode(session.snapshot())))
            earlier = self.view.earlier
            assert self.view.comparable(earlier) == expected.comparable(earlier)

    def look_back(self, wire: Wire) -> None:
        before, count = self.view.earlier, self.random.choice((1, 2, 100))
        wire.send("history", session=self.session, before=before, count=count)

    async def come_to_rest(self) -> None:
        """A connection that holds: answer everything, until nothing runs or waits, and all that
        was ever shown is there."""
        viewer = viewer_of(self.stage.hub)
        wire = Wire(self.client, viewer)
        wire.hello(self.session)
        with trio.fail_after(5000):
            quiet = 0
            while quiet < 3:
                with trio.move_on_after(20) as silence:
                    wire.take(await viewer.next_frame())
                for request in list(self.view.shown["permissions"]):
                    wire.send("permission", session=self.session, request=request, option="yes")
                if self.view.shown["paused"]:
                    wire.send("queue", session=self.session, op="resume")
                if self.view.earlier is not None:
                    self.look_back(wire)
                rests = not self.view.busy and not self.view.shown["queue"]
                rests = rests and self.view.earlier is None
                quiet = quiet + 1 if rests and not silence.cancelled_caught else 0
        self.compare()
        viewer.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_slow(range(4), one_in=4))
@pytest.mark.parametrize("outbox", mostly_slow([2000, 1024 * 1024], one_in=2))
async def test_a_client_cut_off_at_random_never_sees_a_gap_a_double_or_a_stuck_phase(
    seed: int, outbox: int, autojump_clock: MockClock
) -> None:
    """Every rule that a single client can see is checked in `View` and `Wire`, at every event."""
    limits = agentrt.Limits(
        viewer_outbox_bytes=outbox,
        recent_events=200,
        turn_timeout_s=100.0,
        snapshot_turns=3,
        snapshot_items=12,
    )
    fake = {"capabilities": {"loadSession": True}}
    async with stage_with(moody, limits=limits, fake=fake) as stage:
        id = await stage.session()
        clients = [Restless(stage, id, seed * 10 + n) for n in range(3)]

        async def live(client: Restless) -> None:
            for _ in range(100):
                await client.once()

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(live, client)
        for client in clients:
            await client.come_to_rest()
            assert client.view.phase in ("idle", "dead")
            assert client.client.unanswered == {}
        assert clients[0].view.comparable() == clients[-1].view.comparable()
        asked = prompts_shown(clients[0].view)
        assert len(asked) == len(set(asked)), "a prompt was carried out twice"
        turns = clients[0].view.shown["turns"].values()
        assert all(turn["outcome"] for turn in turns)
        assert len(turns) > 10


def prompts_shown(view: View) -> list[Any]:
    items = [i for i in view.shown["items"].values() if i["type"] == "user"]
    return [i["content"][0]["text"] for i in items]
