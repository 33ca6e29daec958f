"""Who an agent has started: the process tree as `/proc` shows it.

Killing an agent's process group is not enough: agents run their shells in groups or sessions of
their own, and a process whose parent died is adopted by init. A process belongs to an agent if
its parent, its group or its session does, if it belonged when it was last looked at, or if its
environment carries the agent's marker, which children inherit.

A process is remembered with its start time, so that a number used again is never signalled. On a
system without `/proc` nothing is found; there only the agent's own group can be ended.

Nothing here imports Trio: a walk blocks for a millisecond per hundred processes or so and is made
to run in a worker thread.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

MARKER = "AGENTRT_GUARD"
"""The variable by which agentrt finds what an agent has started."""


_READ = 64 * 1024

_LOADING = 0.005
"""Seconds that the kernel may take, within `execve`, from the old environment to the new one."""


class Found(NamedTuple):
    """One process, for good: the number is used again, number and start time are not."""

    pid: int
    start: int
    """Clock ticks since boot."""

    def alive(self) -> bool:
        """Whether it still runs. A zombie does not; one that cannot be looked at now may."""
        try:
            stat = _read_stat(self.pid)
        except OSError:
            return True
        return stat is not None and stat.start == self.start and stat.running

    def send(self, signum: signal.Signals, *, unless_in: int | None = None) -> None:
        """Signal exactly this process, if it still runs and is not in the group `unless_in`.

        Between the look and the signal are microseconds, and numbers are given out in a circle:
        the whole circle would have to be used up in between.
        """
        try:
            stat = _read_stat(self.pid)
        except OSError:
            return  # it might be another one by now
        if stat is None or stat.start != self.start or stat.group == unless_in:
            return
        try:
            os.kill(self.pid, signum)
        except (ProcessLookupError, PermissionError):
            return  # gone meanwhile, or it became another user's


class _Stat(NamedTuple):
    """What is needed of `/proc/PID/stat`."""

    running: bool
    parent: int
    group: int
    session: int
    start: int


def identify(pid: int) -> Found | None:
    """The process that has this number now. Raises OSError as `find`."""
    stat = _read_stat(pid)
    return None if stat is None else Found(pid, stat.start)


def find(leader: Found, marker: str, known: Iterable[Found]) -> frozenset[Found]:
    """Everything that still runs and belongs to `leader`, without the leader. Blocks.

    `known` is what was found before; some of it may have lost every other tie. The leader may be
    dead, but then must not have been waited for: as a zombie it keeps its number, and with it its
    group's and its session's, from being used again.

    Raises OSError if this process has no descriptor or no memory left to look with.
    """
    rest: dict[int, _Stat] = {}
    for name in _listed():
        stat = _read_stat(pid := int(name))
        if stat is not None and stat.start >= leader.start:  # whatever it started is younger
            rest[pid] = stat
    members: dict[int, _Stat] = {}
    for pid, start in (leader, *known):
        if (stat := rest.get(pid)) is not None and stat.start == start:
            members[pid] = rest.pop(pid)
    _add_related(members, rest)
    for pid in _carriers(rest, marker):
        members[pid] = rest.pop(pid)
    _add_related(members, rest)
    members.pop(leader.pid, None)
    _wait_for_adopted(members)
    return frozenset(Found(pid, stat.start) for pid, stat in members.items() if stat.running)


def _add_related(members: dict[int, _Stat], rest: dict[int, _Stat]) -> None:
    """Move whatever has its parent, group or session in `members` there, until nothing has."""
    while True:
        related = [
            pid
            for pid, stat in rest.items()
            if stat.parent in members or stat.group in members or stat.session in members
        ]
        if not related:
            return
        for pid in related:
            members[pid] = rest.pop(pid)


def _carriers(processes: dict[int, _Stat], marker: str) -> list[int]:
    """Those whose environment contains the marker."""
    token, found, blank = marker.encode(), [], []
    for pid, stat in processes.items():
        environment = _read(f"/proc/{pid}/environ")
        if token in environment:
            found.append(pid)
        elif not environment and stat.session:  # kernel threads have neither
            blank.append(pid)
    if blank:
        # A process whose program is just being loaded shows no environment.
        time.sleep(_LOADING)
        found += [pid for pid in blank if token in _read(f"/proc/{pid}/environ")]
    return found


def _wait_for_adopted(members: dict[int, _Stat]) -> None:
    """Reap the dead that were adopted by this process: it is PID 1 or a subreaper."""
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
    """A file of `/proc`; nothing if the process is gone or somebody else's."""
    content = b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _raise_if_blind(error)
        return content
    try:
        while len(content) % _READ == 0 and (more := os.read(fd, _READ)):
            content += more
    except OSError:
        return b""  # ended between the two calls
    finally:
        os.close(fd)
    return content


def _raise_if_blind(error: OSError) -> None:
    """An error that says nothing about the process, only about us, must not hide it."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise error
