"""Trio as the guest of an asyncio loop: started for the first block, ended with the last one.

Both run in one thread, and take turns. So a method that never waits (cancelling, answering, reading
a state) is called directly, and no object is read while it changes.

A call from asyncio becomes a Trio task in the nursery of the `Guest`, and the asyncio task waits
for its end (`Guest.call`). A call in the other direction becomes an asyncio task
(`Guest.call_back`). Both pass on a cancellation once and then wait: neither side ever leaves work
of the other one running.

The number of blocks that use Trio is counted. When the last one is left, the nursery is cancelled,
and the next block waits for the end of that run before it starts another.

`Waiter` makes this safe on asyncio's side. An asyncio task that is cancelled while it waits must
not return, since the Trio task would continue without it. So the first cancellation is turned into
one of the Trio task, later ones are ignored, and the `CancelledError` is raised at the end.

`KeyboardInterrupt` may arrive in either half of the thread's loop. If Trio gets it, its run ends,
and `lost_error` gives it to the asyncio tasks that waited for Trio.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from .._base.nesting import bare_errors, only_cancelled
from ..errors import AgentrtError, LocalProtocolError

T = TypeVar("T")


class _ThreadGuest(threading.local):
    """The guest of each thread, because Trio runs at most once in a thread."""

    guest: Guest | None = None


_here = _ThreadGuest()


class Waiter:
    """An event that asyncio tasks wait for without being able to give up.

    A cancellation is passed on, once. Not for use from other threads: `set` and `wait` belong to
    the thread of the loop, where Trio runs as well, so that no lock is needed.
    """

    def __init__(self) -> None:
        self.is_set: bool = False
        self._futures: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        """Mark the event as come, and wake all waiting tasks."""
        self.is_set = True
        for future in self._futures:
            if not future.done():
                future.set_result(None)

    async def wait(
        self, cancel: Callable[[], object] = lambda: None
    ) -> asyncio.CancelledError | None:
        """Wait for the event. The first cancellation calls `cancel`, and is returned.

        The caller must raise the returned error when its own work is complete, since asyncio counts
        on it. None if the task was not cancelled. `cancel` must not wait.
        """
        first: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        while not self.is_set:
            future = loop.create_future()
            self._futures.add(future)
            try:
                await future
            except asyncio.CancelledError as cancelled:  # noqa: ASYNC103 - returned
                if first is None:
                    first = cancelled
                    cancel()
            finally:
                self._futures.discard(future)
        return first


class Guest:
    """Trio in one asyncio loop. Obtained from `guest`.

    `ready` is set when Trio's `nursery` exists, and `over` when the run has ended. `users` is the
    number of blocks that need it; `guest` keeps the count.
    """

    nursery: trio.Nursery

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.users = 0
        self.ready: Waiter = Waiter()
        self.over: Waiter = Waiter()
        self.interrupted: KeyboardInterrupt | None = None
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self.loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self.loop.call_soon,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )

    def _done(self, outcome: object) -> None:
        """Note the end of the Trio run. Called by Trio in asyncio's loop."""
        _here.guest = None
        self.over.set()

    async def _main(self) -> None:
        """Keep the nursery of all calls open until the run is cancelled.

        Ctrl-C is kept for asyncio's side if its loop has no handler.
        """
        async with bare_errors(), trio.open_nursery() as self.nursery:
            self.ready.set()
            try:
                await trio.sleep_forever()
            except KeyboardInterrupt as error:  # if the loop has no handler of its own for it
                self.interrupted = error
                raise

    def lost_error(self) -> BaseException:
        """Return the error for a cancellation that no code here requested."""
        return self.interrupted or AgentrtError("Trio was ended while it was in use")

    async def call(self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> T:
        """Await a Trio function. Cancelling this cancels the function, and waits for its end.

        Called in an asyncio task. The result or the error of the function is that of this call. If
        the function finishes in spite of a cancellation, its result is dropped and the cancellation
        is raised. If the Trio run ends meanwhile, raises `lost_error`.
        """
        call = _GuestCall(self, lambda: function(*args, **named))
        self.nursery.start_soon(call.run)
        cancelled = await call.over.wait(call.scope.cancel)
        if call.error is not None:
            try:
                raise call.error
            finally:
                del call.error
        if cancelled is not None:
            raise cancelled
        return call.value  # type: ignore[no-any-return]

    async def call_back(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await an asyncio function in a Trio task. A cancellation is passed on.

        The function runs as a task of its own, with a copy of the present context variables. If it
        returns in spite of a cancellation, its result is returned. Raises `RuntimeError` if its
        task was cancelled by other code than this.
        """
        task = self.loop.create_task(_as_coroutine(function, args))
        waiting = trio.lowlevel.current_task()
        cancelling: list[trio.lowlevel.RaiseCancelT] = []

        def abort(raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            """Cancel the asyncio task, and let the Trio task wait for its end."""
            cancelling.append(raise_cancel)
            task.cancel()
            return trio.lowlevel.Abort.FAILED  # it ends when its asyncio task does

        task.add_done_callback(lambda _: trio.lowlevel.reschedule(waiting))
        await trio.lowlevel.wait_task_rescheduled(abort)
        if task.cancelled():
            if cancelling:
                cancelling[0]()
            raise RuntimeError("the handler's task was cancelled")  # as loops do when they end
        return task.result()


async def _as_coroutine(function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
    """Await a function's result as a coroutine, which `create_task` requires."""
    return await function(*args)


class _GuestCall:
    """One call into Trio."""

    def __init__(self, guest: Guest, function: Callable[[], Awaitable[Any]]) -> None:
        self.over = Waiter()
        self.scope = trio.CancelScope()
        self.value: Any = None
        self.error: BaseException | None = None
        self._guest = guest
        self._function = function

    async def run(self) -> None:
        """Call the function, in a Trio task."""
        try:
            with self.scope:
                self.value = await self._function()
        except BaseException as error:  # noqa: ASYNC103 - asyncio's side raises it
            if only_cancelled(error):
                self.error = self._guest.lost_error()
                raise
            self.error = error
        finally:
            self.over.set()


def the_guest() -> Guest:
    """Return the guest of this loop. Raises `LocalProtocolError` if no block is open in it."""
    guest = _here.guest
    if guest is None or guest.loop is not asyncio.get_running_loop():
        raise LocalProtocolError(
            "this belongs to a block of agentrt.aio that is not open (any more) in this event loop"
        )
    return guest


@asynccontextmanager
async def guest() -> AsyncIterator[Guest]:
    """Run Trio in this loop, for as long as a block uses it.

    Yields the `Guest`, which may have been started by another block. Leaving the last block waits
    until all of Trio's tasks have ended. Raises `LocalProtocolError` if the thread has no loop, or
    already runs Trio in another way.
    """
    while (here := _here.guest) is not None and here.users == 0 and not here.loop.is_closed():
        if (cancelled := await here.over.wait()) is not None:  # it is ending
            raise cancelled
    here = _join()
    try:
        if (cancelled := await here.ready.wait()) is not None:
            raise cancelled
        yield here
    finally:
        here.users -= 1
        if here.users == 0:
            await here.ready.wait()  # noqa: ASYNC102 - Trio ends in bounded time
            here.nursery.cancel_scope.cancel()
            cancelled = await here.over.wait()  # noqa: ASYNC102 - Trio ends in bounded time
            if cancelled is not None and sys.exc_info()[0] is None:
                raise cancelled


def _running_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's running loop. Raises `LocalProtocolError` if there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise LocalProtocolError(
            "no event loop runs here: agentrt.aio is awaited in programs on asyncio, as in"
            " asyncio.run(main())"
        ) from error


def _join() -> Guest:
    """Register one more user of this thread's Trio, and start it for the first."""
    here, loop = _here.guest, _running_loop()
    if here is None:
        try:
            here = _here.guest = Guest(loop)
        except RuntimeError as error:
            raise LocalProtocolError(
                "Trio runs in this thread already, as the guest of another loop: use"
                " `agentrt` in its"
                " tasks, or agentrt.aio without it"
            ) from error
    elif here.loop is not loop:
        raise LocalProtocolError(
            "an event loop of this thread was closed inside a block of agentrt.aio, so its"
            " Trio run cannot end"
        )
    here.users += 1
    return here
