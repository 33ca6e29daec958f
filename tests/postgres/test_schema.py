"""A store's schema: whose it is, its versions, and the hours that its events are kept by."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from agentrt._cluster.postgres import schema as schemas
from agentrt.errors import StoreError
from agentrt.lowlevel import Backend, Flush, FlushPart, StoreServer
from agentrt.storage import Outdated, backend_of, reader_of, writing
from agentrt.store import CommandAnswer, Head, SessionRow, open_store
from journal.kit import again, checked, kept
from runtime.fakes import Incarnations, echo

from .kit import ABOUT, events, flush, frames, rows
from .server import Server

HOUR = 3600


@pytest.fixture
def backend(address: StoreServer) -> Iterator[Backend]:
    backend = backend_of(address)
    backend.open()
    yield backend
    backend.close()


async def used(url: str) -> int:
    """Go on with the one session, or begin it; returns its turns."""
    async with open_store(url) as store:
        opened = again(store, Incarnations(echo)) if await store.sessions() else None
        async with opened or kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            return len(session.snapshot().turns)


async def test_versions_that_only_add_run_side_by_side(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await used(url) == 1
    adding = schemas.Migration("ALTER TABLE session ADD COLUMN colour text", least=1)
    with monkeypatch.context() as patch:
        patch.setattr(schemas, "MIGRATIONS", (*schemas.MIGRATIONS, adding))
        assert await used(url) == 2
    assert await used(url) == 3  # the older one again
    assert rows(url, "SELECT colour FROM session") == [(None,)]
    checked(url)


async def test_a_version_that_takes_away_ends_what_is_older(
    url: str, address: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await used(url) == 1
    taking = schemas.Migration(
        "ALTER TABLE chat DROP COLUMN session", least=len(schemas.MIGRATIONS) + 1
    )
    with monkeypatch.context() as patch:
        patch.setattr(schemas, "MIGRATIONS", (*schemas.MIGRATIONS, taking))
        with pytest.raises(Outdated, match="is not migrated yet"):
            reader_of(address)
        with writing(address):
            pass
    for opened in (backend_of(address).open, lambda: reader_of(address)):
        with pytest.raises(StoreError, match="newer agentrt"):
            opened()


async def test_a_migration_that_fails_leaves_everything_as_it_was(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await used(url) == 1
    wrong = schemas.Migration("ALTER TABLE session ADD COLUMN colour text; SELECT 1/0", least=2)
    with monkeypatch.context() as patch:
        patch.setattr(schemas, "MIGRATIONS", (*schemas.MIGRATIONS, wrong))
        with pytest.raises(StoreError, match="division by zero"):
            await used(url)
    assert await used(url) == 2


async def test_a_schema_of_somebody_else_is_left_alone(
    postgres: Server, schema: str, url: str
) -> None:
    with postgres.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"CREATE TABLE {schema}.session(theirs text)")
        with pytest.raises(StoreError, match="not a store of agentrt"):
            await used(url)
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace=%s::regnamespace", [schema]
        )
        assert [name for (name,) in found if not name.startswith("pg_")] == ["session"]


async def test_a_database_that_took_over_begins_another_epoch(url: str) -> None:
    async with open_store(url) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
        first = (await store.load("one")).epoch
    rows(url, "UPDATE meta SET value='1 00000000' WHERE key='database'")
    async with open_store(url) as store:
        assert (await store.load("one")).epoch == f"{first}.1"
    async with open_store(url) as store:
        assert (await store.load("one")).epoch == f"{first}.1"


# --- hours


def aged(url: str, hours: int) -> None:
    """Let what is stored be older by so many hours."""
    then = int(time.time() // HOUR) - hours
    name = schemas.partition(then)
    rows(
        url,
        f"CREATE TABLE {name} PARTITION OF frame FOR VALUES FROM (to_timestamp({then * HOUR}))"
        f" TO (to_timestamp({(then + 1) * HOUR}))",
    )
    rows(url, f"UPDATE frame SET at=to_timestamp({then * HOUR + 1})")


def partitions(url: str) -> list[int]:
    names = rows(
        url, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent='frame'::regclass"
    )
    found = (schemas.hour_of(name.rpartition(".")[2]) for (name,) in names)
    return sorted(hour for hour in found if hour is not None)


async def test_events_that_a_record_stands_for_are_dropped_by_the_hour(url: str) -> None:
    async with open_store(url) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            shown = session.snapshot()
        head = (await store.load("one")).head.seq
    aged(url, 3)
    async with open_store(url) as store, kept(store, Incarnations(echo), id="two") as session:
        await session.run("hello")
    now = int(time.time() // HOUR)
    assert [hour - now for hour in partitions(url)] in ([0, 1, 2], [-1, 0, 1, 2])
    async with open_store(url) as store:
        kept_events = [number for number, _ in await store.events("one")]
        assert not kept_events or kept_events[0] > head - 1
        assert (await store.snapshot("one")).items == shown.items
        async with again(store, Incarnations(echo)) as session:
            await session.run("again")
            assert len(session.snapshot().turns) == 2


def test_events_that_no_head_stands_for_outlive_their_hour(backend: Backend, url: str) -> None:
    open, over = backend.create("open", "e", ABOUT), backend.create("over", "e", ABOUT)
    backend.commit(flush((open, 1, 5), (over, 1, 5)))
    row = SessionRow(title=None, prompt="", phase="idle", turns=1, about=ABOUT)
    backend.commit(Flush([FlushPart(over, 6, events(1), row=row, head=Head(seq=6))]))
    aged(url, 3)
    backend.tidy(HOUR, HOUR)
    assert frames(url) == [(open.num, 1, 5, 1)]
    backend.commit(flush((open, 6, 5)))
    backend.commit(Flush([FlushPart(open, 11, events(1), row=row, head=Head(seq=11))]))
    backend.tidy(HOUR, HOUR)
    assert frames(url) == [(open.num, 6, 10, 1), (open.num, 11, 11, 1)]


def test_a_reader_that_is_in_the_table_keeps_nothing_waiting(
    backend: Backend, postgres: Server, schema: str, url: str
) -> None:
    place = backend.create("one", "e", ABOUT)
    backend.commit(flush((place, 1, 5)))
    aged(url, 3)
    with postgres.connect() as reader, reader.transaction():
        reader.execute(f"SELECT count(*) FROM {schema}.frame")
        backend.tidy(HOUR, HOUR)
        backend.commit(flush((place, 6, 5)))
    before = len(partitions(url))
    backend.tidy(HOUR, HOUR)
    assert len(partitions(url)) == before - 1
    assert [frame[1:3] for frame in frames(url)] == [(1, 5), (6, 10)]


def test_an_hour_that_nobody_has_made_is_made_when_it_is_needed(backend: Backend, url: str) -> None:
    place = backend.create("one", "e", ABOUT)
    for hour in partitions(url):
        rows(url, f"DROP TABLE {schemas.partition(hour)}")
    backend.commit(flush((place, 1, 5)))
    assert [frame[1:3] for frame in frames(url)] == [(1, 5)]


def test_answers_to_commands_are_known_for_as_long_as_they_are_to_be(
    backend: Backend, url: str
) -> None:
    answers = [CommandAnswer("page", id, b"digest", b"{}") for id in ("old", "new")]
    backend.commit(Flush([], answers=answers))
    rows(url, "UPDATE answer SET at=now() - interval '59 minutes' WHERE id='old'")
    backend.tidy(HOUR, HOUR)
    assert rows(url, "SELECT count(*) FROM answer") == [(2,)]
    backend.tidy(HOUR, HOUR - 120)
    assert rows(url, "SELECT id FROM answer") == [("new",)]


def test_sessions_that_nobody_spoke_in_are_forgotten_after_a_week(
    backend: Backend, url: str
) -> None:
    backend.create("old", "e", ABOUT)
    backend.create("new", "e", ABOUT)
    rows(url, "UPDATE session SET updated=now() - interval '8 days' WHERE id='old'")
    backend.tidy(HOUR, HOUR)
    assert rows(url, "SELECT id FROM session") == [("new",)]
