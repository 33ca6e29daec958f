"""The page completes previews of large contents from the pieces that it requests."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import msgspec
import trio
from msgspec import structs
from trio.testing import MockClock

from agentrt.events import Diff, Item, ItemOpened, TextDelta, ToolCall, TurnStarted
from runtime.fakes import echo
from web.hub_kit import stage_with

from .kit import HERE, NODE, modules, needs_packages

pytestmark = needs_packages

LONG = "aé😀\n" * 20_000

Ask: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]


@asynccontextmanager
async def preview_and_whole(**tool: Any) -> AsyncIterator[tuple[Any, Any, Ask]]:
    """A tool call as a server sends it and as it is, and how to ask for a piece of a content."""
    async with stage_with(echo) as stage:
        session = await stage.runtime.create("fake")
        log = session.log
        log.append(TurnStarted("t", "user"))
        item = Item(id="i/1", type="tool", turn="t", status="running")
        log.append(ItemOpened(structs.replace(item, tool=ToolCall(call="c", **tool))))
        log.append(TextDelta("i/1", LONG))
        log.publish()
        tab = stage.connect(session.id)
        while not tab.view(session.id).shown:
            await tab.news()
        [whole] = session.snapshot().items
        preview = tab.view(session.id).shown["items"]["i/1"]
        yield preview, _plain(whole), partial(tab.ok, "content", session=session.id)


def _plain(item: Item) -> Any:
    return {"status": "running"} | msgspec.json.decode(msgspec.json.encode(item))


def places(value: Any) -> list[str]:
    if isinstance(value, list):
        return [at for each in value for at in places(each)]
    if not isinstance(value, dict):
        return []
    own = [cut["at"] for cut in value.get("_cut", {}).values()]
    return own + [at for name, each in value.items() if name != "_cut" for at in places(each)]


async def completed(preview: Any, ask: Ask, known: list[str]) -> Any:
    """What the page makes of a preview, if the server has the contents at these places."""
    texts: dict[str, str] = {}
    for at in known:
        texts[at], start = "", 0
        while start is not None:
            piece = await ask(at=at, start=start)
            texts[at] += piece["text"]
            start = piece["next"]
    given = {"value": preview, "texts": texts, "piece": 10_000}
    done = await trio.run_process(
        [NODE or "node", str(HERE / "cuts.mjs")],
        stdin=json.dumps(given).encode(),
        capture_stdout=True,
        env={**os.environ, "PAGE": str(modules())},
    )
    return json.loads(done.stdout)


async def test_a_preview_is_completed_from_its_pieces(autojump_clock: MockClock) -> None:
    async with preview_and_whole(
        content=(Diff("/a", LONG, "old"),),
        output=[1] * 20_000,
        input={"text": LONG, "list": [LONG]},
    ) as (preview, whole, ask):
        assert preview != whole
        answer = await completed(preview, ask, places(preview))
    assert answer["whole"] == whole
    assert answer["left"] == 0
    assert answer["missing"] > len(LONG)


async def test_a_content_that_is_gone_stays_a_preview(autojump_clock: MockClock) -> None:
    async with preview_and_whole(content=(Diff("/a", LONG, "old"),)) as (preview, _, ask):
        answer = await completed(preview, ask, [])
    assert answer["whole"] == preview
    assert answer["left"] == 2
