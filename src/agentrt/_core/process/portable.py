"""Processes on macOS and other POSIX systems: psutil, polling and `os.fchdir`.

There is no mark but the environment variable here, and no guard program. The documentation page
"Platforms" lists the effects.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import psutil

from .layer import MARKER, ProcessLayer, ProcessStat, StartFolder, poll_exit, raise_if_blind


class PortableLayer(ProcessLayer):
    """Start times are in milliseconds since the epoch."""

    name = "portable"
    folder_flag = os.O_RDONLY

    def __init__(self) -> None:
        """Begin without known processes."""
        self._seen: dict[int, psutil.Process] = {}
        """The processes of the last look. Each keeps its start time, which psutil would compute
        differently after the system's clock was set."""

    def guards(self) -> bool:
        """Return False: the guard program needs `/proc`."""
        return False

    def list_ids(self) -> list[int]:
        """Return all ids, and forget the processes that are gone."""
        try:
            pids: list[int] = psutil.pids()
        except OSError as error:
            raise_if_blind(error)
            return []
        self._seen = {pid: seen for pid in pids if (seen := self._seen.get(pid)) is not None}
        return pids

    def read_stat(self, pid: int) -> ProcessStat | None:
        """Read the state by psutil and system calls."""
        try:
            process = psutil.Process(pid)
            if (seen := self._seen.get(pid)) is not None and seen == process:
                process = seen
            else:
                self._seen[pid] = process
            return ProcessStat(
                running=process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
                parent=process.ppid(),
                group=_read_tie(os.getpgid, pid),
                session=_read_tie(os.getsid, pid),
                start=int(process.create_time() * 1000),
            )
        except psutil.Error:
            return None
        except OSError as error:
            raise_if_blind(error)
            return None

    def read_markers(self, pid: int) -> str | None:
        """Read the environment, which some systems show for a user's own processes only."""
        try:
            environment: dict[str, str] = psutil.Process(pid).environ()
        except psutil.Error:
            return None
        except OSError as error:
            raise_if_blind(error)
            return None
        return environment.get(MARKER, "") if environment else None

    def read_number(self, pid: int) -> int | None:
        """Return None: there is no such mark."""
        return None

    def mark(self, pid: int, number: int) -> None:
        """Do nothing: there is no such mark."""

    async def wait_exit(self, pid: int) -> None:
        """Poll for the exit."""
        await poll_exit(self, pid)

    def start_in(self, folder: int, path: str) -> StartFolder:
        """Start in the folder by `fchdir` between fork and exec."""
        # The one call between fork and exec. It takes no lock and allocates no memory.
        return StartFolder(None, partial(os.fchdir, folder))

    def boot_id(self) -> str:
        """Return the time of the boot, which changes if the clock was set."""
        return str(int(psutil.boot_time()))  # another one, too, if the clock was set


def _read_tie(read: Callable[[int], int], pid: int) -> int:
    """Return the group or session of a process; 0 if it is a zombie of a system that forgets it."""
    try:
        return read(pid)
    except OSError:
        return 0
