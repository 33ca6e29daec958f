"""A program that was started and everything that it started in turn, to be ended together.

The program must not be waited for before it is released: as a zombie it keeps its number, and with
it its group's and its session's, from being used again, so that signalling them is safe.
"""

from __future__ import annotations

import math
import os
import signal
from typing import Final

import trio

from . import _descendants as descendants
from ._descendants import Found

LOOK: Final = 0.02
"""Seconds between two looks whether what was signalled is gone."""

WALK: Final = 1.0
"""Seconds that one walk over `/proc` may take before the ladder goes on without it: reading the
environment of a process that hangs in the kernel may hang as well."""

_walkers = trio.CapacityLimiter(math.inf)
"""Ending programs must not wait for the application's own use of worker threads."""


class ProcessTree:
    """Finds and signals what belongs to a program: the leader of a session and group of its own,
    with `marker` in its environment. Whether it has exited is for its owner to say."""

    def __init__(self, pid: int, marker: str) -> None:
        self._group: int | None = pid
        """The process group; None once the leader is reaped and the number may be another's."""
        self._pid = pid
        self._marker = marker
        self._leader: Found | None = None
        """None without `/proc`: then nobody below the leader is ever found."""
        self._below: frozenset[Found] = frozenset()
        """What the leader had started and still ran at the last look."""
        self._terminated: frozenset[Found] | None = None
        """Who got SIGTERM, beside the group; None: nobody yet."""
        self._blind = False
        """The last look failed: there may be others."""
        self._gone = False
        try:
            self._leader = descendants.identify(pid)
        except OSError:
            pass  # `_look` tries again

    def reaped(self) -> None:
        """The leader's number may be another's from now on: its group is not signalled again."""
        self._group = None

    async def note(self) -> None:
        """Take down who belongs to it, to find them again when their ties are cut."""
        if self._gone:
            return
        try:
            try:
                self._below = await trio.to_thread.run_sync(
                    self._look, abandon_on_cancel=True, limiter=_walkers
                )
            except RuntimeError:  # there is no thread to be had: it takes some milliseconds
                self._below = self._look()
        except OSError:  # nor a descriptor
            self._blind = True
        else:
            self._blind = False

    def _look(self) -> frozenset[Found]:
        if self._leader is None and self._group is not None:
            self._leader = descendants.identify(self._pid)
        if self._leader is None:
            return frozenset()
        return descendants.find(self._leader, self._marker, self._below)

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
        known: frozenset[Found] = frozenset()
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
        while (status := process.poll()) is None:  # noqa: ASYNC110 - no event tells of it
            await trio.sleep(LOOK)
        return status
