"""The hub itself: what it costs, and what it leaves behind."""

from __future__ import annotations

import trio
from hub_kit import Tab, stage_with
from trio.testing import MockClock

from agentrt.testing import FakeAcpAgent
from runtime.fakes import echo


async def trickling(agent: FakeAcpAgent) -> None:
    """A word every millisecond, for a second, unless it is stopped."""
    async for prompt in agent.prompts:
        for n in range(1000):
            if prompt.cancelled.is_set():
                break
            agent.say(f"{n} ")
            await trio.sleep(0.001)
        prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")


async def test_the_more_viewers_there_are_the_longer_each_rests(
    autojump_clock: MockClock,
) -> None:
    frames: dict[int, float] = {}
    for viewers in (1, 20, 100):
        async with stage_with(trickling) as stage:
            id = await stage.session()
            tabs = [stage.connect(id) for _ in range(viewers)]
            await trio.sleep(1)
            before = sum(len(tab.frames) for tab in tabs)
            await stage.runtime.get(id).run("go")
            await trio.sleep(1)
            frames[viewers] = (sum(len(tab.frames) for tab in tabs) - before) / viewers
            assert all(len(tab.view(id).texts()[0].split()) == 1000 for tab in tabs)
    assert frames[1] > 500
    assert frames[20] < 120
    assert frames[100] < 40


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
        tabs: list[Tab] = [stage.connect(id) for _ in range(200)]
        await trio.sleep(1)
        await tabs[0].prompt(id, "hello")
        await trio.sleep(0.3)
        assert {tuple(tab.view(id).texts()) for tab in tabs} == {("hello",)}


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
        assert stage.hub.viewers == set()
        assert list(stage.hub._listening) == [""]
        assert len(stage.hub._clients) == 0


async def test_a_closed_hub_listens_to_its_runtime_no_more(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session()
        before = len(stage.runtime.get(id)._engine.log._wakers)
        stage.hub.close()
        assert len(stage.runtime.get(id)._engine.log._wakers) == before - 1
        assert stage.runtime._listeners == set()
