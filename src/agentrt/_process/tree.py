"""A program that was started and everything that it started in turn, to be ended together.

The program must not be waited for before it is released: as a zombie it keeps its number, and with
it its group's and its session's, from being used again, so that signalling them is safe.
"""

from __future__ import annotations

import math
import os
import signal
from functools import partial
from typing import Final

import trio

from . import descendants
from .descendants import ProcessId

LOOK: Final = 0.02
"""Seconds between two looks whether what was signalled is gone."""

WALK: Final = 1.0
"""Seconds that one walk over `/proc` may take before the ladder goes on without it: reading the
environment of a process that hangs in the kernel may hang as well."""

leaders: set[int] = set()
"""The programs' own processes, from their start until they are reaped: others wait for them."""

_walkers = trio.CapacityLimiter(math.inf)
"""Ending programs must not wait for the application's own use of worker threads."""


class _Walk:
    """One walk over `/proc`, for all who asked before it began."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.over = trio.Event()
        self.table: descendants.Table | None = None
        """None: it is not over, or who made it was cancelled, or it failed."""
        self.error: OSError | None = None


class _Walks:
    """The walks of one Trio run. Five hundred programs that are ended at once look often, and each
    look takes time for all processes of the machine: so those who ask while a walk is under way
    share the next one."""

    def __init__(self) -> None:
        self._begun = 0
        self._current: _Walk | None = None
        self._oldest = math.inf
        """When the oldest leader was started of those who asked for the next walk."""

    async def look(self, oldest: int) -> descendants.Table:
        """The processes as they are from now on. Raises OSError as `descendants.look`."""
        self._oldest = min(self._oldest, oldest)
        asked = self._begun
        while (walk := self._current) is not None:
            with trio.move_on_after(WALK / 2):
                await walk.over.wait()
            if self._current is walk:
                self._current = None  # it hangs: nobody waits for it any more
            if walk.number > asked and walk.table is not None:
                return walk.table
            if walk.number > asked and walk.error is not None:
                raise walk.error
            self._oldest = min(self._oldest, oldest)
        return await self._walk()

    async def _walk(self) -> descendants.Table:
        self._begun += 1
        walk = self._current = _Walk(self._begun)
        make = partial(descendants.look, int(self._oldest))
        self._oldest = math.inf
        try:
            try:
                walk.table = await trio.to_thread.run_sync(
                    make, abandon_on_cancel=True, limiter=_walkers
                )
            except RuntimeError:  # there is no thread to be had: it takes some milliseconds
                walk.table = make()
        except OSError as error:
            walk.error = error
            raise
        finally:
            if self._current is walk:
                self._current = None
            walk.over.set()
        return walk.table


_walks: trio.lowlevel.RunVar[_Walks | None] = trio.lowlevel.RunVar("agentrt walks", None)


def _walks_of_this_run() -> _Walks:
    walks = _walks.get()
    if walks is None:
        walks = _Walks()
        _walks.set(walks)
    return walks


class ProcessTree:
    """Finds and signals what belongs to a program: the leader of a session and group of its own,
    with `marker` in its environment. To be made as soon as it was started, so that what it starts
    inherits the other mark. Whether it has exited is for its owner to say."""

    def __init__(self, pid: int, marker: str) -> None:
        self._group: int | None = pid
        """The process group; None once the leader is reaped and the number may be another's."""
        self._pid = pid
        self._marker = marker
        self._leader: ProcessId | None = None
        """None without `/proc`: then nobody below the leader is ever found."""
        self._below: frozenset[ProcessId] = frozenset()
        """What the leader had started and still ran at the last look."""
        self._terminated: frozenset[ProcessId] | None = None
        """Who got SIGTERM, beside the group; None: nobody yet."""
        self._blind = False
        """The last look failed: there may be others."""
        self._gone = False
        leaders.add(pid)
        descendants.mark(pid, marker)
        try:
            self._leader = descendants.identify(pid)
        except OSError:
            pass  # `note` tries again

    def reaped(self) -> None:
        """The leader's number may be another's from now on: its group is not signalled again."""
        self._group = None
        leaders.discard(self._pid)

    async def note(self) -> None:
        """Take down who belongs to it, to find them again when their ties are cut."""
        if self._gone:
            return
        try:
            if self._leader is None and self._group is not None:
                self._leader = descendants.identify(self._pid)
            if self._leader is not None:
                table = await _walks_of_this_run().look(self._leader.start)
                self._below = table.below(self._leader, self._marker, self._below)
        except OSError:  # no descriptor is to be had
            self._blind = True
        else:
            self._blind = False

    def terminate(self) -> None:
        """SIGTERM to the group and to everything noted outside of it. Once each: some programs
        take a second one as an order to drop everything."""
        if self._terminated is None:
            self._terminated = frozenset()
            self._signal_group(signal.SIGTERM)
        for found in self._below - self._terminated:
            found.send(signal.SIGTERM, unless_in=self._group)
        self._terminated |= self._below

    async def wait(self, exited: trio.Event) -> None:
        """Until the leader, by its owner's word, and everything else is gone."""
        await exited.wait()
        await self.note()
        while self._below or self._blind:
            await trio.sleep(LOOK)
            if not any(found.alive() for found in self._below):
                await self.note()  # may have started others meanwhile
        self._gone = True

    async def kill(self, exited: trio.Event) -> None:
        """SIGKILL to all of it, stopped first, until all is gone."""
        self._signal_known(signal.SIGSTOP)
        try:
            with trio.move_on_after(WALK):
                await self.note()  # while nobody starts another one and no tie is cut
        finally:  # also if there is no time to look
            self.kill_known()
        await self.note()
        known: frozenset[ProcessId] = frozenset()
        while self._below or self._blind or not exited.is_set():
            if self._below <= known:  # else they may be faster at starting others
                await trio.sleep(LOOK)
            known = self._below
            self.kill_known()
            await self.note()
        self._gone = True

    def kill_known(self) -> None:
        """SIGKILL to the group and to everything noted outside of it. Stopped first: else a shell
        whose child was killed before it goes on with its next command."""
        self._signal_known(signal.SIGSTOP)
        self._signal_known(signal.SIGKILL)

    def _signal_known(self, signum: signal.Signals) -> None:
        """To the group, and to the others, the oldest first: parents before their children."""
        self._signal_group(signum)
        for found in sorted(self._below, key=lambda found: found.start):
            found.send(signum)

    def _signal_group(self, signum: signal.Signals) -> None:
        if self._group is not None:
            try:
                os.killpg(self._group, signum)
            except (ProcessLookupError, PermissionError):
                pass  # nobody in it, or nobody of this user


async def reap(process: trio.Process) -> int:
    """Wait for a child of this process, also where the system has nothing to wait with."""
    try:
        return await process.wait()
    except (OSError, RuntimeError):  # no descriptor, no thread
        while (status := process.poll()) is None:  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(LOOK)
        return status
