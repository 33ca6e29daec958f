"""Events that are joined for a reader who is late.

Which two events meet in a reader is chosen here; in a session it depends on the reader.
"""

from __future__ import annotations

from agentrt._core.model.log import JOINED_CHARS, joined
from agentrt.events import (
    Item,
    ItemOpened,
    ItemUpdated,
    Notice,
    TextDelta,
    TitleChanged,
    TurnStarted,
    Usage,
    UsageChanged,
)
from model.logs import drain, fill, make_log


def test_joined_text_stays_in_pieces_of_a_bounded_size() -> None:
    log = make_log(events=10)
    cursor = log.cursor(lossless=True)
    piece = "x" * 10_000
    fill(log, ItemOpened(Item(id="i1", type="text")))
    fill(log, *(TextDelta("i1", piece) for _ in range(300)))
    read = [event for event in drain(cursor) if isinstance(event, TextDelta)]
    assert sum(len(event.text) for event in read) == 300 * len(piece)
    assert all(len(event.text) < JOINED_CHARS + 10 * len(piece) for event in read)
    assert len(read) < 30


def test_joined_updates_keep_the_fields_that_only_the_first_one_names() -> None:
    first = ItemUpdated("i1", {"status": "running", "tool": {"title": "a", "output": 1}})
    second = ItemUpdated("i1", {"tool": {"title": "b"}})
    assert joined(first, second) == ItemUpdated(
        "i1", {"status": "running", "tool": {"title": "b", "output": 1}}
    )
    assert first.patch["tool"]["title"] == "a"


def test_a_start_and_a_notice_are_never_joined() -> None:
    assert joined(TurnStarted("t1", "user"), TurnStarted("t2", "user")) is None
    assert joined(Notice("info", "a", ""), Notice("info", "a", "")) is None
    assert joined(TitleChanged("a"), UsageChanged(Usage())) is None
    assert joined(ItemUpdated("i1", {"a": 1}), ItemUpdated("i2", {"a": 1})) is None
