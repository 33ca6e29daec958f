"""Gaps in the time of a program.

Two clocks are moved by hand; a real standstill would stop the test itself.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentrt._base.nesting import GAP_S, Standstill

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
