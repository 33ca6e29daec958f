"""The longest time in which one task ran while all others waited."""

from __future__ import annotations

import time

import trio


class LongestStep(trio.abc.Instrument):
    """Measures the steps of all tasks of a Trio run, between two checkpoints each.

    Add it with `watch` in that run. It costs about half a microsecond for each step.
    """

    def __init__(self) -> None:
        """Begin without a measurement."""
        self._began_s = 0.0
        self._longest_s = 0.0

    def watch(self) -> None:
        """Measure the current run. Has no effect if it is measured already."""
        trio.lowlevel.add_instrument(self)
        self._began_s = time.perf_counter()

    def take(self) -> float:
        """Return the longest step since the last call, in seconds."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note the beginning of a step. Trio calls this."""
        self._began_s = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take the duration of a step. Trio calls this."""
        took_s = time.perf_counter() - self._began_s
        if took_s > self._longest_s:
            self._longest_s = took_s
