"""A child process; its whole process group ends with the block that started it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

CHILD_EXIT_TIMEOUT_S = 1.0
"""Seconds for a child to exit by itself after its standard input is closed."""
REAP_TIMEOUT_S = 2.0
"""Seconds after SIGKILL; only a process stuck in the kernel needs longer."""
CHILD_OUTPUT_BYTES = 32 * 1024
"""Bytes of output that are kept: the end of the output shows the result."""
OUTPUT_POLL_S = 0.2
"""Seconds between two checks of a running command's output."""


@asynccontextmanager
async def child(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stderr: int | None = None,
) -> AsyncIterator[trio.Process]:
    """Run `command` with its output in a pipe. Leaving the block in any way ends its process group.

    Inside the block use `wait_exit`, never `process.wait` or `process.returncode`: those remove the
    process from the process table, and another process could then get the number of its group.
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
        with trio.move_on_after(CHILD_EXIT_TIMEOUT_S + REAP_TIMEOUT_S, shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()
                with trio.move_on_after(CHILD_EXIT_TIMEOUT_S):
                    await wait_exit(process)
            end(process)
            await process.wait()
        if process.stdout is not None:
            with trio.move_on_after(REAP_TIMEOUT_S, shield=True):
                await process.stdout.aclose()


async def wait_exit(process: trio.Process) -> None:
    """Wait until the process has exited, and leave it in the process table."""
    from ..process import wait_exit  # as slow to import as the rest of this agent

    await wait_exit(process.pid)


def end(process: trio.Process) -> None:
    """Kill the whole group of a process that has not been waited for yet."""
    os.killpg(process.pid, signal.SIGKILL)


async def shell(command: str, *, cwd: Path, show: Callable[[str], None]) -> tuple[int, str]:
    """Run a command line. Returns its exit status (negative: the signal) and the end of its output.

    `show` gets the output so far, at most every `OUTPUT_POLL_S` seconds. Cancelling kills the whole
    group.
    """
    output = bytearray()

    def text() -> str:
        """Return the end of the output so far, with a note if some of it is missing."""
        lost = "… the beginning is not shown …\n" if len(output) > CHILD_OUTPUT_BYTES else ""
        return lost + output[-CHILD_OUTPUT_BYTES:].decode(errors="replace")

    async def read(stdout: trio.abc.ReceiveStream) -> None:
        """Collect the output, and show it at intervals; output within an interval is shown at its
        end.
        """
        shown, unseen = -OUTPUT_POLL_S, False
        while True:
            data = None
            with trio.move_on_after(OUTPUT_POLL_S if unseen else math.inf):
                data = await stdout.receive_some()
            if data == b"":
                return
            output.extend(data or b"")
            del output[: -2 * CHILD_OUTPUT_BYTES]
            unseen = trio.current_time() < shown + OUTPUT_POLL_S
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
        await wait_exit(process)
        end(process)  # processes that it left behind would keep the pipe open
    assert process.returncode is not None
    return process.returncode, text()
