"""What agentrt adds to Trio's nurseries: bare errors, and service scopes; and the error where
there is no Trio.

A *service scope* holds tasks that must outlive the block that uses them for a moment: when the
block is cancelled they go on, so that the last words can still be written, until the block's own
clean-up ends them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
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
    """A nursery for services, each in a shielded scope of its own. An error of one cancels the
    block that uses them, and the others only when the block ends them: it must not take their end
    for something else."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()
        self._ended = False

    def cancel(self) -> None:
        """End the services, and those that are started from now on."""
        self._ended = True
        for scope in self._scopes:
            scope.cancel()

    def start_soon(self, service: Callable[..., Awaitable[object]], *args: object) -> None:
        self._nursery.start_soon(self._serve, service, args, name=service)

    async def start(self, service: Callable[..., Awaitable[object]], *args: object) -> Any:
        """As `trio.Nursery.start`: up to its start, a cancellation of the caller is the service's,
        and an error of the service the caller's."""
        return await self._nursery.start(self._serve, service, args, name=service)

    async def _serve(  # noqa: ASYNC114, ASYNC128 - the service does
        self,
        service: Callable[..., Awaitable[object]],
        args: tuple[object, ...],
        *,
        task_status: trio.TaskStatus[Any] | None = None,
    ) -> None:
        scope = trio.CancelScope()
        if task_status is None:
            self.shield(scope)
        else:
            service = partial(service, task_status=_Status(task_status, self, scope))
        try:
            with scope:
                await service(*args)
        finally:
            self._scopes.discard(scope)

    def shield(self, scope: trio.CancelScope) -> None:
        """From now on only `cancel` ends what runs in it."""
        scope.shield = True
        self._scopes.add(scope)
        if self._ended:
            scope.cancel()

    def has(self, task: trio.lowlevel.Task) -> bool:
        """Whether it is one of its services, and has started."""
        return task.parent_nursery is self._nursery


class _Status(trio.TaskStatus[Any]):
    """Shields the service from its start on. Made by its task."""

    def __init__(
        self, status: trio.TaskStatus[Any], services: ServiceNursery, scope: trio.CancelScope
    ) -> None:
        self._status = status
        self._services = services
        self._scope = scope
        self._task = trio.lowlevel.current_task()

    def started(self, value: Any = None) -> None:
        # Shielded first: it goes into a nursery that may be cancelled, and comes back unmoved if
        # its caller is.
        self._services.shield(self._scope)
        self._status.started(value)
        self._scope.shield = self._services.has(self._task)


@asynccontextmanager
async def open_service_nursery() -> AsyncIterator[ServiceNursery]:
    """A nursery whose tasks do not feel a cancellation from outside: the block must end them (by
    `cancel`) or let them end, in bounded time, before it is left.

    An error of a service task cancels the block and is raised from here, bare if it is alone.
    """
    async with bare_errors(), trio.open_nursery() as nursery:
        services = ServiceNursery(nursery)
        try:
            yield services
        finally:
            services.cancel()
