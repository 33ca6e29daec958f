"""A child process whose whole group ends with the block that started it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

PARTING = 1.0
"""Seconds a child gets to leave by itself once its standard input is closed."""
REAP = 2.0
"""Seconds after SIGKILL; only a process stuck in the kernel needs longer."""
OUTPUT = 32 * 1024
"""Bytes of output that are kept: the end says how it went."""
TICK = 0.2
"""Seconds between two looks at a running command's output."""


@asynccontextmanager
async def child(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stderr: int | None = None,
) -> AsyncIterator[trio.Process]:
    """Run `command`, its output in a pipe. Leaving the block, in whatever way, ends its group.

    Inside the block use `gone`, never `process.wait` or `process.returncode`: they take the process
    out of the process table, and then somebody else could have the number of its group.
    Raises `OSError` if it cannot be started.
    """
    process = await trio.lowlevel.open_process(
        list(command),
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with trio.move_on_after(PARTING + REAP, shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()
                with trio.move_on_after(PARTING):
                    await gone(process)
            end(process)
            await process.wait()
        if process.stdout is not None:
            with trio.move_on_after(REAP, shield=True):
                await process.stdout.aclose()


async def gone(process: trio.Process) -> None:
    """Wait until the process has ended, and leave it in the process table."""
    pidfd = os.pidfd_open(process.pid)
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)


def end(process: trio.Process) -> None:
    """Kill the whole group of a process that was not waited for yet."""
    os.killpg(process.pid, signal.SIGKILL)


async def shell(command: str, *, cwd: Path, show: Callable[[str], None]) -> tuple[int, str]:
    """Run a command line; returns its exit status (negative: the signal) and the end of its output.

    `show` gets the output so far, at most every `TICK`. Cancelling kills the whole group.
    """
    output = bytearray()

    def text() -> str:
        lost = "… the beginning is not shown …\n" if len(output) > OUTPUT else ""
        return lost + output[-OUTPUT:].decode(errors="replace")

    async def read(stdout: trio.abc.ReceiveStream) -> None:
        shown, unseen = -TICK, False
        while True:
            data = None
            with trio.move_on_after(TICK if unseen else math.inf):
                data = await stdout.receive_some()
            if data == b"":
                return
            output.extend(data or b"")
            del output[: -2 * OUTPUT]
            unseen = trio.current_time() < shown + TICK
            if not unseen:
                shown = trio.current_time()
                show(text())

    arguments = ["/bin/sh", "-c", command]
    async with (
        child(arguments, cwd=cwd, stderr=subprocess.STDOUT) as process,
        trio.open_nursery() as nursery,
    ):
        assert process.stdout is not None
        nursery.start_soon(read, process.stdout)
        await gone(process)
        end(process)  # what it left behind would hold the pipe open
    assert process.returncode is not None
    return process.returncode, text()
