"""Shell commands of the user, after `!`."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from msgspec import Struct

from ..._base.nesting import bare_errors
from ...process import wait_exit
from ..command_output import CommandOutput, Run
from .view import text_of_line

SHELL_DRAIN_S: Final = 0.25
"""Seconds for reading the rest of the output after the shell has ended."""
SHELL_KILL_S: Final = 1.0
"""Seconds in which a killed shell must end."""


OFFERED_LINES: Final = 400
"""Lines of the output that `/send` can send."""


class ShellOutput(Struct, frozen=True):
    """The result of a shell command. `text` is the end of its output."""

    command: str
    status: int
    text: str


class Shell:
    """One command in its own process group.

    `show` receives the lines of its output before the last `reachable` ones, which can still
    change, and `room` waits until they have been shown.
    """

    def __init__(
        self,
        command: str,
        cwd: str,
        show: Callable[[list[list[Run]]], None],
        room: Callable[[], Awaitable[None]],
        reachable: int,
    ) -> None:
        self.command = command
        self._cwd = cwd
        self._show = show
        self._room = room
        self._reachable = reachable
        self._screen = CommandOutput()
        self._shown: deque[str] = deque(maxlen=OFFERED_LINES)
        self._process: trio.Process | None = None
        self._stops = 0

    @property
    def tail(self) -> list[list[Run]]:
        """The lines that have not been shown, because they can still change."""
        return self._screen.tail

    def stop(self) -> None:
        """Handle Ctrl-C: interrupt the command; the second time, kill it."""
        self._stops += 1
        if self._stops == 1:
            self._signal(signal.SIGINT)
        else:
            self.kill()

    def kill(self) -> None:
        """Kill the command with its group."""
        self._signal(signal.SIGKILL)

    async def run(self) -> ShellOutput:
        """Run the command until it ends. Cancelling this kills the group.

        Raises `OSError` if the shell cannot be started.
        """
        process = self._process = await trio.lowlevel.open_process(
            [os.environ.get("SHELL") or "/bin/sh", "-c", self.command],
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if self._stops:
            self._signal(signal.SIGINT)  # the key was pressed before the start
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(self._read, process)
                await wait_exit(process.pid)  # not reaped: the group can still be signalled
                nursery.cancel_scope.deadline = trio.current_time() + SHELL_DRAIN_S
        finally:
            self.kill()  # kills remaining processes; the shell is not reaped yet
            self._process = None
            with trio.move_on_after(SHELL_KILL_S, shield=True):
                await process.wait()
            if process.stdout is not None:
                with trio.move_on_after(SHELL_KILL_S, shield=True):
                    await process.stdout.aclose()
        lines = self._screen.lines
        self._print(lines if lines[-1] else lines[:-1])
        status = process.returncode if process.returncode is not None else -signal.SIGKILL
        return ShellOutput(self.command, status, "\n".join(self._shown))

    async def _read(self, process: trio.Process) -> None:
        """Show the output as it comes. Rows that can still change are printed when they cannot any
        more.
        """
        assert process.stdout is not None
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        async for data in process.stdout:
            self._screen.feed(decode(data))
            self._print(self._screen.take_settled(self._reachable))
            await self._room()

    def _print(self, lines: list[list[Run]]) -> None:
        self._shown += map(text_of_line, lines)
        self._show(lines)

    def _signal(self, number: int) -> None:
        """Send a signal to the command's whole process group."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass
