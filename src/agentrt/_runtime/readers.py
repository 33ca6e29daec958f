"""Where readers of the log wait for more."""

from __future__ import annotations

import trio


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
