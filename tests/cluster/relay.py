"""What stands between two that talk over TCP, and may hold up, halve and cut what they say."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

Target: TypeAlias = Callable[[], Awaitable[trio.SocketStream]]


class Relay:
    """A port on loopback. `target` opens the other end of a connection, or raises `OSError`."""

    def __init__(self, target: Target, chance: random.Random) -> None:
        self.port = 0
        self.delay = 0.0
        """Seconds that each piece is late."""
        self.halves = False
        """Whether of the next piece only the first half arrives, and nothing after it."""
        self.chance = chance
        self._target = target
        self.count = 0
        """Connections there have been."""
        self._flows = trio.Event()
        self._flows.set()
        self._open: set[trio.CancelScope] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._serve, [listener])

    def hold(self) -> None:
        """Let nothing through until `go_on`; new connections are let in."""
        if self._flows.is_set():
            self._flows = trio.Event()

    def go_on(self) -> None:
        self._flows.set()

    def cut(self, share: float = 1.0) -> None:
        """Cut this share of the connections."""
        for scope in list(self._open):
            if self.chance.random() < share:
                scope.cancel(reason="cut")

    async def _serve(self, client: trio.SocketStream) -> None:
        self.count += 1
        try:
            server = await self._target()
        except OSError:
            return
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._carry, client, server, scope)
                    nursery.start_soon(self._carry, server, client, scope)
            finally:
                self._open.discard(scope)
                for each in (client, server):
                    each.socket.close()  # without a checkpoint, which would keep one of them open

    async def _carry(
        self,
        source: trio.SocketStream,
        target: trio.SocketStream,
        scope: trio.CancelScope,
    ) -> None:
        try:
            async for data in source:
                if self.halves:
                    self.halves = False
                    await target.send_all(data[: len(data) // 2])
                    scope.cancel(reason="halved")
                if self.delay:
                    await trio.sleep(self.delay)
                await self._flows.wait()
                await target.send_all(data)
            await target.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            scope.cancel(reason="one end is gone")
