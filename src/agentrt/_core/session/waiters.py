"""Waiting places for readers of the log, limits on reading without a wait, and the rate
limit for a tenant's sessions together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import thread_time
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

from ..errors import LocalProtocolError

MAX_STEPS: Final = 1024
"""The number of times that a reader may look for more events and find some before other tasks run.
It limits the reader even if the clock stands still.
"""

SLICE_S: Final = 0.001
"""Seconds that a reader may spend on the found events before other tasks run."""

PREEMPTED_SLICE_S: Final = 4 * SLICE_S
"""Seconds for which a slice may last if the reader has not computed for most of them."""

LONG_AGO: Final = -math.inf
"""A time in the past of any clock."""


class Waiters:
    """Tasks that wait for the next batch of events.

    Like `trio.lowlevel.ParkingLot` without its order and counting, to save time: every turn waits
    here at least once, and a trivial turn costs no more than a few such steps.
    """

    def __init__(self) -> None:
        """Begin without waiting tasks."""
        self.tasks: dict[Task, Callable[[], bool] | None] = {}
        self.callbacks: tuple[Callable[[], None], ...] = ()
        """Called once, at the next `wake`, for readers in another event loop."""

    async def wait(self, until: Callable[[], bool] | None = None) -> None:
        """Wait until `wake`, or until a `wake` at which `until` returns true.

        Calling `until` costs less than resuming a task in vain. Cancelling this call changes
        nothing.
        """
        task = current_task()
        self.tasks[task] = until

        def abort(_: RaiseCancelT) -> Abort:
            """Leave the waiting place when the task is cancelled."""
            self.tasks.pop(task, None)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, at the next `Waiters.wake`.

        Returns the function that unsubscribes it.
        """
        self.callbacks += (wake,)
        return partial(self._leave, wake)

    def _leave(self, left: Callable[[], None]) -> None:
        """Do not call `left` any more."""
        self.callbacks = tuple(each for each in self.callbacks if each is not left)

    def wake(self) -> None:
        """Resume all waiting tasks, except for those with an `until` that returns false."""
        if self.callbacks:
            others, self.callbacks = self.callbacks, ()
            for wake in others:
                wake()
        if self.tasks:
            tasks, self.tasks = self.tasks, {}
            for task, until in tasks.items():
                if until is None or until():
                    reschedule(task)
                else:
                    self.tasks[task] = until


class ReaderFairness:
    """Keeps a reader that always finds more events from blocking other tasks.

    Each step notices a cancelled scope, and other tasks run at least once per `SLICE_S` of the
    reader's time. Until the time `until` the reader may take fetched events; before it fetches more
    it must call `step` or `wait`.

    A reader on a busy machine does not lose its slice to other processes: if its thread has
    computed for less than `SLICE_S`, the slice lasts longer, up to `PREEMPTED_SLICE_S`.
    """

    __slots__ = ("_clock", "_cpu_s", "_longest", "_occupied", "_steps", "until", "waited")

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without a step. `clock` is Trio's."""
        self._clock = clock
        self._longest = LONG_AGO  # the time at which the slice is over in any case
        self._cpu_s: float | None = None  # the thread's computing time when the slice began
        self._steps = 0
        self._occupied = False  # a task waits or yields in the middle of a step
        self.until = LONG_AGO
        """The time on `clock` at which other tasks must run.

        In the past while a task waits or yields, and before the first step: earlier work of the
        reader does not count.
        """
        self.waited = False
        """True if the reader has ever waited or yielded to other tasks."""

    async def step(self) -> None:
        """Notice a cancelled scope, and let other tasks run if it is their turn.

        Raises like `must_yield`.
        """
        if not self.must_yield():
            await checkpoint_if_cancelled()
            return
        self.start_wait()
        try:
            await checkpoint()
        finally:
            self.end_wait()
        self._cpu_s = thread_time()

    async def wait(self, readers: Waiters) -> None:
        """Wait until there are more events. Raises like `must_yield`."""
        if self._occupied:
            raise _shared()
        self._occupied = True
        self.until = LONG_AGO
        try:
            await readers.wait()
        finally:
            self.end_wait()

    def must_yield(self) -> bool:
        """Return True if other tasks must run.

        Raises `LocalProtocolError` if another task waits for an event of this reader, because each
        would get only part of them.
        """
        if self._occupied:
            raise _shared()
        clock = self._clock
        now = clock()
        if self.until == LONG_AGO:
            self.until, self._longest = now + SLICE_S, now + PREEMPTED_SLICE_S
        self._steps += 1
        if self._steps > MAX_STEPS:
            return True
        if now > self.until:
            return not self._lengthen(now)
        if self._cpu_s is None:  # not read after a wait, because most readers wait again soon
            self._cpu_s = thread_time()
        return False

    def _lengthen(self, now: float) -> bool:
        """Add the part of the slice that other processes have used. Returns False if it is over."""
        if self._cpu_s is None or now > self._longest:
            return False
        left_s = SLICE_S - (thread_time() - self._cpu_s)
        self.until = min(now + left_s, self._longest)
        return left_s > 0

    def start_wait(self) -> None:
        """Mark a task as waiting or yielding, until `end_wait`. Raises like `must_yield`."""
        if self._occupied:
            raise _shared()
        self._occupied = True
        self.until = LONG_AGO

    def end_wait(self) -> None:
        """Record that the task has waited and other tasks have run."""
        self._occupied = False
        self.waited = True
        self._steps = 0
        self._cpu_s = None
        clock = self._clock
        now = clock()
        self.until, self._longest = now + SLICE_S, now + PREEMPTED_SLICE_S


def _shared() -> LocalProtocolError:
    """Return the error for two tasks that read from one iterator."""
    return LocalProtocolError(
        "another task already iterates over it; use one `session.subscribe()` per task"
    )


CHECK_INTERVAL_S = 0.1
"""Seconds between two checks by a waiting session."""

MIN_WAIT_S = 1e-3
"""The shortest wait in seconds."""


class TenantRateLimit:
    """A limit in events per second, with a burst of one second's worth after a pause.

    Events above the limit have already been read and are owed: no agent of the tenant is read until
    the debt is paid.
    """

    def __init__(self) -> None:
        """Begin without a limit."""
        self.events_per_s: float | None = None
        """Events per second; None means no limit."""
        self.waited_s: float = 0.0
        """The total time in seconds that sessions have waited."""
        self._left = 0.0
        self._at = -math.inf

    def charge(self, events: int, now: float) -> None:
        """Count further events."""
        if self.events_per_s is not None:
            self._left = (
                min(self.events_per_s, self._left + (now - self._at) * self.events_per_s) - events
            )
            self._at = now

    def wait_s(self, now: float) -> float:
        """Return the seconds until more events may be read."""
        if self.events_per_s is None or self._left >= 0:
            return 0.0
        left = -self._left / self.events_per_s - (now - self._at)
        return left if left > MIN_WAIT_S else 0.0
