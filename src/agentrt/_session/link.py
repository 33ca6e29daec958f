"""One incarnation of an agent: its process, its driver, and the tasks between the two."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

import trio
from msgspec import structs

from .._errors import AgentrtError, AgentStartError, SessionNotFound
from .._limits import Limits
from .._model.driver import Driver, Effect, Opening, StartFailed, Write
from .._nesting import bare_errors
from .._process.first_output import FirstOutput
from .._process.pipes import Transport, Watcher, Writer, read_loop
from .._process.process import close

Connect = Callable[[Opening], AbstractAsyncContextManager[Transport]]
"""Starts the agent and gives the transport to it; leaving the block leaves nothing behind."""


UNOPENED: Final = 0.5
"""Seconds for an agent to leave by itself that has not become ready."""


class Owner(Protocol):
    """What a link reports to, synchronously and in order."""

    def received(
        self, link: Link, effects: list[Effect], size: int = 0, *, alive: bool = True
    ) -> None:
        """Effects of the driver, and the size of the lines that they were made of, in bytes.
        `alive`: the agent has written something, which the end of its output is not."""
        ...

    def closing(self, link: Link, reason: str) -> None:
        """The agent can no longer be talked to although its process lives: end it."""
        ...

    def gone(self, link: Link) -> None:
        """The process has ended and all that it wrote has been received."""
        ...


class Link:
    """Connects a driver with a process. `run` serves until the process is gone."""

    def __init__(
        self,
        owner: Owner,
        driver: Driver,
        limits: Limits,
        *,
        wait_for_room: Callable[[], Awaitable[None]] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """`wait_for_room`: awaited before more is read from the agent. `watcher` sees the bytes of
        either direction."""
        self._wait_for_room = wait_for_room
        self._watcher = watcher
        self.driver = driver
        self.limits = limits
        self.gone = False
        self.unreachable: str | None = None
        """Why the process has to be ended although it lives, if that is so."""
        self.started = trio.Event()
        """Set when the handshake has ended, one way or the other, or the process has."""
        self.opened = False
        """Whether it has ended well."""
        self._first = FirstOutput()
        self._patience = trio.CancelScope()
        """Around the wait for the end of the handshake; ends it where that will never come."""
        self._owner = owner
        self._transport: Transport | None = None
        self._writer: Writer | None = None
        self._nursery: trio.Nursery
        self._begun = 0
        """Bytes of the line whose end has not come."""
        self._replied = False
        """Something was written since the last bytes came."""
        self._closing = False
        self._runs = False
        self._starting = trio.CancelScope()
        """Ends the start of the process, which takes a while on a busy machine."""
        self._over = trio.Event()

    async def run(
        self,
        connect: Connect,
        opening: Opening,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start the process and serve it until it is gone. Being cancelled kills the process, in
        bounded time."""
        try:
            with self._starting:
                async with connect(opening) as transport:
                    self._transport = transport
                    self._writer = Writer(
                        transport,
                        outbox=self.limits.outbox,
                        write_timeout=self.limits.write,
                        on_broken=self._broken,
                        watcher=self._watcher,
                    )
                    task_status.started()
                    async with bare_errors(), trio.open_nursery() as nursery:
                        self._nursery = nursery
                        nursery.start_soon(self._writer.run)
                        await read_loop(
                            transport,
                            self._data,
                            self._eof,
                            replied=lambda: self._replied,
                            wait_for_room=self._wait_for_room,
                        )
                        await transport.wait()
                        nursery.cancel_scope.cancel()
                    # Reported before what it left behind is ended, which may take the whole ladder.
                    self._report_gone()
        finally:
            self._end()
        if self._transport is None:
            task_status.started()  # closed before there was a process

    def _report_gone(self) -> None:
        if not self.gone:
            self.gone = True
            self._owner.gone(self)
            self.started.set()

    def _end(self) -> None:
        self._report_gone()
        self._over.set()

    async def wait_started(self) -> None:
        """Until the handshake has ended, or it is clear that it never will. To be called once."""
        with self._patience:
            await self.started.wait()

    def _broken(self, why: str) -> None:
        self._lost(f"the agent does not take its input: {why}")

    def _lost(self, reason: str) -> None:
        """A pipe has ended. Most often because the process does, which is seen a moment later."""
        if not self._closing and self.returncode is None:
            self._nursery.start_soon(self._end_what_lives_on, reason)

    async def _end_what_lives_on(self, reason: str) -> None:
        assert self._transport is not None
        with trio.move_on_after(self.limits.stdout_drain):
            await self._transport.wait()
        if self.returncode is None and not self._closing:
            self.unreachable = reason
            self._owner.closing(self, reason)

    def _data(self, data: bytes) -> None:
        if self._watcher is not None and self._watcher.on:
            self._watcher.received(data)
        if self.gone:
            return  # not even SIGKILL has ended it, and nobody listens any more
        if not self.opened:
            self._first.feed(data)
            patience = self._first.patience(self.limits.handshake)
            self._patience.deadline = trio.current_time() + patience
        self._replied = False
        size = len(data)
        if self._begun or not data.endswith(b"\n"):
            size = self._completed(data)
        self._owner.received(self, self.driver.receive(data), size)

    def _completed(self, data: bytes) -> int:
        """The size of the lines that these bytes complete, or begin and complete. Of one that is
        too long nothing is kept, and it counts for nothing."""
        whole = data.rfind(b"\n") + 1
        size = self._begun + whole if whole else 0
        self._begun = len(data) - whole + (0 if whole else self._begun)
        return size if size <= self.limits.line else 0

    def _eof(self) -> None:
        if self._watcher is not None and self._watcher.on:
            self._watcher.happened("stdout_closed")
        self._owner.received(self, self.driver.receive_eof(), alive=False)
        self._lost("the agent closed its output")

    # --- what the owner does with it

    @property
    def ended_on_purpose(self) -> bool:
        """True if it is ended through no fault of its own: it is not needed any more."""
        return self._closing and self.unreachable is None

    @property
    def pid(self) -> int | None:
        return self._transport.pid if self._transport is not None else None

    @property
    def returncode(self) -> int | None:
        return self._transport.returncode if self._transport is not None else None

    @property
    def stderr(self) -> str:
        return self._transport.stderr_tail() if self._transport is not None else ""

    def write(self, data: bytes, *, urgent: bool) -> None:
        """Queue whole lines. After the end it does nothing: there is nobody to read them."""
        if self._writer is not None and not self.gone:
            self._writer.write(data, urgent=urgent)
            self._replied = True

    async def wait_read(self) -> None:
        """Until the agent has read most of what it has asked for."""
        if self._writer is not None:
            await self._writer.wait_read()

    def interrupt(self) -> None:
        """Send SIGINT to the agent, for the protocol whose cancel that is. Its silence counts from
        here: that, too, may be an answer."""
        if self._transport is not None and not self.gone:
            self._transport.interrupt()

    async def close(self) -> None:
        """End the process by the ladder: goodbye, end of input, signals; where it is only being
        started, at once. Bounded and shielded."""
        limits = self.limits
        wait = limits.stdout_drain + 1
        if self._transport is None:
            self._starting.cancel(reason="the session ends")
            if not self._runs:
                return
        elif self.gone:  # by itself: what it left behind is being ended, by the same ladder
            wait += limits.stdin_close + limits.terminate + limits.kill
        else:
            self._closing = True
            if not self.opened:  # it has nothing to save
                limits = structs.replace(limits, stdin_close=min(limits.stdin_close, UNOPENED))
            await close(self._transport, limits, writer=self._writer, goodbye=self._goodbye)
        with trio.move_on_after(wait, shield=True):
            await self._over.wait()
        self._end()  # what even SIGKILL does not end is not waited for

    def _goodbye(self) -> None:
        for effect in self.driver.goodbye():
            if isinstance(effect, Write):
                self.write(effect.data, urgent=effect.urgent)

    def start_error(self, name: str, failed: StartFailed | None, *, resumes: bool) -> AgentrtError:
        """Why there is no session, with what the agent said about it (`failed`). `resumes`: it was
        to go on with an earlier conversation."""
        error = failed.error if failed is not None else None
        if error is not None and error.code == "session_not_found":
            return SessionNotFound(f"{name}: {error.message}")
        if error is not None and error.code == "auth_required":
            message = f"{name} wants a login first: {error.message}{_logins(name, error.data)}"
        elif error is not None:
            wanted = "take up the conversation again" if resumes else "start a session"
            message = f"{name} refused to {wanted}: {error.message}"
        elif self.unreachable is not None:
            message = f"{name} was ended before it was ready: {self.unreachable}"
        elif self.gone or self.returncode is not None:  # it may have been ready for a moment
            message = f"{name} ended before it was ready ({exit_words(self.returncode)})"
        elif self._patience.cancelled_caught:
            message = f"{name} does not speak its protocol (is an option missing in its command?)"
        else:
            limit = f"{self.limits.handshake:g} s (limits.handshake)"
            message = f"{name} was not ready within {limit}"
        if error is None and (words := self._first.words):
            message = f"{message}; {words}"
        return AgentStartError(message, returncode=self.returncode, stderr=self.stderr)


def exit_words(code: int | None) -> str:
    """An exit status for people."""
    if code is None:
        return "without an exit status"
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit status {code}"


def _logins(name: str, data: Any) -> str:
    """The ways to log in that an agent offers, and what to do, in words."""
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
            ", or choose a method that needs nobody:"
            f' [agents.{name}] quirks = {{ auth_method = "..." }}'
        )
    return words
