"""The interface to the processes of the operating system.

There are two implementations: `linux.py` uses `/proc`, pidfd and resource limits, and `portable.py`
uses psutil and polling, for macOS and other POSIX systems. `chosen.py` has the one in use.
"""

from __future__ import annotations

import errno
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple

import trio

MARKER: Final = "AGENTRT_GUARD"
"""The environment variable that marks processes started by an agent."""

EXIT_POLL_INTERVAL_S: Final = 0.02
"""Seconds between two checks whether a process has exited, if the system cannot report it."""


class ProcessStat(NamedTuple):
    """The state and the ties of a process."""

    running: bool
    """False for a zombie."""
    parent: int
    group: int
    session: int
    start: int
    """A time in a unit of the layer: unchanged while the process exists, and not smaller than those
    of older processes."""


class StartFolder(NamedTuple):
    """Arguments of `subprocess.Popen` that start a program in an open folder."""

    cwd: str | None
    preexec_fn: Callable[[], None] | None


class ProcessLayer(ABC):
    """Reads and marks processes, and waits for their end.

    Methods that read raise `OSError` if this process has no file descriptor or memory left: that
    must not hide other processes. They may be called in any thread.
    """

    name: ClassVar[str]
    folder_flag: ClassVar[int]
    """The flag for `os.open` to open a folder in order to reach names in it."""

    @abstractmethod
    def guards(self) -> bool:
        """Return True if the guard program (`supervisor.py`) works here."""

    @abstractmethod
    def list_ids(self) -> list[int]:
        """Return the ids of all processes."""

    @abstractmethod
    def read_stat(self, pid: int) -> ProcessStat | None:
        """Return the state of a process, or None if it is gone."""

    @abstractmethod
    def read_markers(self, pid: int) -> str | None:
        """Return the value of `MARKER` in the environment of a process: empty if it is not set,
        None if the environment cannot be read or is empty."""

    @abstractmethod
    def read_number(self, pid: int) -> int | None:
        """Return the number that `mark` has given to a process or one that started it."""

    @abstractmethod
    def mark(self, pid: int, number: int) -> None:
        """Give a number to a process, and to the processes that it has started already. Processes
        that they start inherit it. Does nothing if the system has no such mark."""

    @abstractmethod
    async def wait_exit(self, pid: int) -> None:
        """Wait until a child of this process has exited, without reaping it. Returns immediately
        if it is reaped already. Cancelling this changes nothing."""

    def exit_status(self, pid: int) -> int | None:
        """Return the exit status of a dead child without reaping it (negative: the signal that
        ended it).

        Returns None if it is alive or not a child any more, or if the system cannot tell.
        """
        if sys.platform == "darwin" and sys.version_info < (3, 13):
            return None  # Python has no `waitid` there
        else:
            try:
                info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                return None
            if info is None:
                return None
            return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    @abstractmethod
    def start_in(self, folder: int, path: str) -> StartFolder:
        """Return the arguments to start a program in the folder that is open as the descriptor
        `folder`, which `path` may no longer lead to."""

    @abstractmethod
    def boot_id(self) -> str:
        """Return an id that changes when the machine starts; empty if the system has none."""


async def poll_exit(layer: ProcessLayer, pid: int) -> None:
    """Wait until a child has exited or was reaped, by looking at it repeatedly."""
    await trio.lowlevel.checkpoint_if_cancelled()
    while not _is_over(layer, pid):  # noqa: ASYNC110 - there is no event for it
        await trio.sleep(EXIT_POLL_INTERVAL_S)


def _is_over(layer: ProcessLayer, pid: int) -> bool:
    """Return True if a child has exited, or is not a child any more."""
    if layer.exit_status(pid) is not None:
        return True
    try:
        stat = layer.read_stat(pid)
    except OSError:
        return False  # no descriptor is left: it may still run
    return stat is None or not stat.running or stat.parent != os.getpid()


def raise_if_blind(error: OSError) -> None:
    """Raise errors that concern this process itself: they must not hide other processes."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise error
