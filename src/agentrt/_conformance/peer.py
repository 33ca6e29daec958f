"""The host's end of the wire to one process: lines out, messages in, and what was waited for.

It keeps everything that came, in order, so that a check can look back at it. Whatever is waited for
has a name: when the time of a check is over, its verdict says what did not come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import trio

from .._errors import RemoteProtocolError
from .._limits import Limits
from .._nesting import bare_errors
from .._process.pipes import Transport, Writer, read_loop
from .._trace.tap import ProcessTap
from .._wire.lines import Lines
from .check import ConformancePrompts, Ended, fails, not_provoked, shown

T = TypeVar("T")

QUIET: Final = 0.5
"""Seconds for which something must not come, before it is said not to come."""
SHORT: Final = 1.5
"""Seconds: a turn that is over sooner may have ended by itself."""
MEASURED: Final = 6.0
"""Seconds for which it is watched how long a turn takes."""
NOISE: Final = 20
"""Lines without a message that are kept."""


class Peer(ABC):
    """One process. `cwd` is an empty folder of its own."""

    def __init__(
        self,
        transport: Transport,
        tap: ProcessTap,
        cwd: Path,
        prompts: ConformancePrompts,
        limits: Limits,
        *,
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
        """What the agent says that it is: `name`, `version`."""
        self.heard: list[Any] = []
        """Every message, in order."""
        self.noise: list[str] = []
        """What it wrote to stdout that was no message."""
        self.waits_for = ""
        self.prepared = True
        """False: what a check is about has not begun."""
        self.ended = False
        """Its output has ended."""
        self._tap = tap
        self._lines = Lines(limits.line)
        self._changed = trio.lowlevel.ParkingLot()
        self._writer = Writer(
            transport, outbox=limits.outbox, write_timeout=limits.write, watcher=tap
        )

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Read and write while the block runs."""
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(self._writer.run)  # noqa: ASYNC113 - what is sent waits for it
            nursery.start_soon(read_loop, self.transport, self._read, self._eof)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    # --- what a protocol adds

    @abstractmethod
    def take(self, message: Any) -> None:
        """A message has come; it is in `heard` already. Raises `RemoteProtocolError` if it is
        none of the protocol's."""

    @abstractmethod
    async def ready(self) -> None:
        """Shake hands."""

    @abstractmethod
    async def run_long(self) -> None:
        """Begin the long turn, and wait for its first words."""

    @abstractmethod
    async def run_question(self) -> None:
        """Have a turn wait for an answer to its question."""

    @abstractmethod
    async def measure(self) -> float | None:
        """Seconds that the long turn takes, up to `MEASURED`; None if it cannot be run."""

    # --- writing

    def send(self, line: bytes) -> None:
        """Write a line, which may be anything."""
        self._writer.write(line.rstrip(b"\n") + b"\n")

    def close_stdin(self) -> None:
        self._writer.close()

    # --- reading

    def _read(self, data: bytes) -> None:
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
        if len(self.noise) < NOISE:
            self.noise.append(shown(what))

    def _eof(self) -> None:
        if self._tap.on:
            self._tap.happened("stdout_closed")
        self.ended = True
        self._changed.unpark_all()

    # --- waiting

    async def until(self, what: str, look: Callable[[], T | None]) -> T:
        """Until *look* finds something. `Ended`: the agent has gone, so that it never will."""
        self.waits_for = what
        while (found := look()) is None:
            if self.ended:
                raise fails(f"{await self.gone()} before {what}")
            await self._changed.park()
        self.waits_for = ""
        return found

    async def quiet(self, seconds: float = QUIET) -> None:
        """Let come what is still under way."""
        with trio.move_on_after(seconds):
            while not self.ended:
                await self._changed.park()

    async def gone(self) -> str:
        """How it went, in words."""
        code: int | None = None
        with trio.move_on_after(QUIET):
            code = await self.transport.wait()
        if code is None:
            return "it closed its output"
        last = shown(self._last_words())
        how = f"exit status {code}" if code >= 0 else f"ended by signal {-code}"
        return f"the process was gone ({how}{f'; it said: {last}' if last else ''})"

    def _last_words(self) -> str:
        """The last line of its stderr that says something."""
        lines = self.transport.stderr_tail().strip().splitlines()
        return lines[-1][-300:] if lines else ""

    async def leaves(self, what: str) -> str:
        """Until the process has exited."""
        self.waits_for = f"its exit {what}"
        began = trio.current_time()
        code = await self.transport.wait()
        self.waits_for = ""
        return f"exits {trio.current_time() - began:.2f} s {what}, with status {code}"

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """What goes wrong in the block says nothing about what the check is about."""
        before, self.prepared = self.prepared, False
        try:
            yield
        except Ended as ended:
            if ended.verdict == "fails":
                raise not_provoked(ended.words) from ended
            raise
        self.prepared = before

    @property
    def long_turn(self) -> float:
        """Seconds that the long turn takes if nobody disturbs it. `Ended` if it is too short to
        do something in the middle of it."""
        if self._long_turn is None or self._long_turn < SHORT:
            how = "could not be run" if self._long_turn is None else "is over"
            after = "" if self._long_turn is None else f" after {self._long_turn:.1f} s"
            raise not_provoked(f"the turn of the long prompt {how}{after} (--long)")
        return self._long_turn
