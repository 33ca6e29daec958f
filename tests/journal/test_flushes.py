"""What is committed together is in the file together, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt.events import (
    Event,
    Item,
    ItemClosed,
    ItemOpened,
    Notice,
    TextDelta,
    TurnEnded,
    TurnRecord,
    TurnStarted,
)
from agentrt.lowlevel import Flush, FlushPart, SessionClaim
from agentrt.storage import backend_of, reader_of
from agentrt.store import Head, Record, SessionDescription, SessionQuery, SessionRow

from .disk import limit_stores

ABOUT = SessionDescription(agent="fake", protocol="acp", cwd="/")
MANY = 70
"""Sessions: more than a statement has frames."""


@pytest.fixture
def backend(path: Path) -> Any:
    backend = backend_of(path)
    backend.open()
    yield backend
    backend.close()


def made(backend: Any) -> list[SessionClaim]:
    backend.database.execute("PRAGMA synchronous=OFF")  # nobody cuts the power here
    return [backend.create(f"s{number}", "e", ABOUT) for number in range(MANY)]


def flush_of(places: list[SessionClaim], first: int) -> Flush:
    return Flush(
        [FlushPart(place, first, [Notice("info", "here", str(place.num))]) for place in places]
    )


def stored(path: Path) -> list[list[str]]:
    reader = reader_of(path)
    try:
        found = [reader.events(f"s{number}", 0) for number in range(MANY)]
    finally:
        reader.close()
    return [[getattr(event, "message", "") for _, event in each or ()] for each in found]


@pytest.mark.parametrize("count", [1, 64, MANY])
def test_each_session_of_a_flush_gets_its_own_frame(backend: Any, path: Path, count: int) -> None:
    places = made(backend)
    backend.commit(flush_of(places[:count], 1))
    backend.commit(flush_of(places[:count], 2))
    assert stored(path) == [
        [str(place.num)] * 2 if number < count else [] for number, place in enumerate(places)
    ]


@pytest.mark.parametrize("count", [64, MANY])
def test_a_flush_that_fails_leaves_nothing_and_can_be_tried_again(
    backend: Any, path: Path, count: int
) -> None:
    places = made(backend)
    x = backend.database.execute
    x(
        "CREATE TRIGGER full BEFORE INSERT ON frame"
        f" WHEN NEW.session={places[count - 1].num} BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    with pytest.raises(Exception, match="no room"):
        backend.commit(flush_of(places[:count], 1))
    assert stored(path) == [[]] * MANY
    x("DROP TRIGGER full")
    backend.commit(flush_of(places[:count], 1))
    assert [len(each) for each in stored(path)] == [1] * count + [0] * (MANY - count)


LARGE = 1_000_000
"""Characters: more than anybody should wait for at the end of a turn."""


def said(backend: Any, place: SessionClaim, number: int, size: int, *, behind: int = 0) -> None:
    """A turn, its record and its head; `behind`: how many of its events are in already."""
    turn, text = f"t{number}", "x" * size
    events: list[Event] = [
        TurnStarted(turn, "user", []),
        ItemOpened(Item(id=f"i{number}", type="text", turn=turn)),
        TextDelta(f"i{number}", text),
        ItemClosed(f"i{number}", "completed"),
        TurnEnded(turn=turn, outcome="completed"),
    ]
    first = 5 * number + 1
    item = Item(id=f"i{number}", type="text", turn=turn, status="completed", text=text)
    record = Record(number, [TurnRecord(id=turn, origin="user", outcome="completed")], [item])
    head = Head(seq=first + 4, records=number + 1)
    row = SessionRow(title=None, prompt="", phase="idle", turns=number + 1, about=ABOUT)
    part = FlushPart(place, first + behind, events[behind:], row, head, {number: record})
    backend.commit(Flush([part], fsync=True))


def shown(path: Path) -> tuple[int, list[int]]:
    """How many records there are of a session, and the lengths of all that was said in it."""
    reader = reader_of(path)
    try:
        stored = reader.load("s0")
    finally:
        reader.close()
    assert stored is not None
    assert len(stored.records) == stored.head.records
    snapshot = stored.snapshot("s0")
    assert [turn.outcome for turn in snapshot.turns] == ["completed"] * len(snapshot.turns)
    return len(stored.records), [len(item.text) for item in snapshot.items]


def test_a_large_record_is_written_when_there_is_time_and_nothing_is_missing_meanwhile(
    backend: Any, path: Path
) -> None:
    place = made(backend)[0]
    said(backend, place, 0, 10)
    assert shown(path) == (1, [10])
    said(backend, place, 1, LARGE)
    said(backend, place, 2, 10)
    assert shown(path) == (1, [10, LARGE, 10])
    backend.catch_up()
    assert shown(path) == (3, [10, LARGE, 10])
    said(backend, place, 3, 10)
    assert shown(path) == (4, [10, LARGE, 10, 10])


def test_large_records_are_written_before_there_are_too_many(
    backend: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_stores(monkeypatch, postponed_chars=2 * LARGE)
    place = made(backend)[0]
    said(backend, place, 0, LARGE)
    assert shown(path) == (0, [LARGE])
    said(backend, place, 1, LARGE)
    assert shown(path) == (2, [LARGE, LARGE])


def test_who_goes_on_with_a_session_finds_its_large_record(backend: Any, path: Path) -> None:
    place = made(backend)[0]
    said(backend, place, 0, LARGE)
    assert backend.claim("s0") == SessionClaim(place.num, place.owner + 1)
    assert shown(path) == (1, [LARGE])


def test_a_deleted_session_leaves_no_large_record(backend: Any, path: Path) -> None:
    said(backend, made(backend)[0], 0, LARGE)
    assert backend.delete("s0")
    backend.finish()
    assert backend.database.execute("SELECT count(*) FROM record") == [(0,)]


def test_a_large_record_that_was_never_written_is_made_again_of_its_events(
    backend: Any, path: Path
) -> None:
    said(backend, made(backend)[0], 0, LARGE)
    backend.close()
    assert shown(path) == (0, [LARGE])


# --- the row of a session


def began(backend: Any, place: SessionClaim, number: int, title: str | None = None) -> None:
    """A turn's beginning."""
    event = TurnStarted(f"t{number}", "user", [])
    row = SessionRow(title=title, prompt="", phase="running", turns=number + 1, about=ABOUT)
    backend.commit(Flush([FlushPart(place, 5 * number + 1, [event], row)], fsync=True))


def turns_in_rows(path: Path) -> list[int]:
    reader = reader_of(path)
    try:
        return [entry.turns for entry in reader.sessions(SessionQuery())]
    finally:
        reader.close()


def test_a_row_that_says_no_more_than_that_a_turn_has_begun_is_put_off(
    backend: Any, path: Path
) -> None:
    place = made(backend)[0]
    said(backend, place, 0, 10)
    began(backend, place, 1)
    assert turns_in_rows(path) == [1]
    assert shown_events(path) == 6
    backend.catch_up()
    assert turns_in_rows(path) == [2]


def shown_events(path: Path) -> int:
    reader = reader_of(path)
    try:
        return len(reader.events("s0", 0) or ())
    finally:
        reader.close()


def test_the_row_of_a_first_turn_and_that_of_a_new_title_are_written_at_once(
    backend: Any, path: Path
) -> None:
    first, second = made(backend)[:2]
    began(backend, first, 0)
    assert turns_in_rows(path) == [1]
    said(backend, second, 0, 10)
    began(backend, second, 1, title="new")
    assert sorted(turns_in_rows(path)) == [1, 2]


def test_a_row_is_put_off_for_a_second_while_others_are_written(
    backend: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = made(backend)[:2]
    said(backend, first, 0, 10)
    began(backend, first, 1)
    backend.commit(flush_of([second], 1))
    assert turns_in_rows(path) == [1]
    limit_stores(monkeypatch, row_delay_s=0)
    backend.commit(flush_of([second], 2))
    assert turns_in_rows(path) == [2]


def test_a_row_that_was_put_off_is_in_after_a_commit_of_others_that_failed_at_first(
    backend: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = made(backend)[:2]
    said(backend, first, 0, 10)
    began(backend, first, 1)
    limit_stores(monkeypatch, row_delay_s=0)
    x = backend.database.execute
    x("CREATE TRIGGER full BEFORE INSERT ON frame BEGIN SELECT RAISE(ABORT, 'no room'); END")
    with pytest.raises(Exception, match="no room"):
        backend.commit(flush_of([second], 1))
    x("DROP TRIGGER full")
    backend.commit(flush_of([second], 1))
    assert turns_in_rows(path) == [2]


def test_turns_whose_rows_were_put_off_when_the_process_was_killed_are_counted_once(
    backend: Any, path: Path
) -> None:
    place = made(backend)[0]
    said(backend, place, 0, 10)
    began(backend, place, 1)
    for _ in range(2):
        backend.close()  # without `finish`, as a kill would
        backend.open()
        assert turns_in_rows(path) == [2]


def test_a_turn_s_beginning_is_one_statement_and_its_end_five(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(backend)[0]
    said(backend, place, 0, 10)
    execute = backend.database.execute
    done: list[str] = []

    def noted(sql: str, args: Any = ()) -> list[Any]:
        done.append(" ".join(sql.split()[:2]))
        return execute(sql, args)

    monkeypatch.setattr(backend.database, "execute", noted)
    began(backend, place, 1)
    assert done == ["INSERT INTO"]
    done.clear()
    said(backend, place, 1, 10, behind=1)
    assert done == ["BEGIN IMMEDIATE", "INSERT OR", "UPDATE session", "INSERT INTO", "COMMIT"]
