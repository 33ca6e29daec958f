"""Connections that are lost: what was acknowledged is stored, and nothing of it twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from agentrt.errors import StoreError, StoreInUse
from agentrt.lowlevel import Fenced, Flush, SessionClaim, Unusable
from agentrt.lowlevel import StoreServer as Address

from .kit import ABOUT, Proxy, flush, frames, proxy, rows
from .parts import Writer, before_each_query, limit_replies
from .server import Server

LONG = 10_000
"""Characters of an event, so that a few are a backlog, which is copied."""


@pytest.fixture
def way(postgres: Server) -> Iterator[Proxy]:
    with proxy(f"{postgres.folder}/.s.PGSQL.{postgres.port}") as way:
        yield way


@pytest.fixture
def far(way: Proxy, postgres: Server, schema: str) -> Iterator[Writer]:
    """What writes through the proxy."""
    backend = Writer(postgres.tcp_url("postgres", port=way.port, schema=schema))
    backend.open()
    yield backend
    backend.close()


@pytest.fixture
def backend(address: Address) -> Iterator[Writer]:
    backend = Writer(address)
    backend.open()
    yield backend
    backend.close()


def persistent(backend: Writer, flush: Flush) -> int:
    """Commit as the writer does, until it works; returns how often it did not."""
    for failed in range(100):
        try:
            backend.commit(flush)
        except (psycopg.Error, StoreError):
            continue
        return failed
    raise AssertionError("it never works again")


def backend_pid(backend: Writer) -> int:
    """The server's process that has a connection."""
    assert backend._connection is not None
    return int(backend._connection.info.backend_pid)


def terminate(postgres: Server, pid: int) -> None:
    with postgres.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


@pytest.mark.parametrize("size", [1, LONG])
@pytest.mark.parametrize("lost", ["query", "answer"])
def test_a_flush_whose_connection_is_cut_is_stored_once(
    way: Proxy, far: Writer, url: str, lost: str, size: int
) -> None:
    place = far.create("one", "e", ABOUT)
    for number in range(3):
        far.commit(flush((place, 10 * number + 1, 10), size=size))
    setattr(way, f"cut_{lost}", 0)
    # At least once: the connection that was cut may hold the lock a moment longer.
    assert persistent(far, flush((place, 31, 10), size=size)) >= 1
    far.commit(flush((place, 41, 10), size=size))
    expected = [(place.num, 10 * number + 1, 10 * number + 10, 1) for number in range(5)]
    assert frames(url) == expected


@pytest.mark.parametrize("step", range(8))
def test_a_backlog_whose_connection_is_cut_at_any_step_is_stored_once(
    way: Proxy, far: Writer, url: str, step: int
) -> None:
    place = far.create("one", "e", ABOUT)
    far.commit(flush((place, 1, 10), size=LONG))
    way.cut_answer = step
    persistent(far, flush((place, 11, 10), size=LONG))
    assert frames(url) == [(place.num, 1, 10, 1), (place.num, 11, 20, 1)]


def test_a_flush_behind_a_terminated_connection_is_stored(
    backend: Writer, postgres: Server, url: str
) -> None:
    place = backend.create("one", "e", ABOUT)
    backend.commit(flush((place, 1, 10)))
    terminate(postgres, backend_pid(backend))
    assert persistent(backend, flush((place, 11, 10))) == 1
    assert frames(url) == [(place.num, 1, 10, 1), (place.num, 11, 20, 1)]


def test_a_restarted_server_is_no_reason_to_refuse_what_may_be_done_twice(
    backend: Writer, postgres: Server, url: str
) -> None:
    for job in (
        lambda: backend.create("one", "e", ABOUT),
        lambda: backend.claim("one"),
        lambda: backend.name_chat("chat", "one"),
        lambda: backend.delete("one"),
    ):
        terminate(postgres, backend_pid(backend))
        assert job() is not False
    assert rows(url, "SELECT count(*) FROM session") == [(0,)]


def test_a_server_that_does_not_answer_is_given_up(
    backend: Writer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = backend.create("one", "e", ABOUT)
    pid = backend_pid(backend)
    limit_replies(monkeypatch, 0.3)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(psycopg.OperationalError, match="has not answered"):
            backend.commit(flush((place, 1, 10)))
        monkeypatch.undo()
        with pytest.raises(StoreError, match="still has the connection that was lost"):
            backend.commit(flush((place, 1, 10)))
    finally:
        os.kill(pid, signal.SIGCONT)
    while True:
        try:
            backend.commit(flush((place, 1, 10)))
        except StoreError as error:
            assert "still has the connection" in str(error)  # noqa: PT017 - it ends by itself
        else:
            break
    assert frames(url) == [(place.num, 1, 10, 1)]


@pytest.mark.slow
def test_a_server_that_lets_nobody_in_is_given_up(
    way: Proxy, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_replies(monkeypatch, 2)
    way.silent = True
    backend = Writer(postgres.tcp_url("postgres", port=way.port))
    with pytest.raises(StoreError, match="timeout expired"):
        backend.open()


# --- somebody else


def test_a_second_writer_is_refused_by_the_name_of_the_first(
    backend: Writer, address: Address
) -> None:
    second = Writer(address)
    with pytest.raises(StoreInUse, match=f"is being written by process {os.getpid()} of") as error:
        second.open()
    assert error.value.pid == os.getpid()
    backend.close()
    second.open(timeout_s=20)
    second.close()


def test_a_writer_that_ends_while_it_is_looked_for_leaves_the_store_to_the_next_one(
    backend: Writer, address: Address, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = [backend_pid(backend)]

    def end_first(statement: str) -> None:
        if "pg_locks" in statement and pids:
            terminate(postgres, pids.pop())

    before_each_query(monkeypatch, end_first)
    second = Writer(address)
    second.open()
    second.close()
    assert not pids


def usurped(backend: Writer, address: Address, postgres: Server, *ids: str) -> Any:
    """Another process takes over sessions, behind the back of the first one."""
    pid = backend_pid(backend)
    other = Writer(address)
    terminate(postgres, pid)
    other.open(timeout_s=20)
    return other, [other.claim(id) for id in ids]


def test_who_was_replaced_writes_nothing_of_a_flush_and_is_told_of_what(
    backend: Writer, address: Address, postgres: Server, url: str
) -> None:
    one, two, three = (backend.create(id, "e", ABOUT) for id in ("one", "two", "three"))
    backend.commit(flush((one, 1, 5), (two, 1, 5), (three, 1, 5)))
    before = frames(url)
    other, [place] = usurped(backend, address, postgres, "one")
    other.commit(flush((place, 6, 1)))
    other.delete("three")
    terminate(postgres, backend_pid(other))  # which waits: a close is noticed some time later
    other.close()
    with pytest.raises(Fenced) as fenced:
        persistent(backend, flush((one, 6, 5), (two, 6, 5), (three, 6, 5)))
    assert fenced.value.places == {one, three}
    assert place == SessionClaim(one.num, 2)
    backend.commit(flush((two, 6, 5)))
    assert frames(url) == [before[0], (1, 6, 6, 2), before[1], (2, 6, 10, 1)]


def test_who_was_replaced_by_one_that_still_writes_writes_nothing_at_all(
    backend: Writer, address: Address, postgres: Server, url: str
) -> None:
    place = backend.create("one", "e", ABOUT)
    other, _ = usurped(backend, address, postgres, "one")
    with pytest.raises(Unusable, match="is being written by process"):
        persistent(backend, flush((place, 1, 5)))
    assert frames(url) == []
    other.close()


def test_an_answer_to_a_client_is_kept_with_its_flush(backend: Writer, url: str) -> None:
    from agentrt.store import CommandAnswer

    place = backend.create("one", "e", ABOUT)
    one = flush((place, 1, 5))
    one.answers = [CommandAnswer("c", "1", b"d", b"old"), CommandAnswer("c", "1", b"d", b"new")]
    backend.commit(one)
    backend.commit(Flush([], answers=[CommandAnswer("c", "2", b"d", b"alone")]))
    assert rows(url, "SELECT id, body FROM answer ORDER BY id") == [("1", b"new"), ("2", b"alone")]
