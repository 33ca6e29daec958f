"""Processes that share a store: each session has one owner, whoever is killed or stopped."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt
from agentrt import Limits
from agentrt.errors import SessionElsewhere, SessionMoved, StoreInUse
from agentrt.lowlevel import Fenced, SessionClaim
from agentrt.store import open_store
from journal.kit import again, checked, ended, gone_on_with, kept
from runtime.fakes import Incarnations, echo

from .kit import ABOUT, connected, flush, frames, rows
from .parts import Leases, Writer, member
from .server import Server

LEASE = 3.0
PATIENCE = 30.0


@pytest.fixture
def leases(url: str) -> Iterator[Leases]:
    leases = Leases(url)
    yield leases
    leases.close()


# --- the rows


def test_a_session_of_one_that_is_alive_is_not_anybody_elses(url: str) -> None:
    with member(url, "a") as (a, _), member(url, "b") as (b, _):
        place = a.create("one", "e", ABOUT)
        a.commit(flush((place, 1, 5)))
        with pytest.raises(SessionElsewhere, match="running on a") as elsewhere:
            b.claim("one")
        assert elsewhere.value.node == "a"
        with pytest.raises(SessionElsewhere):
            b.delete("one")
        a.release(place)
        assert b.claim("one") == SessionClaim(place.num, 2)
        with pytest.raises(Fenced):
            a.commit(flush((place, 6, 5)))


def test_a_lease_that_is_over_writes_nothing_and_is_never_renewed(url: str, leases: Leases) -> None:
    with member(url, "a") as (a, num), member(url, "b") as (b, _):
        place = a.create("one", "e", ABOUT)
        assert leases.renew(num, 0.0, b"{}") is False
        assert leases.renew(num, 60.0, b"{}") is None
        with pytest.raises(Fenced):
            a.commit(flush((place, 1, 5)))
        assert frames(url) == []
        assert b.claim("one") == SessionClaim(place.num, 2)


def test_another_lease_of_the_same_process_does_not_write_what_it_had_before(url: str) -> None:
    with member(url, "a") as (a, _):
        place = a.create("one", "e", ABOUT)
        with member(url, "again") as (_, later):
            a.held = later
            with pytest.raises(Fenced):
                a.commit(flush((place, 1, 5)))
    assert frames(url) == []


def test_who_has_no_lease_begins_nothing(url: str) -> None:
    with member(url, "a") as (a, _):
        a.create("one", "e", ABOUT)
        a.held = None
        for job in (lambda: a.create("two", "e", ABOUT), lambda: a.claim("one")):
            with pytest.raises(agentrt.errors.StoreUnavailable, match="not be reached"):
                job()


def test_a_session_is_gone_on_with_in_its_home_and_read_anywhere(url: str) -> None:
    with member(url, "a", "here") as (a, _), member(url, "b", "there") as (b, _):
        place = a.create("one", "e", ABOUT)
        a.release(place)
        with pytest.raises(SessionElsewhere, match="of the home 'here'"):
            b.claim("one")
        assert b.claim("one", reads=True) == SessionClaim(place.num, 2)


def test_a_store_that_was_closed_can_be_opened_at_once(url: str) -> None:
    for _ in range(20):
        alone = Writer(url)
        alone.open()
        alone.close()


def test_who_wants_a_store_for_itself_and_who_shares_it_exclude_each_other(url: str) -> None:
    alone = Writer(url)
    with member(url, "a"), pytest.raises(StoreInUse):
        alone.open()
    alone.open(timeout_s=PATIENCE)
    shared = Writer(url, "here")
    with pytest.raises(StoreInUse):
        shared.open()
    alone.close()


def test_all_can_be_seen_and_drained_by_name(url: str, leases: Leases) -> None:
    with member(url, "a") as (a, num), member(url, "b"):
        a.create("one", "e", ABOUT)
        assert leases.renew(num, 60.0, b'{"sessions":1}') is False
        assert [(n.name, n.sessions, n.draining) for n in leases.nodes()] == [
            ("a", 1, False),
            ("b", 0, False),
        ]
        assert leases.drain("a") == 1
        assert leases.drain("nobody") == 0
        assert leases.renew(num, 60.0, b"{}") is True
        leases.leave(num)
        assert [n.name for n in leases.nodes()] == ["b"]
        assert rows(url, "SELECT node FROM session") == [(None,)]


# --- stores


async def test_a_session_that_is_left_can_be_gone_on_with_elsewhere_at_once(url: str) -> None:
    async with open_store(url, node="a", home="x") as a, open_store(url, node="b", home="x") as b:
        async with kept(a, Incarnations(echo)) as session:
            await session.run("hello")
            with pytest.raises(SessionElsewhere):
                await b.claim("one")
        async with again(b, Incarnations(echo)) as session:
            await session.run("again")
            assert len(session.snapshot().turns) == 2
    checked(url)


async def test_a_session_ends_when_the_lease_cannot_be_renewed(postgres: Server, url: str) -> None:
    limits = Limits(store_lease_s=1.0)
    async with open_store(url, node="a", limits=limits) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            seq = session.log.seq
            rows(url, "UPDATE node SET until=now()")  # as if it had not been heard of
            with trio.fail_after(PATIENCE):
                await ended(session)
            with pytest.raises((SessionMoved, agentrt.SessionClosed)):
                await session.run("again")
        with trio.fail_after(PATIENCE):
            while store.membership is None or store.membership.held() is None:  # noqa: ASYNC110
                await trio.sleep(0.01)
        async with again(store, Incarnations(echo)) as session:
            await session.run("again")
    assert checked(url)["one"] > seq


@pytest.mark.slow
async def test_that_the_database_does_not_answer_is_known_before_the_lease_is_lost(
    postgres: Server, url: str
) -> None:
    limits = Limits(store_lease_s=4.0)
    with trio.fail_after(PATIENCE):
        async with (
            open_store(url, node="a", limits=limits) as store,
            agentrt.open_runtime(store=store) as runtime,
        ):
            assert store.membership is not None
            assert runtime.not_ready_reason() is None
            with rows_locked(url):
                while runtime.not_ready_reason() != "the database does not answer":  # noqa: ASYNC110
                    await trio.sleep(0.01)
                assert store.membership.held()
            while runtime.not_ready_reason() is not None:  # noqa: ASYNC110
                await trio.sleep(0.01)


async def test_no_agent_is_started_under_a_lease_that_is_over(url: str) -> None:
    """The start of a process takes a while on a busy machine."""
    limits = Limits(store_lease_s=1.0)
    connecting, ended = trio.Event(), trio.Event()

    @asynccontextmanager
    async def slow() -> AsyncIterator[Any]:
        try:
            connecting.set()
            await trio.sleep_forever()
            yield
        finally:
            ended.set()

    async def end_the_lease() -> None:
        await connecting.wait()
        rows(url, "UPDATE node SET until=now()")

    async with (
        open_store(url, node="a", limits=limits) as store,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(end_the_lease)
        with trio.fail_after(PATIENCE), pytest.raises((SessionMoved, agentrt.AgentStartError)):
            async with agentrt.agents.connect(slow, cwd="/", store=store):
                pass
        assert ended.is_set()


async def test_a_place_that_was_taken_under_an_earlier_lease_is_not_kept(url: str) -> None:
    limits = Limits(store_lease_s=1.0)
    agents = Incarnations(echo, echo)
    async with open_store(url, node="a", limits=limits) as store:
        async with kept(store, agents) as session:
            await session.run("hello")
        place, stored = await store.claim("one")
        assert store.membership is not None
        before = store.membership.held()
        rows(url, "UPDATE node SET until=now()")
        with trio.fail_after(PATIENCE):
            while store.membership.held() in (None, before):  # noqa: ASYNC110
                await trio.sleep(0.01)
        with pytest.raises(SessionMoved):
            async with gone_on_with(store, agents, "one", place, stored) as session:
                await session.run("again")


async def test_a_session_may_be_taken_over_while_it_ends(url: str) -> None:
    async with open_store(url, node="a") as store, kept(store, Incarnations(echo)) as session:
        await session.run("hello")
        rows(url, "UPDATE session SET owner=owner+1")
    assert rows(url, "SELECT next FROM session") == [(session.log.seq + 1,)]


async def test_a_session_that_another_one_has_gone_on_with_is_not_deleted_by_who_had_no_turn(
    url: str,
) -> None:
    async with (
        open_store(url, node="a", home="x") as a,
        open_store(url, node="b", home="x") as b,
        kept(a, Incarnations(echo)),
    ):
        rows(url, "UPDATE session SET node=NULL")  # its lease was over, and it does not know
        async with again(b, Incarnations(echo)) as session:
            await session.run("hello")
    assert checked(url)["one"] == session.log.seq


async def test_a_session_that_had_no_turn_is_left_to_others_when_it_ends(url: str) -> None:
    async with open_store(url, node="a") as store, kept(store, Incarnations(echo)):
        pass
    assert rows(url, "SELECT id, node FROM session") == [("one", None)]


@contextmanager
def rows_locked(url: str) -> Iterator[None]:
    """Nobody can renew a lease meanwhile."""
    with connected(url) as connection, connection.transaction():
        connection.execute("SELECT FROM node FOR UPDATE")
        yield


# --- processes


class Worker:
    def __init__(self, url: str, name: str, folder: Path) -> None:
        self.name = name
        self.file = folder / f"{name}.log"
        self.errors = folder / f"{name}.err"
        with open(self.file, "w") as out, open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "postgres.worker", url, name, str(LEASE)],
                cwd=Path(__file__).parents[1],
                stdout=out,
                stderr=errors,
            )

    def lines(self) -> list[str]:
        return [line for line in self.file.read_text().splitlines() if not line.startswith("#")]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def agents(self) -> list[int]:
        """The processes that it has started for its sessions, as its guard finds them."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and self._is_agent(entry):
                    found.append(int(entry.name))
        return found

    def _is_agent(self, entry: Path) -> bool:
        command = (entry / "cmdline").read_bytes()
        parent = re.search(r"^PPid:\s+(\d+)", (entry / "status").read_text(), re.MULTILINE)
        return (
            b"agentrt.demo" in command and parent is not None and int(parent[1]) == self.process.pid
        )

    def end(self) -> None:
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            self.process.kill()
        self.process.wait()


@contextmanager
def workers(url: str, folder: Path, *names: str) -> Iterator[dict[str, Worker]]:
    there: dict[str, Worker] = {}
    with ExitStack() as stack:
        stack.callback(lambda: [each.end() for each in there.values()])
        for name in names:
            there[name] = Worker(url, name, folder)
        yield there


def until(true: Callable[[], Any], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def acknowledged(folder: Path) -> dict[str, int]:
    """The last event that any of them has shown, by session."""
    shown: dict[str, int] = {}
    for file in folder.glob("*.log"):
        for line in file.read_text().splitlines():
            id, _, seq = line.partition(" ")
            if seq.isdecimal():
                shown[id] = max(shown.get(id, 0), int(seq))
    return shown


@pytest.mark.slow
@pytest.mark.linux_only("agents of a stopped server end")
def test_the_agents_of_a_stopped_owner_are_dead_before_another_has_its_sessions(
    url: str, tmp_path: Path
) -> None:
    with workers(url, tmp_path, "a") as there:
        a = there["a"]
        until(lambda: len(a.lines()) > 3 and a.agents())
        a.send(signal.SIGSTOP)
        valid = "SELECT count(*) FROM node WHERE until>clock_timestamp()"
        while rows(url, valid) == [(1,)]:
            time.sleep(0.02)
        assert a.agents() == []
        there["b"] = b = Worker(url, "b", tmp_path)
        until(lambda: len(b.lines()) > 3)
        before = frames(url)
        a.send(signal.SIGCONT)
        until(lambda: "lease of the store has expired" in a.errors.read_text())
        until(lambda: len(b.lines()) > 8)
        assert len(frames(url)) > len(before)
    found = checked(url)
    assert all(found[id] >= seq for id, seq in acknowledged(tmp_path).items())


@pytest.mark.slow
async def test_what_a_dead_owner_left_open_is_closed_by_another(url: str, tmp_path: Path) -> None:
    with workers(url, tmp_path, "a") as there:
        running = "SELECT id FROM session WHERE phase='running' AND turns>0"
        await trio.to_thread.run_sync(until, there["a"].lines)
        await trio.to_thread.run_sync(until, lambda: rows(url, running))
        there["a"].process.kill()
    left = rows(url, "SELECT id FROM session WHERE node IS NOT NULL")
    assert left
    async with open_store(url, node="b") as store, agentrt.open_runtime(store=store) as runtime:
        with trio.fail_after(PATIENCE):
            while rows(url, "SELECT 1 FROM session WHERE node IS NOT NULL"):  # noqa: ASYNC110
                await trio.sleep(0.05)
        assert rows(url, running) == []
        for (id,) in left:
            if runtime.stored(id) is not None:
                turns = (await store.snapshot(id)).turns
                assert all(turn.outcome is not None for turn in turns)
    checked(url)


@pytest.mark.slow
def test_a_drained_process_ends_what_it_has_begun_and_owns_nothing(
    url: str, tmp_path: Path
) -> None:
    with workers(url, tmp_path, "a") as there:
        a = there["a"]
        until(lambda: len(a.lines()) > 3)
        leases = Leases(url)
        assert leases.drain("a") == 1
        until(lambda: "drained" in a.lines())
        assert a.process.wait(PATIENCE) == 0
        assert leases.nodes() == []
        leases.close()
    assert rows(url, "SELECT count(*) FROM session WHERE node IS NOT NULL") == [(0,)]
    outcomes = rows(url, "SELECT phase FROM session WHERE turns>0")
    assert {phase for (phase,) in outcomes} <= {"closed", "idle", "dead"}


@pytest.mark.slow
def test_owners_that_are_killed_and_stopped_lose_and_double_nothing(
    postgres: Server, url: str, tmp_path: Path
) -> None:
    chance = random.Random(1)
    with workers(url, tmp_path, "w0", "w1", "w2") as there:
        until(lambda: len(acknowledged(tmp_path)) >= 2)
        for number in range(3, 9):
            name = chance.choice(sorted(there))
            worker = there[name]
            if chance.random() < 0.5:
                worker.send(signal.SIGSTOP)
                time.sleep(chance.uniform(0.5, 2) * LEASE)
                worker.send(signal.SIGCONT)
            else:
                worker.process.kill()
                worker.process.wait()
                del there[name]
                there[f"w{number}"] = Worker(url, f"w{number}", tmp_path)
            with postgres.connect() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                    " application_name LIKE 'agentrt %' AND random()<0.3"
                )
            lines = sum(len(each.lines()) for each in there.values())
            until(lambda lines=lines: sum(len(e.lines()) for e in there.values()) > lines + 3)
    found = checked(url)
    shown = acknowledged(tmp_path)
    assert len(shown) >= 2
    assert {id: found[id] >= seq for id, seq in shown.items()} == dict.fromkeys(shown, True)
    owners = rows(url, "SELECT max(owner) FROM frame")
    assert owners[0][0] > 3
