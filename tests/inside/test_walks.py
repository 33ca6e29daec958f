"""Looks at the process table: that they are shared, that each is made after it was asked for, and
whom they find.

The test lets each look at the process table wait, fail and overlap, which no agent can cause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.process.descendants import ProcessTable
from agentrt._core.process.layer import ProcessStat
from agentrt._core.process.tree import _ProcScans
from inside.process import ProcessId, descendants, tree
from runtime.child_programs import PATIENT, sh, started


async def have(got: list[ProcessTable], number: int) -> None:
    """Wait until so many got a table, also on a machine with no time for its threads."""
    with trio.fail_after(60):
        while len(got) < number:  # noqa: ASYNC110 - it ends in a thread
            await trio.sleep(0.001)


class Looks:
    """Stands for `descendants.look`: each waits until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.oldest: list[int] = []
        """What was asked for, by the looks that have begun."""
        self.wanted: list[threading.Event] = []
        self.error: OSError | None = None
        monkeypatch.setattr(descendants, "list_processes", self)

    def __call__(self, oldest: int) -> ProcessTable:
        let_go = threading.Event()
        self.oldest.append(oldest)
        self.wanted.append(let_go)
        let_go.wait(60)
        if self.error is not None:
            raise self.error
        return ProcessTable({}, {})

    async def begun(self, number: int) -> None:
        with trio.fail_after(60):
            while len(self.wanted) < number:  # noqa: ASYNC110 - it begins in a thread
                await trio.sleep(0.001)

    def finish(self) -> None:
        self.wanted[-1].set()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


async def test_who_asks_during_a_look_gets_the_next_one_and_all_of_them_the_same(
    looks: Looks, nursery: trio.Nursery
) -> None:
    walks, got = _ProcScans(), list[ProcessTable]()

    async def ask(oldest: int) -> None:
        got.append(await walks.scan(oldest))

    nursery.start_soon(ask, 7)
    await looks.begun(1)
    for oldest in (5, 3, 9):
        nursery.start_soon(ask, oldest)
    await trio.testing.wait_all_tasks_blocked()
    looks.finish()
    await looks.begun(2)
    await have(got, 1)
    looks.finish()
    await have(got, 4)
    assert looks.oldest == [7, 3], "the second goes back to the oldest of those who share it"
    assert len(got) == 4
    assert got[1] is got[2] is got[3]


async def test_if_who_makes_a_look_is_cancelled_another_makes_one(
    looks: Looks, nursery: trio.Nursery
) -> None:
    walks, got = _ProcScans(), list[ProcessTable]()

    async def ask(scope: trio.CancelScope) -> None:
        with scope:
            got.append(await walks.scan(1))

    first, second = trio.CancelScope(), trio.CancelScope()
    nursery.start_soon(ask, first)
    await looks.begun(1)
    nursery.start_soon(ask, second)
    await trio.testing.wait_all_tasks_blocked()
    first.cancel()
    await looks.begun(2)
    looks.finish()
    await have(got, 1)
    looks.wanted[0].set()


async def test_who_is_cancelled_waits_for_the_thread_and_its_files(
    looks: Looks, nursery: trio.Nursery
) -> None:
    scope, over = trio.CancelScope(), trio.Event()

    async def ask() -> None:
        with scope:
            await _ProcScans().scan(1)
        over.set()

    nursery.start_soon(ask)
    await looks.begun(1)
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert not over.is_set()
    looks.finish()
    with trio.fail_after(60):
        await over.wait()
    assert scope.cancelled_caught


async def test_a_thread_that_hangs_is_left_to_its_end(
    looks: Looks, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "SCAN_TIMEOUT_S", 0.02)
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with trio.open_nursery() as others:
            others.start_soon(_ProcScans().scan, 1)
            await looks.begun(1)
            scope.cancel()
    assert scope.cancelled_caught
    looks.finish()


async def test_who_is_cancelled_before_the_look_makes_none(looks: Looks) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await _ProcScans().scan(1)
    assert scope.cancelled_caught
    assert looks.oldest == []


async def test_a_look_that_hangs_keeps_nobody_else_waiting(
    looks: Looks, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "SCAN_TIMEOUT_S", 0.02)
    walks, got = _ProcScans(), list[ProcessTable]()

    async def ask() -> None:
        got.append(await walks.scan(1))

    nursery.start_soon(ask)
    await looks.begun(1)
    async with trio.open_nursery() as others:
        others.start_soon(ask)
        await looks.begun(2)
        looks.finish()
    assert len(got) == 1
    looks.wanted[0].set()


async def test_a_look_that_fails_fails_for_all_who_share_it(looks: Looks) -> None:
    walks, failed = _ProcScans(), []

    async def ask() -> None:
        try:
            await walks.scan(1)
        except OSError as error:
            failed.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await looks.begun(1)
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        looks.error = OSError("no descriptor")
        looks.finish()
        await looks.begun(2)
        looks.finish()
    assert len(failed) == 3


@pytest.mark.slow
async def test_ending_many_programs_at_once_takes_a_few_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each alone takes two."""
    made, real = [], descendants.list_processes

    def look(oldest: int) -> ProcessTable:
        made.append(oldest)
        return real(oldest)

    monkeypatch.setattr(descendants, "list_processes", look)
    leave, opened = trio.Event(), trio.Semaphore(0)

    async def run() -> None:
        async with started(sh("read line; setsid sleep 60 & setsid sleep 60 &"), limits=PATIENT):
            opened.release()
            await leave.wait()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(run)
            for _ in range(30):
                await opened.acquire()
            leave.set()
    assert len(made) < 60


# --- whom a look finds


def related(
    processes: dict[int, ProcessStat], carriers: set[int], leader: ProcessId, known: set[ProcessId]
) -> set[int]:
    """What belongs to the leader, as one would say it: once more for each until nothing is new."""
    young = {pid: stat for pid, stat in processes.items() if stat.start >= leader.start}
    found = {pid for pid, start in {leader, *known} if pid in young and young[pid].start == start}
    found |= carriers & set(young)
    while True:
        more = {
            pid
            for pid, stat in young.items()
            if {stat.parent, stat.group, stat.session} & found and pid not in found
        }
        if not more:
            return {pid for pid in found - {leader.pid} if young[pid].running}
        found |= more


MARKER = "0123456789abcdef:fedcba9876543210"
pids = st.integers(1, 12)
stats: Callable[[], st.SearchStrategy[ProcessStat]] = partial(
    st.builds, ProcessStat, st.booleans(), pids, pids, pids, st.integers(0, 6)
)


@given(
    st.dictionaries(pids, stats(), max_size=12),
    st.sets(pids, max_size=3),
    st.builds(ProcessId, pids, st.integers(0, 6)),
    st.sets(st.builds(ProcessId, pids, st.integers(0, 6)), max_size=3),
)
def test_a_table_finds_exactly_what_is_related(
    processes: dict[int, ProcessStat], carriers: set[int], leader: ProcessId, known: set[ProcessId]
) -> None:
    carriers &= set(processes)
    table = ProcessTable(processes, {MARKER: sorted(carriers), "other": list(processes)})
    found = table.below(leader, MARKER, known)
    assert {each.pid for each in found} == related(processes, carriers, leader, known)
    assert all(processes[pid].start == start for pid, start in found)
