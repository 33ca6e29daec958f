"""Where readers of the log wait for more, and how long they may go on without waiting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from .._errors import LocalProtocolError

STRIDE: Final = 512
"""Events handed over between two checkpoints of a reader that always finds more."""

SLICE: Final = 0.001
"""Seconds that a reader may take for what it finds before others have their turn."""


class Readers:
    """Tasks that wait for the next batch of events.

    What `trio.lowlevel.ParkingLot` does, without its order and its counting: a turn waits here at
    least once, and a trivial one costs no more than a few such steps.
    """

    def __init__(self) -> None:
        self.tasks: dict[trio.lowlevel.Task, Callable[[], bool] | None] = {}
        self.others: list[Callable[[], None]] = []
        """Called once, at the next `wake`: those who wait in another event loop."""

    async def wait(self, until: Callable[[], bool] | None = None) -> None:
        """Until `wake`, or a `wake` at which `until` is true: to ask that costs less than to let a
        task go on in vain. Cancelling it changes nothing."""
        task = trio.lowlevel.current_task()
        self.tasks[task] = until

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self.tasks.pop(task, None)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called at the next `wake`; returns the function that ends that."""
        self.others.append(wake)
        return lambda: self.others.remove(wake) if wake in self.others else None

    def wake(self) -> None:
        """Let all go on who wait now, unless it is in vain."""
        if self.others:
            others, self.others = self.others, []
            for wake in others:
                wake()
        if self.tasks:
            tasks, self.tasks = self.tasks, {}
            for task, until in tasks.items():
                if until is None or until():
                    trio.lowlevel.reschedule(task)
                else:
                    self.tasks[task] = until


class Pace:
    """Keeps one reader from holding up others while it always finds more: each step notices a
    cancelled scope, and others run at least once in a `SLICE` of the reader's own time::

        if pace.due():
            await pace.rest()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
    """

    __slots__ = ("_clock", "_given", "_occupied", "_until", "waited")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._given = STRIDE
        self._occupied = False  # a task waits or rests in the middle of a step
        self._until = math.inf  # it has not begun
        self.waited = False
        """Whether the reader has ever waited, or let others run."""

    def due(self) -> bool:
        """Whether it is the others' turn. To be asked before each event. Raises
        `LocalProtocolError` if another task waits for one: each would get a part of them."""
        given = self._given = self._given + 1
        if given < STRIDE:
            return self._clock() > self._until
        if self._occupied:
            raise LocalProtocolError(
                "another task iterates it already: `session.subscribe()` gives each its own"
            )
        if self._until < math.inf:
            return True
        self._given = 0  # what the reader did before is not counted
        self._until = self._clock() + SLICE
        return False

    def occupy(self) -> None:
        """A task waits or rests, until `free`."""
        self._occupied = True
        self._given = STRIDE

    def free(self) -> None:
        """It has waited, and others had their turn."""
        self._occupied = False
        self.waited = True
        self._given = 0
        self._until = self._clock() + SLICE

    async def rest(self) -> None:
        """Let the others run."""
        self.occupy()
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self.free()

    async def wait(self, readers: Readers) -> None:
        """Until there is more."""
        self.occupy()
        try:
            await readers.wait()
        finally:
            self.free()
