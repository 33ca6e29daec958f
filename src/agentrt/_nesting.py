"""What agentrt adds to Trio's nurseries: bare errors, and service scopes; and the error where
there is no Trio.

A *service scope* holds tasks that must outlive the block that uses them for a moment: when the
block is cancelled they go on, so that the last words can still be written, until the block's own
clean-up ends them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import trio

from ._errors import LocalProtocolError


def check_trio(function: str) -> None:
    """Raises `LocalProtocolError` where no task of Trio's runs: Trio's own error would not say what
    to do."""
    if not trio.lowlevel.in_trio_task():
        raise LocalProtocolError(
            f"agentrt.{function} was called outside Trio. In a program on asyncio use"
            f" agentrt.aio.{function}, which is the same; or run yours with trio.run(main)"
        )


class bare_errors:
    """Around one nursery of agentrt's own: where a single error comes out of it, it is raised as it
    is, and not in the group that the nursery puts around it.

    Only that layer is taken away: a group that a program has raised itself stays what it was.
    Cancellations beside the error are dropped: it replaces them, as anywhere in Trio. Several
    errors stay a group.
    """

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(raised, BaseExceptionGroup):
            return
        errors = [error for error in raised.exceptions if not only_cancelled(error)]
        if len(errors) != 1:
            return
        [error] = errors
        context = error.__context__
        try:
            raise error
        finally:
            # The group says nothing that the error does not; a chain to it would only repeat.
            error.__context__ = context
            del error, errors, context, raised


def only_cancelled(error: BaseException) -> bool:
    """Whether it says nothing but that a scope of Trio's was cancelled."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(only_cancelled, error.exceptions))
    return isinstance(error, trio.Cancelled)


class ServiceNursery:
    """A nursery for services. An error of one cancels the block that uses them at once, before
    the others are cancelled: the block must not take their end for something else."""

    def __init__(self, nursery: trio.Nursery, block: trio.CancelScope) -> None:
        self._nursery = nursery
        self._block = block

    @property
    def cancel_scope(self) -> trio.CancelScope:
        return self._nursery.cancel_scope

    def start_soon(self, service: Callable[..., Awaitable[object]], *args: object) -> None:
        self._nursery.start_soon(self._serve, service, args)

    async def start(self, service: Callable[..., Awaitable[object]], *args: object) -> Any:
        """As `trio.Nursery.start`: an error before the start is the caller's."""

        async def serve(task_status: trio.TaskStatus[Any]) -> None:  # noqa: ASYNC128 - the service does
            status = _Status(task_status)
            try:
                await service(*args, task_status=status)
            except trio.Cancelled:
                raise
            except BaseException:
                if status.reported:
                    self._block.cancel()
                raise

        return await self._nursery.start(serve)

    async def _serve(
        self, service: Callable[..., Awaitable[object]], args: tuple[object, ...]
    ) -> None:
        try:
            await service(*args)
        except trio.Cancelled:
            raise
        except BaseException:
            self._block.cancel()
            raise


class _Status(trio.TaskStatus[Any]):
    """Knows whether the start has been reported."""

    def __init__(self, status: trio.TaskStatus[Any]) -> None:
        self.reported = False
        self._status = status

    def started(self, value: Any = None) -> None:
        self.reported = True
        self._status.started(value)


@asynccontextmanager
async def open_service_nursery() -> AsyncIterator[ServiceNursery]:
    """A nursery whose tasks do not feel a cancellation from outside: the block must end them (by
    `nursery.cancel_scope.cancel()`) or let them end, in bounded time, before it is left.

    An error of a service task cancels the block and is raised from here, bare if it is alone.
    """

    opened: list[trio.Nursery] = []
    ready = trio.Event()

    async def serve() -> None:
        async with bare_errors(), trio.open_nursery() as services:
            # If the caller was cancelled by now, nobody would ever end what is shielded.
            await trio.lowlevel.checkpoint_if_cancelled()
            services.cancel_scope.shield = True
            opened.append(services)
            ready.set()
            await trio.sleep_forever()

    async with bare_errors(), trio.open_nursery() as outer:
        outer.start_soon(serve)  # `start` would open one more nursery, for each session twice
        try:
            await ready.wait()
            yield ServiceNursery(opened[0], outer.cancel_scope)
        finally:
            for services in opened:
                services.cancel_scope.cancel()
