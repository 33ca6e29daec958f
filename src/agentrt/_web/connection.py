"""One WebSocket: a task that reads, one that writes, one that asks whether the client lives.

Reading never waits for writing, and every wait has an end: a client that does not read, does not
answer a ping, sends too much or too fast, or is not welcome any more loses its connection and
nothing else. What a session does is none of the connection's business.

Here is what all kinds of sockets share.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import trio
from msgspec import json

from .._limits import Limits
from .._logging import get_logger
from .._nesting import bare_errors
from .hub import Dialect
from .refusal import Code, Refusal
from .viewer import Outlet, Viewer

logger = get_logger("server")


class Gone(Exception):
    """The client has closed the connection."""


class Outgoing(Outlet, Protocol):
    """What a connection writes to."""

    async def drained(self) -> None:
        """Wait until everything is written. Cancelling it changes nothing."""
        ...

    async def pump(self) -> None:
        """Write, until cancelled. Raises `trio.TooSlowError` if the client does not read,
        `trio.BrokenResourceError` if it is gone."""
        ...


class Connection(ABC):
    """A WebSocket from its handshake to its end."""

    def __init__(self, out: Outgoing, dialect: Dialect, limits: Limits) -> None:
        self.over = trio.Event()
        """Set at the end of `run`."""
        self.refusal: Refusal | None = None
        """Why the server ends it; None if the client does."""
        self._limits = limits
        self._dialect = dialect
        self._closing = trio.Event()
        self._out = out

    @abstractmethod
    async def _accept(self, nursery: trio.Nursery, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer the handshake, with the subprotocol if it is wanted. What has to run as long as
        the connection does is started in the nursery."""

    @abstractmethod
    async def _message(self) -> str | bytes:
        """The next one of the client. Raises `Gone` behind the last one, or `Refusal`."""

    @abstractmethod
    async def _look_after(self, viewer: Viewer) -> None:
        """Ask again and again whether the client lives. Raises `Gone` or `trio.TooSlowError`."""

    @property
    @abstractmethod
    def _open(self) -> bool:
        """Whether there is still somebody to talk to."""

    @abstractmethod
    async def _say_goodbye(self, refusal: Refusal) -> None:
        """Send the close frame."""

    def refuse(self, refusal: Refusal) -> None:
        """Say to the client why, and close the connection. The first reason counts."""
        if self.refusal is None:
            self.refusal = refusal
        self._closing.set()

    async def run(self, attach: Callable[[], Viewer] | None = None) -> None:
        """Accept the handshake, and serve until either side ends it: in bounded time once `refuse`
        was called, which may be before this; without `attach` it must have been.

        Raises what says that the client is gone (`trio.BrokenResourceError`) or does not read
        (`trio.TooSlowError`), in a group. Cancelling it ends the connection without a word.
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
        name = self._dialect.names_connection
        return [] if name is None else [(name.encode(), secrets.token_hex(16).encode())]

    async def _serve(self, attach: Callable[[], Viewer]) -> None:
        viewer = None
        with self._guard():
            viewer = attach()
        if viewer is None:
            return
        viewer.connect(self._out)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                for job in (self._read, self._write, self._look_after):
                    nursery.start_soon(self._guarded, job, viewer)
                await self._closing.wait()
                nursery.cancel_scope.cancel()
        finally:
            viewer.close()

    async def _guarded(self, job: Callable[[Viewer], Awaitable[None]], viewer: Viewer) -> None:
        with self._guard():
            await job(viewer)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """A mistake in what serves this client ends its connection, and no other."""
        try:
            yield
        except Gone:
            self._closing.set()
        except Refusal as refusal:
            self.refuse(refusal)
        except trio.TooSlowError:
            raise
        except Exception:
            logger.exception("a viewer's connection broke")
            self.refuse(Refusal(Code.BROKEN, "a mistake of the server"))

    async def _read(self, viewer: Viewer) -> None:
        while True:
            message = await self._message()
            if isinstance(message, bytes):
                self.refuse(Refusal(Code.UNSUPPORTED, "messages are text, not binary"))
                return
            viewer.receive(message)
            await viewer.caught_up()

    async def _write(self, viewer: Viewer) -> None:
        """Take the next frame only when the last one is out, so that what waits for a slow client
        waits where it can still be merged."""
        while True:
            self._out.put(await viewer.next_frame())
            if not self._out.written:
                await self._out.drained()

    async def _close(self) -> None:
        """Say why, close, and see that it gets out, each in bounded time."""
        if self.refusal is not None:
            if self._dialect.says_closing and self._open:
                self._out.put(json.encode({"type": "closing", "reason": self.refusal.reason}))
            with trio.move_on_after(self._limits.ws_close):
                await self._say_goodbye(self.refusal)
        with trio.fail_after(self._limits.ws_close):  # else what the kernel holds goes as well
            await self._out.drained()
