"""A turn's nursery and its cancel scope, open before anybody looks at them.

A nursery can only be opened by a task that waits in it. So each session keeps one open that belongs
to no turn yet; the first handler of a turn, or a program that wants `Turn.nursery`, takes it.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from .._model.turn import TurnMachine
from .._nesting import bare_errors


class TurnTasks:
    """What lives with one turn, and is over before the next one starts."""

    nursery: trio.Nursery

    def __init__(self) -> None:
        self.cancel_scope = trio.CancelScope()
        self.turn: TurnMachine | None = None
        """Whose it is; None until somebody has looked."""
        self.finished = False
        self._over = trio.Event()

    def take(self, turn: TurnMachine) -> None:
        """From now on it is this turn's: the deadline of the scope is its hard limit."""
        self.turn = turn
        self.cancel_scope.deadline = turn.hard_at
        turn.scope = self.cancel_scope
        if turn.verdict is not None:
            self.cancel_scope.cancel()

    def close(self) -> None:
        """The turn is over: cancel what is left of it."""
        self.nursery.cancel_scope.cancel()
        self._over.set()

    async def run(
        self,
        cancelled: Callable[[TurnMachine], None],
        finished: Callable[[], None],
        *,
        task_status: trio.TaskStatus[TurnTasks],
    ) -> None:
        """Hold the nursery open until `close`. `cancelled` is called at once if the scope or the
        nursery is cancelled before, `finished` when every task is over.

        An error of a task is for the turn's block, or, where nobody is in it, raised here.
        """
        try:
            async with bare_errors():
                with self.cancel_scope:
                    async with trio.open_nursery() as self.nursery:
                        task_status.started(self)
                        try:
                            await self._over.wait()
                        except trio.Cancelled:
                            ours = self.cancel_scope.cancel_called
                            if self.turn and (ours or self.nursery.cancel_scope.cancel_called):
                                cancelled(self.turn)
                            raise
        except trio.Cancelled:
            raise
        except BaseException as error:
            if self.turn is None or not self.turn.awaited:
                raise
            self.turn.error = error
        finally:
            self.finished = True
            finished()
