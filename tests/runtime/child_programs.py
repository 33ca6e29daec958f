"""Small real programs that the process tests run as agents, and how to talk to them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import trio

from agentrt import Limits
from agentrt._core.process.process import open_process
from agentrt.agents import Transport
from inside.process import AgentProcess

QUICK = Limits(stdin_close_grace_s=0.1, terminate_grace_s=0.1, kill_wait_s=2.0, stdout_drain_s=0.1)
"""For agents that use up the steps of the ladder: real processes keep real time."""

PATIENT = Limits(stdin_close_grace_s=20.0, terminate_grace_s=1.0, kill_wait_s=2.0)
"""For agents that are to do something within a step, on a machine that may be busy."""

ENDS_AT_SIGTERM = Limits(stdin_close_grace_s=0.1, terminate_grace_s=20.0, kill_wait_s=2.0)
"""For agents that stay when their input ends: SIGTERM must reach them before the next step."""

WRITE_BEHIND_A_CHILD = """
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
    setsid sh -c "trap '' TERM; echo > {0}/begun$i; sleep 60; echo > {0}/late$i" &
done
while [ $(ls {0} | wc -l) -lt 20 ]; do sleep 0.01; done
echo planted
"""
"""Twenty that ignore SIGTERM, and each would write a file if only its child were killed."""


def check_none_went_on(folder: Path) -> None:
    """Of those twenty."""
    names = [file.name.rstrip("0123456789") for file in folder.iterdir()]
    assert names == ["begun"] * 20


def python(code: str) -> list[str]:
    """Run `code` in an interpreter that starts in a dozen milliseconds."""
    return [sys.executable, "-I", "-S", "-c", code]


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def started(
    argv: list[str], *, limits: Limits = QUICK, **options: object
) -> AbstractAsyncContextManager[AgentProcess]:
    return open_process(argv, **{"cwd": "/", "env": os.environ, "limits": limits, **options})


class Lines:
    """What a transport says, line by line."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._buffer = b""

    async def next(self) -> str:
        """The next line, without its newline; what is left, at the end."""
        while b"\n" not in self._buffer:
            data = self._transport.read_nowait()
            if data is None:
                await self._transport.wait_readable()
            elif data:
                self._buffer += data
            else:
                rest, self._buffer = self._buffer, b""
                return rest.decode()
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode()


def running(pid: int) -> bool:
    """Whether the process lives; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something of another process, of which there is no event; five seconds at most."""
    with trio.fail_after(30):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)


async def until_gone(pid: int) -> None:
    await until(lambda: not running(pid))
