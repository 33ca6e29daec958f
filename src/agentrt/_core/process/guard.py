"""The host's side of the guard program (`supervisor.py`), which outlives a host that is killed.

There is one per Trio run, started before the first agent and shared by all. It costs nothing while
the host lives. Agents carry the run's token in their environment (see `layer.MARKER`); if the
host dies without closing them, the guard ends all processes that carry it, and removes the folders
that `private_folder` has made for the run.

It needs Linux's `/proc` and a Python interpreter. On other systems, and in a frozen program,
nothing guards agents, and an agent that ignores the end of its standard input outlives a host that
is killed.

`PR_SET_PDEATHSIG` does not replace this: Trio spawns from a worker thread, and the kernel treats
the end of that thread, after ten idle seconds, as the parent's death.

The module also keeps pipes from the host's own forks. A pipe ends when its last copy is closed, and
a forked process (`os.fork`, `multiprocessing`) has copies of all pipes: as long as it lives, an
agent would not read the end of its input.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pkgutil
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from weakref import WeakSet

import trio
from trio.lowlevel import FdStream

from ..._base.nesting import ServiceNursery
from ..errors import AgentStartError
from . import supervisor
from .chosen import LAYER
from .descendants import reap_adopted
from .layer import MARKER
from .tree import leaders, reap


def python_program(module: ModuleType) -> list[str]:
    """Return the arguments for Python to run a module of the package as a program: the path of its
    file, or, in a zip archive, its source."""
    if module.__file__ is not None and Path(module.__file__).is_file():
        return [module.__file__]
    package, _, name = module.__name__.rpartition(".")
    source = pkgutil.get_data(package, f"{name}.py")
    assert source is not None
    return ["-c", source.decode()]


_streams: WeakSet[FdStream] = WeakSet()


def forget_in_forks(stream: FdStream) -> None:
    """Replace the stream by the null device in processes that are forked from now on."""
    _streams.add(stream)


def _forget() -> None:
    """Replace the registered pipes in a process that was just forked."""
    # Not closed: the stream object is copied as well, and will close the descriptor.
    numbers = [each.fileno() for each in _streams if each.fileno() >= 0]
    if not numbers:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in numbers:
        os.dup2(null, number, inheritable=False)
    os.close(null)
    _streams.clear()  # a fork of this process may use the numbers for something else


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

_log = logging.getLogger("agentrt.process")

SHORT = "/tmp"
"""A folder with a path that is short enough for a socket."""

_MAX_PATH_CHARS = 100
"""Maximum length of the path of a Unix socket: the kernels' limits are 108 (Linux) and 104
bytes."""

_EXIT_TIMEOUT_S = 1.0
"""Seconds to wait for the killed guard to end; it should take a millisecond."""


_REAP_INTERVAL_S = 1.0
"""Seconds between two searches for dead orphans."""

_RESTART_DELAY_S = 1.0
"""Seconds between two starts of a guard program that ends repeatedly."""


class _Guard:
    """The guard program of one Trio run."""

    def __init__(self) -> None:
        """Prepare the guard of a run; `start` starts the program."""
        self.token = secrets.token_hex(8)
        self.users = 0
        self.until: float | None = None
        """The time at which the agents are ended, of a clock that advances while a machine
        sleeps."""
        self.reaping = trio.Lock()
        self._starting = trio.Lock()
        self._blocks: list[ServiceNursery] = []
        """The services of `keep`."""
        self._keeper: ServiceNursery | None = None
        """The one that runs the task of `keep`."""
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Start the program unless it runs, including after it was killed."""
        if self._runs:
            return
        async with self._starting:
            if self._runs:
                return  # another task has started it in the meantime
            await self.end()
            # The program need not report that it is ready: the pipe ends even if the host has died.
            self._process = await trio.lowlevel.open_process(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    *python_program(supervisor),
                    self.token,
                    str(os.getpid()),
                    *{tempfile.gettempdir(), SHORT},
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Without the marker of an outer host: that host would end the guard first.
                env={name: value for name, value in os.environ.items() if name != MARKER},
                start_new_session=True,
            )
            if isinstance(self._process.stdin, trio.lowlevel.FdStream):
                forget_in_forks(self._process.stdin)
            if self.until is not None:
                self.send_end_time()

    def keep(self, services: ServiceNursery) -> None:
        """Replace the program whenever it is killed, until `end_keeping`.

        One task does it for all services. When its services end, it continues in others.
        """
        self._blocks.append(services)
        if self._keeper is None:
            self._keep_in(services)

    def end_keeping(self, services: ServiceNursery) -> None:
        """End `keep` for these services."""
        self._blocks.remove(services)
        if self._keeper is services:
            self._keeper = None
            if self._blocks:
                self._keep_in(self._blocks[-1])

    def _keep_in(self, services: ServiceNursery) -> None:
        """Run the task of `keep` in these services."""
        self._keeper = services
        services.start_soon(self._keep, services)

    async def _keep(self, services: ServiceNursery) -> None:
        """Restart the program each time it ends, at most once per `_RESTART_DELAY_S`."""
        try:
            while self._process is not None:
                await self._process.wait()
                await self.start()
                await trio.sleep(_RESTART_DELAY_S)
        except (OSError, RuntimeError) as error:
            _log.warning("the guard program ended and could not be started again: %s", error)
        finally:
            if self._keeper is services:
                self._keeper = None

    @property
    def _runs(self) -> bool:
        """True if the program runs."""
        return self._process is not None and self._process.returncode is None

    async def reap(self) -> None:
        """Reap dead processes of this run's agents until cancelled."""
        async with self.reaping:
            while True:
                await trio.sleep(_REAP_INTERVAL_S)
                reap_adopted(self.token, leaders)

    def send_end_time(self) -> None:
        """Send the program the time until which agents may live. Never waits."""
        stdin = None if self._process is None else self._process.stdin
        if isinstance(stdin, trio.lowlevel.FdStream):
            said = "-" if self.until is None else f"{self.until:.3f}"
            with contextlib.suppress(OSError, trio.ClosedResourceError):
                os.write(stdin.fileno(), f"{said}\n".encode())

    async def end(self) -> None:
        """Kill and reap the program. It has no state that would need a graceful shutdown."""
        if self._process is not None:
            self._process.kill()
            assert self._process.stdin is not None
            await self._process.stdin.aclose()
            await reap(self._process)
        else:
            await trio.lowlevel.checkpoint()


_current: trio.lowlevel.RunVar[_Guard | None] = trio.lowlevel.RunVar("agentrt guard", None)


_until: trio.lowlevel.RunVar[float | None] = trio.lowlevel.RunVar("agentrt agents' end", None)


def let_agents_live(until: float | None) -> None:
    """End the agents of this Trio run at `until` (of `CLOCK_BOOTTIME`), unless another time is set
    before. This holds even if this process is stopped then. None: never."""
    _until.set(until)
    shared = _current.get()
    if shared is not None:
        shared.until = until
        shared.send_end_time()


class guard:
    """Run the guard program while the block runs; the value is the run's token.

    The first user starts it, the last one ends it. A program that opens one agent after the other
    saves repeated starts by holding a block open around them all.

    Raises `AgentStartError` if it cannot be started. Cancellation ends the block as usual; ending
    the program is shielded and takes a second at most.
    """

    __slots__ = ("_shared",)

    async def __aenter__(self) -> str:
        """Start the guard program, or share the one that runs. Returns the token of the run.

        Agents get the token in their environment, by which the guard finds their processes. It is
        returned even where no guard program can run.
        """
        shared = _current.get()
        if shared is None:
            shared = _Guard()
            shared.until = _until.get()
            _current.set(shared)
        self._shared: _Guard = shared
        shared.users += 1
        try:
            if _available():
                await shared.start()
            else:
                await trio.lowlevel.checkpoint()
        except (OSError, RuntimeError) as error:  # the second: no thread available
            await self.__aexit__()  # noqa: ASYNC120 - shields itself, with a deadline
            raise AgentStartError(f"the guard program could not be started: {error}") from error
        except BaseException:
            await self.__aexit__()  # noqa: ASYNC102 - shields itself, with a deadline
            raise
        return shared.token

    async def __aexit__(self, *raised: object) -> None:
        """End the guard program with its last user."""
        shared = self._shared
        shared.users -= 1
        if not shared.users:
            _current.set(None)
            with trio.move_on_after(_EXIT_TIMEOUT_S, shield=True):
                await shared.end()


class keep_guard:
    """Replace the guard program whenever it is killed, while the block runs.

    Use it inside a block of `guard`. `services` runs the task, and must not end before the block.
    If the program cannot be restarted, that is logged, and the start of the next agent raises the
    error.
    """

    __slots__ = ("_services", "_shared")

    def __init__(self, services: ServiceNursery) -> None:
        self._shared = _current.get() if _available() else None
        self._services = services

    def __enter__(self) -> None:
        """Begin to watch the guard program, if there is one."""
        if self._shared is not None:
            self._shared.keep(self._services)

    def __exit__(self, *raised: object) -> None:
        """End the watch, which another block may continue."""
        if self._shared is not None:
            self._shared.end_keeping(self._services)


def reap_orphans(services: ServiceNursery) -> None:
    """Reap dead processes that agents leave to this process while it is PID 1, as in a container.

    `services` runs the task. Call it inside a block of `guard`; once serves all agents.
    """
    shared = _current.get()
    if shared is not None and os.getpid() == 1:
        services.start_soon(shared.reap)


def private_folder(run: str) -> Path:
    """Make a folder that only this user can enter, with a path short enough for a socket.

    `run`: the token of the run with the guard that removes the folder if this process cannot.
    Raises OSError.
    """
    prefix = f"agentrt-{run}-"
    folder = tempfile.mkdtemp(prefix=prefix)
    if len(os.fsencode(folder)) + 2 > _MAX_PATH_CHARS:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=prefix, dir=SHORT)
    return Path(folder)


def _available() -> bool:
    """Return True if a guard program can run here."""
    # In a frozen program `sys.executable` is the program itself, which would be started again.
    return bool(sys.executable) and not hasattr(sys, "frozen") and LAYER.guards()
