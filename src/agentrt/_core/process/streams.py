"""An agent at the other end of a connection: a transport without a process.

Only the connection is observable. Its end counts as the agent's exit. Signals cannot be sent, and
the processes that the agent has started are out of reach.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, TypeAlias, runtime_checkable

import trio

from ..._base.nesting import bare_errors
from .pipes import READ_BYTES, Transport

BUFFER_BYTES = READ_BYTES
"""Maximum number of bytes that may be buffered in either direction, as in a pipe."""

Streams: TypeAlias = tuple[trio.abc.SendStream, trio.abc.ReceiveStream]
OpenStreams: TypeAlias = Callable[[], AbstractAsyncContextManager[Streams]]
"""Connects to the agent; called again for each reconnection."""


@runtime_checkable
class _HalfCloseable(Protocol):
    """A stream that can close its sending direction alone."""

    async def send_eof(self) -> None:
        """Close the sending direction."""
        ...


class StreamTransport:
    """A `Transport` over two streams. `read` and `write` must run while it is used."""

    pid: int | None = None

    def __init__(self, send: trio.abc.SendStream, receive: trio.abc.ReceiveStream) -> None:
        """Wrap two streams; `read` and `write` serve them."""
        self.returncode: int | None = None
        """0 when the connection has ended, -9 when it was cut by this side."""
        self._send = send
        self._receive = receive
        self._out = bytearray()
        self._in = bytearray()
        self._eof = False
        self._closing = False
        self._lost = False
        self._why = ""
        """The connection's own message about its end."""
        self._to_write = trio.lowlevel.ParkingLot()
        self._written = trio.lowlevel.ParkingLot()
        self._to_read = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._over = trio.Event()

    async def read(self) -> None:
        """Receive data, as long as there is room for it, to the end of the stream."""
        try:
            while data := await self._receive.receive_some(BUFFER_BYTES):
                self._in += data
                self._to_read.unpark_all()
                while len(self._in) >= BUFFER_BYTES:
                    await self._room.park()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lost = True
            self._why = str(error)
        self._eof = True
        self._end(0)

    async def write(self) -> None:
        """Send the data that is written; after `close_stdin`, send the end of the stream."""
        try:
            while True:
                while not self._out and not self._closing:
                    await self._to_write.park()
                if not self._out:
                    break
                data = bytes(self._out)
                await self._send.send_all(data)
                del self._out[: len(data)]
                self._written.unpark_all()
            if isinstance(self._send, _HalfCloseable):
                await self._send.send_eof()
            else:
                await self._send.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._lost = True
            self._written.unpark_all()

    def _end(self, code: int) -> None:
        """Note the end of the connection, with this status in place of a process's."""
        if self.returncode is None:
            self.returncode = code
        self._eof = True
        self._over.set()
        for lot in (self._to_read, self._written):
            lot.unpark_all()

    # --- the `Transport` interface

    def read_nowait(self) -> bytes | None:
        """As `Readable.read_nowait`. Data from before the end is returned first."""
        if not self._in:
            return b"" if self._eof else None
        data = bytes(self._in[:READ_BYTES])
        del self._in[:READ_BYTES]
        self._room.unpark_all()
        return data

    async def wait_readable(self) -> None:
        """As `Readable.wait_readable`."""
        if self._in or self._eof:
            await trio.lowlevel.checkpoint()
        else:
            await self._to_read.park()

    def write_nowait(self, data: bytes | memoryview) -> int:
        """As `Transport.write_nowait`. The data is only buffered; `write` sends it."""
        if self._lost or self._closing or self.returncode is not None:
            raise trio.BrokenResourceError("the connection to the agent has ended")
        taken = data[: max(0, BUFFER_BYTES - len(self._out))]
        self._out += taken
        self._to_write.unpark_all()
        return len(taken)

    async def wait_writable(self) -> None:
        """As `Transport.wait_writable`."""
        if self._lost or self.returncode is not None or len(self._out) < BUFFER_BYTES:
            await trio.lowlevel.checkpoint()
        else:
            await self._written.park()

    def close_stdin(self) -> None:
        """End the sending direction after the buffered data was sent."""
        self._closing = True
        self._to_write.unpark_all()

    async def wait(self) -> int:
        """Wait for the end of the connection, in place of the exit of a process."""
        await self._over.wait()
        assert self.returncode is not None
        return self.returncode

    def stderr_tail(self) -> str:
        """Return the connection's own message about its end; there is no standard error output."""
        return self._why

    async def note(self) -> None:
        """Do nothing: the agent's processes are not on this machine."""
        await trio.lowlevel.checkpoint()

    def interrupt(self) -> None:
        """Do nothing, because signals need a process."""

    def terminate(self) -> None:
        """Cut the connection: nothing else can end an agent that does not exit."""
        self._end(-9)

    async def wait_tree(self) -> None:
        """Wait for the end of the connection: more is not known about the agent's processes."""
        await self._over.wait()

    async def kill_tree(self) -> None:
        """Cut the connection, as `terminate` does."""
        self._end(-9)
        await trio.lowlevel.checkpoint()


_NO_BLOCK: Final = (
    "pass a function that returns a block (`async with`) with two streams of Trio,"
    " the one to send on and the one to receive from, not {}"
)


@asynccontextmanager
async def open_streams(connect: OpenStreams) -> AsyncIterator[Transport]:
    """Connect to an agent while the block runs, and cut the connection when it is left. The
    counterpart of `open_process`."""
    block = connect()
    if not isinstance(block, AbstractAsyncContextManager):
        raise TypeError(_NO_BLOCK.format(type(block).__name__))
    async with block as given:
        match given:
            case (trio.abc.SendStream() as send, trio.abc.ReceiveStream() as receive):
                pass
            case _:
                raise TypeError(_NO_BLOCK.format(f"{given!r:.100}"))
        transport = StreamTransport(send, receive)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(transport.read)
                nursery.start_soon(transport.write)
                yield transport
                nursery.cancel_scope.cancel()
        finally:
            transport.terminate()
            for stream in (send, receive):
                await trio.aclose_forcefully(stream)
