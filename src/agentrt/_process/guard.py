"""The host's side of the guard program (`supervisor.py`), which outlives a host that is killed.

One per Trio run, started before the first agent and shared by all. It costs nothing while the host
lives. Agents carry the run's token in their environment (see `_descendants.MARKER`); if the host
dies without closing them, the guard ends whatever carries it, and removes the folders that
`private_folder` has made for the run.

It needs `/proc` and a Python to run: on other systems, and in a frozen program, there is none, and
an agent that ignores the end of its standard input outlives a host that is killed.

`PR_SET_PDEATHSIG` is no substitute: Trio spawns from a worker thread, and the kernel takes the end
of that thread, after ten idle seconds, for the parent's death.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from .._errors import AgentStartError
from . import supervisor
from .descendants import MARKER, reap_adopted
from .forks import forget_in_forks
from .programs import python_program
from .tree import leaders, reap

_log = logging.getLogger("agentrt.process")

SHORT = "/tmp"
"""Where a path is short enough for a socket."""

_LONGEST_PATH = 100
"""Of a Unix socket: the kernels' limits are 108 (Linux) and 104 bytes."""

_END = 1.0
"""Seconds that the guard, killed, may take to be waited for: it should take a millisecond."""


_REAP_S = 1.0
"""Seconds between two looks for dead orphans."""

_AGAIN_S = 1.0
"""Seconds between two starts of a guard program that ends all the time."""


class _Guard:
    """The guard program of one Trio run."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        self.users = 0
        self.until: float | None = None
        """When the agents are ended, by the clock that goes on while a machine sleeps."""
        self.reaping = trio.Lock()
        self._starting = trio.Lock()
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Start the program unless it runs; also again, should somebody have killed it."""
        if self._runs:
            return
        async with self._starting:
            if self._runs:
                return  # another one has waited for the same
            await self.end()
            # Nothing has to say that it is ready: the pipe ends even if the host is gone by then.
            self._process = await trio.lowlevel.open_process(
                [
                    *(sys.executable, "-I", "-S", *python_program(supervisor)),
                    *(self.token, str(os.getpid())),
                    *{tempfile.gettempdir(), SHORT},
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Without the marker of a host above this one: that host would end the guard first.
                env={name: value for name, value in os.environ.items() if name != MARKER},
                start_new_session=True,
            )
            if isinstance(self._process.stdin, trio.lowlevel.FdStream):
                forget_in_forks(self._process.stdin)
            if self.until is not None:
                self.tell()

    async def keep(self) -> None:
        """Start the program again whenever it ends, until this is cancelled."""
        while self._process is not None:
            await self._process.wait()
            await self.start()
            await trio.sleep(_AGAIN_S)

    @property
    def _runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def tell(self) -> None:
        """Let the program know until when agents may live. Never waits."""
        stdin = None if self._process is None else self._process.stdin
        if isinstance(stdin, trio.lowlevel.FdStream):
            said = "-" if self.until is None else f"{self.until:.3f}"
            with contextlib.suppress(OSError, trio.ClosedResourceError):
                os.write(stdin.fileno(), f"{said}\n".encode())

    async def end(self) -> None:
        """Kill and reap the program. It keeps nothing that is worth a polite word."""
        if self._process is not None:
            self._process.kill()
            assert self._process.stdin is not None
            await self._process.stdin.aclose()
            await reap(self._process)


_current: trio.lowlevel.RunVar[_Guard | None] = trio.lowlevel.RunVar("agentrt guard", None)


_until: trio.lowlevel.RunVar[float | None] = trio.lowlevel.RunVar("agentrt agents' end", None)


def let_agents_live(until: float | None) -> None:
    """Have the agents of this Trio run ended at that time (of `CLOCK_BOOTTIME`), also if this
    process is stopped then, unless another time is said before. None: never."""
    _until.set(until)
    shared = _current.get()
    if shared is not None:
        shared.until = until
        shared.tell()


@asynccontextmanager
async def guard() -> AsyncIterator[str]:
    """Have the guard program while the block runs; the value is the run's token.

    The first user starts it, the last one ends it. A program that opens one agent after the other
    saves the start by holding it open around them all.

    Raises `AgentStartError` if it cannot be started. Cancellation ends the block as usual; ending
    the program is shielded and takes a second at most.
    """
    shared = _current.get()
    if shared is None:
        shared = _Guard()
        shared.until = _until.get()
        _current.set(shared)
    shared.users += 1
    try:
        if _available():
            try:
                await shared.start()
            except (OSError, RuntimeError) as error:  # the second: no thread to start it in
                raise AgentStartError(f"the guard program could not be started: {error}") from error
        yield shared.token
    finally:
        shared.users -= 1
        if not shared.users:
            _current.set(None)
            with trio.move_on_after(_END, shield=True):
                await shared.end()


async def keep_guard() -> None:
    """Replace the guard program whenever something kills it, until this is cancelled: inside a
    block of `guard`. If it cannot be started again, that is logged, and the next agent's start
    reports it."""
    shared = _current.get()
    if shared is None or not _available():
        return
    try:
        await shared.keep()
    except (OSError, RuntimeError) as error:
        _log.warning("the guard program ended and could not be started again: %s", error)


async def reap_orphans() -> None:
    """While this process is PID 1, as in a container, reap what agents leave to it when it dies,
    until this is cancelled: inside a block of `guard`, once for all agents."""
    shared = _current.get()
    if shared is None or os.getpid() != 1:
        return
    async with shared.reaping:
        while True:
            await trio.sleep(_REAP_S)
            reap_adopted(shared.token, leaders)


def private_folder(run: str) -> Path:
    """Make a folder that only this user can enter, with a path short enough for a socket. `run`:
    the token of the run whose guard removes it if this process cannot. Raises OSError."""
    prefix = f"agentrt-{run}-"
    folder = tempfile.mkdtemp(prefix=prefix)
    if len(os.fsencode(folder)) + 2 > _LONGEST_PATH:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=prefix, dir=SHORT)
    return Path(folder)


def _available() -> bool:
    # In a frozen program `sys.executable` is the program itself: it would be started once more.
    return bool(sys.executable) and not hasattr(sys, "frozen") and os.path.exists("/proc/self")
