"""The pipes to an agent: the interface between a session and a process, its reader and its writer.

One task reads and one task writes per process, and both outlive every turn. A write that is
cancelled halfway leaves half a line, and the next message, the cancel itself, is lost in it. So
callers only queue lines, and only the writer's task waits for the pipe.
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
from typing import Any, Final, Literal, Protocol, TypeAlias

import trio
from msgspec import Struct

from ..errors import LocalProtocolError

READ_BYTES = 64 * 1024
"""Maximum number of bytes of a read: the size of a pipe. Larger reads gain nothing (measured)."""

PIECE_S = 0.004
"""Seconds for which processing one agent's output may delay all other sessions."""

MIN_PIECE_BYTES = 1024
"""Smallest number of bytes processed at a time, for the most expensive output."""

FIRST_PIECE_BYTES = 8 * 1024
"""Number of bytes processed at a time while their cost is unknown."""


_log = logging.getLogger("agentrt.process")

_NOTHING = memoryview(b"")
_NO_LINES: Final[deque[bytes]] = deque()
"""The queue of all writers without waiting lines: an empty one takes 760 bytes. Never changed."""


class Readable(Protocol):
    """The reading end of a pipe."""

    def read_nowait(self) -> bytes | None:
        """Return up to `READ_BYTES` bytes, None if none are available, or empty at the end."""
        ...

    def wait_readable(self) -> Awaitable[None]:
        """Wait until `read_nowait` has a result. A checkpoint; cancelling it loses nothing."""
        ...


Happening: TypeAlias = Literal["started", "stdin_closed", "stdout_closed", "signal", "exited"]
"""Events of a process."""


class Watcher(Protocol):
    """Receives the data between the host and a process. It is called only while it is `on`; its
    methods must not raise or wait."""

    on: bool

    def received(self, data: bytes) -> None:
        """Process data read from the process's stdout."""
        ...

    def sent(self, data: bytes) -> None:
        """Process data accepted by the process's stdin, cut where the pipe was full."""
        ...

    def complained(self, data: bytes) -> None:
        """Process data read from the process's stderr."""
        ...

    def happened(self, kind: Happening, **fields: Any) -> None:
        """Process `started`, `exited` (`code`), `signal` (`signal`), `stdin_closed` or
        `stdout_closed`."""
        ...


class Transport(Readable, Protocol):
    """An agent's process as the session sees it; reading it reads its stdout.

    `process.AgentProcess` implements it for real processes.
    """

    @property
    def pid(self) -> int | None:
        """The process id; None without a real process."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit status (negative: the signal that ended it); None while it runs."""
        ...

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write as much as fits and return the number of bytes written; 0: the pipe is full.

        Raises `trio.BrokenResourceError` if nothing reads the pipe any more.
        """
        ...

    async def wait_writable(self) -> None:
        """Wait until `write_nowait` can write, or stdin is closed. A checkpoint; cancelling it
        loses nothing. Raises `trio.BrokenResourceError` if this cannot be determined."""
        ...

    def close_stdin(self) -> None:
        """Close the agent's standard input. Repeated calls do nothing."""
        ...

    async def wait(self) -> int:
        """Wait until the process has exited; return its status. Any number of tasks may wait, each
        at the cost of one event. Cancelling it changes nothing."""
        ...

    def stderr_tail(self) -> str:
        """Return the end of the agent's stderr output; complete once `wait` has returned."""
        ...

    async def note(self) -> None:
        """Record the processes that the agent has started, to find them when their ties are cut."""
        ...

    def interrupt(self) -> None:
        """Send SIGINT to the process alone; do nothing if it has exited."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM to the process's group and to all recorded processes outside of it."""
        ...

    async def wait_tree(self) -> None:
        """Wait until the process and everything that it started are gone."""
        ...

    async def kill_tree(self) -> None:
        """Send SIGKILL to the process and everything that it started, until all are gone."""
        ...


async def read_loop(
    source: Readable,
    on_data: Callable[[bytes], None],
    on_eof: Callable[[], None],
    *,
    replied: Callable[[], bool] = lambda: False,
    wait_for_room: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Pass data to `on_data`, one read at a time, until the end; then call `on_eof`.

    Reads first and waits only when the pipe is drained, which a short read indicates: a wake-up
    costs as much as decoding a dozen messages. After a full read other tasks run. If `on_data` has
    written to the agent (`replied`), the pipe is read again immediately: an agent that waited for
    just that continues within microseconds. In such a dialogue other tasks run every `PIECE_S`
    seconds.

    Data that takes `on_data` longer than `PIECE_S` is passed on in smaller pieces, with other tasks
    running in between: an agent can write 64 KiB that take a tenth of a second to reject.
    `wait_for_room` is awaited before each read, if given.

    An agent may close its stdout without exiting (`returncode` is None after `on_eof`): then it is
    unusable and must be ended. Cancellation stops reading between two pieces.
    """
    clock = trio.lowlevel.current_clock().current_time  # a third of the cost of Trio's own call
    size, answered_at = FIRST_PIECE_BYTES, None
    while True:
        if wait_for_room is not None:
            await wait_for_room()
        data = source.read_nowait()
        if data is not None:
            if not data:
                on_eof()
                return
            full = len(data) == READ_BYTES
            while len(data) > size:
                piece, data = data[:size], data[size:]
                size = next_size(size, on_data, piece)
                await trio.lowlevel.checkpoint()
            if len(data) < MIN_PIECE_BYTES:  # it would not be split, whatever it costs
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
                elif now - answered_at > PIECE_S:
                    await trio.lowlevel.checkpoint()
                    answered_at = None
                continue
        await source.wait_readable()
        answered_at = None


def next_size(size: int, on_data: Callable[[bytes], None], piece: bytes) -> int:
    """Pass on a piece of data; return the size of the next piece."""
    started = thread_time()  # while other processes have the CPU, smaller pieces do not help
    on_data(piece)
    took = thread_time() - started
    if took > PIECE_S:
        return max(MIN_PIECE_BYTES, int(len(piece) * PIECE_S / took))
    if took < PIECE_S / 2 and len(piece) == size:  # a small rest tells nothing about the cost
        return min(READ_BYTES, 2 * size)
    return size


class ReadEnd:
    """The host's end of a pipe that the agent writes to: a `Readable` that can be cut."""

    def __init__(self, stream: trio.lowlevel.FdStream) -> None:
        """Read from a stream of Trio, without its buffering."""
        self._stream = stream
        self._fd = stream.fileno()
        self._left: int | None = None
        """After `cut`: the number of bytes that are still to be read."""

    def read_nowait(self) -> bytes | None:
        """As `Readable.read_nowait`. A pipe that the system cannot read counts as ended."""
        wanted = READ_BYTES if self._left is None else min(self._left, READ_BYTES)
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
        """As `Readable.wait_readable`. After `cut` there is nothing to wait for."""
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
        """Treat a pipe that the system cannot read (any more) as ended."""
        _log.exception("an agent's output cannot be read")
        self._left = 0

    def cut(self) -> None:
        """End the pipe after its current content: later output of remaining writers is ignored."""
        if self._left is None:
            try:
                size = ioctl(self._fd, termios.FIONREAD, bytes(4))
            except OSError:
                self._fail()
            else:
                self._left = int.from_bytes(size, sys.byteorder)
            trio.lowlevel.notify_closing(self._fd)  # wakes waiting tasks

    def close(self) -> None:
        """Close the pipe; a reader sees its end."""
        self._left = 0
        self._stream.close()


class WriterStatistics(Struct, frozen=True):
    """Counts of a `LineWriter` at one moment."""

    lines_written: int
    """Lines that the pipe has accepted as a whole."""
    bytes_written: int
    """Bytes that the pipe has accepted."""
    lines_waiting: int
    """Including a line that is partly written."""
    bytes_waiting: int
    """Bytes that the pipe has not accepted yet."""
    lines_dropped: int
    """Written after the end of the pipe, or waiting when it ended."""


class LineWriter:
    """Writes whole lines to an agent, in order, urgent ones first.

    `write` tries the pipe once and otherwise only queues; `run` is the task that waits for the
    pipe. Most agents read everything in time and never need it.

    A write that failed, was cut off in the middle of a line or made no progress for
    `write_timeout` seconds means that the pipe is dead: `broken` contains the reason, stdin is
    closed, nothing more is written, and `on_broken` is called once, by the task, never inside
    `write`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        outbox: int,
        write_timeout: float,
        on_broken: Callable[[str], None] | None = None,
        watcher: Watcher | None = None,
        start: Callable[[Callable[[], Awaitable[None]]], object] | None = None,
    ) -> None:
        """`start` starts a task with `run` when there is something to wait for; without it, the
        owner runs it.
        """
        self._transport = transport
        self._watcher = watcher
        self._start = start
        self._outbox = outbox
        self._timeout = write_timeout
        self._on_broken = on_broken
        self._urgent = self._prompts = _NO_LINES
        self._rest = _NOTHING
        """The unwritten part of a partly written line."""
        self._bytes_waiting = 0
        """The size of both queues and of the unwritten part.

        The task is parked only while it is 0.
        """
        self._urgent_waiting = 0
        """The size of the urgent queue."""
        self._closing = False
        self._parked: trio.lowlevel.ParkingLot | None = None
        """The task is parked here. None before it runs."""
        self._answering: trio.lowlevel.ParkingLot | None = None
        """Tasks that wait to write a large answer are parked here. None before the first one."""
        self._lines_written = self._bytes_written = self._lines_dropped = 0
        self.broken: str | None = None
        """The reason why the pipe is dead; None if it works."""

    def write(self, line: bytes, *, urgent: bool = False) -> None:
        """Send one line (or several), including its newline.

        `urgent` lines (cancels, replies) are written before every prompt that has not been begun.
        After the end of the pipe the line is dropped and counted: the owner knows of the end.

        An urgent line when `outbox` bytes of others are waiting breaks the pipe: an agent may ask
        without end and never read an answer, and an agent that misses an answer waits for it
        forever. Prompts are accepted at any size: there is only one at a time, and it is in the
        caller's memory already. Raises `LocalProtocolError` if the newline is missing.
        """
        if not line.endswith(b"\n"):
            raise LocalProtocolError("a message to the agent must end with a newline")
        if self.broken is not None or self._closing:
            self._lines_dropped += 1
        elif not self._bytes_waiting:
            self._write(line, urgent=urgent)
        elif urgent and self._urgent_waiting >= self._outbox:
            self._lines_dropped += 1
            self._break(
                f"it left {self._urgent_waiting} bytes of answers unread"
                " (limits.agent_outbox_bytes)"
            )
        else:
            self._queue(line, urgent=urgent)

    def _write(self, line: bytes, *, urgent: bool) -> None:
        """Write a line when no other is waiting, as far as the pipe accepts it."""
        try:
            taken = self._transport.write_nowait(line)
        except trio.BrokenResourceError:
            self._lines_dropped += 1
            self._break("the agent closed its standard input")
            self._wake()
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
        self._wake()

    def _queue(self, line: bytes, *, urgent: bool) -> None:
        """Put a line into its queue, which is created when it is needed."""
        if urgent:
            if self._urgent is _NO_LINES:
                self._urgent = deque()
            self._urgent.append(line)
            self._urgent_waiting += len(line)
        else:
            if self._prompts is _NO_LINES:
                self._prompts = deque()
            self._prompts.append(line)
        self._bytes_waiting += len(line)

    async def wait_read(self) -> None:
        """Wait until the agent has read enough answers for another large one: half of the outbox.
        Only one task is let through if it writes its answer before the next checkpoint."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._urgent_waiting > self._outbox // 2:
            if self._answering is None:
                self._answering = trio.lowlevel.ParkingLot()
            await self._answering.park()

    def close(self) -> None:
        """Close stdin after the urgent lines. Prompts that were not begun are dropped."""
        self._closing = True
        self._drop(self._prompts)
        self._wake()

    def abandon(self) -> None:
        """Write nothing more, because the task that writes is cancelled or was never needed."""
        self._start = None
        self._closing = True

    def _wake(self) -> None:
        """Let the task run, which is started now if it does not exist yet."""
        start, self._start = self._start, None
        if start is not None:
            start(self.run)
        if self._parked is not None:
            self._parked.unpark_all()

    async def run(self) -> None:
        """Write until `close` or until the pipe breaks, then close stdin. Run it once, in a task
        that outlives every turn.

        Cancellation ends writing for good; in the middle of a line it breaks the pipe.
        """
        self._parked = trio.lowlevel.ParkingLot()
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
        """Return the counts of written, waiting and dropped data."""
        return WriterStatistics(
            lines_written=self._lines_written,
            bytes_written=self._bytes_written,
            lines_waiting=len(self._urgent) + len(self._prompts) + bool(self._rest),
            bytes_waiting=self._bytes_waiting,
            lines_dropped=self._lines_dropped,
        )

    def _flush(self) -> None:
        """Write until nothing is waiting or the pipe is full."""
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
                        self._answering.unpark_all()  # each checks again: the first may fill it
            self._rest = memoryview(data)[taken:] if taken < len(data) else _NOTHING
            self._lines_written += not self._rest
            self._bytes_written += taken
            self._bytes_waiting -= taken

    def _break(self, reason: str) -> None:
        """Note that the pipe is dead, and drop everything. The task calls `on_broken`."""
        if self.broken is None:
            self.broken = reason
            self._lines_dropped += bool(self._rest)
            self._bytes_waiting -= len(self._rest)
            self._rest = _NOTHING
            self._drop(self._urgent)
            self._drop(self._prompts)
            self._transport.close_stdin()  # also wakes the task if it waits for the pipe

    def _drop(self, queue: deque[bytes]) -> None:
        """Empty a queue and count its lines as dropped."""
        self._lines_dropped += len(queue)
        self._bytes_waiting -= sum(map(len, queue))
        queue.clear()
        if queue is self._urgent:
            self._urgent_waiting = 0
            if self._answering is not None:
                self._answering.unpark_all()
