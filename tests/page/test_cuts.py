"""The page completes previews of large contents from the pieces that it requests."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import msgspec

from agentrt import Limits
from agentrt.events import Diff, Item, ItemOpened, TextDelta, ToolCall
from agentrt.lowlevel import Log, SessionState
from inside.server import Previews

from .kit import HERE, NODE, modules, needs_packages

pytestmark = needs_packages

LONG = "aé😀\n" * 20_000


def preview_and_whole(**tool: Any) -> tuple[Any, Any, Previews]:
    item = Item(id="i/1", type="tool", turn="t", tool=ToolCall(call="c", **tool))
    log = Log("s", "e", Limits(), SessionState())
    log.extend([ItemOpened(item), TextDelta("i/1", LONG)], 0)
    previews = Previews(log, Limits().preview_chars)
    [whole] = log.snapshot().items
    return _plain(previews.item(whole)), _plain(whole), previews


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def places(value: Any) -> list[str]:
    if isinstance(value, list):
        return [at for each in value for at in places(each)]
    if not isinstance(value, dict):
        return []
    own = [cut["at"] for cut in value.get("_cut", {}).values()]
    return own + [at for name, each in value.items() if name != "_cut" for at in places(each)]


def completed(preview: Any, previews: Previews, known: list[str]) -> Any:
    """What the page makes of a preview, if the server has the contents at these places."""
    texts = {}
    for at in known:
        size = previews.content(at, 0, 1).chars
        texts[at] = previews.content(at, 0, size).text
    given = {"value": preview, "texts": texts, "piece": 10_000}
    done = subprocess.run(
        [NODE or "node", HERE / "cuts.mjs"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PAGE": str(modules())},
    )
    return json.loads(done.stdout)


def test_a_preview_is_completed_from_its_pieces() -> None:
    preview, whole, previews = preview_and_whole(
        content=(Diff("/a", LONG, "old"),),
        output=[1] * 20_000,
        input={"text": LONG, "list": [LONG]},
    )
    assert preview != whole
    answer = completed(preview, previews, places(preview))
    assert answer["whole"] == whole
    assert answer["left"] == 0
    assert answer["missing"] > len(LONG)


def test_a_content_that_is_gone_stays_a_preview() -> None:
    preview, _, previews = preview_and_whole(content=(Diff("/a", LONG, "old"),))
    answer = completed(preview, previews, [])
    assert answer["whole"] == preview
    assert answer["left"] == 2
