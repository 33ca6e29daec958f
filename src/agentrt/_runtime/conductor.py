"""The task that hosts a session's turns, one after the other, and rings their clocks.

Each turn runs in a nursery of its own, opened here; the next one starts when its handlers have
stopped. The prompts that wait are kept here, too.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import trio

from .._errors import AgentrtError, Busy, LocalProtocolError, SessionClosed
from .._model.events import Error, Notice, QueueEntry
from .._model.turn import TurnState
from .turn import Turn

if TYPE_CHECKING:
    from .engine import Engine


class Conductor:
    """Brings prompts on their way, in order, and stays with each turn until its end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: deque[Turn] = deque()  # prompts that wait for their place
        self._begun: deque[Turn] = deque()  # turns that wait for their host
        self._hosting = False
        self._paused = False
        self._poke = trio.Event()

    # --- waiting for a place

    async def enter(self, turn: Turn) -> None:
        """Wait for a turn's place and send its prompt. Raises what kept the agent from starting.

        Cancelling it takes the prompt back, or cancels the turn if it was sent already.
        """
        engine = self._engine
        if engine.ended:
            raise SessionClosed("the session is closed")
        if turn._entry or turn._machine is not None:
            raise LocalProtocolError("a turn can be entered once")
        self._paused = False
        try:
            if self.free and not self._queue and engine.ready:
                engine.begin(turn)
                await trio.lowlevel.checkpoint()
            elif turn._when == "reject":
                raise Busy("a turn is running")
            else:
                self._enqueue(turn)
                await turn._started.wait()
        except trio.Cancelled:
            await self._take_back(turn)
            raise
        if turn._failure is not None:
            raise turn._failure

    @property
    def free(self) -> bool:
        """True when the next turn may start: the last one has ended, and so have its handlers."""
        return self._engine.turn is None and not self._begun and not self._hosting

    @property
    def waiting(self) -> bool:
        """True while a prompt waits that will be sent by itself."""
        return bool(self._queue) and not self._paused

    def _enqueue(self, turn: Turn) -> None:
        engine = self._engine
        if len(self._queue) >= engine.limits.queue:
            raise Busy(f"{len(self._queue)} prompts wait already (limits.queue)")
        turn._entry = engine.conversation.new_id("q")
        if turn._when == "interrupt":
            self._queue.appendleft(turn)
            if engine.turn is not None:
                engine.cancel_turn(engine.turn, "cancelled", by="caller")
        else:
            self._queue.append(turn)
        self._changed()
        if engine.turn is not None:
            engine.turn._stir.set()  # a turn that has no end on the wire makes room

    async def _take_back(self, turn: Turn) -> None:
        if turn in self._queue:
            self._queue.remove(turn)
            self._changed()
        elif turn._machine is not None and turn._result is None:
            self._engine.cancel_turn(turn, "cancelled", by="caller")
            with trio.move_on_after(turn.limits.cancel_grace + 1, shield=True):
                await turn._ended.wait()
        turn._close_cursor()

    def pause(self) -> None:
        """Hold the waiting prompts back until the next one comes, or `resume`."""
        if self._queue:
            self._paused = True
            self._changed()

    def resume(self) -> None:
        self._paused = False
        self._changed()

    def clear(self, failure: BaseException) -> None:
        """Nothing will be sent any more: every waiting prompt raises `failure`."""
        for turn in self._queue:
            turn._failure = failure
            turn._started.set()
        self._queue.clear()
        self._changed()

    def _changed(self) -> None:
        self._engine.conversation.queue(
            [QueueEntry(turn._entry, turn._content) for turn in self._queue], paused=self._paused
        )
        self._poke.set()
        self._engine.publish()

    # --- hosting

    def host(self, turn: Turn) -> None:
        """Take over a turn that has begun."""
        self._begun.append(turn)
        self._poke.set()

    async def run(self) -> None:
        """Host turns for as long as the session lives. To be run once, in its service nursery."""
        while True:
            if self._begun:
                self._hosting = True
                await self._host(self._begun.popleft())
                self._hosting = False
                self._engine.publish()
            elif self.waiting:
                await self._next()
            else:
                await self._poke.wait()
                self._poke = trio.Event()

    async def _next(self) -> None:
        """Bring the next prompt on its way, on a new process if the old one is gone."""
        engine = self._engine
        if not engine.ready:
            turn = self._queue[0]
            try:
                await engine.revive()
            except AgentrtError as error:
                if turn in self._queue:
                    self._queue.remove(turn)
                    turn._failure = error
                    turn._started.set()
                    self._changed()
                return
        if self.free and self.waiting:
            turn = self._queue.popleft()
            self._changed()
            try:
                engine.begin(turn)
            except AgentrtError as error:
                turn._failure = error
                turn._started.set()

    async def _host(self, turn: Turn) -> None:
        """The turn's nursery: lives until the turn has ended and its handlers have stopped."""
        async with trio.open_nursery() as nursery:
            turn._nursery = nursery
            for start in turn._backlog:
                turn._context.run(start, nursery)
            turn._backlog.clear()
            while turn._result is None:
                turn._stir = trio.Event()
                with trio.CancelScope(deadline=self._alarm(turn)):
                    await turn._stir.wait()
                    continue
                self._ring(turn)
            nursery.cancel_scope.cancel()
        if turn._overdue:
            await self._engine.shut()

    # --- clocks

    def _alarm(self, turn: Turn) -> float:
        """When this turn's next clock rings."""
        machine, active = turn._machine, self._engine.last_activity
        assert machine is not None
        if machine.state is TurnState.CANCELLING:
            return min(turn._grace_at, turn._resend_at)
        if not machine.explicit:
            return -math.inf if self.waiting else active + self._engine.limits.settle
        if machine.state is TurnState.WAITING or turn.limits.idle is None:
            return turn._hard_at
        return min(turn._hard_at, active + turn.limits.idle)

    def _ring(self, turn: Turn) -> None:
        """A clock has rung: do what it asks for, if it is still due."""
        engine, machine, now = self._engine, turn._machine, trio.current_time()
        assert machine is not None
        if now < self._alarm(turn):
            return  # there was activity meanwhile
        if machine.state is TurnState.CANCELLING:
            if now >= turn._grace_at:
                turn._overdue = True
                engine.give_up()
            else:
                turn._resend_at = math.inf
                engine.tell_cancel()
        elif not machine.explicit:
            engine.finish_turn("completed")
        else:
            which = "hard" if now >= turn._hard_at else "idle"
            limit = turn.limits.hard if which == "hard" else turn.limits.idle
            turn._timeout = Error(
                "timed_out", f"the turn reached its {which} limit of {limit:g} s", {"limit": which}
            )
            engine.cancel_turn(turn, "timed_out", by=None)
        engine.publish()


def gave_up(grace: float) -> Notice:
    """What is told when an agent did not end a cancelled turn."""
    return Notice(
        "warning",
        "cancel_ignored",
        f"the agent did not end its turn within {grace:g} s of the cancel and is being ended",
    )
