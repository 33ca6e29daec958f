"""The cost of a viewer is bounded in bytes, whatever a session contains."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
import trio
from hub_kit import (
    PIECE_CHARS,
    Stage,
    Tab,
    feed_of,
    merge,
    previews_of,
    stage_with,
    until_sent_away,
    viewer_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock
from wire_client import WireClient

import agentrt
from agentrt.events import (
    Audio,
    Diff,
    Event,
    Image,
    Item,
    ItemClosed,
    ItemOpened,
    ItemUpdated,
    PlanChanged,
    PlanEntry,
    QueueChanged,
    QueueEntry,
    Resource,
    Task,
    TaskChanged,
    Text,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolText,
    TurnEnded,
    TurnStarted,
)
from agentrt.lowlevel import Log, SessionState
from agentrt.testing import FakeAcpAgent

MB = 1_000_000


def output(id: str, text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    given = {"status": "completed", "title": id, "kind": "read", "content": content}
    return {"toolCallId": id, **given, **more}


async def outputs(agent: FakeAcpAgent) -> None:
    """Twenty outputs of 1 MB; then, if it is told to go on, one of 0.125 MB a second."""
    async for prompt in agent.prompts:
        if "go on" not in prompt.text:
            for n in range(20):
                agent.update("tool_call", **output(f"big {n}", f"{n:03}" + "x" * MB))
            for n in range(30):
                agent.update("tool_call", **output(f"small {n}", f"line {n}"))
        else:
            for n in range(60):
                agent.update("tool_call", **output(f"later {n}", "y" * (MB // 8)))
                await trio.sleep(1)
        prompt.end()


class SlowLine:
    """A viewer behind a line of some bytes a second."""

    def __init__(self, stage: Stage, *sessions: str, bytes_per_s: float) -> None:
        self.tab = Tab(WireClient(None), viewer_of(stage.hub))
        self.tab.wire.hello(*sessions)
        self.sent_bytes = 0
        self.largest_bytes = 0
        self._bytes_per_s = bytes_per_s

    async def frame(self) -> None:
        """Take the next frame, which needs its time."""
        frame = await self.tab.viewer.next_frame()
        self.sent_bytes += len(frame)
        self.largest_bytes = max(self.largest_bytes, len(frame))
        await trio.sleep(len(frame) / self._bytes_per_s)
        self.tab.wire.take(frame)

    async def run(self) -> None:
        with until_sent_away():
            while True:
                await self.frame()


async def test_a_session_with_20_mb_of_output_is_usable_after_600_kb(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(outputs) as stage:
        id = await stage.session()
        await stage.runtime.get(id).run("fill")
        line = SlowLine(stage, id, bytes_per_s=0.3 * MB)
        while not line.tab.view(id).shown:
            await line.frame()
        assert line.sent_bytes < 0.6 * MB
        view = line.tab.view(id)
        assert view.phase == "idle"
        assert len(view.tools()) == 50


async def test_a_viewer_that_keeps_reading_gets_one_snapshot_and_then_events(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(outputs) as stage:
        id = await stage.session()
        session = stage.runtime.get(id)
        await session.run("fill")
        session.submit("go on")
        line = SlowLine(stage, id, bytes_per_s=0.3 * MB)
        stage.nursery.start_soon(line.run)
        lag = []
        for _ in range(50):
            await trio.sleep(1)
            lag.append(session.log.seq - line.tab.view(id).seq)
        assert line.tab.view(id).snapshots == 1
        assert max(lag[2:]) <= 4


async def chatter(agent: FakeAcpAgent) -> None:
    """Five thousand words a second: far more frames than a slow line can carry one by one."""
    async for prompt in agent.prompts:
        for n in range(500):
            for k in range(50):
                agent.say(f"{n}.{k} ")
            await trio.sleep(0.01)
        prompt.end()


@pytest.mark.slow
async def test_many_small_pieces_of_text_are_merged_for_a_slow_line(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(chatter) as stage:
        id = await stage.session()
        session = stage.runtime.get(id)
        line = SlowLine(stage, id, bytes_per_s=0.1 * MB)
        stage.nursery.start_soon(line.run)
        await session.run("talk")
        await trio.sleep(3)
        view = line.tab.view(id)
        assert view.snapshots == 1
        assert view.seq == session.log.seq
        assert len(view.events) < session.log.seq / 5
        [shown] = view.texts()
        [text] = [item for item in session.snapshot().items if item.type == "text"]
        assert text.text.endswith(shown)


async def test_a_client_reads_the_rest_of_a_preview_piece_by_piece(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(outputs) as stage:
        id = await stage.session()
        await stage.runtime.get(id).run("fill")
        tab = stage.connect(id)
        await trio.sleep(0.1)
        first = next(iter(tab.view(id).shown["items"].values()), None)
        items = [item for item in tab.view(id).shown["items"].values() if item["type"] == "tool"]
        assert first is not None
        block = items[0]["tool"]["content"][0]["content"]
        assert len(block["text"]) == 8192
        assert block["_cut"]["text"]["chars"] == MB + 3
        parts, start = [], 0
        while start is not None:
            answer = await tab.ok(
                "content", session=id, at=block["_cut"]["text"]["at"], start=start
            )
            assert len(answer["text"]) <= PIECE_CHARS
            parts.append(answer["text"])
            start = answer["next"]
        assert "".join(parts) == "000" + "x" * MB
        again = await tab.ok("content", session=id, at=block["_cut"]["text"]["at"], count=5)
        assert (again["text"], again["next"]) == ("000xx", 5)


async def test_a_place_that_does_not_exist_is_refused(autojump_clock: MockClock) -> None:
    async with stage_with(outputs) as stage:
        id = await stage.session()
        await stage.runtime.get(id).run("fill")
        tab = stage.connect(id)
        for at in ("/items/nothing/text", "/items", "/", "nothing", "/queue/x/content/0/text"):
            assert await tab.refused("content", session=id, at=at) == "unknown_request", at


async def test_a_preview_is_not_accepted_as_a_prompt(autojump_clock: MockClock) -> None:
    async with stage_with(outputs) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        cut = {"type": "text", "text": "abc", "_cut": {"text": {"at": "/x", "chars": 10**6}}}
        assert await tab.refused("prompt", session=id, content=[cut]) == "bad_request"


async def test_a_question_about_a_large_change_is_sent_completely(
    autojump_clock: MockClock,
) -> None:
    """Nobody may allow what was not shown."""
    new = "".join(f"line {n}\n" for n in range(20_000))

    async def writing(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            change = [{"type": "diff", "path": "/a", "oldText": None, "newText": new}]
            call = {"toolCallId": "w", "title": "Write a", "kind": "edit", "content": change}
            agent.update("tool_call", **call)
            options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
            await agent.request(
                "session/request_permission", {"toolCall": call, "options": options}
            )
            prompt.end()

    async with stage_with(writing) as stage:
        id = await stage.session()
        early = stage.connect(id)
        await trio.sleep(0.1)
        stage.runtime.get(id).submit("go")
        await trio.sleep(1)
        late = stage.connect(id)
        await trio.sleep(1)
        for tab in (early, late):
            view = tab.view(id)
            [request] = view.shown["permissions"].values()
            assert request["tool"]["content"][0]["newText"] == new
            shown = view.shown["items"][request["item"]]["tool"]["content"][0]
            assert len(shown["newText"]) == 8192


# --- any content


names = st.text(min_size=1, max_size=8)
large = st.builds(
    lambda text, count: text * count, st.text(min_size=1, max_size=4), st.integers(0, 10_000)
)
short = st.text(max_size=300)
texts = st.one_of(short, large)
foreign = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(names, inner, max_size=4),
        st.lists(st.integers(), max_size=1).map(lambda some: some * 3000),
    ),
    max_leaves=6,
)
blocks = st.one_of(
    st.builds(Text, texts),
    st.builds(Image, texts, st.just("image/png")),
    st.builds(Audio, texts, st.just("audio/wav")),
    st.builds(lambda text: Resource({"uri": "file:///a", "text": text}), texts),
    st.builds(lambda text: Resource({"uri": "file:///a", "blob": text}), texts),
)
contents = st.one_of(st.builds(ToolText, blocks), st.builds(Diff, names, texts, texts))
tools = st.builds(
    lambda **given: ToolCall(call="c", **given),
    title=short,
    kind=st.sampled_from(["execute", "edit", "read"]),
    input=foreign,
    output=foreign,
    content=st.builds(
        lambda some, count: tuple(some) * count,
        st.lists(contents, max_size=3),
        st.sampled_from([1, 1, 1, 50]),
    ),
)


def log_with(*events: Event) -> Log:
    log = Log("s", "e", agentrt.Limits(), SessionState())
    log.extend(list(events), 0)
    return log


def whole(previews: Any, value: Any) -> Any:
    """A value with everything that was left out, as a client would request it."""
    if isinstance(value, list):
        return [whole(previews, each) for each in value]
    if not isinstance(value, dict):
        return value
    cuts = value.get("_cut", {})
    return {
        name: fetched(previews, cuts[name]) if name in cuts else whole(previews, each)
        for name, each in value.items()
        if name != "_cut"
    }


def fetched(previews: Any, cut: dict[str, Any]) -> Any:
    parts: list[str] = []
    start: int | None = 0
    while start is not None:
        answer = previews.content(cut["at"], start, PIECE_CHARS)
        parts.append(answer.text)
        start = answer.next
    text = "".join(parts)
    assert len(text) == cut["chars"] == answer.chars
    return json.loads(text) if cut.get("json") else text


MOST_BYTES = 6 * 5 * 8192 + 4096
"""Four previews, and one more that was begun; a character takes up to six bytes."""


@pytest.mark.slow
@given(tools, texts, st.lists(blocks, max_size=2))
@settings(max_examples=10, deadline=None)
def test_any_item_is_bounded_in_bytes_and_can_be_completed(
    tool: ToolCall, text: str, prompt: list[Any]
) -> None:
    item = Item(id="i/1~", type="tool", turn="t", tool=tool, content=tuple(prompt))
    start = TurnStarted("t", "user")
    log = log_with(start, ItemOpened(item), TextDelta("i/1~", text))
    previews = previews_of(log)
    [complete] = log.snapshot().items
    encoded = msgspec.json.encode(previews.item(complete))
    assert len(encoded) <= MOST_BYTES + 6 * 65536
    wanted = msgspec.json.decode(msgspec.json.encode(complete))
    assert whole(previews, msgspec.json.decode(encoded)) == wanted
    msgspec.json.decode(encoded, type=Item)  # still the same type
    opened = msgspec.json.decode(previews.event(ItemOpened(item)))["item"]
    assert whole(previews, opened) == msgspec.json.decode(msgspec.json.encode(item))
    patch = ItemUpdated("i/1~", {"tool": msgspec.to_builtins(tool)})
    frame = previews.event(patch)
    assert len(frame) <= MOST_BYTES
    sent = msgspec.json.decode(frame)["patch"]
    assert whole(previews, sent) == msgspec.json.decode(msgspec.json.encode(patch.patch))


@pytest.mark.slow
def test_every_part_of_a_snapshot_is_bounded() -> None:
    long = "z" * (MB // 5)
    events: list[Event] = [TurnStarted("t", "user", [Text(long)])]
    events += [TurnEnded(turn="t", outcome="completed", structured_output={"a": long})]
    events += [QueueChanged([QueueEntry(f"q{n}", [Image(long, "image/png")]) for n in range(64)])]
    events += [TaskChanged(Task(id=f"k{n}", detail=long)) for n in range(100)]
    events += [PlanChanged([PlanEntry(long) for _ in range(100)])]
    for n in range(50):
        tool = ToolCall(output=[long], content=(Diff("/a", long, long),) * 3)
        events += [ItemOpened(Item(id=f"i{n}", type="tool", turn="t", tool=tool))]
    log = log_with(*events)
    feed = feed_of(log)
    _, frame = feed.snapshot(None, 0.0)
    assert len(frame) < 0.6 * MB
    assert all(len(feed.previews.event(event)) <= MOST_BYTES for event in events)
    shown = msgspec.json.decode(frame)
    assert [entry["id"] for entry in shown["queue"]] == [f"q{n}" for n in range(64)]
    assert len(fetched(feed.previews, shown["queue"][0]["content"][0]["_cut"]["data"])) == MB // 5
    assert (
        len(fetched(feed.previews, shown["turns"][0]["structured_output"]["_cut"]["a"])) == MB // 5
    )
    assert len(fetched(feed.previews, shown["tasks"][99]["_cut"]["detail"])) == MB // 5


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.text(max_size=3)), max_size=30))
def test_merged_events_have_the_same_effect(pieces: list[tuple[str, bool, str]]) -> None:
    start: list[Event] = [ItemOpened(Item(id=id, type="text")) for id in "ab"]
    events: list[Event] = [
        (ThoughtDelta if thought else TextDelta)(id, text) for id, thought, text in pieces
    ]
    events.append(ItemClosed("a", "completed"))
    kept, seqs = merge(events, range(3, 3 + len(events)))
    assert seqs[-1] == 2 + len(events)
    assert seqs == sorted(set(seqs))
    assert log_with(*start, *kept).state.items == log_with(*start, *events).state.items


async def test_a_text_that_grows_by_more_than_a_preview_is_shown_from_its_end(
    autojump_clock: MockClock,
) -> None:
    async def flood(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.say("a" * MB)
            agent.say("b")
            prompt.end()

    async with stage_with(flood) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        await trio.sleep(0.1)
        await stage.runtime.get(id).run("go")
        await trio.sleep(1)
        [text] = tab.view(id).texts()
        assert text.endswith("ab")
        assert len(text) == 4 * 8192 + 1
        [item] = [i for i in tab.view(id).shown["items"].values() if i["type"] == "text"]
        cut = item["_cut"]["text"]
        answer = await tab.ok("content", session=id, at=cut["at"], start=cut["start"] - 3, count=6)
        assert answer["text"] == "aaa" + text[:3]
        assert cut["start"] + len(text) == answer["chars"]
        assert math.ceil(answer["chars"] / PIECE_CHARS) == 16
