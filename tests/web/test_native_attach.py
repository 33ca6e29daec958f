"""Attaching, replaying and keeping up, in `agentrt.v1`."""

from __future__ import annotations

import json

import pytest
import trio
from hub_kit import Stage, Tab, stage_with, viewer_of
from trio.testing import MockClock
from wire_client import WireClient

import agentrt
from agentrt.testing import FakeAcpAgent


async def chatty(agent: FakeAcpAgent) -> None:
    """Says as many words as the prompt wants."""
    async for prompt in agent.prompts:
        for n in range(int(prompt.text)):
            agent.say(f"{n} ")
            if n % 10 == 0:
                await trio.sleep(0.001)
        prompt.end()


async def same(stage: Stage, *tabs: Tab) -> None:
    """All see what one sees that has just come."""
    await trio.sleep(5)
    [info] = stage.runtime.list()
    fresh = stage.connect(info.session)
    await trio.sleep(1)
    for tab in tabs:
        assert tab.view(info.session).comparable() == fresh.view(info.session).comparable()
    fresh.cut()


async def test_hello_is_answered_by_ready_then_its_ack_then_a_snapshot(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session(title="work")
        tab = stage.connect(id)
        await trio.sleep(0.1)
        assert [m["type"] for m in tab.frames[0]] == ["ready", "ack", "snapshot"]
        ready = tab.frames[0][0]
        assert ready["beat_s"] == 15
        assert ready["limits"] == {"frame": 8 * 1024 * 1024}
        assert ready["agents"] == [
            {"name": "fake", "title": "", "available": True, "unasked_modes": [], "install": ""}
        ]
        [summary] = ready["sessions"]
        assert (summary["session"], summary["title"], summary["phase"]) == (id, "work", "idle")
        assert tab.frames[0][1]["sessions"] == {id: "snapshot"}


async def test_a_viewer_sees_every_event_after_its_snapshot(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        await tab.prompt(id, "50")
        await trio.sleep(1)
        assert tab.view(id).texts() == ["".join(f"{n} " for n in range(50))]
        assert not tab.view(id).busy
        assert tab.view(id).snapshots == 1
        await same(stage, tab)


async def test_w4_who_comes_back_gets_just_what_it_missed(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        client = WireClient("somebody-random")
        tab = stage.connect(id, client=client)
        await tab.prompt(id, "20")
        await trio.sleep(1)
        tab.cut()
        await stage.runtime.get(id).run("30")
        again = stage.connect(client=client)
        await trio.sleep(1)
        assert again.messages("ack")[0]["sessions"] == {id: "replay"}
        assert client.views[id].snapshots == 1
        await same(stage, again)


async def test_w4_who_missed_nothing_is_told_so(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        client = WireClient("somebody-random")
        stage.connect(id, client=client).cut()
        tab = stage.connect(client=client)
        await trio.sleep(1)
        tab.cut()
        again = stage.connect(client=client)
        await trio.sleep(1)
        assert [m["type"] for m in again.frames[0]] == ["ready", "ack"]
        assert again.frames[0][1]["sessions"] == {id: "replay"}


async def test_w4_who_was_away_too_long_gets_a_snapshot(autojump_clock: MockClock) -> None:
    limits = agentrt.Limits(recent_events=64)
    async with stage_with(chatty, limits=limits) as stage:
        id = await stage.session()
        client = WireClient("somebody-random")
        tab = stage.connect(id, client=client)
        await trio.sleep(1)
        tab.cut()
        await stage.runtime.get(id).run("500")
        again = stage.connect(client=client)
        await trio.sleep(1)
        assert client.views[id].snapshots == 2
        await same(stage, again)


@pytest.mark.slow
async def test_w4_an_attach_in_the_middle_of_a_turn_loses_nothing(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        first = stage.connect(id)
        tabs = [first]
        await first.prompt(id, "1000")
        for _ in range(20):
            tabs.append(stage.connect(id))
            await trio.sleep(0.003)
        assert first.view(id).busy
        await same(stage, *tabs)


async def test_w4_attach_and_detach_are_answered(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        tab = stage.connect()
        assert (await tab.answer(tab.wire.attach(id)))["answer"] == "snapshot"
        await trio.sleep(0.1)
        assert tab.view(id).phase == "idle"
        await tab.ok("detach", session=id)
        before = tab.view(id).seq
        await stage.runtime.get(id).run("5")
        await trio.sleep(1)
        assert tab.view(id).seq == before
        assert await tab.refused("attach", session="nobody") == "unknown_session"


async def test_w4_attaching_twice_doubles_nothing(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        await tab.prompt(id, "300")
        for _ in range(10):
            view = tab.view(id)
            await tab.ok("attach", session=id, epoch=view.epoch, seq=view.seq)
            await trio.sleep(0.002)
        await same(stage, tab)


async def test_w4_an_unknown_session_in_hello_is_told(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        tab = stage.connect("gone")
        await trio.sleep(0.1)
        assert tab.frames[0][1]["sessions"] == {"gone": "unknown_session"}


async def test_w10_another_epoch_means_a_snapshot(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        await stage.runtime.get(id).run("20")
        tab = stage.connect()
        tab.wire.attach(id, epoch="of an earlier server", seq=3)
        await trio.sleep(0.1)
        assert tab.view(id).snapshots == 1


async def test_a_number_from_the_future_means_a_snapshot(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        epoch = stage.runtime.get(id).snapshot().epoch
        tab = stage.connect()
        tab.wire.attach(id, epoch=epoch, seq=10_000)
        await trio.sleep(0.1)
        assert tab.view(id).snapshots == 1


async def test_w8_a_viewer_that_does_not_read_gets_a_fresh_snapshot(
    autojump_clock: MockClock,
) -> None:
    limits = agentrt.Limits(viewer_outbox_bytes=20_000)
    async with stage_with(chatty, limits=limits) as stage:
        id = await stage.session()
        healthy = stage.connect(id)
        slow = Tab(WireClient(None), viewer_of(stage.hub))
        slow.wire.hello(id)
        slow.wire.take(await slow.viewer.next_frame())
        await stage.runtime.get(id).run("1000")
        stage.nursery.start_soon(slow.read)
        await same(stage, healthy, slow)
        assert slow.view(id).snapshots == 2


@pytest.mark.slow
async def test_w8_two_hundred_viewers_of_which_some_never_read_cost_no_memory_each(
    autojump_clock: MockClock,
) -> None:
    limits = agentrt.Limits(viewer_outbox_bytes=100_000)
    async with stage_with(chatty, limits=limits) as stage:
        id = await stage.session()
        tabs = [stage.connect(id) for _ in range(20)]
        for _ in range(180):
            dead = viewer_of(stage.hub, role="viewer")
            dead.receive(json.dumps({"type": "hello", "id": "1", "sessions": [{"session": id}]}))
        await stage.runtime.get(id).run("3000")
        feed = stage.hub.feeds[id]
        assert sum(map(len, feed._frames)) <= limits.viewer_outbox_bytes
        assert all(not hasattr(v, "_queue") and len(v._replies) <= 2 for v in stage.hub.viewers)
        await same(stage, *tabs)


async def test_events_are_encoded_once_and_sent_together(autojump_clock: MockClock) -> None:
    async def burst(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for n in range(250):
                agent.say(f"{n} ")
            prompt.end()

    async with stage_with(burst) as stage:
        id = await stage.session()
        tabs = [stage.connect(id) for _ in range(5)]
        await trio.sleep(1)
        before = [len(tab.frames) for tab in tabs]
        await stage.runtime.get(id).run("go")
        await trio.sleep(1)
        for tab, start in zip(tabs, before, strict=True):
            frames = [f for f in tab.frames[start:] if any(m["type"] == "event" for m in f)]
            assert len(frames) <= 6
            assert all(len(frame) <= 100 for frame in frames)
        await same(stage, *tabs)


async def test_a_lone_message_is_an_object_and_several_are_an_array(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(chatty) as stage:
        viewer = viewer_of(stage.hub, role="viewer")
        viewer.receive('{"type":"hello","id":"1"}')
        assert isinstance(json.loads(await viewer.next_frame()), list)
        viewer.receive('{"type":"session","op":"list","id":"2"}')
        assert json.loads(await viewer.next_frame())["id"] == "2"
        viewer.close()


async def test_one_busy_session_does_not_starve_another_in_a_viewer(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(chatty) as stage:
        busy, quiet = await stage.session(), await stage.session()
        tab = stage.connect(busy, quiet)
        stage.runtime.get(busy).submit("3000")
        await trio.sleep(0.05)
        await stage.runtime.get(quiet).run("3")
        await trio.sleep(0.02)
        assert tab.view(busy).busy
        assert tab.view(quiet).texts() == ["0 1 2 "]


async def test_a_beat_says_up_to_where_the_viewer_should_know(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        tab.viewer.receive('{"type":"beat"}')
        await trio.sleep(50)
        assert len(tab.client.beats) == 3
        told = tab.client.beats[-1]["sessions"][id]
        assert told == {"epoch": tab.view(id).epoch, "seq": tab.view(id).seq, "phase": "idle"}


async def test_everybody_hears_of_sessions_that_come_go_and_change(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(chatty) as stage:
        tab = stage.connect()
        await trio.sleep(0.1)
        id = await stage.session()
        await trio.sleep(0.1)
        assert [s["session"] for s in tab.client.sessions] == [id]
        stage.runtime.rename(id, "a name")
        await trio.sleep(0.1)
        assert tab.client.sessions[0]["title"] == "a name"
        await stage.runtime.close(id)
        await trio.sleep(0.1)
        assert tab.client.sessions == []


async def test_the_end_of_a_session_is_seen_by_its_viewers(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        await trio.sleep(0.1)
        await stage.runtime.close(id)
        await trio.sleep(0.1)
        assert tab.view(id).phase == "closed"
        assert await tab.refused("attach", session=id) == "unknown_session"
        await trio.sleep(60)
        assert tab.client.beats[-1]["sessions"] == {}


async def test_the_hub_s_end_tells_every_viewer_why(autojump_clock: MockClock) -> None:
    async with stage_with(chatty) as stage:
        tabs = [stage.connect() for _ in range(3)]
        await trio.sleep(0.1)
        stage.hub.close()
        await trio.sleep(0.1)
        assert [tab.ended and tab.ended.code for tab in tabs] == [4410] * 3
