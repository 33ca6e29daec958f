"""Doing something at the n-th step of a Trio program: an instrument that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import trio

Moment: TypeAlias = Literal["parked", "woken"]
"""`parked`: the step is over and its task waits, so that what is done here meets the wait.
`woken`: what the task waited for has come and it has not gone on yet, so that both have happened.
"""


class AtStep(trio.abc.Instrument):
    """Calls `act` at the n-th step that counts, if there are so many.

    A step is what a task does between two waits. It counts if `counts` says so of its task.
    """

    def __init__(
        self, n: int, moment: Moment, counts: Callable[[trio.lowlevel.Task], bool]
    ) -> None:
        self.steps = 0
        self.fired = False
        self.act: Callable[[], None] = lambda: None
        self._n = n
        self._moment = moment
        self._counts = counts

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._moment == "woken":
            self._step(task)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._moment == "parked":
            self._step(task)

    def _step(self, task: trio.lowlevel.Task) -> None:
        if not self.fired and self._counts(task):
            self.steps += 1
            if self.steps == self._n:
                self.fired = True
                self.act()
