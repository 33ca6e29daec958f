"""Where readers of the log wait for more, and how long they may go on without waiting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    checkpoint,
    checkpoint_if_cancelled,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from .._errors import LocalProtocolError

STEPS: Final = 32
"""Times that a reader may look for more, and find it, before others have their turn: so many
handfuls of events, should the clock stand still."""

SLICE: Final = 0.001
"""Seconds that a reader may take for what it finds before others have their turn."""

NEVER: Final = -math.inf


class Readers:
    """Tasks that wait for the next batch of events.

    What `trio.lowlevel.ParkingLot` does, without its order and its counting: a turn waits here at
    least once, and a trivial one costs no more than a few such steps.
    """

    def __init__(self) -> None:
        self.tasks: dict[Task, Callable[[], bool] | None] = {}
        self.others: list[Callable[[], None]] = []
        """Called once, at the next `wake`: those who wait in another event loop."""

    async def wait(self, until: Callable[[], bool] | None = None) -> None:
        """Until `wake`, or a `wake` at which `until` is true: to ask that costs less than to let a
        task go on in vain. Cancelling it changes nothing."""
        task = current_task()
        self.tasks[task] = until

        def abort(_: RaiseCancelT) -> Abort:
            self.tasks.pop(task, None)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

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
                    reschedule(task)
                else:
                    self.tasks[task] = until


class Pace:
    """Keeps one reader from holding up others while it always finds more: each step notices a
    cancelled scope, and others run at least once in a `SLICE` of the reader's own time. Until
    `until` it takes what it has in hand; before it looks further it is to `step`, or to `wait`.
    """

    __slots__ = ("_clock", "_occupied", "_steps", "until", "waited")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps = 0
        self._occupied = False  # a task waits or rests in the middle of a step
        self.until = NEVER
        """When others are to have their turn, on `clock`; in the past while a task waits or rests,
        and before the first step: what the reader did before is not counted."""
        self.waited = False
        """Whether the reader has ever waited, or let others run."""

    async def step(self) -> None:
        """Notice a cancelled scope, and let others run when it is their turn. Raises as `due`."""
        if not self.due():
            await checkpoint_if_cancelled()
            return
        self.occupy()
        try:
            await checkpoint()
        finally:
            self.free()

    async def wait(self, readers: Readers) -> None:
        """Until there is more. Raises as `due`."""
        self.occupy()
        try:
            await readers.wait()
        finally:
            self.free()

    def due(self) -> bool:
        """Whether it is the others' turn. Raises `LocalProtocolError` if another task waits for an
        event: each would get a part of them."""
        if self._occupied:
            raise _shared()
        clock = self._clock
        now = clock()
        if self.until == NEVER:
            self.until = now + SLICE
        self._steps += 1
        return self._steps > STEPS or now > self.until

    def occupy(self) -> None:
        """A task waits or rests, until `free`. Raises as `due`."""
        if self._occupied:
            raise _shared()
        self._occupied = True
        self.until = NEVER

    def free(self) -> None:
        """It has waited, and others had their turn."""
        self._occupied = False
        self.waited = True
        self._steps = 0
        clock = self._clock
        self.until = clock() + SLICE


def _shared() -> LocalProtocolError:
    return LocalProtocolError(
        "another task iterates it already: `session.subscribe()` gives each its own"
    )
