"""The processes that an agent has started.

Killing an agent's process group is not enough: agents run their shells in separate groups or
sessions, and a process that has lost its parent is adopted by init. A process belongs to an agent
if its parent, its group or its session does, if it belonged at the last look, or if it carries one
of two marks that children inherit: the agent's marker in its environment, which some agents clear
for their shells, and a number in a resource limit, which survives every change that a process makes
to its environment, its parent and its session. (Only Linux has the second: `linux.py`.)

A process is remembered with its start time, so that a reused process id is never signalled.

This module does not wait: a look blocks for some milliseconds per hundred processes, and runs in a
worker thread (see `_core/process/tree.py`).
"""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Collection, Iterable
from typing import NamedTuple

from .chosen import LAYER
from .layer import ProcessStat

_LOADING_S = 0.005
"""Seconds that the kernel may take to switch from the old environment to the new in `execve`."""


class ProcessId(NamedTuple):
    """The permanent identity of a process: its id can be reused, but never with this start time."""

    pid: int
    start: int
    """See `ProcessStat.start`."""

    def alive(self) -> bool:
        """True if it still runs, or cannot be read now. A zombie does not run."""
        try:
            stat = LAYER.read_stat(self.pid)
        except OSError:
            return True
        return stat is not None and stat.start == self.start and stat.running

    def send(self, signum: signal.Signals, *, unless_in: int | None = None) -> None:
        """Signal exactly this process, if it still runs and is not in the group `unless_in`.

        Only microseconds pass between the check and the signal. Process ids are assigned in
        rotation, so all of them would have to be used in between for this one to be reused.
        """
        try:
            stat = LAYER.read_stat(self.pid)
        except OSError:
            return  # it might be a different process now
        if stat is None or stat.start != self.start or stat.group == unless_in:
            return
        try:
            os.kill(self.pid, signum)
        except (ProcessLookupError, PermissionError):
            return  # it ended in the meantime, or became another user's


def number_of(marker: str) -> int:
    """Return the number for a marker `RUN:AGENT` in a resource limit. Its upper half is equal for
    all agents of a run; see `supervisor.py`."""
    run, _, agent = marker.rpartition(",")[2].partition(":")
    return 1 << 62 | zlib.crc32(run.encode()) >> 2 << 32 | zlib.crc32(agent.encode())


def mark(pid: int, marker: str) -> None:
    """Mark a child that was just started, and the processes that it has started already, so that
    `list_processes` finds everything below it. Does nothing if the system has no such mark."""
    LAYER.mark(pid, number_of(marker))


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this id now, or None.

    Raises `OSError` as `list_processes` does.
    """
    stat = LAYER.read_stat(pid)
    return None if stat is None else ProcessId(pid, stat.start)


def list_processes(oldest: int) -> ProcessTable:
    """Return all processes that were started at `oldest`, in clock ticks since boot, or later.

    Blocks. Raises OSError if this process has no file descriptor or memory left for this.
    """
    processes: dict[int, ProcessStat] = {}
    for pid in LAYER.list_ids():
        stat = LAYER.read_stat(pid)
        if stat is not None and stat.start >= oldest:
            processes[pid] = stat
    return ProcessTable(processes, _carriers(processes))


class ProcessTable:
    """The processes found by one look, which serves all callers that search for their processes.
    Building it takes time for each process, searching only for each process that is found."""

    def __init__(
        self, processes: dict[int, ProcessStat], carriers: dict[str | int, list[int]]
    ) -> None:
        """`carriers`: the processes with marks, by the marker in their environment and by the
        number in their resource limit."""
        self._processes = processes
        self._carriers = carriers
        self._tied: dict[int, set[int]] = {}
        """The processes that have an id as their parent's, group's or session's, by that id."""
        for pid, stat in processes.items():
            for tie in {stat.parent, stat.group, stat.session}:
                self._tied.setdefault(tie, set()).add(pid)

    def below(
        self, leader: ProcessId, marker: str, known: Iterable[ProcessId]
    ) -> frozenset[ProcessId]:
        """Return all running processes that belong to `leader`, without the leader itself.

        `known`: the result of the previous call; these processes may have lost all other ties. The
        leader may be dead, but must not have been waited for: as a zombie it prevents that its id,
        which is also the id of its group and its session, is reused.
        """
        found: dict[int, ProcessStat] = {}
        added = [pid for pid, start in (leader, *known) if self._started(pid) == start]
        added += self._carriers.get(marker, ())
        added += self._carriers.get(number_of(marker), ())
        while added:
            pid = added.pop()
            if pid not in found and self._processes[pid].start >= leader.start:
                found[pid] = self._processes[pid]  # its descendants are younger
                added += self._tied.get(pid, ())
        found.pop(leader.pid, None)
        _wait_for_adopted(found)
        return frozenset(ProcessId(pid, stat.start) for pid, stat in found.items() if stat.running)

    def _started(self, pid: int) -> int | None:
        """Return the start time of the process that has this id now, or None."""
        stat = self._processes.get(pid)
        return None if stat is None else stat.start


def _carriers(processes: dict[int, ProcessStat]) -> dict[str | int, list[int]]:
    """Return the processes with marks, by mark."""
    found: dict[str | int, list[int]] = {}
    blank = []
    for pid, stat in processes.items():
        if (number := LAYER.read_number(pid)) is not None:
            found.setdefault(number, []).append(pid)
        markers = LAYER.read_markers(pid)
        if markers is not None:
            _add_markers(found, pid, markers)
        elif stat.running and stat.session:  # kernel threads and dead processes have none
            blank.append(pid)
    if blank:
        # A process whose program is just being loaded shows no environment.
        time.sleep(_LOADING_S)
        for pid in blank:
            _add_markers(found, pid, LAYER.read_markers(pid) or "")
    return found


def _add_markers(found: dict[str | int, list[int]], pid: int, markers: str) -> None:
    """Add a process under each of its markers; an agent inside an agent has several."""
    for marker in filter(None, markers.split(",")):
        found.setdefault(marker, []).append(pid)


def reap_adopted(run: str, waited_for: Collection[int]) -> None:
    """Reap dead children of this process that were left by agents of the run, because this process
    is PID 1 or a subreaper. `waited_for`: the agents, which their own tasks wait for."""
    own = number_of(f"{run}:0") >> 32
    for pid in LAYER.list_ids():
        stat = LAYER.read_stat(pid)
        if (
            stat is not None
            and stat.parent == os.getpid()
            and not stat.running
            and pid not in waited_for
            and (LAYER.read_number(pid) or 0) >> 32 == own
        ):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _wait_for_adopted(members: dict[int, ProcessStat]) -> None:
    """Reap dead processes that this process has adopted, as PID 1 or a subreaper."""
    for pid, stat in members.items():
        if not stat.running and stat.parent == os.getpid():
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
