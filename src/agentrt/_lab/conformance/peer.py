"""The host's end of the connection to one process: sending lines, receiving messages, waiting.

It keeps all received messages in order, so that a check can look back at them. Everything that is
waited for has a name: if a check runs out of time, its verdict names the missing message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import trio

from ..._base.nesting import bare_errors
from ..._public import Limits
from ...agents import Transport
from ...errors import RemoteProtocolError
from ...jsonrpc import Lines
from ...process import LineWriter, Watcher, read_loop
from .check import CheckEnded, ConformancePrompts, fails, inconclusive, shown

T = TypeVar("T")

QUIET_S: Final = 0.5
"""Seconds without a message, after which it counts as not sent."""
SHORTEST_LONG_TURN_S: Final = 1.5
"""Seconds: a turn that is shorter may have ended by itself."""
MEASURE_TIMEOUT_S: Final = 6.0
"""Maximum seconds for which the duration of a turn is measured."""
MAX_NOISE_LINES: Final = 20
"""Lines without a message that are kept."""


class ConformancePeer(ABC):
    """The host of one process. `cwd` is an empty folder used only by it."""

    def __init__(
        self,
        transport: Transport,
        tap: Watcher,
        *,
        cwd: Path,
        prompts: ConformancePrompts,
        limits: Limits,
        mode: str | None = None,
        auth_method: str | None = None,
        long_turn: float | None = None,
    ) -> None:
        self.transport = transport
        self.cwd = cwd
        self.prompts = prompts
        self.mode = mode
        self.auth_method = auth_method
        self._long_turn = long_turn
        self.info: dict[str, Any] = {}
        """The agent's own `name` and `version`."""
        self.heard: list[Any] = []
        """Every received message, in order."""
        self.noise: list[str] = []
        """Lines on stdout that were not messages."""
        self.waits_for = ""
        self.prepared = True
        """False while the situation for a check is being prepared."""
        self.ended = False
        """True if the agent's output has ended."""
        self._tap = tap
        self._lines = Lines(limits.message_bytes)
        self._changed = trio.lowlevel.ParkingLot()
        self._writer = LineWriter(
            transport,
            outbox=limits.agent_outbox_bytes,
            write_timeout=limits.write_timeout_s,
            watcher=tap,
        )

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Read and write while the block runs."""
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(self._writer.run)  # noqa: ASYNC113 - its output waits in the pipe
            nursery.start_soon(read_loop, self.transport, self._read, self._eof)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    # --- implemented for each protocol

    @abstractmethod
    def take(self, message: Any) -> None:
        """Handle a message, which is already in `heard`. Raises `RemoteProtocolError` if it is not
        one of the protocol's."""

    @abstractmethod
    async def ready(self) -> None:
        """Complete the handshake."""

    @abstractmethod
    async def run_long(self) -> None:
        """Begin the long turn, and wait for its first output."""

    @abstractmethod
    async def run_question(self) -> None:
        """Start a turn and wait for its permission request."""

    @abstractmethod
    async def measure(self) -> float | None:
        """Return the duration of the long turn in seconds, up to `MEASURE_TIMEOUT_S`; None if it
        cannot be run."""

    # --- writing

    def send(self, line: bytes) -> None:
        """Write a line, which may have any content."""
        self._writer.write(line.rstrip(b"\n") + b"\n")

    def close_stdin(self) -> None:
        """Close the agent's input."""
        self._writer.close()

    # --- reading

    def _read(self, data: bytes) -> None:
        """Take output of the agent, and wake the tasks that wait for a message."""
        if self._tap.on:
            self._tap.received(data)
        for line in self._lines.feed(data).split(b"\n"):
            if line.strip():
                self._line(bytes(line))
        for size in self._lines.oversized:
            self._odd(f"a line of {size} bytes")
        self._lines.oversized.clear()
        self._changed.unpark_all()

    def _line(self, line: bytes) -> None:
        """Keep a message and handle it. A line that is not one is noted, and the check
        continues.
        """
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._odd(line.decode(errors="replace"))
            return
        self.heard.append(message)
        try:
            self.take(message)
        except RemoteProtocolError as error:
            self._odd(f"{shown(line.decode(), 60)} ({error})")

    def _odd(self, what: str) -> None:
        """Note a line that is not a message, for the findings over all checks."""
        if len(self.noise) < MAX_NOISE_LINES:
            self.noise.append(shown(what))

    def _eof(self) -> None:
        """Note the end of the output, which ends all waiting with a verdict."""
        if self._tap.on:
            self._tap.happened("stdout_closed")
        self.ended = True
        self._changed.unpark_all()

    # --- waiting

    async def until(self, what: str, poll: Callable[[], T | None]) -> T:
        """Wait until `poll` returns a value other than None, and return it. Raises `CheckEnded` if
        the agent's output ends before."""
        self.waits_for = what
        while (found := poll()) is None:
            if self.ended:
                raise fails(f"{await self.describe_end()} before {what}")
            await self._changed.park()
        self.waits_for = ""
        return found

    async def quiet(self, seconds: float = QUIET_S) -> None:
        """Wait for messages that may still be on their way."""
        with trio.move_on_after(seconds):
            while not self.ended:
                await self._changed.park()

    async def describe_end(self) -> str:
        """Describe how the agent's output ended."""
        code: int | None = None
        with trio.move_on_after(QUIET_S):
            code = await self.transport.wait()
        if code is None:
            return "it closed its output"
        last = shown(self._last_words())
        how = f"exit status {code}" if code >= 0 else f"ended by signal {-code}"
        return f"the process had exited ({how}{f'; its last output: {last}' if last else ''})"

    def _last_words(self) -> str:
        """Return the last line of the agent's stderr."""
        lines = self.transport.stderr_tail().strip().splitlines()
        return lines[-1][-300:] if lines else ""

    async def leaves(self, what: str) -> str:
        """Wait for the process to exit, and describe it."""
        self.waits_for = f"its exit {what}"
        began = trio.current_time()
        code = await self.transport.wait()
        self.waits_for = ""
        return f"exits {trio.current_time() - began:.2f} s {what}, with status {code}"

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Treat a failure in the block as `inconclusive`, since it is not about the check's
        subject."""
        before, self.prepared = self.prepared, False
        try:
            yield
        except CheckEnded as ended:
            if ended.verdict == "failed":
                raise inconclusive(ended.words) from ended
            raise
        self.prepared = before

    @property
    def long_turn(self) -> float:
        """The duration of the undisturbed long turn, in seconds. Raises `CheckEnded` if it is too
        short to act in the middle of it."""
        if self._long_turn is None or self._long_turn < SHORTEST_LONG_TURN_S:
            how = "could not be run" if self._long_turn is None else "ended"
            after = "" if self._long_turn is None else f" after {self._long_turn:.1f} s"
            raise inconclusive(f"the turn of the long prompt {how}{after} (--long)")
        return self._long_turn
