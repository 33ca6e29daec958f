"""Where readers of the log wait for more, and how long they may go on without waiting."""

from __future__ import annotations

from typing import Final

import trio

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
        self._tasks: set[trio.lowlevel.Task] = set()

    async def wait(self) -> None:
        """Until `wake`. Cancelling it changes nothing."""
        task = trio.lowlevel.current_task()
        self._tasks.add(task)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._tasks.discard(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        """Let all go on who wait now."""
        if self._tasks:
            tasks, self._tasks = self._tasks, set()
            for task in tasks:
                trio.lowlevel.reschedule(task)


class Pace:
    """Keeps one reader from holding up others while it always finds more: each step notices a
    cancelled scope, and others run at least once in a `SLICE` of the reader's own time."""

    __slots__ = ("_given", "_resumed", "waited")

    def __init__(self) -> None:
        self._given = 0
        self._resumed = -1.0
        self.waited = False
        """Whether the reader has ever waited, or let others run."""

    async def step(self) -> None:
        """To be awaited before each event."""
        now = trio.current_time()
        if self._resumed < 0:
            self._resumed = now
        self._given += 1
        if self._given >= STRIDE or now - self._resumed > SLICE:
            await trio.lowlevel.checkpoint()
            self.has_waited()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    def has_waited(self) -> None:
        """Others have had their turn."""
        self._given = 0
        self._resumed = trio.current_time()
        self.waited = True
