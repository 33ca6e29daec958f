"""One WebSocket: a task that reads, one that writes, and one that checks that the client is alive.

Reading never waits for writing, and every wait is bounded. A client that does not read, does not
answer a ping, sends too much or too fast, or is no longer allowed loses its connection and nothing
else. Connections do not affect sessions.

This module contains the part that is common to all kinds of sockets.
"""

from __future__ import annotations

import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import trio
from msgspec import json

from .._base.nesting import bare_errors
from .._public import Limits
from .hub import ServedDialect
from .native_frames import ClosingFrame
from .refusal import CloseCode, ConnectionRefusal
from .viewer import Outlet, Viewer

logger = logging.getLogger("agentrt.server")


class Gone(Exception):
    """The client has closed the connection."""


class Outgoing(Outlet, Protocol):
    """The sending side of a connection."""

    async def drained(self) -> None:
        """Wait until everything is written. Cancelling it changes nothing."""
        ...

    async def pump(self) -> None:
        """Write until cancelled.

        Raises `trio.TooSlowError` if the client does not read, `trio.BrokenResourceError` if it is
        gone.
        """
        ...


class ViewerConnection(ABC):
    """A WebSocket from its handshake to its end."""

    def __init__(self, out: Outgoing, dialect: ServedDialect, limits: Limits) -> None:
        self.over = trio.Event()
        """Set at the end of `run`."""
        self.refusal: ConnectionRefusal | None = None
        """The reason why the server ends the connection; None if the client does."""
        self._limits = limits
        self._dialect = dialect
        self._closing = trio.Event()
        self._out = out

    @abstractmethod
    async def _accept(self, nursery: trio.Nursery, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer the handshake, with the subprotocol if the client offers it. Tasks that must run
        as long as the connection are started in the nursery.
        """

    @abstractmethod
    async def _message(self) -> str | bytes:
        """Return the client's next message.

        Raises `Gone` after the last one, `ConnectionRefusal` if the message is not accepted.
        """

    @abstractmethod
    async def _check_alive(self, viewer: Viewer) -> None:
        """Check repeatedly that the client is alive. Raises `Gone` or `trio.TooSlowError`."""

    @property
    @abstractmethod
    def _open(self) -> bool:
        """True if the client is still connected."""

    @abstractmethod
    async def _send_close(self, refusal: ConnectionRefusal) -> None:
        """Send the close frame."""

    def refuse(self, refusal: ConnectionRefusal) -> None:
        """Close the connection and report the reason to the client. The first reason counts."""
        if self.refusal is None:
            self.refusal = refusal
        self._closing.set()

    async def run(self, attach: Callable[[], Viewer] | None = None) -> None:
        """Accept the handshake, and serve until either side ends the connection.

        It ends in bounded time after `refuse`, which may be called before `run`; without `attach`
        it must have been.

        Raises `trio.BrokenResourceError` if the client is gone, or `trio.TooSlowError` if it does
        not read, in a group. Cancelling it ends the connection without a close frame.
        """
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(self._out.pump)
                await self._accept(nursery, self._headers())
                if attach is not None and not self._closing.is_set():
                    await self._serve(attach)
                await self._close()
                nursery.cancel_scope.cancel()
        finally:
            self.over.set()

    def _headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the handshake's answer: a random name of the connection, if the
        dialect has a header for it.
        """
        name = self._dialect.connection_header
        return [] if name is None else [(name.encode(), secrets.token_hex(16).encode())]

    async def _serve(self, attach: Callable[[], Viewer]) -> None:
        """Attach a viewer and run its three tasks until one of them closes the connection.

        The viewer is closed in every case, also if the server is cancelled, so it can never stay
        among the hub's viewers.
        """
        viewer = None
        with self._guard():
            viewer = attach()
        if viewer is None:
            return
        viewer.connect(self._out)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                for job in (self._read, self._write, self._check_alive):
                    nursery.start_soon(self._guarded, job, viewer)
                await self._closing.wait()
                nursery.cancel_scope.cancel()
        finally:
            viewer.close()

    async def _guarded(self, job: Callable[[Viewer], Awaitable[None]], viewer: Viewer) -> None:
        """Run one of the tasks; an error closes this connection only."""
        with self._guard():
            await job(viewer)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """End only this connection if serving its client raises."""
        try:
            yield
        except Gone:
            self._closing.set()
        except ConnectionRefusal as refusal:
            self.refuse(refusal)
        except trio.TooSlowError:
            raise
        except Exception:
            logger.exception("a viewer's connection broke")
            self.refuse(ConnectionRefusal(CloseCode.BROKEN, "internal server error"))

    async def _read(self, viewer: Viewer) -> None:
        """Pass the client's messages to the viewer, and stop reading while too many
        answers wait.
        """
        while True:
            message = await self._message()
            if isinstance(message, bytes):
                self.refuse(
                    ConnectionRefusal(CloseCode.UNSUPPORTED, "messages are text, not binary")
                )
                return
            viewer.receive(message)
            await viewer.caught_up()

    async def _write(self, viewer: Viewer) -> None:
        """Take the next frame only when the last one is written, so that events for a slow client
        wait where they can still be merged.
        """
        while True:
            self._out.put(await viewer.next_frame())
            if not self._out.written:
                await self._out.drained()

    async def _close(self) -> None:
        """Send the reason and the close frame, and flush them, each in bounded time."""
        if self.refusal is not None:
            if self._dialect.says_closing and self._open:
                self._out.put(json.encode(ClosingFrame(self.refusal.reason)))
            with trio.move_on_after(self._limits.ws_close_timeout_s):
                await self._send_close(self.refusal)
        with trio.fail_after(
            self._limits.ws_close_timeout_s
        ):  # otherwise data in the kernel is dropped, too
            await self._out.drained()
