"""ACP on a program's standard streams: a client that has started agentrt as its agent.

Each line is one message. The messages are those of the dialect at `/acp`; what takes and gives them
is a `Peer`: sessions of this process, or a server's (`relay.py`). Reading never waits for writing:
a client that does not read holds up nobody but itself, and the end of its input is seen.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Final

import trio

from .._limits import Limits
from .._nesting import bare_errors
from .._wire.lines import Lines
from .acp import ACP, AcpViewer
from .acpmessages import Meta
from .hub import Hub
from .refusal import Code, Refusal

CHUNK: Final = 64 * 1024
"""Bytes that are read at once."""


class Over(Exception):
    """There is nothing more to be said to the client. `why`: what went wrong; empty if nothing."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Peer(ABC):
    """Who talks with the client."""

    @abstractmethod
    async def take(self, text: str) -> None:
        """A message of the client. Raises `Over`."""

    @abstractmethod
    def lost(self, why: str) -> None:
        """Something that the client said could not be read."""

    @abstractmethod
    async def next_message(self) -> bytes:
        """The next one for the client. Raises `Over` behind the last one."""

    @abstractmethod
    async def end_of_input(self) -> None:
        """The client says no more. In bounded time `next_message` raises `Over`."""


class OwnSessions(Peer):
    """The sessions of this process's runtime, of which the client is the only one to see them."""

    def __init__(self, hub: Hub, defaults: Meta) -> None:
        viewer = hub.attach_viewer(ACP)
        assert isinstance(viewer, AcpViewer)
        viewer.defaults = defaults
        self._viewer = viewer
        self._limits = hub.limits

    async def take(self, text: str) -> None:
        self._viewer.receive(text)
        # A client that waits for nothing asks nothing; one that asks on is to read.
        with trio.move_on_after(self._limits.ws_write) as patience:
            await self._viewer.caught_up()
        if patience.cancelled_caught:
            raise Over("the client asks on and reads no answers")

    def lost(self, why: str) -> None:
        self._viewer.lost(why)

    async def next_message(self) -> bytes:
        try:
            return await self._viewer.next_frame()
        except Refusal as refusal:
            raise Over("" if refusal.code is Code.SHUTDOWN else refusal.reason) from None

    async def end_of_input(self) -> None:
        """What was asked is answered: its turns are cancelled, which their agents get as much time
        for as for the end of their own input."""
        self._viewer.stop()
        with trio.move_on_after(self._limits.stdin_close):
            await self._viewer.answered()
        self._viewer.end(Code.SHUTDOWN, "the client has closed its output")


async def talk(
    peer: Peer,
    source: trio.abc.ReceiveStream,
    sink: trio.abc.SendStream,
    *,
    limits: Limits,
) -> str:
    """Serve the client on these streams until either side ends it. Returns what went wrong, which
    is nothing at the end of the client's input.

    Raises `trio.BrokenResourceError` if the client reads no more.
    """
    why = ""

    async def read() -> None:
        nonlocal why
        try:
            await _read(peer, source, limits.line)
            await peer.end_of_input()
            await trio.sleep(limits.stdin_close)  # for the last words
        except Over as over:
            why = over.why
        nursery.cancel_scope.cancel(reason=why)

    async with bare_errors(), trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            while True:
                await sink.send_all(await peer.next_message() + b"\n")
        except Over as over:
            why = over.why
        nursery.cancel_scope.cancel()
    return why


async def _read(peer: Peer, source: trio.abc.ReceiveStream, limit: int) -> None:
    """Hand over all that the client says, until it says no more."""
    lines = Lines(limit)

    async def take(whole: bytes | bytearray) -> None:
        for size in lines.oversized:
            peer.lost(f"a line of {size} bytes was skipped; {limit} are allowed")
        lines.oversized.clear()
        for written in whole.split(b"\n"):
            line = written.removeprefix(codecs.BOM_UTF8)  # as Windows programs begin their output
            if line and not line.isspace():
                await peer.take(line.decode(errors="replace"))

    while data := await _receive(source):
        await take(lines.feed(data))
    await take(lines.end())


async def _receive(source: trio.abc.ReceiveStream) -> bytes:
    try:
        return bytes(await source.receive_some(CHUNK))
    except (OSError, trio.BrokenResourceError):  # a terminal that is gone, say
        return b""
