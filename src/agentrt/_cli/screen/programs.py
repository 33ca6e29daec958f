"""Programs of the user: shell commands after `!`, the editor for longer prompts, the pager."""

from __future__ import annotations

import codecs
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from ..._base.nesting import bare_errors
from ...process import wait_exit

EDITORS: Final = ("/usr/bin/editor", "/usr/bin/nano", "/usr/bin/vi")
"""Tried in order if neither `$VISUAL` nor `$EDITOR` is set."""


async def edit(text: str) -> str:
    """Let the user edit a text in the terminal.

    Returns the edited text, or the original one if the editor fails. Raises `OSError` if the editor
    cannot be started, `ValueError` if there is none.

    Cancelling this ends the editor.
    """
    with tempfile.TemporaryDirectory(prefix="agentrt-") as folder:
        file = trio.Path(folder, "prompt.md")
        await file.write_text(text)
        done = await trio.run_process([*_editor(), str(file)], stdin=None, check=False)
        if done.returncode:
            return text
        return (await file.read_text(errors="replace")).removesuffix("\n")


def _editor() -> list[str]:
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if wanted:
        return shlex.split(wanted)
    for editor in EDITORS:
        if Path(editor).exists():
            return [editor]
    raise ValueError("no editor was found; set $EDITOR")


async def page(text: str, encoding: str, *, at_end: bool = False) -> bool:
    """Show a text in `$PAGER`, or in `less` or `more`; returns False if there is none.

    `at_end`: start at the end of the text, if the pager is `less`. Raises `OSError` if the pager
    cannot be started, `ValueError` if `$PAGER` cannot be parsed. Cancelling this ends the pager.
    """
    command = shlex.split(os.environ.get("PAGER") or "")
    if not command:
        command = next(([name] for name in ("less", "more") if shutil.which(name)), [])
    if not command:
        return False
    env = dict(os.environ)
    if os.path.basename(command[0]) == "less":
        command += ["+G"] if at_end else []
        if "R" not in env.get("LESS", "").upper():
            env["LESS"] = f"{env.get('LESS', '')} -R".strip()
    data = text.encode(encoding, "replace")
    await trio.run_process(command, stdin=data, check=False, env=env)
    return True


SHELL_DRAIN_S: Final = 0.25
"""Seconds for reading the rest of the output after the shell has ended."""
SHELL_KILL_S: Final = 1.0
"""Seconds in which a killed shell must end."""


class Shell:
    """One command in its own process group.

    `show` receives its output piece by piece, and `room` waits until it has been shown.
    """

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
        """Handle Ctrl-C: interrupt the command; the second time, kill it."""
        self._stops += 1
        self._signal(signal.SIGINT if self._stops == 1 else signal.SIGKILL)

    async def run(self) -> int:
        """Run the command until it ends; returns the exit status. Cancelling this kills the
        group.
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
            self._signal(signal.SIGKILL)  # kills remaining processes; the shell is not reaped yet
            self._process = None
            with trio.move_on_after(SHELL_KILL_S, shield=True):
                await process.wait()
            if process.stdout is not None:
                with trio.move_on_after(SHELL_KILL_S, shield=True):
                    await process.stdout.aclose()
        return process.returncode if process.returncode is not None else -signal.SIGKILL

    async def _read(self, process: trio.Process) -> None:
        assert process.stdout is not None
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        async for data in process.stdout:
            self._show(decode(data))
            await self._room()

    def _signal(self, number: int) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass
