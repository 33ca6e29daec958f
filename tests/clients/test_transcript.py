"""A long history costs a client of another protocol nothing but the time to send it."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import closing

import pytest
import trio
from trio.testing import MockClock

from agentrt.events import Item, ItemDelta, ItemOpened, ToolCall, TurnEnded, TurnStarted
from runtime.fakes import echo, obedient
from web.hub_kit import Viewer, stage_with, viewer_of

ITEMS = 3000
SIZE = 1000


@pytest.mark.parametrize("path", ["/acp", pytest.param("/ai", marks=pytest.mark.slow)])
async def test_a_long_history_is_told_piece_by_piece_and_kept_by_nobody(
    path: str, autojump_clock: MockClock
) -> None:
    async with stage_with(echo) as stage:
        session = await stage.runtime.create("fake")
        log = session.log
        log.append(TurnStarted("long", "user"))
        for number in range(ITEMS):
            shown = {"text": "w" * SIZE} if number % 2 else {"tool": ToolCall(output="o" * SIZE)}
            kind = "text" if number % 2 else "tool"
            item = Item(id=f"x{number}", type=kind, turn="long", status="completed", **shown)  # type: ignore[arg-type]
            log.append(ItemOpened(item))
            log.publish()
        log.append(TurnEnded(turn="long", outcome="completed"))
        log.publish()
        with closing(viewer_of(stage.hub, path)) as first:
            ask_for_all(first, path, session.id)
            await told(first)  # what all share is made
        tracemalloc.start()
        with closing(viewer_of(stage.hub, path)) as viewer:
            before, _ = tracemalloc.get_traced_memory()
            ask_for_all(viewer, path, session.id)
            sizes = await told(viewer)
            _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sum(sizes) > ITEMS * SIZE
        assert peak - before < ITEMS * SIZE // 10


def ask_for_all(viewer: Viewer, path: str, session: str) -> None:
    if path == "/acp":
        load = {"jsonrpc": "2.0", "id": 2, "method": "session/load"}
        viewer.receive('{"jsonrpc": "2.0", "id": 1, "method": "initialize"}')
        viewer.receive(json.dumps({**load, "params": {"sessionId": session}}))
    else:
        viewer.receive(json.dumps({"type": "resume", "requestId": "r", "id": session}))


async def told(viewer: Viewer) -> list[int]:
    """How long each message is, until there are no more."""
    sizes: list[int] = []
    with trio.move_on_after(60):
        while True:
            sizes.append(len(await viewer.next_frame()))
    return sizes


async def test_what_changes_while_a_history_is_told_is_told_once(
    autojump_clock: MockClock,
) -> None:
    """A text that grows, in front of the place where the client is and behind it."""
    async with stage_with(echo) as stage:
        session = await stage.runtime.create("fake")
        log = session.log
        log.append(TurnStarted("long", "user"))
        for number in range(600):
            log.append(ItemOpened(Item(id=f"x{number}", type="text", turn="long", text="a")))
        log.publish()
        with closing(viewer_of(stage.hub, "/acp")) as viewer:
            ask_for_all(viewer, "/acp", session.id)
            shown: dict[str, str] = {}
            with trio.move_on_after(60):
                for count in range(10_000):
                    message = json.loads(await viewer.next_frame())
                    update = message.get("params", {}).get("update", {})
                    if update.get("sessionUpdate") == "agent_message_chunk":
                        id, text = update["messageId"], update["content"]["text"]
                        shown[id] = shown.get(id, "") + text
                    if count == 100:
                        log.append(ItemDelta("x7", "b"))
                        log.append(ItemDelta("x500", "c"))
                        log.publish()
        assert {id: text for id, text in shown.items() if text != "a"} == {"x7": "ab", "x500": "ac"}
        assert len(shown) == 600


async def test_ai_a_stream_that_is_ended_while_another_one_is_told_says_nothing(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        session = await stage.runtime.create("fake")
        session.submit("work")
        await trio.sleep(1)
        with closing(viewer_of(stage.hub, "/ai")) as viewer:
            ask_for_all(viewer, "/ai", session.id)
            message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "more"}]}
            send = {"type": "send", "requestId": "r2", "id": session.id, "messages": [message]}
            viewer.receive(json.dumps(send))
            assert session.queue
            for _ in range(3):  # both are accepted, and the first has begun
                await viewer.next_frame()
            viewer.receive(json.dumps({"type": "abort", "requestId": "r2"}))
            assert not session.queue
            session.cancel()
            heard: list[dict[str, str]] = []
            with trio.move_on_after(60):
                while True:
                    heard.append(json.loads(await viewer.next_frame()))
        assert {each["requestId"] for each in heard} == {"r"}
        assert heard[-1]["type"] == "end"
