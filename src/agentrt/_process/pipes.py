"""The pipes to an agent: what a session needs of a process, and who reads and writes.

One task reads and one task writes per process, and both outlive every turn. A write that is
cancelled halfway leaves half a line, and the next message, the cancel itself, is lost in it: so
callers only queue, and only the writer's task waits for the pipe.
"""

from __future__ import annotations

import logging
import os
import sys
import termios
from collections import deque
from collections.abc import Awaitable, Callable
from fcntl import ioctl
from time import thread_time
from typing import Any, Literal, Protocol, TypeAlias

import trio
from msgspec import Struct

from .._errors import LocalProtocolError

READ_SIZE = 64 * 1024
"""What a pipe holds; asking for more gains nothing (measured)."""

STEP = 0.004
"""Seconds that a session may keep all others waiting with what its agent wrote."""

SMALLEST = 1024
"""Bytes that are taken at a time of what costs most."""

FIRST = 8 * 1024
"""Bytes that are taken at a time while it is not known what they cost."""


_log = logging.getLogger("agentrt.process")

_NOTHING = memoryview(b"")


class Readable(Protocol):
    """A pipe's end to read from."""

    def read_nowait(self) -> bytes | None:
        """Up to `READ_SIZE` bytes; None: nothing there now; empty: the end."""
        ...

    def wait_readable(self) -> Awaitable[None]:
        """Until `read_nowait` has something to say. A checkpoint; cancelling it loses nothing."""
        ...


Happening: TypeAlias = Literal["started", "stdin_closed", "stdout_closed", "signal", "exited"]
"""What becomes of a process."""


class Watcher(Protocol):
    """Sees what goes between the host and a process. Nothing is called while it is not
    `on`; nothing that it does may raise or wait."""

    on: bool

    def received(self, data: bytes) -> None:
        """Read from the process's stdout."""
        ...

    def sent(self, data: bytes) -> None:
        """Taken by its stdin, cut where the pipe was full."""
        ...

    def complained(self, data: bytes) -> None:
        """Read from its stderr."""
        ...

    def happened(self, kind: Happening, **fields: Any) -> None:
        """`started`, `exited` (`code`), `signal` (`signal`), `stdin_closed`, `stdout_closed`."""
        ...


class Transport(Readable, Protocol):
    """An agent's process as the session sees it; what is read is its stdout.

    `process.AgentProcess` is the real one.
    """

    @property
    def pid(self) -> int | None:
        """The process's number; None if there is no real process."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit status (negative: the signal that ended it), or None while it runs."""
        ...

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write what fits and say how many bytes that was; 0: the pipe is full.

        Raises `trio.BrokenResourceError` if nobody can read it any more.
        """
        ...

    async def wait_writable(self) -> None:
        """Until `write_nowait` has something to say, be it that stdin is closed now. A checkpoint;
        cancelling it loses nothing. Raises `trio.BrokenResourceError` if that cannot be known."""
        ...

    def close_stdin(self) -> None:
        """Close the agent's standard input. Once more: nothing happens."""
        ...

    async def wait(self) -> int:
        """Until the process has exited; the status. Any number of tasks may wait, at the cost of
        an event each. Cancelling it changes nothing."""
        ...

    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr; complete once `wait` has returned."""
        ...

    async def note(self) -> None:
        """Take down what the agent has started, to find it again when its ties are cut."""
        ...

    def interrupt(self) -> None:
        """SIGINT to the process alone; nothing if it has exited."""
        ...

    def terminate(self) -> None:
        """SIGTERM to the process's group and to everything noted outside of it."""
        ...

    async def wait_tree(self) -> None:
        """Until the process and everything that it started are gone."""
        ...

    async def kill_tree(self) -> None:
        """SIGKILL to the process and everything that it started, until all are gone."""
        ...


async def read_loop(
    source: Readable,
    on_data: Callable[[bytes], None],
    on_eof: Callable[[], None],
    *,
    replied: Callable[[], bool] = lambda: False,
    wait_for_room: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Hand what comes to `on_data`, a read at a time, until it ends; then call `on_eof`.

    Reads first and waits only when the pipe is drained, which a short read says: a wake-up costs
    as much as decoding a dozen messages. After a full read others get their turn. Where `on_data`
    has written to the agent (`replied`), more is looked for at once: an agent that waited for just
    that goes on within microseconds. Such a dialogue lets others have their turn every `STEP`.

    What takes `on_data` longer than `STEP` is handed over in smaller pieces, others getting their
    turn in between: an agent can write 64 KiB that take a tenth of a second to refuse. Where
    `wait_for_room` is given, it is awaited before each read.

    An agent may close its stdout without an exit (`returncode` is None after `on_eof`): then it is
    of no more use and has to be ended. Cancellation stops reading between two pieces.
    """
    clock = trio.lowlevel.current_clock().current_time  # a third of what Trio's own call costs
    size, answered_at = FIRST, None
    while True:
        if wait_for_room is not None:
            await wait_for_room()
        data = source.read_nowait()
        if data is not None:
            if not data:
                on_eof()
                return
            full = len(data) == READ_SIZE
            while len(data) > size:
                piece, data = data[:size], data[size:]
                size = next_size(size, on_data, piece)
                await trio.lowlevel.checkpoint()
            if len(data) < SMALLEST:  # it could not have been cut, whatever it costs
                on_data(data)
            else:
                size = next_size(size, on_data, data)
            if full:
                await trio.lowlevel.checkpoint()
                answered_at = None
                continue
            if replied():
                now = clock()
                if answered_at is None:
                    answered_at = now
                elif now - answered_at > STEP:
                    await trio.lowlevel.checkpoint()
                    answered_at = None
                continue
        await source.wait_readable()
        answered_at = None


def next_size(size: int, on_data: Callable[[bytes], None], piece: bytes) -> int:
    """Hand a piece over; how large the next one may be."""
    started = thread_time()  # while others have the processor, smaller pieces would help nobody
    on_data(piece)
    took = thread_time() - started
    if took > STEP:
        return max(SMALLEST, int(len(piece) * STEP / took))
    if took < STEP / 2 and len(piece) == size:  # of a small rest it says nothing
        return min(READ_SIZE, 2 * size)
    return size


class ReadEnd:
    """The host's end of a pipe that the agent writes to: a `Readable` that can be cut."""

    def __init__(self, stream: trio.lowlevel.FdStream) -> None:
        self._stream = stream
        self._fd = stream.fileno()
        self._left: int | None = None
        """After `cut`: how many bytes are still of interest."""

    def read_nowait(self) -> bytes | None:
        wanted = READ_SIZE if self._left is None else min(self._left, READ_SIZE)
        if not wanted:
            return b""
        try:
            data = os.read(self._fd, wanted)
        except BlockingIOError:
            return None
        except OSError:
            self._fail()
            return b""
        if self._left is not None:
            self._left -= len(data)
        return data

    async def wait_readable(self) -> None:
        if self._left is not None:
            await trio.lowlevel.checkpoint()
            return
        try:
            await trio.lowlevel.wait_readable(self._fd)
        except trio.ClosedResourceError:
            return
        except OSError:
            self._fail()

    def _fail(self) -> None:
        """The system cannot read it (any more), which is the end of a pipe as good as any."""
        _log.exception("an agent's output cannot be read")
        self._left = 0

    def cut(self) -> None:
        """End the pipe behind what is in it now: whoever still writes is of no interest."""
        if self._left is None:
            try:
                size = ioctl(self._fd, termios.FIONREAD, bytes(4))
            except OSError:
                self._fail()
            else:
                self._left = int.from_bytes(size, sys.byteorder)
            trio.lowlevel.notify_closing(self._fd)  # wakes who waits

    def close(self) -> None:
        """Close the pipe; a reader sees its end."""
        self._left = 0
        self._stream.close()


class WriterStatistics(Struct, frozen=True):
    """What a `Writer` has done, at one moment."""

    lines_written: int
    bytes_written: int
    lines_waiting: int
    """Including the one that is partly written."""
    bytes_waiting: int
    lines_dropped: int
    """Asked for after the end, or waiting when it came."""


class Writer:
    """Writes whole lines to an agent, in order, urgent ones first.

    `write` only queues, after trying the pipe at once; `run` is the task that waits for the pipe.
    A write that failed, was cut off in the middle of a line or made no progress for
    `write_timeout` seconds means that the pipe is dead: `broken` says why, stdin is closed,
    nothing more is written, and `on_broken` is called once, by the task, never inside `write`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        outbox: int,
        write_timeout: float,
        on_broken: Callable[[str], None] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._transport = transport
        self._watcher = watcher
        self._outbox = outbox
        self._timeout = write_timeout
        self._on_broken = on_broken
        self._urgent: deque[bytes] = deque()
        self._prompts: deque[bytes] = deque()
        self._rest = _NOTHING
        """What is still to be written of a line that was begun."""
        self._bytes_waiting = 0
        """The size of both queues and of the rest. The task is parked only while it is 0."""
        self._urgent_waiting = 0
        """The size of the urgent queue."""
        self._closing = False
        self._parked = trio.lowlevel.ParkingLot()
        self._answering = trio.lowlevel.ParkingLot()
        """Who waits with a large answer parks here."""
        self._lines_written = self._bytes_written = self._lines_dropped = 0
        self.broken: str | None = None
        """Why the pipe is dead, or None."""

    def write(self, line: bytes, *, urgent: bool = False) -> None:
        """Send one line (or several), with its newline.

        `urgent` (cancels, replies) goes ahead of every prompt that has not been begun. After the
        end of the pipe the line is dropped and counted: the end was reported to the owner.

        An urgent line behind `outbox` bytes of others breaks the pipe: an agent may ask without end
        and never read an answer, and one that misses an answer waits for it for ever. Prompts are
        taken at any size: there is one at a time, and whoever made it has it in memory already.
        """
        if not line.endswith(b"\n"):
            raise LocalProtocolError("a message to the agent must end with a newline")
        if self.broken is not None or self._closing:
            self._lines_dropped += 1
        elif not self._bytes_waiting:
            self._write(line, urgent=urgent)
        elif urgent and self._urgent_waiting >= self._outbox:
            self._lines_dropped += 1
            self._break(f"it left {self._urgent_waiting} bytes of answers unread (limits.outbox)")
        else:
            self._queue(line, urgent=urgent)

    def _write(self, line: bytes, *, urgent: bool) -> None:
        """Write a line that nothing waits before, as far as the pipe takes it."""
        try:
            taken = self._transport.write_nowait(line)
        except trio.BrokenResourceError:
            self._lines_dropped += 1
            self._break("the agent closed its standard input")
            self._parked.unpark_all()
            return
        if taken and self._watcher is not None and self._watcher.on:
            self._watcher.sent(line[:taken])
        self._bytes_written += taken
        if taken == len(line):
            self._lines_written += 1
            return
        if taken:
            self._rest = memoryview(line)[taken:]
            self._bytes_waiting = len(self._rest)
        else:
            self._queue(line, urgent=urgent)
        self._parked.unpark_all()

    def _queue(self, line: bytes, *, urgent: bool) -> None:
        (self._urgent if urgent else self._prompts).append(line)
        self._urgent_waiting += len(line) if urgent else 0
        self._bytes_waiting += len(line)

    async def wait_read(self) -> None:
        """Until the agent has read so many of its answers that another large one may be made: half
        of the outbox. Who writes it before the next checkpoint is the only one to do so."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._urgent_waiting > self._outbox // 2:
            await self._answering.park()

    def close(self) -> None:
        """Have stdin closed behind the urgent lines. Prompts that were not begun are dropped."""
        self._closing = True
        self._drop(self._prompts)
        self._parked.unpark_all()

    async def run(self) -> None:
        """Write until `close` or a broken pipe; stdin is closed then. To be run once, by a task
        that outlives every turn.

        Cancellation ends writing for good; in the middle of a line it breaks the pipe.
        """
        try:
            while True:
                self._flush()
                if self.broken is not None or (self._closing and not self._bytes_waiting):
                    break
                if not self._bytes_waiting:
                    await self._parked.park()
                    continue
                try:
                    with trio.move_on_after(self._timeout) as patience:
                        await self._transport.wait_writable()
                except trio.BrokenResourceError as error:
                    self._break(f"it cannot be written to: {error.__cause__}")
                else:
                    if patience.cancelled_caught:
                        self._break(f"the agent has not read its input for {self._timeout:g} s")
        finally:
            if self._rest:
                self._break("writing was cancelled in the middle of a line")
            self._closing = True
            self._drop(self._urgent)
            self._drop(self._prompts)
            self._transport.close_stdin()
            if self.broken is not None and self._on_broken is not None:
                self._on_broken(self.broken)

    def statistics(self) -> WriterStatistics:
        """What was written, waits and was dropped until now."""
        return WriterStatistics(
            lines_written=self._lines_written,
            bytes_written=self._bytes_written,
            lines_waiting=len(self._urgent) + len(self._prompts) + bool(self._rest),
            bytes_waiting=self._bytes_waiting,
            lines_dropped=self._lines_dropped,
        )

    def _flush(self) -> None:
        """Write until nothing waits or the pipe is full."""
        while self._bytes_waiting:
            queue = self._urgent or self._prompts
            data = self._rest or queue[0]
            try:
                taken = self._transport.write_nowait(data)
            except trio.BrokenResourceError:
                self._break("the agent closed its standard input")
                return
            if not taken:
                return
            if self._watcher is not None and self._watcher.on:
                self._watcher.sent(bytes(data[:taken]))
            if not self._rest:
                queue.popleft()
                if queue is self._urgent:
                    self._urgent_waiting -= len(data)
                    if self._answering and self._urgent_waiting <= self._outbox // 2:
                        self._answering.unpark_all()  # each looks again: the first may fill it
            self._rest = memoryview(data)[taken:] if taken < len(data) else _NOTHING
            self._lines_written += not self._rest
            self._bytes_written += taken
            self._bytes_waiting -= taken

    def _break(self, reason: str) -> None:
        if self.broken is None:
            self.broken = reason
            self._lines_dropped += bool(self._rest)
            self._bytes_waiting -= len(self._rest)
            self._rest = _NOTHING
            self._drop(self._urgent)
            self._drop(self._prompts)
            self._transport.close_stdin()  # also wakes the task, should it wait for the pipe

    def _drop(self, queue: deque[bytes]) -> None:
        self._lines_dropped += len(queue)
        self._bytes_waiting -= sum(map(len, queue))
        queue.clear()
        if queue is self._urgent:
            self._urgent_waiting = 0
            self._answering.unpark_all()
