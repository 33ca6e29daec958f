"""The page's own values of a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentrt.store import open_store
from agentrt.testing import open_fake_runtime
from clients.test_model import event, listed, snapshot
from runtime.fakes import Incarnations, echo

from .kit import PAGE, needs_packages, running

Take = Callable[..., list[dict[str, Any]]]
MODEL = PAGE / "model.ts"


@pytest.fixture(scope="module")
def take() -> Iterator[Take]:
    with running("model.mjs") as node:
        yield lambda *lots: node.ask(list(lots))


async def test_the_page_knows_the_words_by_which_an_agent_is_told_what_was_said(
    tmp_path: Path,
) -> None:
    [words] = re.findall(r'^const RETOLD = "(\[agentrt\] .*)";$', MODEL.read_text(), re.MULTILINE)
    agents = Incarnations(echo)
    async with (
        open_store(tmp_path / "sessions.db") as store,
        open_fake_runtime({"fake": agents.start}, store=store) as runtime,
    ):
        session = await runtime.create("fake")
        await session.run("hello")
        await runtime.close(session.id)
        session = await runtime.reopen(session.id)
        session.send_history()
        await session.run("and again")
        said = [item.text for item in session.snapshot().items if item.type == "text"]
    assert [text for text in said if text.startswith(words)] == said[1:2]


@needs_packages
def test_a_turn_that_changed_files_can_be_undone_also_after_a_reload(take: Take) -> None:
    data = {"turn": "t1", "before": 7, "after": 8, "count": 1, "files": []}
    told = event(6, "notice", level="info", code="files_changed", message="1 file", data=data)
    known = [
        {"number": 3, "when": "before", "session": "s1", "turn": "t0"},
        {"number": 4, "when": "after", "session": "s1", "turn": "t0"},
        {"number": 5, "when": "before", "session": "s1", "turn": "unchanged"},
        {"number": 6, "when": "before", "session": "other", "turn": "t9"},
    ]
    loaded = {"session": "s1", "checkpoints": known}
    shown = take([listed("s1"), snapshot()], [told], [loaded])
    assert shown[1]["s1"] == {"t1": 7}
    assert shown[2]["s1"] == {"t0": 3, "t1": 7}
