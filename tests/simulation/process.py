"""A process in memory: pipes cut at any byte, a grandchild, signals that may be ignored.

The program is not a task but an `Agent`, which is called with each line that it reads; what it
writes may be held back for a while, so that it can die in the middle of a line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Protocol

import trio

from agentrt import AgentStartError, Limits
from agentrt._base.nesting import open_service_nursery
from agentrt._core.process.pipes import READ_BYTES
from agentrt._core.process.process import close
from agentrt.agents import Transport
from agentrt.process import read_loop


class Program(Protocol):
    def on_line(self, line: bytes, host_had_read: int) -> None: ...
    def on_eof(self) -> None: ...
    def on_exit(self) -> None: ...
    def on_signal(self, name: str) -> None: ...


class Process:
    """The agent's process, as the host sees it (`Transport`), and what is done to it."""

    def __init__(self, number: int, rng: Random, limits: Limits, note: Callable[..., None]) -> None:
        self.number = number
        self.program: Program
        self.rng = rng
        self.limits = limits
        self.note_step = note
        # --- how it behaves
        self.capacity = 1 << 16
        self.reading = True
        """False: it does not read its stdin."""
        self.trickles = False
        """True: of what it writes a part stays in its own buffer for a while."""
        self.cuts = 0.2
        """How often a read gives less than there is, and a write takes less than it could."""
        self.ignores: frozenset[str] = frozenset()
        """`eof`, `terminate`, `kill`."""
        self.starts = "at once"
        """`at once`, `slowly`, or `never`: it cannot be started."""
        self.grandchild = False
        """True while something that it started lives, with its stdout open."""
        # --- what became of it
        self.returncode: int | None = None
        self.exited_at: float | None = None
        self.closed_stdout_at: float | None = None
        self.signals: list[tuple[str, float]] = []
        """What the host did to end it, and when."""
        self.spawned = False
        self.released = False
        """True when the host has left its block."""
        self.read_at = 0.0
        """When the host last read something."""
        self.written = 0
        """Bytes that it wrote."""
        self.read = 0
        """Bytes of them that the host has read."""
        self.filled = False
        """True since a write found no room, until the host had nothing more to write."""
        self._floor: int | None = None
        self._stdin = bytearray()
        self._line = bytearray()
        """What it has read of a line whose end has not come."""
        self._seen: deque[int] = deque()  # for each whole line of stdin: what the host had read
        self._stdin_open = True
        self._stdout = bytearray()
        self._visible = 0
        self._stdout_open = True
        self._told: deque[tuple[int, Callable[[], None]]] = deque()
        self._exited = trio.Event()
        self._lot = trio.lowlevel.ParkingLot()
        self._stderr = ""

    # --- the program's side

    def emit(self, data: bytes, when_read: Callable[[], None] | None = None) -> None:
        """Write to stdout; `when_read` is called as soon as the host has read all of it."""
        if self.returncode is not None or not self._stdout_open:
            return
        self._stdout += data
        self.written += len(data)
        if when_read is not None:
            self._told.append((self.written, when_read))
        if self.trickles:
            self._visible = self.rng.randint(self._visible, len(self._stdout))
        else:
            self._visible = len(self._stdout)
        self._lot.unpark_all()

    @property
    def can_write(self) -> bool:
        return self.returncode is None and self._stdout_open

    def flush(self) -> None:
        self._visible = len(self._stdout)
        self._lot.unpark_all()

    @property
    def unflushed(self) -> int:
        return len(self._stdout) - self._visible

    @property
    def unread(self) -> int:
        """Bytes that the host could read."""
        return self._visible if self._stdout_open or self.returncode is not None else 0

    def complain(self, text: str) -> None:
        self._stderr = (self._stderr + text)[-self.limits.stderr_tail_bytes :]

    def close_stdout(self) -> None:
        if self._stdout_open:
            self.flush()
            self._stdout_open = False
            self.closed_stdout_at = trio.current_time()
            self._lot.unpark_all()

    def exit(self, code: int) -> None:
        """End; what was held back is lost. A grandchild keeps the pipe open."""
        if self.returncode is not None:
            return
        self.note_step("exit", self.number, code)
        self.returncode = code
        self.exited_at = trio.current_time()
        del self._stdout[self._visible :]
        self.written = self.read + len(self._stdout)
        while self._told and self._told[-1][0] > self.written + 1:
            self._told.pop()
        if self._told and self._told[-1][0] > self.written:
            self._told[-1] = (self.written, self._told[-1][1])  # only its newline is lost
        if not self.grandchild:
            self._stdout_open = False
        self._exited.set()
        self._lot.unpark_all()
        self.program.on_exit()

    def stall(self) -> None:
        self.reading = False

    def go_on(self) -> None:
        self.reading = True
        self._consume()

    def _consume(self) -> None:
        while self.reading and self.returncode is None:
            if self._stdin:
                self._line += self._stdin
                self._stdin.clear()
                self._lot.unpark_all()
            cut = self._line.find(b"\n")
            if cut < 0:
                break
            line = bytes(self._line[:cut])
            del self._line[: cut + 1]
            self.program.on_line(line, self._seen.popleft())
        if self.reading and not self._stdin_open and self.returncode is None:
            self.program.on_eof()

    # --- the host's side: Transport

    @property
    def pid(self) -> int | None:
        return 1000 + self.number

    def read_nowait(self) -> bytes | None:
        if not self._visible:
            if self._stdout_open:
                return None
            self._tell_read()
            return b""
        size = min(self._visible, READ_BYTES)
        if self.rng.random() < self.cuts:
            size = self.rng.randint(1, size)
        data = bytes(self._stdout[:size])
        del self._stdout[:size]
        self._visible -= size
        self.note_step("read", self.number, data)
        self.read += size
        self.read_at = trio.current_time()
        self._tell_read()
        return data

    def _tell_read(self) -> None:
        while self._told and self._told[0][0] <= self.read:
            self._told.popleft()[1]()

    async def wait_readable(self) -> None:
        if self._visible or not self._stdout_open:
            await trio.lowlevel.checkpoint()
        else:
            await self._lot.park()

    def write_nowait(self, data: bytes | memoryview) -> int:
        if self.returncode is not None or not self._stdin_open:
            raise trio.BrokenResourceError("nobody reads it any more")
        room = min(len(data), max(0, self.capacity - len(self._stdin)))
        if room > 1 and self.rng.random() < self.cuts:
            room = self.rng.randint(1, room)
        taken = bytes(data[:room])
        seen = self.read if self._floor is None else self._floor
        if room < len(data):
            self.filled = True
            self._floor = seen
        self._stdin += taken
        self._seen.extend([seen] * taken.count(b"\n"))
        self.note_step("write", self.number, taken)
        self._consume()
        return room

    def nothing_waits(self) -> None:
        """The host has written all that it wanted to."""
        self.filled = False
        self._floor = None

    async def wait_writable(self) -> None:
        full = len(self._stdin) >= self.capacity
        if self.returncode is not None or not self._stdin_open or not full:
            await trio.lowlevel.checkpoint()
        else:
            await self._lot.park()

    def close_stdin(self) -> None:
        if self._stdin_open:
            self._stdin_open = False
            self._signal("eof")
            self._lot.unpark_all()
            self._consume()

    @property
    def half_a_line(self) -> bool:
        """Whether what the host wrote last was no whole line."""
        last = self._stdin or self._line
        return bool(last) and not last.endswith(b"\n")

    async def wait(self) -> int:
        await self._exited.wait()
        assert self.returncode is not None
        return self.returncode

    def stderr_tail(self) -> str:
        return self._stderr

    async def note(self) -> None:
        await trio.lowlevel.checkpoint()

    def interrupt(self) -> None:
        self._signal("interrupt")

    def terminate(self) -> None:
        if self.returncode is None or self.grandchild:
            self._signal("terminate")
        if "terminate" not in self.ignores:
            self._end_grandchild()
            self.exit(-15)

    async def wait_tree(self) -> None:
        await self._exited.wait()
        while self.grandchild:
            await self._lot.park()

    async def kill_tree(self) -> None:
        if self.returncode is None or self.grandchild:
            self._signal("kill")
        if "kill" in self.ignores:
            await trio.sleep_forever()
        self._end_grandchild()
        self.exit(-9)
        await trio.lowlevel.checkpoint()

    def _signal(self, name: str) -> None:
        if any(name == known for known, _ in self.signals):
            return  # as a real one: each signal once
        self.note_step(name, self.number)
        self.program.on_signal(name)
        self.signals.append((name, trio.current_time()))

    def _end_grandchild(self) -> None:
        self.grandchild = False
        if self.returncode is not None:
            self._stdout_open = False
        self._lot.unpark_all()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Transport]:
        """What `open_process` is for a real one: the same tasks, and the same ladder."""
        if self.starts == "never":
            raise AgentStartError("there is no such program")
        if self.starts == "slowly":
            await trio.sleep(1.0)
        async with open_service_nursery() as services:
            self.spawned = True
            services.start_soon(self._watch_exit)
            try:
                yield self
            finally:
                services.start_soon(read_loop, self, lambda data: None, lambda: None)
                with trio.CancelScope(shield=True):
                    await close(self, self.limits)
                self.released = True

    async def _watch_exit(self) -> None:
        await self._exited.wait()
        await trio.sleep(self.limits.stdout_drain_s)
        self._stdout_open = False
        self._lot.unpark_all()
