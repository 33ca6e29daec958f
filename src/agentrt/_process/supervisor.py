"""The guard program: ends the agents of a host that was killed before it could.

Run as `python -I -S supervisor.py TOKEN HOST FOLDER...`, one per host process (`guard.py` starts
it). It has nothing open but standard input, the reading end of a pipe whose writing end only the
host has, and sleeps until the host is gone. A host that ends in order kills it first.

Who shares a store of sessions with other hosts owns them for a while only. It writes a line with
the time until which its agents may live (`-`: for ever), and another one before that is over. A
host that was stopped does not, and its agents are ended at once.

Then it gives the agents, whose standard input ended at the same moment, time to leave by
themselves; what is left gets SIGTERM, then SIGKILL. What belongs to an agent is known by the token
in its environment, by the token's number in a resource limit (`descendants.mark`), or by having
been started by such a process: some agents give their shells an environment of their own, and may
have left before this program looks.

In the end it removes what the host has left of temporary folders: those in each FOLDER whose names
begin with `agentrt-TOKEN-`.

Only the standard library, and as little of that as will do: the program must stay small, and
`agentrt` is not importable from here.
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
    (signal.SIGSTOP, 0.1),  # nobody starts another one, or goes on because its child was killed
    (signal.SIGKILL, 10.0),  # repeated; what survives that is beyond a signal's reach
)
"""What is sent, and the seconds for which the agents then may leave."""
AT_ONCE: tuple[tuple[signal.Signals | None, float], ...] = (
    (signal.SIGTERM, 0.5),
    (signal.SIGSTOP, 0.1),
    (signal.SIGKILL, 10.0),
)
"""The same for agents whose time is over."""
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SLEEP = 200
"""Milliseconds between two looks at the clock, where there is a time at which agents are ended."""
LOOK = 0.05
"""Seconds between two looks at the process table."""
SETTLE = 0.5
"""Seconds without a carrier before it is believed that none is left: a process whose program is
just being loaded shows no environment."""


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)  # its end is the host's end, nothing else
    token, host = sys.argv[1].encode(), int(sys.argv[2])
    wait_for_the_end_of(host, token)
    end_agents(token)
    for folder in sys.argv[3:]:
        remove_leftovers(folder, f"agentrt-{sys.argv[1]}-")


def end_agents(
    token: bytes, ladder: tuple[tuple[signal.Signals | None, float], ...] = LADDER
) -> None:
    known: dict[int, bytes] = {}
    seen = until = time.monotonic()
    for signum, seconds in ladder:
        until += seconds
        signalled: set[int] = set()  # nobody gets the same signal twice: some take that as an order
        while (now := time.monotonic()) < until:
            look(token, known)
            for pid in sorted(known, key=lambda pid: int(known[pid])):  # the oldest first
                seen = now
                if signum is not None and pid not in signalled:
                    send(pid, signum)
                    signalled.add(pid)
            if now - seen > SETTLE:
                return
            time.sleep(LOOK)


def wait_for_the_end_of(host: int, token: bytes) -> None:
    """Until the pipe's writing end is closed, or the host is dead.

    The second matters if the host forked: the copy holds the pipe open.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    until: float | None = None
    said = b""
    try:
        poll.register(os.pidfd_open(host), select.POLLIN)
    except (AttributeError, OSError):
        pass  # an older Python or kernel, or there is no such process any more
    # If its parent is another one, it is dead, and the number may be another's.
    while os.getppid() == host:
        # A machine that sleeps keeps `poll` from seeing the time.
        events = dict(poll.poll(None if until is None else SLEEP))
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
            end_agents(token, AT_ONCE)
            until = None


def has_number(pid: int, token: bytes) -> bool:
    """True if the process has a resource limit that stands for the token."""
    after = read(pid, "limits").partition(b"Max realtime timeout")[2].split(None, 1)
    return bool(after) and after[0].isdigit() and int(after[0]) >> 32 == number_of(token)


def number_of(token: bytes) -> int:
    """The upper half of the number that `descendants.mark` sets."""
    return 1 << 30 | zlib.crc32(token) >> 2


def look(token: bytes, known: dict[int, bytes]) -> None:
    """Bring up to date who belongs to the agents: by number, with the time of the start, by which a
    number that is used again is distinguished from the one before."""
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
    """Remove this user's folders of such names, which hold nothing but sockets and files. (Others
    may know the name, and have put a link there.)"""
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
    """A file of `/proc`; nothing if the process is gone, or somebody else's."""
    try:
        with open(f"/proc/{pid}/{file}", "rb") as opened:
            return opened.read()
    except OSError:
        return b""


def send(pid: int, signum: signal.Signals) -> None:
    try:
        os.kill(pid, signum)
    except OSError:
        return  # gone, or it became another user's


if __name__ == "__main__":
    main()
