"""The entry of a program into namespaces of its own, as the host sees it.

The first program inside (`_core/sandbox/enter.py`) has one end of a socket pair. It sends the
sockets that it has opened in its network namespace, and the kernel adds its process id as this
process sees it. That process becomes the agent, so signals for the agent go to it and not to the
program that built the namespaces. Its parent is the first process of the namespace: when that one
is killed, the kernel kills everything in the namespace, including processes that have left their
session and cleared their environment.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable

import trio

from ..errors import AgentrtError, AgentStartError, SandboxUnavailable

MAX_SOCKETS = 64
"""Maximum number of sockets that the program hands over."""

NEEDS_LINUX = "sandboxes need Linux: leave out `sandbox`, or run agentrt in a container"

_CREDENTIALS = struct.Struct("3i")


class EntryFailed(AgentStartError):
    """The program that builds the namespaces failed before the agent's program ran."""


class NamespaceEntry:
    """One start of a program in namespaces. Close it when the program has ended."""

    def __init__(
        self, name: str = "the program", explain: Callable[[str], str] = lambda message: ""
    ) -> None:
        """`name`: the agent's program, for error messages. `explain` returns the remedy for a
        message of the program that builds the namespaces, or nothing. Raises OSError.
        """
        self.explain = explain
        self.pid: int | None = None
        """The id of the agent's own process; None before its start."""
        self.sockets: list[socket.socket] = []
        """The listening sockets inside; their receiver closes them."""
        self.name = name
        self._near, self._far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if sys.platform == "linux":
            self._near.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._near.setblocking(False)
        self._agent = -1
        self._first = -1

    @property
    def child_fd(self) -> int:
        """The descriptor that the program inherits."""
        return self._far.fileno()

    @property
    def handle(self) -> int:
        """The handle of the agent's own process (a pidfd); negative before its start."""
        return self._agent

    def started(self) -> None:
        """Close this process's copy of the program's end, now that the program has inherited it."""
        self._far.close()

    async def receive(self) -> None:
        """Wait until the agent's program runs inside.

        Raises `EntryFailed` if it never will, or `AgentStartError` if the agent's program cannot be
        run inside. Cancelling this leaves the entry unusable.
        """
        if sys.platform != "linux":
            raise SandboxUnavailable(NEEDS_LINUX)
        near = trio.socket.from_stdlib_socket(self._near)
        room = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4 * (MAX_SOCKETS + 1))
        data, ancillary, _, _ = await near.recvmsg(64, room)
        descriptors = array.array("i")
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self.pid = _CREDENTIALS.unpack(value[: _CREDENTIALS.size])[0]
            elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(value[: len(value) // 4 * 4])
        status = descriptors.pop() if descriptors else -1
        self.sockets = [socket.socket(fileno=fd) for fd in descriptors]
        try:
            if not data or not self.pid or status < 0:
                raise EntryFailed("the sandbox ended before the agent was started in it")
            self._open_handles(self.pid)
            await near.send(b"k")
            failure = await _read_all(status)
        finally:
            if status >= 0:
                os.close(status)
            self._near.close()
        if failure:
            raise _not_run(self.name, int(failure))

    def _open_handles(self, pid: int) -> None:
        """Open handles of the agent, which waits for the reply, and of its namespace's first
        process."""
        if sys.platform != "linux":
            raise SandboxUnavailable(NEEDS_LINUX)
        self._agent = os.pidfd_open(pid)
        parent = _parent_in_namespace(pid)
        if parent is not None:
            self._first = os.pidfd_open(parent)

    def interrupt(self) -> None:
        """Send SIGINT to the agent's own process. Does nothing if it has ended."""
        _send(self._agent, signal.SIGINT)

    def kill(self) -> None:
        """Kill everything in the namespace: the kernel follows when its first process dies."""
        _send(self._first, signal.SIGKILL)

    def close(self) -> None:
        """Kill everything in the namespace and close the handles."""
        self.kill()
        self._near.close()
        self._far.close()
        for each in self.sockets:
            each.close()
        for fd in (self._agent, self._first):
            if fd >= 0:
                os.close(fd)
        self._agent = self._first = -1


def signalled_status(code: int) -> int:
    """Return the agent's exit status, given that of the program around it.

    That program exits with 128 and the signal's number if a signal has ended the agent. The result
    is negative in that case, as for an agent that runs without such a program.
    """
    number = code - 128
    return -number if number in {each.value for each in signal.Signals} else code


def start_problem(entry: NamespaceEntry, stderr: str) -> AgentrtError:
    """Return the error for a sandbox that could not be built. `stderr`: its output."""
    reason = (stderr.strip().splitlines()[-1:] or ["it gave no reason"])[0]
    remedy = entry.explain(reason) or (
        "`agentrt doctor --sandbox` shows what this machine supports"
    )
    return SandboxUnavailable(
        f"the sandbox for {entry.name!r} could not be built: {reason:.300}; {remedy}"
    )


def _not_run(name: str, number: int) -> AgentStartError:
    """Return the error for a program that could not be run inside the sandbox."""
    reason = os.strerror(number)
    if number == errno.ENOENT:
        return AgentStartError(
            f"{name!r} is not found inside the sandbox: add its folder to `read` of the sandbox"
        )
    return AgentStartError(f"{name!r} cannot be run inside the sandbox: {reason}")


def _parent_in_namespace(pid: int) -> int | None:
    """Return the parent of a process if it is the first process of a separate namespace."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        parent = int(file.read().rpartition(b")")[2].split()[1])
    with open(f"/proc/{parent}/status", "rb") as file:
        for line in file:
            if line.startswith(b"NSpid:"):
                numbers = line.split()[1:]
                return parent if len(numbers) > 1 and numbers[-1] == b"1" else None
    return None


def _send(handle: int, signum: signal.Signals) -> None:
    """Send a signal by a process handle, which never means another process."""
    if sys.platform == "linux" and handle >= 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(handle, signum)


async def _read_all(fd: int) -> bytes:
    """Read a pipe to its end."""
    data = b""
    while True:
        await trio.lowlevel.wait_readable(fd)
        more = os.read(fd, 64)
        if not more:
            return data
        data += more
