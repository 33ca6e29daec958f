"""Services that outlive the cancellation of their block, and gaps in the time of a program.

Cancellation comes at chosen moments, which in a session depend on the agent, and clocks are moved
by hand: a real standstill would stop the test itself. A stack of blocks is compared with that of
the standard library in all combinations of endings, which sessions do not all reach.
"""

from __future__ import annotations

import gc
from contextlib import AsyncExitStack, suppress
from itertools import product

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrt._base.nesting import GAP_S, ExitStack, Standstill, open_service_nursery


class Service:
    """Runs until it is cancelled, and says so."""

    def __init__(self) -> None:
        self.over = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            self.over = True


async def fail() -> None:
    raise ValueError("a service's own")


async def test_a_cancellation_from_outside_is_the_blocks_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    soon, started = Service(), Service()
    with trio.move_on_after(1) as outside:
        async with open_service_nursery() as services:
            services.start_soon(soon.run)
            await services.start(started.run)
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
                assert not soon.over
                assert not started.over
    assert outside.cancelled_caught
    assert soon.over
    assert started.over


async def test_the_end_of_the_block_ends_them() -> None:
    service = Service()
    async with open_service_nursery() as services:
        await services.start(service.run)
    assert service.over


async def test_an_error_of_one_ends_the_block_first_and_then_the_others() -> None:
    other = Service()

    async def block() -> None:
        async with open_service_nursery() as services:
            services.start_soon(other.run)
            services.start_soon(fail)
            try:
                await trio.sleep_forever()
            finally:
                assert not other.over

    with pytest.raises(ValueError, match="a service's own"):
        await block()
    assert other.over


async def test_before_its_start_a_service_is_cancelled_with_who_waits_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def never(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC114, ASYNC128
        await trio.sleep_forever()

    async with open_service_nursery() as services:
        with trio.move_on_after(1) as patience:
            await services.start(never)
        assert patience.cancelled_caught


async def test_a_service_that_starts_although_nobody_waits_any_more_is_cancelled() -> None:
    service = Service()

    async def stubborn(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC114, ASYNC128
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        await service.run(task_status=task_status)

    async with open_service_nursery() as services:
        with trio.CancelScope() as patience:
            patience.cancel()
            await services.start(stubborn)
        assert patience.cancelled_caught
        assert service.over


async def test_an_error_before_its_start_is_the_callers() -> None:
    async def early(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC114, ASYNC128
        raise ValueError("too early")

    async with open_service_nursery() as services:
        with pytest.raises(ValueError, match="too early"):
            await services.start(early)
        await trio.lowlevel.checkpoint()  # the block goes on


async def test_services_of_services_live_on_in_a_block_that_is_cancelled() -> None:
    late, later = Service(), Service()
    spawned = trio.Event()

    async def spawn() -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        services.start_soon(late.run)
        await services.start(later.run)
        spawned.set()

    with trio.CancelScope() as outside:
        async with open_service_nursery() as services:
            outside.cancel()
            services.start_soon(spawn)
            with trio.CancelScope(shield=True):
                await spawned.wait()
                await trio.testing.wait_all_tasks_blocked()
            assert not late.over
            assert not later.over
    assert late.over
    assert later.over


async def test_what_is_started_behind_the_end_is_cancelled_at_once() -> None:
    service = Service()
    async with open_service_nursery() as services:
        services.cancel()
        services.start_soon(service.run)
    assert service.over


async def test_a_service_that_starts_while_the_others_are_ended_starts_and_ends_with_them() -> None:
    service = Service()

    async def slow(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC114, ASYNC128
        await trio.lowlevel.checkpoint()
        await service.run(task_status=task_status)

    async with open_service_nursery() as services:
        services.cancel()
        await services.start(slow)
    assert service.over


times = st.integers(0, 100).map(float)


@given(st.lists(st.tuples(times, times, times), max_size=20))
def test_every_gap_is_told_once(steps: list[tuple[float, float, float]]) -> None:
    """Each step: the time of the tasks, of the sleep as planned, and beyond that."""
    now_s = 0.0
    told: list[float] = []
    expected: list[float] = []
    watch = Standstill(lambda: now_s, lambda: now_s)
    watch.listeners.add(told.append)
    for busy_s, planned_s, more_s in steps:
        now_s += busy_s + planned_s + more_s
        watch.after_io_wait(planned_s)
        if busy_s + more_s >= GAP_S:
            expected.append(busy_s + planned_s + more_s)
    assert told == expected


def test_a_sleep_that_ends_early_is_no_gap() -> None:
    now_s = 0.0
    told: list[float] = []
    watch = Standstill(lambda: now_s, lambda: now_s)
    watch.listeners.add(told.append)
    now_s = 10.0
    watch.after_io_wait(1000)
    now_s += GAP_S / 2
    watch.after_io_wait(0)
    assert told == []


def test_only_time_that_passes_on_both_clocks_counts() -> None:
    """A test's clock that jumps is no standstill, nor is a test that a busy machine delays."""
    machine_s = loop_s = 0.0
    told: list[float] = []
    watch = Standstill(lambda: machine_s, lambda: loop_s)
    watch.listeners.add(told.append)
    loop_s = 60.0
    watch.after_io_wait(0)
    machine_s = 30.0
    watch.after_io_wait(0)
    assert told == []
    machine_s, loop_s = 40.0, 75.0
    watch.after_io_wait(0)
    assert told == [10]


class Leaving:
    """A block that notes which error it is left with, and then ends in a chosen way."""

    def __init__(self, name: str, ending: str, seen: list[tuple[str, str]]) -> None:
        self._name, self._ending, self._seen = name, ending, seen

    async def __aenter__(self) -> None:
        if self._ending == "does not open":
            raise OSError(self._name)

    async def __aexit__(self, kind: object, error: BaseException | None, *_: object) -> bool:
        self._seen.append((self._name, repr(error)))
        if self._ending == "raises":
            raise LookupError(self._name)
        if self._ending == "raises from none":
            raise LookupError(self._name) from None
        if self._ending == "raises the same" and error is not None:
            raise error
        return self._ending == "suppresses"


ENDINGS = ("passes", "suppresses", "raises", "raises from none", "raises the same", "does not open")


async def left(
    stack: ExitStack | AsyncExitStack[bool | None], endings: tuple[str, ...], *, fails: bool
) -> tuple[list[tuple[str, str]], str]:
    """What the blocks of a stack saw, and the error that came out."""
    seen: list[tuple[str, str]] = []
    try:
        async with stack:
            for number, ending in enumerate(endings):
                await stack.enter_async_context(Leaving(f"block {number}", ending, seen))
            if fails:
                raise ValueError("the body's own")
    except Exception as error:
        return seen, repr(error)
    return seen, "none"


@pytest.mark.parametrize("fails", [False, True])
async def test_a_stack_of_blocks_is_left_as_that_of_the_standard_library(fails: bool) -> None:
    for count in range(4):
        for endings in product(ENDINGS, repeat=count):
            mine = await left(ExitStack(), endings, fails=fails)
            assert mine == await left(AsyncExitStack(), endings, fails=fails), endings


async def test_an_error_that_leaves_a_stack_of_blocks_is_no_garbage() -> None:
    gc.collect()
    gc.disable()
    try:
        for endings in product([e for e in ENDINGS if e != "raises the same"], repeat=2):
            with suppress(Exception):
                await left(ExitStack(), endings, fails=True)
        assert gc.collect() == 0
    finally:
        gc.enable()
