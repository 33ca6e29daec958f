"""Processes on Linux: `/proc`, pidfd and resource limits.

Without `/proc` no process is found; only the agent's own group can be ended then.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Final

import trio

from .layer import MARKER, ProcessLayer, ProcessStat, StartFolder, poll_exit, raise_if_blind

assert sys.platform == "linux"

_VARIABLE: Final = MARKER.encode() + b"="

_LIMIT: Final = b"Max realtime timeout"
"""`RLIMIT_RTTIME` bounds the CPU time of a real-time process. The numbers that are used as marks
are beyond 100,000 years."""

_READ_BYTES: Final = 64 * 1024


class LinuxLayer(ProcessLayer):
    """Start times are in clock ticks since boot."""

    name = "linux"
    folder_flag = os.O_PATH

    def guards(self) -> bool:
        """Return True if `/proc` is there."""
        return os.path.exists("/proc/self")

    def list_ids(self) -> list[int]:
        """Return the ids in `/proc`; empty without it."""
        try:
            return [int(name) for name in os.listdir("/proc") if name.isdigit()]
        except OSError as error:
            raise_if_blind(error)
            return []

    def read_stat(self, pid: int) -> ProcessStat | None:
        """Read `/proc/PID/stat`, whose second field may contain spaces and parentheses."""
        # The second field is the program's name in parentheses and may contain anything.
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 20)
        if len(fields) < 20:
            return None
        return ProcessStat(
            running=fields[0] not in b"ZX",
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            start=int(fields[19]),
        )

    def read_markers(self, pid: int) -> str | None:
        """Read `/proc/PID/environ`, the environment at the start of the program."""
        environment = _read(f"/proc/{pid}/environ")
        if not environment:
            return None
        at = 0 if environment.startswith(_VARIABLE) else environment.find(b"\0" + _VARIABLE) + 1
        if not at and not environment.startswith(_VARIABLE):
            return ""
        value = environment[at + len(_VARIABLE) :].partition(b"\0")[0]
        return value.decode(errors="replace")

    def read_number(self, pid: int) -> int | None:
        """Read the soft limit `RLIMIT_RTTIME` in `/proc/PID/limits`."""
        after = _read(f"/proc/{pid}/limits").partition(_LIMIT)[2].split(None, 1)
        return int(after[0]) if after and after[0].isdigit() else None

    def mark(self, pid: int, number: int) -> None:
        """Set `RLIMIT_RTTIME`, which children inherit and programs hardly ever change."""
        pids = [pid]
        while pids:
            pid = pids.pop()
            try:
                hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
                resource.prlimit(pid, resource.RLIMIT_RTTIME, (number, hard))
                for thread in os.listdir(f"/proc/{pid}/task"):
                    pids += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
            except (OSError, ValueError):
                continue  # it has ended, is another user's, or has a lower limit already

    async def wait_exit(self, pid: int) -> None:
        """Wait by a pidfd, which becomes readable when the process exits."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:  # an older kernel, no descriptor left, or the process is reaped
            await poll_exit(self, pid)
            return
        try:
            await trio.lowlevel.wait_readable(handle)
        except OSError:
            await poll_exit(self, pid)
        finally:
            trio.lowlevel.notify_closing(handle)
            os.close(handle)

    def start_in(self, folder: int, path: str) -> StartFolder:
        """Start in the folder by its descriptor in `/proc`, or by its path without `/proc`."""
        way = f"/proc/self/fd/{folder}"
        return StartFolder(way if os.path.isdir(way) else path, None)

    def boot_id(self) -> str:
        """Return the kernel's random id of this boot."""
        return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def _read(path: str) -> bytes:
    """Read a file of `/proc`; empty if the process is gone or another user's."""
    content = b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise_if_blind(error)
        return content
    try:
        while len(content) % _READ_BYTES == 0 and (more := os.read(fd, _READ_BYTES)):
            content += more
    except OSError:
        return b""  # the process ended between the two calls
    finally:
        os.close(fd)
    return content
