"""The hub itself: what it costs, and what it leaves behind."""

from __future__ import annotations

import json

import pytest
import trio
from hub_kit import Tab, stage_with, viewer_of
from trio.testing import MockClock
from wire_client import View

import agentrt
from agentrt.events import Event, Item, ItemClosed, ItemOpened, TurnEnded, TurnStarted
from agentrt.hosting import runtime_host
from agentrt.lowlevel import CommandRefused
from agentrt.store import StoreEntry
from agentrt.testing import FakeAcpAgent
from runtime.fakes import echo
from work import counted


async def trickling(agent: FakeAcpAgent) -> None:
    """A word every millisecond, for a second, unless it is stopped."""
    async for prompt in agent.prompts:
        for n in range(1000):
            if prompt.cancelled.is_set():
                break
            agent.say(f"{n} ")
            await trio.sleep(0.001)
        prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")


@pytest.mark.slow
async def test_the_more_viewers_there_are_the_longer_each_rests(
    autojump_clock: MockClock,
) -> None:
    frames: dict[int, float] = {}
    for viewers in (1, 100):
        async with stage_with(trickling) as stage:
            id = await stage.session()
            tabs = [stage.connect(id) for _ in range(viewers)]
            await trio.sleep(1)
            before = sum(len(tab.frames) for tab in tabs)
            await stage.runtime.get(id).run("go")
            await trio.sleep(1)
            frames[viewers] = (sum(len(tab.frames) for tab in tabs) - before) / viewers
            assert all(len(tab.view(id).texts()[0].split()) == 1000 for tab in tabs)
    assert 150 < frames[1] < 300
    assert frames[100] < 120


@pytest.mark.slow
async def test_viewers_of_other_sessions_do_not_slow_a_stream(autojump_clock: MockClock) -> None:
    async with stage_with(trickling) as stage:
        busy, idle = await stage.session(), await stage.session()
        tab = stage.connect(busy)
        for _ in range(300):
            stage.connect(idle)
        await trio.sleep(1)
        before = len(tab.frames)
        await stage.runtime.get(busy).run("go")
        assert len(tab.frames) - before > 150


@pytest.mark.slow
async def test_what_comes_rarely_is_told_at_once_to_a_hundred(autojump_clock: MockClock) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for _ in range(50):
                agent.say("x")
                await trio.sleep(0.02)
            prompt.end()

    async with stage_with(slow) as stage:
        id = await stage.session()
        tabs = [stage.connect(id) for _ in range(100)]
        await trio.sleep(1)
        stage.runtime.get(id).submit("go")
        await trio.sleep(0.11)
        for _ in range(10):
            assert {tab.view(id).texts()[0] for tab in tabs} == {
                stage.runtime.get(id).snapshot().items[-1].text
            }
            await trio.sleep(0.02)


@pytest.mark.slow
async def test_a_frame_goes_to_all_that_know_the_same_without_a_task(
    autojump_clock: MockClock,
) -> None:
    class Sink:
        written = True

        def __init__(self) -> None:
            self.texts: list[bytes] = []

        def put(self, text: bytes) -> None:
            self.texts.append(text)

    async with stage_with(trickling) as stage:
        id = await stage.session()
        sinks = [Sink() for _ in range(20)]
        for sink in sinks:
            viewer = viewer_of(stage.hub, role="viewer")
            viewer.connect(sink)
            viewer.receive(json.dumps({"type": "hello", "id": "1", "sessions": [{"session": id}]}))
        await stage.runtime.get(id).run("go")
        await trio.sleep(1)
        assert len(sinks[0].texts) > 100
        assert all(sink.texts[2:] == sinks[0].texts[2:] for sink in sinks)
        assert any(sinks[1].texts[9] is text for text in sinks[0].texts)
        seen = View(id)
        for text in sinks[0].texts:
            said = json.loads(text)
            for message in said if isinstance(said, list) else [said]:
                if message["type"] == "snapshot":
                    seen.take_snapshot(message)
                elif message["type"] == "event":
                    seen.take_event(message)
        assert len(seen.texts()[0].split()) == 1000


@pytest.mark.slow
async def test_a_stop_is_answered_at_once_however_long_the_viewers_rest(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(trickling) as stage:
        id = await stage.session()
        tabs = [stage.connect(id) for _ in range(200)]
        await tabs[0].prompt(id, "go")
        await trio.sleep(0.5)
        start = trio.current_time()
        await tabs[7].ok("cancel", session=id)
        assert trio.current_time() == start
        await trio.sleep(2)
        assert {tab.view(id).phase for tab in tabs} == {"idle"}


async def test_a_viewer_that_rests_sees_the_end_soon(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session()
        tabs: list[Tab] = [stage.connect(id) for _ in range(40)]
        await trio.sleep(1)
        await tabs[0].prompt(id, "hello")
        await trio.sleep(0.3)
        assert {tuple(tab.view(id).texts()) for tab in tabs} == {("hello",)}


async def flooding(agent: FakeAcpAgent) -> None:
    """Ten thousand words a second, for a second and without a pause."""
    async for prompt in agent.prompts:
        for n in range(100):
            for _ in range(100):
                agent.say(f"number {n} ")
            await trio.sleep(0.01)
        prompt.end()


@pytest.mark.slow
async def test_an_agent_that_overtakes_a_crowd_is_not_told_about_until_it_pauses(
    autojump_clock: MockClock,
) -> None:
    """Snapshots that are old before they are sent would cost the agent's own process its time."""
    async with stage_with(flooding) as stage:
        id = await stage.session()
        tabs = [stage.connect(id) for _ in range(15)]
        await trio.sleep(1)
        await stage.runtime.get(id).run("go")
        await trio.sleep(2)
        assert {len(tab.view(id).texts()[0]) for tab in tabs} == {
            sum(100 * len(f"number {n} ") for n in range(100))
        }
        assert max(tab.view(id).snapshots for tab in tabs) <= 5
        assert sum(len(tab.frames) for tab in tabs) < 15 * 300


@pytest.mark.slow
async def test_a_lone_viewer_of_a_fast_agent_follows_closely(autojump_clock: MockClock) -> None:
    async with stage_with(flooding) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        stage.runtime.get(id).submit("go")
        await trio.sleep(0.7)
        log = stage.runtime.get(id).log
        assert tab.view(id).snapshots == 1
        assert log.seq - tab.view(id).seq < 1000


@pytest.mark.slow
async def test_those_that_were_overtaken_together_get_the_same_bytes(
    autojump_clock: MockClock,
) -> None:
    async def calling(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for n in range(3000):
                agent.update("tool_call", toolCallId=f"c{n}", title="x" * 100, status="completed")
            prompt.end()

    async with stage_with(calling, limits=agentrt.Limits(viewer_outbox_bytes=50_000)) as stage:
        id = await stage.session()
        viewers = [viewer_of(stage.hub, role="viewer") for _ in range(20)]
        for viewer in viewers:
            viewer.receive(json.dumps({"type": "hello", "id": "1", "sessions": [{"session": id}]}))
            await viewer.next_frame()
        await stage.runtime.get(id).run("go")
        await trio.sleep(1)
        for viewer in viewers:
            await viewer.next_frame()  # the list: what is that large goes alone
        frames = [await viewer.next_frame() for viewer in viewers]
        assert frames[0].startswith(b'{"type":"snapshot"')
        assert len(frames[0]) > 30_000
        assert all(frame is frames[0] for frame in frames)


@pytest.mark.slow
async def test_events_cost_nothing_for_viewers_that_rest(autojump_clock: MockClock) -> None:
    async with stage_with(trickling) as stage:
        id = await stage.session()
        for _ in range(200):
            stage.connect(id)
        await trio.sleep(1)
        feed = stage.hub.feeds[id]
        assert len(feed.waiting) == 200
        stage.runtime.get(id).submit("go")
        notified = []
        notify = feed.notify

        def counted(now: float) -> None:
            notified.append(now)
            notify(now)

        feed.notify = counted  # type: ignore[method-assign]
        await trio.sleep(0.1)
        assert feed.log.seq > 90
        assert len(notified) < 12


@pytest.mark.slow
async def test_sessions_and_viewers_that_have_gone_leave_nothing_in_the_hub(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        for _ in range(50):
            id = await stage.session()
            tab = stage.connect(id)
            await tab.prompt(id, "hello")
            await stage.runtime.close(id)
            tab.cut()
        assert stage.hub.feeds == {}
        assert stage.hub.viewers == {}
        assert stage.hub._listening == {}
        assert len(stage.hub._clients) == 0


async def test_a_closed_hub_listens_to_its_runtime_no_more(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session()
        before = len(stage.runtime.get(id).log._wakers)
        stage.hub.close()
        assert len(stage.runtime.get(id).log._wakers) == before - 1
        assert stage.runtime._register._listeners == set()


@pytest.mark.slow
async def test_how_long_a_snapshot_is_waited_for_does_not_grow_with_the_session(
    autojump_clock: MockClock,
) -> None:
    waits: list[int] = []
    for turns in (100, 10_000):
        async with stage_with(echo) as stage:
            session = await stage.runtime.create("fake")
            for number in range(turns):
                turn, item = f"t{number}", Item(id=f"i{number}", type="text", turn=f"t{number}")
                events: list[Event] = [TurnStarted(turn, "user"), ItemOpened(item)]
                events += [
                    ItemClosed(item.id, "completed"),
                    TurnEnded(turn=turn, outcome="completed"),
                ]
                for event in events:
                    session.log.append(event)
            session.log.publish()
            tab = stage.connect()
            await tab.answer(tab.wire.hello_id)
            with counted() as calls:
                tab.wire.attach(session.id)
                while not tab.view(session.id).shown:
                    await tab.news()
            waits.append(calls.count)
            [snapshot] = tab.messages("snapshot")
            assert len(json.dumps(snapshot)) <= agentrt.Limits().snapshot_bytes
    assert waits[1] < 2 * waits[0]


def stored(number: int) -> StoreEntry:
    return StoreEntry(session=f"s{number}", agent="fake", cwd="/", created=number, updated=number)


async def test_what_is_asked_of_the_sessions_costs_the_same_however_many_are_stored() -> None:
    calls: list[int] = []
    async with stage_with(echo) as stage:
        hub = stage.hub
        for number in range(4000):
            runtime_host(stage.runtime).add_stored(stored(number))
            if number not in (999, 3999):
                continue
            newest = [f"s{older}" for older in range(number - 199, number + 1)]
            with counted() as work:
                page, before = hub.page(None, 10), hub.page(newest[-1], 10)
                assert hub.is_in("s5", "/")
            calls.append(work.count)
            assert [info.session for info in hub.sessions()] == newest
            assert ([info.session for info in page["sessions"]], page["more"]) == (newest, True)
            assert [info.session for info in before["sessions"]] == newest[-11:-1]
    assert calls[0] == calls[1] < 2000


async def test_the_stored_sessions_are_listed_page_by_page() -> None:
    async with stage_with(echo) as stage:
        for number in range(5):
            runtime_host(stage.runtime).add_stored(stored(number))
        pages, before, more = [], "s4", True
        while more:
            page = stage.hub.page(before, 2)
            pages.append([info.session for info in page["sessions"]])
            before, more = pages[-1][0], page["more"]
        assert pages == [["s2", "s3"], ["s0", "s1"]]
        with pytest.raises(CommandRefused, match="no session 'nothing' is stored"):
            stage.hub.page("nothing", 2)
