"""The processes that an agent has started, as `/proc` shows them.

Killing an agent's process group is not enough: agents run their shells in separate groups or
sessions, and a process that has lost its parent is adopted by init. A process belongs to an agent
if its parent, its group or its session does, if it belonged at the last look, or if it carries one
of two marks that children inherit: the agent's marker in its environment, which some agents clear
for their shells, and a number in a resource limit, which survives every change that a process makes
to its environment, its parent and its session. (`RLIMIT_RTTIME` bounds the CPU time of a real-time
process. The numbers are beyond 100,000 years.)

A process is remembered with its start time, so that a reused process id is never signalled. On a
system without `/proc` nothing is found; only the agent's own group can be ended there.

This module does not import Trio: a look blocks for some milliseconds per hundred processes, and
runs in a worker thread (see `_core/process/tree.py`).
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
import zlib
from collections.abc import Collection, Iterable
from typing import NamedTuple

MARKER = "AGENTRT_GUARD"
"""The environment variable that marks processes started by an agent."""


_VARIABLE = MARKER.encode() + b"="

_LIMIT = b"Max realtime timeout"

_READ_BYTES = 64 * 1024

_LOADING_S = 0.005
"""Seconds that the kernel may take to switch from the old environment to the new in `execve`."""


class ProcessId(NamedTuple):
    """The permanent identity of a process: its id can be reused, but never with this start time."""

    pid: int
    start: int
    """Clock ticks since boot."""

    def alive(self) -> bool:
        """True if it still runs, or cannot be read now. A zombie does not run."""
        try:
            stat = _read_stat(self.pid)
        except OSError:
            return True
        return stat is not None and stat.start == self.start and stat.running

    def send(self, signum: signal.Signals, *, unless_in: int | None = None) -> None:
        """Signal exactly this process, if it still runs and is not in the group `unless_in`.

        Only microseconds pass between the check and the signal. Process ids are assigned in
        rotation, so all of them would have to be used in between for this one to be reused.
        """
        try:
            stat = _read_stat(self.pid)
        except OSError:
            return  # it might be a different process now
        if stat is None or stat.start != self.start or stat.group == unless_in:
            return
        try:
            os.kill(self.pid, signum)
        except (ProcessLookupError, PermissionError):
            return  # it ended in the meantime, or became another user's


class _Stat(NamedTuple):
    """The required fields of `/proc/PID/stat`."""

    running: bool
    parent: int
    group: int
    session: int
    start: int


def number_of(marker: str) -> int:
    """Return the number for a marker `RUN:AGENT` in a resource limit. Its upper half is equal for
    all agents of a run; see `supervisor.py`."""
    run, _, agent = marker.rpartition(",")[2].partition(":")
    return 1 << 62 | zlib.crc32(run.encode()) >> 2 << 32 | zlib.crc32(agent.encode())


def mark(pid: int, marker: str) -> None:
    """Mark a child that was just started, and the processes that it has started already, so that
    `list_processes` finds everything below it. Does nothing if the system has no such limit."""
    if not hasattr(resource, "prlimit") or not hasattr(resource, "RLIMIT_RTTIME"):
        return
    number, pids = number_of(marker), [pid]
    while pids:
        pid = pids.pop()
        try:
            hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (number, hard))
            for thread in os.listdir(f"/proc/{pid}/task"):
                pids += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
        except (OSError, ValueError):
            continue  # it has ended, is another user's, or has a lower limit already


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this id now, or None.

    Raises `OSError` as `list_processes` does.
    """
    stat = _read_stat(pid)
    return None if stat is None else ProcessId(pid, stat.start)


def list_processes(oldest: int) -> ProcessTable:
    """Return all processes that were started at `oldest`, in clock ticks since boot, or later.

    Blocks. Raises OSError if this process has no file descriptor or memory left for this.
    """
    processes: dict[int, _Stat] = {}
    for name in _listed():
        stat = _read_stat(pid := int(name))
        if stat is not None and stat.start >= oldest:
            processes[pid] = stat
    return ProcessTable(processes, _carriers(processes))


class ProcessTable:
    """The processes found by one look, which serves all callers that search for their processes.
    Building it takes time for each process, searching only for each process that is found."""

    def __init__(self, processes: dict[int, _Stat], carriers: dict[str | int, list[int]]) -> None:
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
        found: dict[int, _Stat] = {}
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
        stat = self._processes.get(pid)
        return None if stat is None else stat.start


def _carriers(processes: dict[int, _Stat]) -> dict[str | int, list[int]]:
    """Return the processes with marks, by mark."""
    found: dict[str | int, list[int]] = {}
    blank = []
    for pid, stat in processes.items():
        if (number := _read_number(pid)) is not None:
            found.setdefault(number, []).append(pid)
        environment = _read(f"/proc/{pid}/environ")
        if environment:
            _add_markers(found, pid, environment)
        elif stat.running and stat.session:  # kernel threads and dead processes have none
            blank.append(pid)
    if blank:
        # A process whose program is just being loaded shows no environment.
        time.sleep(_LOADING_S)
        for pid in blank:
            _add_markers(found, pid, _read(f"/proc/{pid}/environ"))
    return found


def _read_number(pid: int) -> int | None:
    """Return the number in a process's resource limit, which a dead process keeps."""
    after = _read(f"/proc/{pid}/limits").partition(_LIMIT)[2].split(None, 1)
    return int(after[0]) if after and after[0].isdigit() else None


def _add_markers(found: dict[str | int, list[int]], pid: int, environment: bytes) -> None:
    at = 0 if environment.startswith(_VARIABLE) else environment.find(b"\0" + _VARIABLE) + 1
    if at or environment.startswith(_VARIABLE):
        value = environment[at + len(_VARIABLE) :].partition(b"\0")[0]
        for marker in value.decode(errors="replace").split(","):
            found.setdefault(marker, []).append(pid)


def reap_adopted(run: str, waited_for: Collection[int]) -> None:
    """Reap dead children of this process that were left by agents of the run, because this process
    is PID 1 or a subreaper. `waited_for`: the agents, which their own tasks wait for."""
    own = number_of(f"{run}:0") >> 32
    for pid in map(int, _listed()):
        stat = _read_stat(pid)
        if (
            stat is not None
            and stat.parent == os.getpid()
            and not stat.running
            and pid not in waited_for
            and (_read_number(pid) or 0) >> 32 == own
        ):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _wait_for_adopted(members: dict[int, _Stat]) -> None:
    """Reap dead processes that this process has adopted, as PID 1 or a subreaper."""
    for pid, stat in members.items():
        if not stat.running and stat.parent == os.getpid():
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _listed() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError as error:
        _raise_if_blind(error)
        return []


def _read_stat(pid: int) -> _Stat | None:
    # The second field is the program's name in parentheses and may contain anything.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 20)
    if len(fields) < 20:
        return None
    return _Stat(
        running=fields[0] not in b"ZX",
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]),
    )


def _read(path: str) -> bytes:
    """Read a file of `/proc`; empty if the process is gone or another user's."""
    content = b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _raise_if_blind(error)
        return content
    try:
        while len(content) % _READ_BYTES == 0 and (more := os.read(fd, _READ_BYTES)):
            content += more
    except OSError:
        return b""  # the process ended between the two calls
    finally:
        os.close(fd)
    return content


def _raise_if_blind(error: OSError) -> None:
    """Raise errors that concern this process itself: they must not hide other processes."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise error
