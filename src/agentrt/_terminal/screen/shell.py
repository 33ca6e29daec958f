"""`!`: a command of the person's own, run by their shell, with its output above the prompt."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from ..._nesting import bare_errors

DRAIN: Final = 0.25
"""Seconds in which the rest of the output is read when the shell has ended."""
END: Final = 1.0
"""Seconds that a shell has to die in."""


class Shell:
    """One command, in a process group of its own. `show` takes each line of its output, and `room`
    waits until they have been seen."""

    def __init__(
        self,
        command: str,
        cwd: str,
        show: Callable[[str], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self.command = command
        self._cwd = cwd
        self._show = show
        self._room = room
        self._process: trio.Process | None = None
        self._stops = 0

    def stop(self) -> None:
        """Ctrl-C: it is asked to end, the second time it is made to."""
        self._stops += 1
        self._signal(signal.SIGINT if self._stops == 1 else signal.SIGKILL)

    async def run(self) -> int:
        """Run it to its end; returns the exit status. Cancelling it kills the group."""
        process = self._process = await trio.lowlevel.open_process(
            [os.environ.get("SHELL") or "/bin/sh", "-c", self.command],
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if self._stops:
            self._signal(signal.SIGINT)  # the key was faster
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(self._read, process)
                await _exited(process)
                nursery.cancel_scope.deadline = trio.current_time() + DRAIN
        finally:
            self._signal(signal.SIGKILL)  # what it has left behind; it is not reaped yet
            self._process = None
            with trio.move_on_after(END, shield=True):
                await process.wait()
            if process.stdout is not None:
                with trio.move_on_after(END, shield=True):
                    await process.stdout.aclose()
        return process.returncode if process.returncode is not None else -signal.SIGKILL

    async def _read(self, process: trio.Process) -> None:
        assert process.stdout is not None
        line = b""
        try:
            async for data in process.stdout:
                *lines, line = (line + data).split(b"\n")
                for each in lines:
                    self._show(each.decode(errors="replace"))
                await self._room()
        finally:
            if line:
                self._show(line.decode(errors="replace"))

    def _signal(self, number: int) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass


async def _exited(process: trio.Process) -> None:
    """Wait until it has ended, without taking note of it: its group is still ours to signal."""
    pidfd = os.pidfd_open(process.pid)
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)
