"""A program and everything that it started, to be ended together.

The program must not be waited for before it is released: as a zombie it prevents that its process
id, which is also the id of its group and its session, is reused, so that signalling them is safe.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import trio

from . import descendants
from .descendants import ProcessId

T = TypeVar("T")

POLL_INTERVAL_S: Final = 0.02
"""Seconds between two checks whether signalled processes are gone."""

SCAN_TIMEOUT_S: Final = 1.0
"""Seconds that one look at all processes may take before the shutdown continues without it: reading
the environment of a process that hangs in the kernel may hang as well."""

leaders: set[int] = set()
"""The programs' own processes, from their start until they are reaped; their owners wait for
them."""

_walkers = trio.CapacityLimiter(math.inf)
"""Separate from the application's own use of worker threads, which must not delay the end of
programs."""


class _ProcScan:
    """One walk over `/proc`, for all callers that asked before it began."""

    def __init__(self, number: int) -> None:
        """Begin the walk with this number."""
        self.number = number
        self.over = trio.Event()
        self.table: descendants.ProcessTable | None = None
        """None if it is not over, its task was cancelled, or it failed."""
        self.error: OSError | None = None


class _ProcScans:
    """The walks of one Trio run. Five hundred programs that end at the same time look often, and
    each look takes time for all processes of the machine: so callers that ask during a walk share
    the next one."""

    def __init__(self) -> None:
        """Begin without walks."""
        self._begun = 0
        self._current: _ProcScan | None = None
        self._oldest = math.inf
        """The start of the oldest leader among the callers of the next walk."""

    async def scan(self, oldest: int) -> descendants.ProcessTable:
        """Return the processes at a moment after the call.

        Raises OSError as `descendants.list_processes` does.
        """
        self._oldest = min(self._oldest, oldest)
        asked = self._begun
        while (walk := self._current) is not None:
            with trio.move_on_after(SCAN_TIMEOUT_S / 2):
                await walk.over.wait()
            if self._current is walk:
                self._current = None  # it hangs: no caller waits for it any more
            if walk.number > asked and walk.table is not None:
                return walk.table
            if walk.number > asked and walk.error is not None:
                raise walk.error
            self._oldest = min(self._oldest, oldest)
        return await self._scan()

    async def _scan(self) -> descendants.ProcessTable:
        """Walk in a thread.

        A cancelled caller still waits for the thread, because its open files are those of this
        process; one that hangs is left to its end.
        """
        self._begun += 1
        walk = self._current = _ProcScan(self._begun)
        make = partial(descendants.list_processes, int(self._oldest))
        self._oldest = math.inf
        try:
            try:
                walk.table = await _run_to_its_end(make)
            except RuntimeError:  # no thread is available: it takes some milliseconds
                walk.table = make()
        except OSError as error:
            walk.error = error
            raise
        finally:
            if self._current is walk:
                self._current = None
            walk.over.set()
        return walk.table


async def _run_to_its_end(make: Callable[[], T]) -> T:
    """Run a function in a thread.

    If this is cancelled, it waits for the function for a part of `SCAN_TIMEOUT_S`. Raises
    `RuntimeError` if no thread is available.
    """
    ended, token = trio.Event(), trio.lowlevel.current_trio_token()

    def run() -> T:
        try:
            return make()
        finally:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(ended.set)

    await trio.lowlevel.checkpoint_if_cancelled()  # from here on, the thread is started
    try:
        return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=_walkers)
    except trio.Cancelled:
        with trio.move_on_after(SCAN_TIMEOUT_S / 2, shield=True):
            await ended.wait()  # noqa: ASYNC120 - bounded
        raise


_proc_scans: trio.lowlevel.RunVar[_ProcScans | None] = trio.lowlevel.RunVar("agentrt walks", None)


def _scans_of_this_run() -> _ProcScans:
    """Return the walks of this Trio run, which are created on first use."""
    walks = _proc_scans.get()
    if walks is None:
        walks = _ProcScans()
        _proc_scans.set(walks)
    return walks


class ProcessTree:
    """Finds and signals the processes of a program: the leader of a separate session and group,
    with `marker` in its environment. Create it as soon as the program was started, so that child
    processes inherit the second mark. Its owner reports whether the program has exited."""

    _below: frozenset[ProcessId] = frozenset()
    """The leader's descendants that still ran at the last look."""

    def __init__(self, pid: int, marker: str) -> None:
        """Mark the program and remember its identity, which includes its start time."""
        self._group: int | None = pid
        """The process group; None once the leader is reaped and the id may be reused."""
        self._pid = pid
        self._marker = marker
        self._leader: ProcessId | None = None
        """None if the system does not show processes: then none below the leader is ever found."""
        self._terminated: frozenset[ProcessId] | None = None
        """The processes that got SIGTERM, in addition to the group; None: none so far."""
        self._blind = False
        """True if the last look failed: there may be more processes."""
        self._gone = False
        leaders.add(pid)
        descendants.mark(pid, marker)
        try:
            self._leader = descendants.identify(pid)
        except OSError:
            pass  # `note` tries again

    def reaped(self) -> None:
        """Stop signalling the group: the leader's process id may be reused from now on."""
        self._group = None
        leaders.discard(self._pid)

    async def note(self) -> None:
        """Record the processes of the program, to find them after their ties are cut."""
        if self._gone:
            return
        try:
            if self._leader is None and self._group is not None:
                self._leader = descendants.identify(self._pid)
            if self._leader is not None:
                table = await _scans_of_this_run().scan(self._leader.start)
                self._below = table.below(self._leader, self._marker, self._below)
        except OSError:  # no file descriptor is available
            self._blind = True
        else:
            self._blind = False

    def terminate(self) -> None:
        """Send SIGTERM to the group and to all recorded processes outside of it. Once each: some
        programs take a second one as an order to drop everything."""
        if self._terminated is None:
            self._terminated = frozenset()
            self._signal_group(signal.SIGTERM)
        for found in self._below - self._terminated:
            found.send(signal.SIGTERM, unless_in=self._group)
        self._terminated |= self._below

    async def wait(self, exited: trio.Event) -> None:
        """Wait until the leader, as its owner reports, and all other processes are gone."""
        await exited.wait()
        await self.note()
        while self._below or self._blind:
            await trio.sleep(POLL_INTERVAL_S)
            if not any(found.alive() for found in self._below):
                await self.note()  # they may have started others in the meantime
        self._gone = True

    async def kill(self, exited: trio.Event) -> None:
        """Stop all processes, then send SIGKILL, until all are gone."""
        self._signal_known(signal.SIGSTOP)
        try:
            with trio.move_on_after(SCAN_TIMEOUT_S):
                await self.note()  # no process starts another now, and no tie is cut
        finally:  # even if there is no time to look
            self.kill_known()
        await self.note()
        known: frozenset[ProcessId] = frozenset()
        while self._below or self._blind or not exited.is_set():
            if self._below <= known:  # otherwise they may start others faster
                await trio.sleep(POLL_INTERVAL_S)
            known = self._below
            self.kill_known()
            await self.note()
        self._gone = True

    def kill_known(self) -> None:
        """Send SIGKILL to the group and to all recorded processes outside of it. They are stopped
        first: otherwise a shell that loses a child continues with its next command."""
        self._signal_known(signal.SIGSTOP)
        self._signal_known(signal.SIGKILL)

    def _signal_known(self, signum: signal.Signals) -> None:
        """Signal the group, then the other processes, the oldest first: parents before children."""
        self._signal_group(signum)
        for found in sorted(self._below, key=lambda found: found.start):
            found.send(signum)

    def _signal_group(self, signum: signal.Signals) -> None:
        """Signal the group, unless its id may mean another group by now."""
        if self._group is not None:
            try:
                os.killpg(self._group, signum)
            except (ProcessLookupError, PermissionError):
                pass  # the group is empty, or has no process of this user


async def reap(process: trio.Process) -> int:
    """Wait for a child of this process, even if the system has no resources to wait with."""
    try:
        return await process.wait()
    except (OSError, RuntimeError):  # no file descriptor, or no thread
        while (status := process.poll()) is None:  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(POLL_INTERVAL_S)
        return status
