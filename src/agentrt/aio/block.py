"""A Trio block that asyncio enters and leaves.

The difficulty is that a Trio block must be entered and left by the same Trio task, while asyncio
enters and leaves with two calls. So a Trio task holds the block (`_hold`), and the two sides meet
at three points: `_entered` (the block is open), `_left` (asyncio has left its body) and `_over`
(the block is closed).

Either side can fail first. If asyncio's body raises, the error is raised inside the Trio block,
which may suppress it as any context manager may. If the Trio block is cancelled or fails first, the
body of asyncio is cancelled, and the block waits until it has left before anything is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

import trio

from .._base.nesting import only_cancelled
from .guest import Guest, Waiter, guest
from .handlers import adapt_arguments
from .views import view

T = TypeVar("T")


class TrioBlock(AbstractAsyncContextManager[T], Generic[T]):
    """A Trio block for asyncio: a Trio task enters it, and stays in it until asyncio's task leaves.

    If Trio ends the block first (the session broke), asyncio's task is cancelled, as by a
    `TaskGroup`, and the block raises the error.
    """

    def __init__(
        self,
        function: Callable[..., AbstractAsyncContextManager[T]],
        args: tuple[Any, ...],
        named: Mapping[str, Any],
    ) -> None:
        self._function = function
        self._args = args
        self._named = dict(named)
        self._plain: AbstractAsyncContextManager[T] | None = None
        self._scope = trio.CancelScope()
        self._entered = Waiter()
        self._over = Waiter()
        self._left = trio.Event()
        self._value: T
        self._raised: BaseException | None = None  # by asyncio's side of the block
        self._error: BaseException | None = None  # by Trio's side
        self._suppressed = False
        self._broken = False

    async def __aenter__(self) -> T:
        """Enter the block, and return the view of its value.

        A cancellation while it opens cancels the opening, waits for its end and is raised then. In
        a Trio task the block is entered directly.
        """
        if trio.lowlevel.in_trio_task():
            self._plain = self._function(*self._args, **self._named)
            return await self._plain.__aenter__()
        self._use = guest()
        self._guest = await self._use.__aenter__()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        try:
            block = self._function(*self._args, **adapt_arguments(self._guest, self._named, view))
            self._guest.nursery.start_soon(self._hold, self._guest, block)
            cancelled = await self._entered.wait(self._scope.cancel)
            if cancelled is not None:
                self._raised = cancelled
                self._left.set()
                await self._over.wait()
                raise cancelled
            if self._over.is_set and self._error is not None:
                raise self._error
        except BaseException as error:
            await self._use.__aexit__(type(error), error, error.__traceback__)  # noqa: ASYNC102 - Trio ends in bounded time
            raise
        return view(self._value)

    async def _hold(self, guest: Guest, block: AbstractAsyncContextManager[T]) -> None:
        """Keep a Trio block open, in a task of Trio, while asyncio's side is inside.

        An exception of asyncio's block is raised in the Trio block, which may handle it. An
        exception of the Trio block is kept for asyncio's side. If the Trio run itself ends,
        asyncio's side gets an error and the cancellation continues.
        """
        try:
            with self._scope:
                async with block as self._value:
                    self._entered.set()
                    await self._stay()
                    if self._raised is not None:
                        raise self._raised
                self._suppressed = self._raised is not None
        except BaseException as error:  # noqa: ASYNC103 - asyncio's side raises it
            if only_cancelled(error):
                self._error = guest.lost_error()
                raise
            self._error = error
        finally:
            self._over.set()
            self._entered.set()

    async def _stay(self) -> None:
        """Wait until asyncio's side has left the block.

        If the Trio side is cancelled first, the task of asyncio is cancelled, and this waits until
        it has left: the resources of the block must not be closed while it uses them.
        """
        try:
            await self._left.wait()
        except trio.Cancelled:
            if not self._left.is_set():
                self._broken = True
                self._task.cancel()
                with trio.CancelScope(shield=True):  # until asyncio's task has noticed it
                    await self._left.wait()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Leave the block, and wait for its end.

        An error of the block is raised unless it is the one with which asyncio's side has left. If
        the block was broken by Trio's side, the cancellation of this task is taken back, because
        the error explains it.
        """
        if self._plain is not None:
            return await self._plain.__aexit__(kind, error, traceback)  # noqa: ASYNC102 - as in the block
        self._raised = error
        self._left.set()
        cancelled = await self._over.wait(self._scope.cancel)  # noqa: ASYNC102 - as in the block
        if self._broken:
            self._task.uncancel()  # the cancellation was this block's, which raises the reason
        await self._use.__aexit__(kind, error, traceback)  # noqa: ASYNC102 - as in the block
        if self._error is not None and self._error is not error:
            try:
                raise self._error
            finally:
                self._error = None
        if cancelled is not None:
            raise cancelled
        return self._suppressed
