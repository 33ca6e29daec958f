"""Additions to Trio: bare errors, service scopes, standstills.

A *service scope* holds tasks that must briefly outlive the block that uses them. When the block is
cancelled they continue, so that final messages can still be written, until the block's own clean-up
ends them.

A *standstill* is a time in which this program did not run: a paused container, a debugger, a
sleeping machine, or code that blocked Trio. The agent may not have run either, and its output was
not read, so a limit that expired in that time means nothing. The time is measured between the steps
of Trio's loop, before it checks its deadlines, so that they can be moved by the gap first.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Final, TypeVar

import trio

T = TypeVar("T")


class bare_errors:
    """Unwrap a single error from a nursery: raise it directly, not in the nursery's group.

    Only that layer is removed: a group that a program has raised itself is not changed.
    Cancellations next to the error are dropped: it replaces them, as anywhere in Trio. Several
    errors stay a group.
    """

    __slots__ = ()

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
            # The group adds no information; chaining to it would only repeat the error.
            error.__context__ = context
            # The error refers to this frame, which must not refer to it in return.
            del error, errors, context, raised, traceback


def only_cancelled(error: BaseException) -> bool:
    """Return True if the error consists of Trio cancellations only."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(only_cancelled, error.exceptions))
    return isinstance(error, trio.Cancelled)


class ExitStack:
    """Context managers that exit together with this one, like `contextlib.AsyncExitStack`.

    An error that leaves it is freed without the garbage collector, because no frame of its
    traceback keeps a reference to it.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: tuple[AbstractAsyncContextManager[Any], ...] = ()

    async def enter_async_context(self, block: AbstractAsyncContextManager[T]) -> T:
        """Enter a block, which is left with the stack's."""
        entered = await block.__aenter__()
        self._blocks = (*self._blocks, block)
        return entered

    async def __aenter__(self) -> ExitStack:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Leave the blocks, the last one first, each with the error that comes from the others."""
        error = raised
        try:
            while self._blocks:
                *rest, block = self._blocks
                self._blocks = tuple(rest)
                try:
                    if await _leave(block, error):  # noqa: ASYNC102 - as the block bounds it
                        error = None
                except BaseException as other:  # noqa: ASYNC103 - raised at the end
                    error = other
            if error is None or error is raised:
                return error is None
            context = error.__context__
            try:
                raise error
            finally:
                error.__context__ = context
                del context
        finally:
            del error, raised, traceback


async def _leave(block: AbstractAsyncContextManager[Any], error: BaseException | None) -> Any:
    """Leave a block with this error, if there is one. Returns true to suppress it."""
    try:
        if error is None:
            return await block.__aexit__(None, None, None)
        return await block.__aexit__(type(error), error, error.__traceback__)
    finally:
        del error


class ServiceNursery:
    """A nursery for services, each in its own shielded scope.

    An error of one service cancels the block that uses them. The other services run until the block
    ends them, so that they do not mistake this for another kind of end.
    """

    __slots__ = ("_ended", "_nursery", "_scopes")

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()
        self._ended = False

    def cancel(self) -> None:
        """End all services, including any that are started later."""
        self._ended = True
        for scope in self._scopes:
            scope.cancel()

    def start_soon(self, service: Callable[..., Awaitable[object]], *args: object) -> None:
        """Start a service, as `trio.Nursery.start_soon`."""
        self._nursery.start_soon(self._serve, service, args, name=service)

    async def start(self, service: Callable[..., Awaitable[object]], *args: object) -> Any:
        """Start a service and wait for it, as `trio.Nursery.start`.

        Until the service has started, a cancellation of the caller also cancels the service, and an
        error of the service is raised in the caller.
        """
        return await self._nursery.start(self._serve, service, args, name=service)

    async def _serve(  # noqa: ASYNC114, ASYNC128 - the service does
        self,
        service: Callable[..., Awaitable[object]],
        args: tuple[object, ...],
        *,
        task_status: trio.TaskStatus[Any] | None = None,
    ) -> None:
        """Run a service under a scope that is shielded while the block of the nursery runs.

        A service that is started with `start` is shielded only from `started` on: until then, it
        belongs to the caller.
        """
        scope = trio.CancelScope()
        if task_status is None:
            self.shield(scope)
            running = service(*args)
        else:
            running = service(*args, task_status=_Status(task_status, self, scope))
            del task_status  # it keeps the nursery of the start in memory
        try:
            with scope:
                await running
        finally:
            self._scopes.discard(scope)

    def shield(self, scope: trio.CancelScope) -> None:
        """Shield the scope; from now on only `cancel` ends it."""
        scope.shield = True
        self._scopes.add(scope)
        if self._ended:
            scope.cancel()

    def has(self, task: trio.lowlevel.Task) -> bool:
        """Return True if the task is a service of this nursery and has started."""
        return task.parent_nursery is self._nursery


class _Status(trio.TaskStatus[Any]):
    """Shields the service once it has started. Created by the service's task."""

    __slots__ = ("_scope", "_services", "_status", "_task")

    def __init__(
        self, status: trio.TaskStatus[Any], services: ServiceNursery, scope: trio.CancelScope
    ) -> None:
        self._status: trio.TaskStatus[Any] | None = status
        self._services = services
        self._scope = scope
        self._task = trio.lowlevel.current_task()

    def started(self, value: Any = None) -> None:
        # Shield first: the task moves to a nursery that may be cancelled, and stays where it was if
        # the caller is cancelled.
        self._services.shield(self._scope)
        if self._status is None:
            raise RuntimeError("called 'started' twice on the same task status")
        status, self._status = self._status, None  # the service may keep this object
        status.started(value)
        self._scope.shield = self._services.has(self._task)


class open_service_nursery:
    """Open a nursery whose tasks are not cancelled from outside.

    Before leaving the block, end them with `cancel` or let them end in bounded time. An error of a
    service task cancels the block and is raised from here, bare if it is the only one.
    """

    __slots__ = ("_manager", "_services")

    async def __aenter__(self) -> ServiceNursery:
        self._manager = trio.open_nursery()
        self._services = ServiceNursery(await self._manager.__aenter__())
        return self._services

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            async with bare_errors():  # noqa: ASYNC102
                self._services.cancel()
                return await self._manager.__aexit__(kind, raised, traceback)  # noqa: ASYNC102
        finally:
            del raised, traceback  # an error that leaves refers to this frame


TICK_S: Final = 5.0
"""The maximum sleep of a session with a turn, in seconds. A sleep that takes longer shows a gap."""

GAP_S: Final = 5.0
"""Seconds by which the loop must be late. A program that is less late was busy."""

Listener = Callable[[float], None]
"""Called with the seconds during which the program stood still."""


class Standstill(trio.abc.Instrument):
    """Watches the loop of one Trio run.

    Only time that passes on both clocks counts, and both must advance while the program does not
    run. A loop that is late by Trio's clock alone has jumped ahead, as `MockClock` does. One that
    is late by the machine's clock alone has a clock of its own, which did not advance.
    """

    def __init__(self, machine: Callable[[], float], loop: Callable[[], float]) -> None:
        """`machine` is the clock of the machine, `loop` is Trio's."""
        self.listeners: set[Listener] = set()
        self._machine = machine
        self._loop = loop
        self._machine_s = machine()
        self._loop_s = loop()

    def after_io_wait(self, timeout: float) -> None:
        """Report a gap to the listeners, if there was one. Runs twice for each update."""
        machine_s, loop_s = self._machine(), self._loop()
        # The time at which the program stopped is unknown: the whole sleep may be the gap.
        gap_s, passed_s = machine_s - self._machine_s, loop_s - self._loop_s
        self._machine_s, self._loop_s = machine_s, loop_s
        if gap_s - timeout >= GAP_S and passed_s - timeout >= GAP_S:
            for listener in tuple(self.listeners):
                listener(min(gap_s, passed_s))


_current: trio.lowlevel.RunVar[Standstill | None] = trio.lowlevel.RunVar("agentrt still", None)


class on_standstill:
    """Call `listener` after each standstill of the program, as long as the block runs.

    `listener` must not block. It is called outside of any task.
    """

    __slots__ = ("_listener", "_watch")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        watch = _current.get()
        if watch is None:
            watch = Standstill(time.monotonic, trio.lowlevel.current_clock().current_time)
            _current.set(watch)
            trio.lowlevel.add_instrument(watch)
        self._watch: Standstill = watch
        watch.listeners.add(self._listener)

    def __exit__(self, *raised: object) -> None:
        watch = self._watch
        watch.listeners.discard(self._listener)
        if not watch.listeners:
            with suppress(KeyError):  # Trio has removed it, because a listener failed
                trio.lowlevel.remove_instrument(watch)
            _current.set(None)
