"""The guard program: ends the agents of a host that was killed before it could end them.

Run as `python -I -S supervisor.py TOKEN HOST FOLDER...`, one per host process (`guard.py` starts
it). It has nothing open but standard input, the reading end of a pipe (only the
host has the writing end), and sleeps until the host is gone. A host that ends normally kills it
first.

A host that shares a store of sessions with others owns its sessions only for a limited time. It
writes a line with the time until which its agents may live (`-`: forever), and a new line before
that time is over. A host that was stopped does not, and its agents are ended immediately.

When the host is gone, the standard input of the agents has ended at the same moment. They have time
to exit by themselves; remaining processes get SIGTERM, then SIGKILL. A process belongs to an agent
if it has the token in its environment or the token's number in a resource limit
(`descendants.mark`), or if such a process started it: some agents give their shells a different
environment, and may have exited before this program looks.

At the end it removes temporary folders that the host has left: those in each FOLDER with names
that begin with `agentrt-TOKEN-`.

It uses only the standard library, and as little of that as possible: the program must stay small,
and `agentrt` is not importable from here.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import zlib

LADDER: tuple[tuple[signal.Signals | None, float], ...] = (
    (None, 2.0),  # the agents read the end of their input
    (signal.SIGTERM, 1.0),
    (signal.SIGSTOP, 0.1),  # none starts another process, or continues when its child is killed
    (signal.SIGKILL, 10.0),  # repeated; processes that survive this cannot be ended by a signal
)
"""The signals to send, and the seconds to wait for the agents to exit after each."""
SHORT_LADDER: tuple[tuple[signal.Signals | None, float], ...] = (
    (signal.SIGTERM, 0.5),
    (signal.SIGSTOP, 0.1),
    (signal.SIGKILL, 10.0),
)
"""The signals for agents that have reached their end time, with the seconds after each."""
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
CLOCK_CHECK_MS = 200
"""Milliseconds between two checks of the clock, if agents are ended at a given time."""
SCAN_INTERVAL_S = 0.05
"""Seconds between two scans of the process table."""
QUIET_S = 0.5
"""Seconds without a carrier after which all are assumed to have ended.

A process shows no environment while its program is being loaded.
"""


def main() -> None:
    """Wait for the end of the host, end its agents and remove its folders."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)  # only the end of the host ends it
    token, host = sys.argv[1].encode(), int(sys.argv[2])
    wait_for_the_end_of(host, token)
    end_agents(token)
    for folder in sys.argv[3:]:
        remove_leftovers(folder, f"agentrt-{sys.argv[1]}-")


def end_agents(
    token: bytes, ladder: tuple[tuple[signal.Signals | None, float], ...] = LADDER
) -> None:
    """Send the signals of `ladder` to all processes of the agents until none is left."""
    known: dict[int, bytes] = {}
    seen = until = time.monotonic()
    for signum, seconds in ladder:
        until += seconds
        signalled: set[int] = set()  # signalled once each: some take a second one as an order
        while (now := time.monotonic()) < until:
            find_agents(token, known)
            for pid in sorted(known, key=lambda pid: int(known[pid])):  # the oldest first
                seen = now
                if signum is not None and pid not in signalled:
                    send(pid, signum)
                    signalled.add(pid)
            if now - seen > QUIET_S:
                return
            time.sleep(SCAN_INTERVAL_S)


def wait_for_the_end_of(host: int, token: bytes) -> None:
    """Wait until the pipe's writing end is closed, or the host is dead.

    The second condition matters if the host forked: the copy holds the pipe open.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    until: float | None = None
    said = b""
    try:
        if sys.platform == "linux":
            poll.register(os.pidfd_open(host), select.POLLIN)
    except OSError:
        pass  # an older kernel, or the process does not exist any more
    # If its parent is a different process, the host is dead, and its process id may be reused.
    while os.getppid() == host:
        # `poll` does not see the time pass while a machine sleeps.
        events = dict(poll.poll(None if until is None else CLOCK_CHECK_MS))
        if 0 in events:
            data = os.read(0, 4096)
            if not data:
                return
            *lines, said = (said + data).split(b"\n")
            for line in lines:
                until = None if line == b"-" else float(line)
        elif events:
            return
        if until is not None and time.clock_gettime(CLOCK) >= until:
            end_agents(token, SHORT_LADDER)
            until = None


def has_number(pid: int, token: bytes) -> bool:
    """True if the process has a resource limit that stands for the token."""
    after = read(pid, "limits").partition(b"Max realtime timeout")[2].split(None, 1)
    return bool(after) and after[0].isdigit() and int(after[0]) >> 32 == number_of(token)


def number_of(token: bytes) -> int:
    """Return the upper half of the number that `descendants.mark` sets."""
    return 1 << 30 | zlib.crc32(token) >> 2


def find_agents(token: bytes, known: dict[int, bytes]) -> None:
    """Update the processes of the agents: their ids, with their start times, which distinguish a
    process from an earlier one with the same id."""
    starts: dict[int, bytes] = {}
    parents: dict[int, int] = {}
    found = set()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        # The second field is the program's name in parentheses and may contain anything.
        fields = read(pid, "stat").rpartition(b")")[2].split(None, 20)
        if pid == os.getpid() or len(fields) < 20 or fields[0] in (b"Z", b"X"):
            continue
        parents[pid], starts[pid] = int(fields[1]), fields[19]
        if known.get(pid) == starts[pid] or token in read(pid, "environ") or has_number(pid, token):
            found.add(pid)
    while below := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= below
    known.clear()
    known.update({pid: starts[pid] for pid in found})


def remove_leftovers(folder: str, prefix: str) -> None:
    """Remove this user's folders with this prefix, which contain only sockets and files. (Other
    users may know the name, and may have put a link there.)"""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if not name.startswith(prefix):
            continue
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(fd).st_uid == os.getuid():
                for file in os.listdir(fd):
                    os.unlink(file, dir_fd=fd)
                os.rmdir(path)
        except OSError:
            continue
        finally:
            os.close(fd)


def read(pid: int, file: str) -> bytes:
    """Read a file of `/proc`; empty if the process is gone, or another user's."""
    try:
        with open(f"/proc/{pid}/{file}", "rb") as opened:
            return opened.read()
    except OSError:
        return b""


def send(pid: int, signum: signal.Signals) -> None:
    """Signal a process, if it exists and belongs to this user."""
    try:
        os.kill(pid, signum)
    except OSError:
        return  # it has ended, or became another user's


if __name__ == "__main__":
    main()
