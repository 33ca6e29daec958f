"""ACP on a program's standard streams: a client that has started agentrt as its agent.

Each line is one message of the dialect at `/acp`. A `StdioPeer` takes and returns the messages:
sessions of this process, or a server's (`relay.py`). Reading never waits for writing, so a client
that does not read only blocks itself, and the end of its input is noticed.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Final

import trio

from .._base.nesting import bare_errors
from .._public import Limits
from ..jsonrpc import Lines
from .acp import ACP, acp_viewer
from .acpmessages import Meta
from .hub import Hub
from .refusal import CloseCode, ConnectionRefusal

STDIN_READ_BYTES: Final = 64 * 1024
"""Maximum bytes of one read."""


class PeerClosed(Exception):
    """The end of the conversation. `why`: the error, or an empty string."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class StdioPeer(ABC):
    """The other end of the conversation with the client."""

    @abstractmethod
    async def take(self, text: str) -> None:
        """Take a message of the client. Raises `PeerClosed`."""

    @abstractmethod
    def lost(self, why: str) -> None:
        """Handle that a message of the client could not be read."""

    @abstractmethod
    async def next_message(self) -> bytes:
        """Return the next message for the client. Raises `PeerClosed` after the last one."""

    @abstractmethod
    async def end_of_input(self) -> None:
        """Handle the end of the client's input. `next_message` then raises `PeerClosed` in bounded
        time.
        """


class OwnSessions(StdioPeer):
    """The sessions of this process's runtime; no other client sees them."""

    def __init__(self, hub: Hub, defaults: Meta) -> None:
        self._viewer = hub.attach_viewer(ACP)
        self._acp = acp_viewer(self._viewer)
        self._acp.defaults = defaults
        self._limits = hub.limits

    async def take(self, text: str) -> None:
        """Pass a message to the sessions, then wait until the client has read enough of their
        answers.

        Raises `PeerClosed` if it does not read for `limits.ws_write_timeout_s`.
        """
        self._viewer.receive(text)
        # A client that keeps sending requests must read the answers.
        with trio.move_on_after(self._limits.ws_write_timeout_s) as patience:
            await self._viewer.caught_up()
        if patience.cancelled_caught:
            raise PeerClosed("the client does not read the answers to its requests")

    def lost(self, why: str) -> None:
        self._acp.lost(why)

    async def next_message(self) -> bytes:
        """Return the next message for the client. The shutdown after the end of its input is not an
        error.
        """
        try:
            return await self._viewer.next_frame()
        except ConnectionRefusal as refusal:
            raise PeerClosed("" if refusal.code is CloseCode.SHUTDOWN else refusal.reason) from None

    async def end_of_input(self) -> None:
        """Answer everything that was requested: the client's turns are cancelled, for which their
        agents get as much time as for the end of their own input.
        """
        self._acp.stop()
        with trio.move_on_after(self._limits.stdin_close_grace_s):
            await self._acp.answered()
        self._viewer.end(CloseCode.SHUTDOWN, "the client has closed its output")


async def serve_streams(
    peer: StdioPeer,
    source: trio.abc.ReceiveStream,
    sink: trio.abc.SendStream,
    *,
    limits: Limits,
) -> str:
    """Serve the client on these streams until either side ends it.

    Returns the error, which is empty at the end of the client's input. Raises
    `trio.BrokenResourceError` if the client no longer reads.
    """
    why = ""

    async def read() -> None:
        """Read until the end of the input, give the last messages some time, and end the
        conversation.
        """
        nonlocal why
        try:
            await _read(peer, source, limits.message_bytes)
            await peer.end_of_input()
            await trio.sleep(limits.stdin_close_grace_s)  # for the last messages
        except PeerClosed as over:
            why = over.why
        nursery.cancel_scope.cancel(reason=why)

    async with bare_errors(), trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            while True:
                await sink.send_all(await peer.next_message() + b"\n")
        except PeerClosed as over:
            why = over.why
        nursery.cancel_scope.cancel()
    return why


async def _read(peer: StdioPeer, source: trio.abc.ReceiveStream, limit: int) -> None:
    """Pass all input of the client to the peer, until it ends."""
    lines = Lines(limit)

    async def take(whole: bytes | bytearray) -> None:
        """Pass complete lines to the peer. An oversized line is skipped and reported, as its id is
        unknown.
        """
        for size in lines.oversized:
            peer.lost(f"a line of {size} bytes was skipped; {limit} are allowed")
        lines.oversized.clear()
        for written in whole.split(b"\n"):
            line = written.removeprefix(codecs.BOM_UTF8)  # Windows programs may begin with it
            if line and not line.isspace():
                await peer.take(line.decode(errors="replace"))

    while data := await _receive(source):
        await take(lines.feed(data))
    await take(lines.end())


async def _receive(source: trio.abc.ReceiveStream) -> bytes:
    """Return the next bytes; empty at the end of the input or if it is broken."""
    try:
        return bytes(await source.receive_some(STDIN_READ_BYTES))
    except (OSError, trio.BrokenResourceError):  # for example, a terminal that is gone
        return b""
