"""The guard program: ends the agents of a host that was killed before it could.

Run as `python -I -S supervisor.py TOKEN HOST`, one per host process (`guard.py` starts it). It has
nothing open but standard input, the reading end of a pipe whose writing end only the host has, and
sleeps until the host is gone. A host that ends in order kills it first.

Then it gives the agents, whose standard input ended at the same moment, time to leave by
themselves; what is left and carries the token in its environment gets SIGTERM, then SIGKILL.

Only the standard library, and as little of that as will do: the program must stay small, and
`agentrt` is not importable from here.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator

LADDER: tuple[tuple[signal.Signals | None, float], ...] = (
    (None, 2.0),  # the agents read the end of their input
    (signal.SIGTERM, 1.0),
    (signal.SIGKILL, 10.0),  # repeated; what survives that is beyond a signal's reach
)
"""What is sent, and the seconds for which the agents then may leave."""
LOOK = 0.1
"""Seconds between two looks at the process table."""
SETTLE = 0.5
"""Seconds without a carrier before it is believed that none is left: a process whose program is
just being loaded shows no environment."""


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)  # its end is the host's end, nothing else
    token, host = sys.argv[1].encode(), int(sys.argv[2])
    wait_for_the_end_of(host)
    seen = until = time.monotonic()
    for signum, seconds in LADDER:
        until += seconds
        told: set[int] = set()  # nobody gets the same signal twice: some take that as an order
        while (now := time.monotonic()) < until:
            for pid in carriers(token):
                seen = now
                if signum is not None and pid not in told:
                    send(pid, signum)
                    told.add(pid)
            if now - seen > SETTLE:
                return
            time.sleep(LOOK)


def wait_for_the_end_of(host: int) -> None:
    """Until the pipe's writing end is closed, or the host is dead.

    The second matters if the host forked: the copy holds the pipe open.
    """
    poll = select.poll()
    poll.register(0, 0)  # a hang-up is always reported
    try:
        poll.register(os.pidfd_open(host), select.POLLIN)
    except (AttributeError, OSError):
        pass  # an older Python or kernel, or there is no such process any more
    if os.getppid() == host:  # else it is dead, and the number may be another's
        poll.poll()


def carriers(token: bytes) -> Iterator[int]:
    """Every process whose environment carries the token, but this one; each as it is looked at."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    found = token in file.read()
            except OSError:
                continue  # gone, or somebody else's
            if found:
                yield int(name)


def send(pid: int, signum: signal.Signals) -> None:
    try:
        os.kill(pid, signum)
    except OSError:
        return  # gone, or it became another user's


if __name__ == "__main__":
    main()
