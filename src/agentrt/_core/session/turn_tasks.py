"""A turn's nursery and cancel scope, opened before they are needed.

A nursery can only be opened by a task that waits in it. Each session therefore keeps one open that
belongs to no turn yet. The first handler of a turn, or a program that uses `Turn.nursery`, takes
it.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ..model.turn import TurnMachine
from ..nesting import bare_errors


class TurnTasks:
    """The tasks of one turn, which are over before the next one starts."""

    nursery: trio.Nursery

    def __init__(self) -> None:
        self.cancel_scope: trio.CancelScope = trio.CancelScope()
        self.turn: TurnMachine | None = None
        """The turn that uses it; None until it is needed."""
        self.finished: bool = False
        self._over = trio.Event()

    def assign(self, turn: TurnMachine) -> None:
        """Assign this to a turn: the deadline of the scope is the turn's hard limit."""
        self.turn = turn
        self.cancel_scope.deadline = turn.hard_at
        turn.scope = self.cancel_scope
        if turn.verdict is not None:
            self.cancel_scope.cancel()

    def close(self) -> None:
        """Cancel the remaining tasks of a turn that is over."""
        self.nursery.cancel_scope.cancel()
        self._over.set()

    async def run(
        self,
        cancelled: Callable[[TurnMachine], None],
        finished: Callable[[], None],
        *,
        task_status: trio.TaskStatus[TurnTasks],
    ) -> None:
        """Keep the nursery open until `close`.

        `cancelled` is called immediately if the scope or the nursery is cancelled before that, and
        `finished` when every task is over. An error of a task goes to the turn's block or, if no
        task is in it, is raised here.
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
