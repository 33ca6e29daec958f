"""What is committed together is in the file together, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt._journal.base import About, Flush, Part, Place
from agentrt._journal.reader import SqliteReader
from agentrt._journal.sqlite import SqliteBackend
from agentrt._model.events import Notice

ABOUT = About(agent="fake", protocol="acp", cwd="/")
MANY = 70
"""Sessions: more than a statement has frames."""


@pytest.fixture
def backend(path: Path, library: Any) -> Any:
    backend = SqliteBackend(path, library)
    backend.open()
    yield backend
    backend.close()


def made(backend: SqliteBackend) -> list[Place]:
    backend.database.execute("PRAGMA synchronous=OFF")  # nobody cuts the power here
    return [backend.create(f"s{number}", "e", ABOUT) for number in range(MANY)]


def flush_of(places: list[Place], first: int) -> Flush:
    return Flush([Part(place, first, [Notice("info", "here", str(place.num))]) for place in places])


def stored(path: Path, library: Any) -> list[list[str]]:
    reader = SqliteReader(path, library)
    try:
        found = [reader.events(f"s{number}", 0) for number in range(MANY)]
    finally:
        reader.close()
    return [[getattr(event, "message", "") for _, event in each or ()] for each in found]


@pytest.mark.parametrize("count", [1, 64, MANY])
def test_each_session_of_a_flush_gets_its_own_frame(
    backend: SqliteBackend, path: Path, library: Any, count: int
) -> None:
    places = made(backend)
    backend.commit(flush_of(places[:count], 1))
    backend.commit(flush_of(places[:count], 2))
    assert stored(path, library) == [
        [str(place.num)] * 2 if number < count else [] for number, place in enumerate(places)
    ]


@pytest.mark.parametrize("count", [64, MANY])
def test_a_flush_that_fails_leaves_nothing_and_can_be_tried_again(
    backend: SqliteBackend, path: Path, library: Any, count: int
) -> None:
    places = made(backend)
    x = backend.database.execute
    x(
        "CREATE TRIGGER full BEFORE INSERT ON frame"
        f" WHEN NEW.session={places[count - 1].num} BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    with pytest.raises(Exception, match="no room"):
        backend.commit(flush_of(places[:count], 1))
    assert stored(path, library) == [[]] * MANY
    x("DROP TRIGGER full")
    backend.commit(flush_of(places[:count], 1))
    assert [len(each) for each in stored(path, library)] == [1] * count + [0] * (MANY - count)
