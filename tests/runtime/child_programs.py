"""Small real programs that the process tests run as agents, and how to talk to them.

`open_agent_program`, the public way to start one, takes all steps of its end together. Tests take
single ones, also on a system that does not show its processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import trio

from agentrt import Limits
from agentrt._core.process.descendants import identify, list_processes
from agentrt._core.process.process import AgentProcess, close, open_process
from agentrt.agents import Transport
from inside.process import LAYER, ProcessId, process

MARKER: Final = "AGENTRT_GUARD"
"""Names the guard of its host in the environment of each agent."""

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


async def end(agent: AgentProcess, limits: Limits, **last_words: Any) -> None:
    """Take the steps by which a session ends its agent; `last_words`: a writer, and a goodbye."""
    await close(agent, limits, **last_words)


# --- a system that shows less


def hide_processes(patch: pytest.MonkeyPatch) -> None:
    """Let the system show no process of others."""
    patch.setattr(type(LAYER), "list_ids", lambda self: [])
    patch.setattr(type(LAYER), "read_stat", lambda self, pid: None)


def hide_exit_status(patch: pytest.MonkeyPatch) -> None:
    """Let the system give no exit status of a process that is not reaped."""
    patch.setattr(type(LAYER), "exit_status", lambda self, pid: None)


def give_up_walks_after(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a walk through all processes take so long at most."""
    patch.setattr(process, "SCAN_TIMEOUT_S", seconds)


def seen(pid: int) -> ProcessId:
    """Return a process by its number and the time of its start."""
    found = identify(pid)
    assert found is not None
    return found


def before(known: ProcessId) -> ProcessId:
    """Return the process that had the number of another one before."""
    return ProcessId(known.pid, known.start - 1)


def all_below_init() -> frozenset[ProcessId]:
    """Return what a walk finds below the first process, for a mark that none has."""
    return list_processes(0).below(ProcessId(1, 0), "0" * 16 + ":" + "0" * 16, ())
