"""Long sessions in `agentrt.v1`: a snapshot of the last turns, and `history` for those before."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import trio
from hub_kit import Stage, Tab, stage_with, viewer_of
from trio.testing import MockClock
from wire_client import View, WireClient

import agentrt
from agentrt.testing import FakeAcpAgent
from runtime.fakes import echo

FEW = agentrt.Limits(snapshot_turns=3)


async def long(stage: Stage, turns: int = 8) -> str:
    """A session with so many turns."""
    id = await stage.session()
    for number in range(turns):
        await stage.runtime.get(id).run(f"prompt {number}")
    return id


def prompts(shown: Any) -> list[str]:
    items = shown["items"].values() if isinstance(shown["items"], dict) else shown["items"]
    return [item["content"][0]["text"] for item in items if item["type"] == "user"]


async def look_back(tab: Tab, session: str, **fields: Any) -> dict[str, Any]:
    return await tab.ok("history", session=session, before=tab.view(session).earlier, **fields)


def whole(stage: Stage, session: str) -> View:
    view = View(session)
    snapshot = stage.runtime.get(session).snapshot()
    view.take_snapshot(json.loads(msgspec.json.encode(snapshot)))
    return view


async def test_a_viewer_that_comes_gets_the_last_turns(autojump_clock: MockClock) -> None:
    async with stage_with(echo, limits=FEW) as stage:
        id = await long(stage)
        tab = stage.connect(id)
        await trio.sleep(1)
        shown = tab.view(id).shown
        assert prompts(shown) == ["prompt 5", "prompt 6", "prompt 7"]
        assert list(shown["turns"]) == ["t6", "t7", "t8"]
        assert shown["earlier"] == next(iter(shown["items"]))


async def test_history_gives_the_turns_before_as_often_as_it_is_asked(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo, limits=FEW) as stage:
        id = await long(stage)
        tab = stage.connect(id)
        await trio.sleep(1)
        before = tab.view(id).earlier
        for _ in range(2):
            answer = await tab.ok("history", session=id, before=before, count=2)
            assert prompts(answer) == ["prompt 3", "prompt 4"]
        assert answer["before"] == before
        assert answer["earlier"] == answer["items"][0]["id"]


async def test_w1_all_pages_and_the_snapshot_are_the_session(autojump_clock: MockClock) -> None:
    async with stage_with(echo, limits=FEW) as stage:
        id = await long(stage)
        tab = stage.connect(id)
        await trio.sleep(1)
        while tab.view(id).earlier is not None:
            await look_back(tab, id, count=2)
        assert tab.view(id).comparable() == whole(stage, id).comparable()


async def test_a_page_has_no_more_turns_than_a_snapshot(autojump_clock: MockClock) -> None:
    async with stage_with(echo, limits=FEW) as stage:
        id = await long(stage)
        tab = stage.connect(id)
        await trio.sleep(1)
        assert len(prompts(await look_back(tab, id, count=1_000_000))) == 3
        assert len(prompts(await look_back(tab, id))) == 2


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"before": "i999"}, "unknown_request"),
        ({"before": "t1"}, "unknown_request"),
        ({"before": "i1", "count": 0}, "bad_request"),
        ({"before": "i1", "count": "all"}, "bad_request"),
        ({}, "bad_request"),
        ({"before": "i1", "session": "nobody"}, "unknown_session"),
    ],
)
async def test_a_page_that_cannot_be_given_is_refused(
    fields: dict[str, Any], code: str, autojump_clock: MockClock
) -> None:
    async with stage_with(echo) as stage:
        id = await long(stage, 1)
        tab = stage.connect(id)
        assert await tab.refused("history", **{"session": id, **fields}) == code


async def test_before_the_first_item_there_is_nothing(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await long(stage, 1)
        tab = stage.connect()
        answer = await tab.ok("history", session=id, before="i1")
        assert (answer["items"], answer["earlier"]) == ([], None)


async def test_who_only_looks_on_may_look_back(autojump_clock: MockClock) -> None:
    async with stage_with(echo, limits=FEW) as stage:
        id = await long(stage)
        tab = stage.connect(id, role="viewer")
        await trio.sleep(1)
        assert prompts(await look_back(tab, id)) == ["prompt 2", "prompt 3", "prompt 4"]


async def working(agent: FakeAcpAgent) -> None:
    """A call that stays open while many others are made and closed."""
    async for prompt in agent.prompts:
        agent.update("tool_call", toolCallId="long", title="a server", status="in_progress")
        for n in range(10):
            agent.update("tool_call", toolCallId=f"c{n}", title=f"step {n}", status="completed")
        agent.say("now ")
        await trio.sleep(60)
        agent.update("tool_call_update", toolCallId="c0", title="step 0, seen again")
        agent.update("tool_call_update", toolCallId="long", status="completed")
        agent.say("done")
        prompt.end()


async def test_what_is_still_open_is_shown_whatever_is_left_out(autojump_clock: MockClock) -> None:
    limits = agentrt.Limits(snapshot_items=4)
    async with stage_with(working, limits=limits) as stage:
        id = await stage.session()
        stage.runtime.get(id).submit("go")
        await trio.sleep(1)
        tab = stage.connect(id)
        await trio.sleep(1)
        first, second, *_ = tab.view(id).shown["items"].values()
        assert (first["tool"]["title"], first["status"]) == ("a server", "running")
        assert tab.view(id).earlier == second["id"]
        await trio.sleep(100)
        first, *_ = tab.view(id).shown["items"].values()
        assert first["status"] == "completed"


async def test_events_of_what_is_left_out_change_nothing_until_it_is_there(
    autojump_clock: MockClock,
) -> None:
    limits = agentrt.Limits(snapshot_items=4)
    async with stage_with(working, limits=limits) as stage:
        id = await stage.session()
        stage.runtime.get(id).submit("go")
        await trio.sleep(1)
        tabs = [stage.connect(id) for _ in range(2)]
        await trio.sleep(1)
        while tabs[0].view(id).earlier is not None:
            await look_back(tabs[0], id)
        await trio.sleep(100)
        while tabs[1].view(id).earlier is not None:
            await look_back(tabs[1], id)
        expected = whole(stage, id).comparable()
        assert [tab.view(id).comparable() for tab in tabs] == [expected, expected]


async def test_a_page_waits_for_the_events_that_the_viewer_does_not_have_yet(
    autojump_clock: MockClock,
) -> None:
    """Else it would say twice what they say."""
    async with stage_with(echo, limits=FEW) as stage:
        id = await long(stage)
        slow = Tab(WireClient(None), viewer_of(stage.hub))
        slow.wire.hello(id)
        slow.wire.take(await slow.viewer.next_frame())
        before = slow.view(id).earlier
        await stage.runtime.get(id).run("once more")
        first = slow.wire.send("history", session=id, before=before)
        second = slow.wire.send("history", session=id, before=before)
        stage.nursery.start_soon(slow.read)
        assert (await slow.answer(second))["error"]["code"] == "limit"
        answer = await slow.answer(first)
        assert answer["seq"] == slow.view(id).seq == stage.runtime.get(id).log.seq
        assert slow.view(id).earlier != before
        slow.cut()


async def test_who_detaches_meanwhile_is_answered_all_the_same(autojump_clock: MockClock) -> None:
    async with stage_with(echo, limits=FEW) as stage:
        id = await long(stage)
        tab = stage.connect()
        tab.wire.attach(id)
        asked = tab.wire.send("history", session=id, before="i7")
        tab.wire.send("detach", session=id)
        with trio.fail_after(100):
            while not any(m.get("id") == asked for frame in tab.frames for m in frame):
                await tab.news()
