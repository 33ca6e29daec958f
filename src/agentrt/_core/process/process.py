"""An agent's process: start, streams, exit and shutdown.

The process has its own session and process group. Its exit is detected by waiting for it, never by
the end of a stream, which a grandchild may hold open. Where the system can report its status
without that, it is not reaped before everything that it started is gone: until then its process id,
which is also the id of its group and its session, cannot be reused, and signalling them is safe.
"""

from __future__ import annotations

import contextvars
import errno
import logging
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from ..._base.nesting import open_service_nursery
from ..errors import AgentNotFound, AgentrtError, AgentStartError
from ..limits import Limits
from .chosen import LAYER
from .guard import forget_in_forks, guard, keep_guard, reap_orphans
from .layer import MARKER
from .pipes import Happening, LineWriter, ReadEnd, Transport, Watcher, read_loop
from .tree import SCAN_TIMEOUT_S, ProcessTree, reap

if TYPE_CHECKING:
    from .entry import NamespaceEntry

_log = logging.getLogger("agentrt.process")
_stderr = logging.getLogger("agentrt.process.stderr")

STDERR_LINE_BYTES: Final = 8 * 1024
"""Maximum number of bytes of a stderr line that are logged."""


@asynccontextmanager
async def open_process(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    limits: Limits,
    on_stderr: Callable[[bytes], None] | None = None,
    watcher: Watcher | None = None,
    entry: NamespaceEntry | None = None,
    pass_fds: Sequence[int] = (),
) -> AsyncIterator[AgentProcess]:
    """Start an agent's program, and end it with everything that it started when the block is left.

    `argv[0]` is looked up on the PATH of `env`, which is the program's whole environment except for
    agentrt's marker. `on_stderr` receives the data that the program writes to stderr; its errors
    are logged. `watcher` receives that data, too, and events of the process.

    `entry`: the program only builds namespaces, in which it then starts the agent. Signals go to
    the agent itself, its exit status is reported as the agent's, and at the end everything in the
    namespaces is killed. The caller closes the entry. `pass_fds`: descriptors that the program
    inherits, the entry's among them.

    Leaving the block takes no time if `close` was called inside; otherwise it runs the shutdown
    steps of `close`, whose bounds are in `limits`, also when cancelled. The process is unusable
    afterwards; run tasks that use it inside the block.

    Raises `AgentNotFound` if the program does not exist, `AgentStartError` if it cannot be run.
    """
    async with guard() as run, open_service_nursery() as services:
        marker = f"{run}:{secrets.token_hex(8)}"
        process = await _spawn(argv, cwd, env, marker, pass_fds)
        if entry is not None:
            entry.started()
        agent = AgentProcess(process, marker, limits, on_stderr, watcher, entry)
        agent._report("started", pid=agent.pid, command=list(argv), cwd=os.fspath(cwd), env=env)
        reap_orphans(services)
        services.start_soon(agent._watch_exit)
        services.start_soon(agent._watch_stderr)
        try:
            with keep_guard(services):
                if entry is not None:
                    await agent._enter()
                yield agent
        finally:
            # There is no other reader any more, and an agent whose output is stuck cannot exit.
            services.start_soon(read_loop, agent, lambda data: None, _nothing)
            try:
                with trio.CancelScope(shield=True):
                    await close(agent, limits)
            finally:
                agent._release()


async def close(
    transport: Transport,
    limits: Limits,
    *,
    writer: LineWriter | None = None,
    goodbye: Callable[[], None] | None = None,
) -> None:
    """End an agent, and everything that it started, by the gentlest means that works.

    `goodbye` writes the protocol's last messages, urgently, to `writer`; stdin is closed after
    them. Then the agent has `limits.stdin_close_grace_s` seconds to exit,
    `limits.terminate_grace_s` seconds after SIGTERM, and `limits.kill_wait_s` seconds after
    SIGKILL. Each step ends as soon as no process is left, and the next one follows if any is: an
    agent with remaining processes is not gone. If the agent has already died, the gentler steps
    are skipped: its remaining processes are signalled immediately, and do not finish their work.

    Shielded from cancellation and bounded by these times. Processes that a SIGKILL cannot end are
    left alone.
    """
    with trio.CancelScope(shield=True):
        with trio.move_on_after(SCAN_TIMEOUT_S):
            await transport.note()
        if transport.returncode is None:
            if goodbye is not None:
                goodbye()
            if writer is not None:
                writer.close()
            else:
                transport.close_stdin()
            with trio.move_on_after(limits.stdin_close_grace_s):
                await transport.wait_tree()
                return
            with trio.move_on_after(SCAN_TIMEOUT_S):
                await transport.note()
        transport.close_stdin()  # if the goodbye did not get through
        transport.terminate()
        with trio.move_on_after(limits.terminate_grace_s):
            await transport.wait_tree()
            return
        with trio.move_on_after(limits.kill_wait_s):
            await transport.kill_tree()


class AgentProcess:
    """A running agent, the `Transport` of real processes. Created by `open_process`."""

    def __init__(
        self,
        process: trio.Process,
        marker: str,
        limits: Limits,
        on_stderr: Callable[[bytes], None] | None,
        watcher: Watcher | None = None,
        entry: NamespaceEntry | None = None,
    ) -> None:
        """Take over a program that was just started. `open_process` starts the tasks that
        serve it.
        """
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        assert isinstance(stdin, trio.lowlevel.FdStream)
        assert isinstance(stdout, trio.lowlevel.FdStream)
        assert isinstance(stderr, trio.lowlevel.FdStream)
        forget_in_forks(stdin)
        self.pid = process.pid
        self._returncode: int | None = None
        self._process = process
        self._stdin = stdin
        self._stdout = ReadEnd(stdout)
        self.read_nowait = self._stdout.read_nowait
        self.wait_readable = self._stdout.wait_readable
        self._stderr = ReadEnd(stderr)
        self._limits = limits
        self._tail = bytearray()
        self._on_stderr = on_stderr
        self._watcher = watcher
        self._context = contextvars.copy_context()  # for log records about it
        self._said = b""  # an incomplete line of stderr
        self._exited = trio.Event()
        self._tree = ProcessTree(process.pid, marker)
        self._reaped = False
        self._entry = entry

    # --- streams

    def write_nowait(self, data: bytes | memoryview) -> int:
        """As `Transport.write_nowait`. The pipe is written directly, without a buffer of Trio."""
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:  # it has no reader, or is closed
            raise trio.BrokenResourceError from error

    async def wait_writable(self) -> None:
        """As `Transport.wait_writable`."""
        if (fd := self._stdin.fileno()) < 0:
            await trio.lowlevel.checkpoint()
            return
        try:
            await trio.lowlevel.wait_writable(fd)
        except trio.ClosedResourceError:
            return
        except OSError as error:
            raise trio.BrokenResourceError from error

    def close_stdin(self) -> None:
        """As `Transport.close_stdin`. The first call is reported to the watcher."""
        if self._stdin.fileno() >= 0:
            self._report("stdin_closed")
        self._stdin.close()

    def stderr_tail(self) -> str:
        """As `Transport.stderr_tail`."""
        self._take_stderr()
        return self._tail.decode(errors="replace")

    # --- exit

    @property
    def returncode(self) -> int | None:
        """The exit status as soon as the system knows it, even before `wait` returns."""
        # Known here before it is reported: nothing is sent to a process that has exited.
        if self._returncode is None and not self._reaped:
            status = LAYER.exit_status(self.pid)
            if status is not None:
                self._has_exited(status)
        return self._returncode

    async def wait(self) -> int:
        """As `Transport.wait`."""
        await self._exited.wait()
        assert self._returncode is not None
        return self._returncode

    async def note(self) -> None:
        """As `Transport.note`."""
        await self._tree.note()

    def interrupt(self) -> None:
        """Send SIGINT to the agent's own process, or to the one in its namespace."""
        if not self._reaped and self.returncode is None:  # the process id is still its own
            self._report("signal", signal="SIGINT")
            if self._entry is not None:
                self._entry.interrupt()
                return
            try:
                os.kill(self._process.pid, signal.SIGINT)
            except PermissionError:
                pass  # it belongs to another user now: wait for the turn to end, then for its exit

    def terminate(self) -> None:
        """As `Transport.terminate`. The signal is reported, and logged if the agent runs."""
        self._report("signal", signal="SIGTERM")
        if self._returncode is None:
            self._log_signal(logging.INFO, "SIGTERM")
        self._tree.terminate()

    async def wait_tree(self) -> None:
        """As `Transport.wait_tree`."""
        await self._tree.wait(self._exited)

    async def kill_tree(self) -> None:
        """Kill everything that belongs to the agent; a namespace dies with its first process."""
        self._report("signal", signal="SIGKILL")
        self._log_signal(logging.WARNING, "SIGKILL")
        if self._entry is not None:
            self._entry.kill()
        await self._tree.kill(self._exited)

    def _release(self) -> None:
        """Reap the process and close everything that belongs to it."""
        if self._said:
            self._log_lines(b"\n")
        self._reaped = True
        self._tree.reaped()
        self._process.poll()
        self._stdin.close()
        self._stdout.close()
        self._stderr.close()

    # --- service tasks

    async def _watch_exit(self) -> None:
        """Wait for the exit, then cut the output that a remaining process could hold open.

        The drain time is for output that was written before the exit.
        """
        self._has_exited(await self._wait_exit())
        self._exited.set()
        await trio.sleep(self._limits.stdout_drain_s)
        self._stdout.cut()
        self._stderr.cut()

    async def _enter(self) -> None:
        """Wait until the agent's program runs in its namespaces. Raises `AgentStartError`."""
        from .entry import EntryFailed, start_problem

        assert self._entry is not None
        try:
            await self._entry.receive()
            return
        except EntryFailed as error:
            failure = error
        except OSError as error:
            raise AgentStartError(f"the sandbox could not be entered: {error}") from error
        with trio.move_on_after(self._limits.stdout_drain_s):
            await self._exited.wait()
        raise start_problem(self._entry, self.stderr_tail()) from failure

    def _has_exited(self, status: int) -> None:
        """Take the exit status, and report the exit once."""
        if self._entry is not None:
            from .entry import signalled_status

            status = signalled_status(status)
        first, self._returncode = self._returncode is None, status
        self._take_stderr()
        if first:
            self._report("exited", code=status)

    def _report(self, kind: Happening, **fields: Any) -> None:
        """Report an event of the process, if anything watches it."""
        if self._watcher is not None and self._watcher.on:
            self._watcher.happened(kind, **fields)

    def _log_signal(self, level: int, name: str) -> None:
        """Log a signal of the shutdown, in the context of the session that started the process."""
        words = "process %d, or a process that it started, has not ended: %s"
        extra = {"pid": self.pid, "signal": name}
        self._context.run(_log.log, level, words, self.pid, name, extra=extra)

    def _take_stderr(self) -> None:
        """Read the remaining stderr: the error about a failed agent should include it."""
        if data := self._stderr.read_nowait():
            self._keep(data)

    async def _wait_exit(self) -> int:
        """Wait until the process has exited, and return its status without reaping it if
        possible.
        """
        await LAYER.wait_exit(self.pid)
        status = LAYER.exit_status(self.pid)
        if status is not None:
            return status
        # Another part of the program reaped it, the host ignores SIGCHLD, or the system reports no
        # status without reaping. Its group cannot be signalled any more then.
        with trio.move_on_after(SCAN_TIMEOUT_S):
            await self._tree.note()
        return await self._reap()

    async def _reap(self) -> int:
        """Reap the process.

        Its id may be reused from now on, so its group is not signalled any more.
        """
        status = await reap(self._process)
        self._reaped = True
        self._tree.reaped()
        return status

    async def _watch_stderr(self) -> None:
        """Read stderr until its end, so that the pipe never fills up."""
        await read_loop(self._stderr, self._keep, _nothing)

    def _keep(self, data: bytes) -> None:
        """Keep the end of stderr, and pass the data on."""
        if self._watcher is not None and self._watcher.on:
            self._watcher.complained(data)
        if _stderr.isEnabledFor(logging.DEBUG):
            self._log_lines(data)
        self._tail += data
        del self._tail[: max(0, len(self._tail) - self._limits.stderr_tail_bytes)]
        if self._on_stderr is not None:
            try:
                self._on_stderr(data)
            except Exception:
                _log.exception("on_stderr failed; reading continues")

    def _log_lines(self, data: bytes) -> None:
        """Log the whole lines of stderr; an incomplete one waits for its end."""
        *lines, rest = (self._said + data).split(b"\n")
        self._said = rest[-STDERR_LINE_BYTES:]
        for line in lines:
            text = line[:STDERR_LINE_BYTES].decode(errors="replace").rstrip("\r")
            self._context.run(_stderr.debug, "%s", text, extra={"pid": self.pid})


def _nothing() -> None:
    """Do nothing at the end of a stream."""


async def _spawn(
    argv: Sequence[str],
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    marker: str,
    pass_fds: Sequence[int] = (),
) -> trio.Process:
    """Start a program in a new session, with the marker in its environment.

    Raises `AgentNotFound` or `AgentStartError`.
    """
    if not argv:
        raise AgentStartError("the agent's command is empty: give a program to run")
    if outer := env.get(MARKER):
        marker = f"{outer},{marker}"  # the host itself runs below an agent, whose host looks for it
    try:
        return await trio.lowlevel.open_process(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=os.fspath(cwd),
            env={**env, MARKER: marker},
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise _explained(error, argv, os.fspath(cwd), env) from error


def _explained(
    error: OSError | ValueError | RuntimeError,
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
) -> AgentrtError:
    """Return the error to raise for a program that could not be started, with the remedy."""
    program = argv[0]
    if not isinstance(error, OSError):  # a zero byte, "=" in a variable's name, or no thread
        return AgentStartError(f"{program!r} cannot be started: {error}")
    reason = error.strerror or str(error)
    if error.filename == cwd:
        return AgentStartError(f"no agent can run in {cwd!r} ({reason}): give an existing folder")
    missing = isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError)
    if missing and os.sep not in program:
        return AgentNotFound(
            f"{program!r} is not a program on the PATH given to the agent: "
            "install the agent, or give the program's full path"
        )
    path = os.path.join(cwd, program)
    if missing and not os.path.lexists(path):
        return AgentNotFound(
            f"the program {path!r} does not exist: install the agent, or correct the path"
        )
    if isinstance(error, FileNotFoundError):
        return AgentStartError(f"{path!r} names an interpreter in its first line that is missing")
    if isinstance(error, PermissionError):
        return AgentStartError(f"{path!r} is not executable: check its permissions (chmod +x)")
    if error.errno == errno.ENOEXEC:
        return AgentStartError(
            f"{path!r} cannot be executed: a script needs a first line like #!/bin/sh"
        )
    if error.errno == errno.E2BIG:
        sizes = {f"the variable {name}": len(os.fsencode(env[name])) for name in env}
        sizes |= {f"argument {place}": len(os.fsencode(each)) for place, each in enumerate(argv)}
        largest = max(sizes, key=lambda name: sizes[name])
        return AgentStartError(
            f"{program!r} cannot be started: its arguments and environment are too long for the"
            f" system; the longest is {largest}, with {sizes[largest]:,} bytes"
        )
    return AgentStartError(f"{program!r} cannot be started: {reason}")
