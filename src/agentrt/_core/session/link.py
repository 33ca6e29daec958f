"""One run of an agent: its process, its driver, and the tasks between them.

A program may write text to its standard output before its first message. If the program is not an
agent, this text explains the reason (a usage text because an option is missing, a login that is
required).
"""

from __future__ import annotations

import math
import re
import shlex
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

import trio
from msgspec import structs

from ..._base.nesting import TICK_S, bare_errors
from ..errors import AgentrtError, AgentStartError, SessionNotFound
from ..limits import Limits
from ..model.driver import Driver, Effect, Opening, StartFailed, Write
from ..process.pipes import LineWriter, Transport, Watcher, read_loop
from ..process.process import close

SHOWN_LINES: Final = 5
"""Maximum number of lines that are quoted."""
SHOWN_LINE_CHARS: Final = 300
"""Maximum number of characters of each quoted line."""
MAX_LINES: Final = 100
"""Number of lines without a message after which a program is known not to be an agent."""
QUIET_TIMEOUT_S: Final = 2.0
"""Seconds of silence after which a program is known not to be an agent.

For a program that has printed its usage, or that stopped in the middle of a line, as programs do
that wait for a person.
"""
HANDSHAKE_DIVISOR: Final = 6
"""The silence after any other output may last for this fraction of the time for the handshake.

Wrappers of agents also write text before they start the agents.
"""

_MESSAGE: Final = re.compile(rb'\s*\{.*"(?:jsonrpc|method|id|type)"')
_USAGE: Final = re.compile(
    r"\busage\b|\btry\b(?:(?!\btry\b).)*--help|\b(?:unknown|unrecognized|invalid|unexpected|missing)\b.{0,20}"
    r"\b(?:option|argument|flag|command|subcommand)",
    re.IGNORECASE,
)
_UNSEEN: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\S ]")


class FirstOutput:
    """Collects the lines before the first message."""

    def __init__(self) -> None:
        """Begin without output."""
        self._lines: list[str] = []
        self._count = 0
        self._begun = b""
        self._message = False

    def feed(self, data: bytes) -> None:
        """Process data from standard output."""
        if self._message:
            return
        *lines, rest = (self._begun + data).split(b"\n")
        for line in lines:
            if _MESSAGE.match(line):
                self._message = True
                return
            if line.strip():
                self._count += 1
                if len(self._lines) < SHOWN_LINES:
                    self._lines.append(_shown(line))
        self._begun = rest[: 16 * SHOWN_LINE_CHARS]

    def max_silence_s(self, handshake: float) -> float:
        """Return the seconds of silence after which this is known not to be an agent."""
        begun = self._begun.strip()
        if self._message or not (self._lines or begun) or begun.startswith(b"{"):
            return math.inf
        if self._count >= MAX_LINES:
            return 0
        if begun or any(map(_USAGE.search, self._lines)):
            return QUIET_TIMEOUT_S
        return max(QUIET_TIMEOUT_S, handshake / HANDSHAKE_DIVISOR)

    @property
    def excerpt(self) -> str:
        """The written text, for error messages; empty if nothing was written, or if a message
        came."""
        lines = [*self._lines, _shown(self._begun)]
        lines = [line for line in lines[:SHOWN_LINES] if line]
        if self._message or not lines:
            return ""
        more = " …" if self._count > SHOWN_LINES else ""
        return f"it wrote this, which is not a message: {' | '.join(lines)}{more}"


def _shown(line: bytes) -> str:
    """Return a line for an error message, without control characters, and not too long."""
    text = _UNSEEN.sub(" ", line[: 8 * SHOWN_LINE_CHARS].decode(errors="replace"))
    text = " ".join("".join(c for c in text if c.isprintable()).split())
    return text if len(text) <= SHOWN_LINE_CHARS else f"{text[:SHOWN_LINE_CHARS]}…"


Connect = Callable[[Opening], AbstractAsyncContextManager[Transport]]
"""Starts the agent and yields its transport; leaving the block ends all processes."""


UNOPENED_EXIT_S: Final = 0.5
"""Seconds that an agent gets to exit by itself if it has not become ready."""


class LinkOwner(Protocol):
    """Gets the reports of a link, synchronously and in order."""

    def received(
        self, link: Link, effects: list[Effect], size: int = 0, *, alive: bool = True
    ) -> None:
        """Take effects of the driver.

        `size` is the byte count of the lines they were made from. `alive`: the agent has written
        something; the end of its output does not count.
        """
        ...

    def closing(self, link: Link, reason: str) -> None:
        """End the process: it is alive, but communication with it has failed."""
        ...

    def gone(self, link: Link) -> None:
        """Handle the end of the process. All its output has been received."""
        ...


class Link:
    """Connects a driver with a process. `run` serves until the process has ended."""

    __slots__ = (
        "_closing",
        "_first_output",
        "_handshake_scope",
        "_nursery",
        "_over",
        "_owner",
        "_partial_line_bytes",
        "_replied",
        "_runs",
        "_starting",
        "_transport",
        "_wait_for_room",
        "_watcher",
        "_writer",
        "driver",
        "gone",
        "limits",
        "opened",
        "started",
        "unreachable",
    )

    def __init__(
        self,
        owner: LinkOwner,
        driver: Driver,
        limits: Limits,
        *,
        wait_for_room: Callable[[], Awaitable[None]] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """`wait_for_room` is awaited before more is read from the agent. `watcher` sees the bytes
        in both directions.
        """
        self._wait_for_room = wait_for_room
        self._watcher = watcher
        self.driver = driver
        self.limits = limits
        self.gone: bool = False
        self.unreachable: str | None = None
        """The reason why a live process must be ended, if there is one."""
        self.started: trio.Event = trio.Event()
        """Set when the handshake has succeeded or failed, or the process has ended."""
        self.opened = False
        """True if the handshake succeeded."""
        self._first_output = FirstOutput()
        self._handshake_scope = trio.CancelScope()
        """Around the wait for the handshake; ended early if the handshake can never complete."""
        self._owner = owner
        self._transport: Transport | None = None
        self._writer: LineWriter | None = None
        self._nursery: trio.Nursery
        self._partial_line_bytes = 0
        """Bytes of the incomplete last line."""
        self._replied = False
        """True if something was written since the last bytes came."""
        self._closing = False
        self._runs = False
        self._starting = trio.CancelScope()
        """Cancels the start of the process, which takes a while on a busy machine."""
        self._over = trio.Event()

    async def run(
        self,
        connect: Connect,
        opening: Opening,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start the process and serve it until it has ended.

        Cancelling it kills the process, in bounded time.
        """
        try:
            with self._starting:
                async with connect(opening) as transport:
                    self._transport = transport
                    async with bare_errors(), trio.open_nursery() as nursery:
                        self._nursery = nursery
                        writer = self._writer = LineWriter(
                            transport,
                            outbox=self.limits.agent_outbox_bytes,
                            write_timeout=self.limits.write_timeout_s,
                            on_broken=self._broken,
                            watcher=self._watcher,
                            start=nursery.start_soon,
                        )
                        task_status.started()
                        try:
                            await read_loop(
                                transport,
                                self._data,
                                self._eof,
                                replied=self._has_replied,
                                wait_for_room=self._wait_for_room,
                            )
                            await transport.wait()
                        finally:
                            writer.abandon()
                        nursery.cancel_scope.cancel()
                    # Report this before ending child processes, which may take the whole shutdown
                    # ladder.
                    self._report_gone()
        finally:
            self._writer = None  # it refers to this object
            self._end()
        if self._transport is None:
            task_status.started()  # closed before there was a process

    def _has_replied(self) -> bool:
        """Return True if something was written since the last bytes came."""
        return self._replied

    def _report_gone(self) -> None:
        """Report the end of the process, once, and end the wait for the handshake."""
        if not self.gone:
            self.gone = True
            self._owner.gone(self)
            self.started.set()

    def _end(self) -> None:
        """Note that nothing runs any more, neither the process nor its children."""
        self._report_gone()
        self._over.set()

    async def wait_started(self) -> None:
        """Wait until the handshake has ended or can never end. Call it only once."""
        with self._handshake_scope:
            while not self.started.is_set():
                with trio.move_on_after(TICK_S):
                    await self.started.wait()

    def _broken(self, why: str) -> None:
        """Handle that the agent does not read its input."""
        self._lost(f"the agent does not take its input: {why}")

    def _lost(self, reason: str) -> None:
        """Handle the end of a pipe. Usually the process is ending, as is seen a moment later."""
        if not self._closing and self.returncode is None:
            self._nursery.start_soon(self._end_if_alive, reason)

    async def _end_if_alive(self, reason: str) -> None:
        """End a process that has closed a pipe but does not exit within a moment.

        Most processes that close a pipe are about to exit, and their exit status is the better
        report.
        """
        assert self._transport is not None
        with trio.move_on_after(self.limits.stdout_drain_s):
            await self._transport.wait()
        if self.returncode is None and not self._closing:
            self.unreachable = reason
            self._owner.closing(self, reason)

    def _data(self, data: bytes) -> None:
        """Pass output to the driver and its effects to the owner.

        Until the handshake is over, the text is also examined: a program that prints usage help or
        never writes a message is not an agent, and the wait for it ends early.
        """
        if self._watcher is not None and self._watcher.on:
            self._watcher.received(data)
        if self.gone:
            return  # not even SIGKILL has ended it, and its output is ignored
        if not self.opened:
            self._first_output.feed(data)
            patience = self._first_output.max_silence_s(self.limits.startup_timeout_s)
            self._handshake_scope.deadline = trio.current_time() + patience
        self._replied = False
        size = len(data)
        if self._partial_line_bytes or not data.endswith(b"\n"):
            size = self._completed_bytes(data)
        self._owner.received(self, self.driver.receive(data), size)

    def _completed_bytes(self, data: bytes) -> int:
        """Return the size of the lines that these bytes complete.

        A line above the limit is not kept and counts as 0.
        """
        whole = data.rfind(b"\n") + 1
        size = self._partial_line_bytes + whole if whole else 0
        self._partial_line_bytes = len(data) - whole + (0 if whole else self._partial_line_bytes)
        return size if size <= self.limits.message_bytes else 0

    def _eof(self) -> None:
        """Pass on the end of the output. The process may live on without it."""
        if self._watcher is not None and self._watcher.on:
            self._watcher.happened("stdout_closed")
        self._owner.received(self, self.driver.receive_eof(), alive=False)
        self._lost("the agent closed its output")

    # --- used by the owner

    @property
    def ended_on_purpose(self) -> bool:
        """True if the process is being ended because it is not needed any more."""
        return self._closing and self.unreachable is None

    @property
    def pid(self) -> int | None:
        """The id of the process, or None before its start."""
        return self._transport.pid if self._transport is not None else None

    @property
    def returncode(self) -> int | None:
        """The exit status of the process, or None if it has none yet."""
        return self._transport.returncode if self._transport is not None else None

    @property
    def stderr(self) -> str:
        """The end of the process's standard error."""
        return self._transport.stderr_tail() if self._transport is not None else ""

    def write(self, data: bytes, *, urgent: bool) -> None:
        """Queue whole lines. Does nothing after the process has ended."""
        if self._writer is not None and not self.gone:
            self._writer.write(data, urgent=urgent)
            self._replied = True

    async def wait_read(self) -> None:
        """Wait until the agent has read most of the data that it requested."""
        if self._writer is not None:
            await self._writer.wait_read()

    def interrupt(self) -> None:
        """Send SIGINT to the agent, which is the cancel of one protocol."""
        if self._transport is not None and not self.gone:
            self._transport.interrupt()

    async def close(self) -> None:
        """End the process by the shutdown ladder: goodbye message, end of input, signals.

        A process that is still being started is ended immediately. Bounded and shielded.
        """
        limits = self.limits
        wait = limits.stdout_drain_s + 1
        if self._transport is None:
            self._starting.cancel(reason="the session ends")
            if not self._runs:
                return
        elif self.gone:  # by itself: its child processes are being ended by the same ladder
            wait += limits.stdin_close_grace_s + limits.terminate_grace_s + limits.kill_wait_s
        else:
            self._closing = True
            if not self.opened:  # it has nothing to save
                limits = structs.replace(
                    limits, stdin_close_grace_s=min(limits.stdin_close_grace_s, UNOPENED_EXIT_S)
                )
            await close(self._transport, limits, writer=self._writer, goodbye=self._goodbye)
        with trio.move_on_after(wait, shield=True):
            await self._over.wait()
        self._end()  # a process that survives SIGKILL is not waited for

    def _goodbye(self) -> None:
        """Queue the protocol's shutdown message."""
        for effect in self.driver.shutdown_message():
            if isinstance(effect, Write):
                self.write(effect.data, urgent=effect.urgent)

    def start_error(self, name: str, failed: StartFailed | None, *, resumes: bool) -> AgentrtError:
        """Return the error for a session that could not be opened.

        `failed` is the agent's own report, if any. `resumes`: an earlier conversation was to be
        resumed.
        """
        error = failed.error if failed is not None else None
        if error is not None and error.code == "session_not_found":
            return SessionNotFound(f"{name}: {error.message}")
        if error is not None and error.code == "auth_required":
            message = f"{name} requires a login first: {error.message}{_logins(name, error.data)}"
        elif error is not None:
            wanted = "resume the conversation" if resumes else "start a session"
            message = f"{name} refused to {wanted}: {error.message}"
        elif self.unreachable is not None:
            message = f"{name} was ended before it was ready: {self.unreachable}"
        elif self.gone or self.returncode is not None:  # it may have been ready for a moment
            message = f"{name} ended before it was ready ({describe_exit(self.returncode)})"
        elif self._handshake_scope.cancelled_caught:
            message = f"{name} does not speak its protocol (is an option missing in its command?)"
        else:
            limit = f"{self.limits.startup_timeout_s:g} s (limits.startup_timeout_s)"
            message = f"{name} was not ready within {limit}"
        if error is None and (words := self._first_output.excerpt):
            message = f"{message}; {words}"
        return AgentStartError(
            message,
            returncode=self.returncode,
            stderr=self.stderr,
            cause=error.cause if error is not None else None,
        )


def describe_exit(code: int | None) -> str:
    """Describe an exit status for people."""
    if code is None:
        return "without an exit status"
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit status {code}"


def _logins(name: str, data: Any) -> str:
    """Describe the login methods that an agent offers, and how to use them."""
    methods = data.get("methods") if isinstance(data, dict) else None
    if not methods:
        return ""
    offers = []
    for each in methods:
        how = f": {shlex.join(each['args'])}" if each.get("args") else ""
        offers.append(f"{each['name'] or 'login'} ({each['id']}{how})")
    words = f"; it offers: {', '.join(offers)}. Log in with its own program"
    if any(each["type"] == "agent" for each in methods):
        words += (
            ", or choose a login method that works unattended:"
            f' [agents.{name}] quirks = {{ auth_method = "..." }}'
        )
    return words
