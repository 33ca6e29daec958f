"""The task that hosts a session's turns, one after the other, and rings their clocks.

The handlers of a turn run in a nursery of its own, opened here with the first of them; the next
turn starts when they have stopped. The prompts that wait are kept here, too.

The task sleeps under one cancel scope whose deadline is the running turn's next clock: a turn that
needs no handler and meets no deadline begins and ends without waking it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import trio

from .._errors import AgentrtError, Busy, LimitExceeded, LocalProtocolError, SessionClosed
from .._model.content import Block
from .._model.driver import Steers
from .._model.events import Error, Notice, QueueEntry
from .._model.turn import TurnState
from .turn import Turn

if TYPE_CHECKING:
    from .engine import Engine
    from .handlers import Starter

    Start: TypeAlias = Callable[[Starter], None]


class Conductor:
    """Brings prompts on their way, in order, and stays with each turn until its end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: deque[Turn] = deque()  # prompts that wait for their place
        self._wanted: deque[tuple[Turn, Start]] = deque()  # handlers that wait for their nursery
        self._hosted: Turn | None = None
        self._nursery: trio.Nursery | None = None
        self.quarantine = False
        """True while a process is being ended that is of no use any more."""
        self._paused = False
        self._asleep: trio.CancelScope | None = None
        self._poke = trio.Event()

    # --- waiting for a place

    async def enter(self, turn: Turn) -> None:
        """Wait for a turn's place and send its prompt. Raises what kept the agent from starting.

        Cancelling it takes the prompt back, or cancels the turn if it was sent already.
        """
        try:
            await trio.lowlevel.checkpoint_if_cancelled()  # before anything is sent
            self.place(turn)
            if turn._machine is None:
                turn._started = trio.Event()
                await turn._started.wait()
        except trio.Cancelled:
            await self._take_back(turn)  # noqa: ASYNC102 - shields itself, with a deadline
            raise
        if turn._failure is not None:
            raise turn._failure

    def place(self, turn: Turn) -> None:
        """Send a turn's prompt now, or let it wait in the queue; nobody need wait with it.

        Raises `Busy`, `LimitExceeded`, `SessionClosed` or, if the agent cannot take such a prompt,
        `LocalProtocolError`; then nothing has changed.
        """
        engine = self._engine
        if engine.ended:
            raise SessionClosed("the session is closed")
        if turn._entry or turn._machine is not None:
            raise LocalProtocolError("a turn can be entered once")
        idle = self.free and not self._queue
        if turn._when == "reject" and not idle:
            raise Busy("a turn is running")
        if idle and engine.ready:
            self._paused = False
            engine.begin(turn)
        else:
            self._enqueue(turn)

    @property
    def free(self) -> bool:
        """True when the next turn may start: the last one has ended, and so have its handlers,
        and no process is in quarantine."""
        return (
            self._engine.turn is None
            and self._hosted is None
            and not self._wanted
            and not self.quarantine
        )

    @property
    def waiting(self) -> bool:
        """True while a prompt waits that will be sent by itself."""
        return self._upcoming() is not None

    def _upcoming(self) -> Turn | None:
        """The prompt that is sent next, unless all that wait are held back."""
        return next((turn for turn in self._queue if not (self._paused and turn._held)), None)

    def _enqueue(self, turn: Turn) -> None:
        engine = self._engine
        if len(self._queue) >= engine.limits.queue:
            raise LimitExceeded(f"{len(self._queue)} prompts wait already (limits.queue)")
        self._paused = self._paused and not turn._held
        turn._entry = engine.conversation.new_id("q")
        if turn._when == "interrupt":
            self._queue.appendleft(turn)
            if engine.turn is not None:
                engine.cancel_turn(engine.turn, "cancelled", by="caller")
        else:
            self._queue.append(turn)
        self._changed()

    async def _take_back(self, turn: Turn) -> None:
        if turn in self._queue:
            self._queue.remove(turn)
            self._changed()
        elif turn._machine is not None and turn._result is None:
            self._engine.cancel_turn(turn, "cancelled", by="caller")
            with trio.move_on_after(turn.limits.cancel_grace + 1, shield=True):
                await turn._wait_for_end()
        turn._close_cursor()

    def remove(self, entry: str) -> None:
        """Take a waiting prompt back; who waits for it gets an `AgentrtError`. Raises
        `LocalProtocolError` if it does not wait (any more)."""
        self.withdraw(self._waits(entry))

    def withdraw(self, turn: Turn) -> None:
        """Take a prompt back if it waits, as `remove`."""
        if turn in self._queue:
            self._queue.remove(turn)
            if turn._started is not None:
                turn._fail(AgentrtError("the prompt was taken out of the queue"))
            self._changed()

    def edit(self, entry: str, content: list[Block]) -> None:
        """Replace what a waiting prompt says; as `remove`."""
        self._waits(entry)._content = content
        self._changed()

    def promote(self, entry: str) -> None:
        """Let a waiting prompt be the next one; as `remove`."""
        turn = self._waits(entry)
        self._queue.remove(turn)
        self._queue.appendleft(turn)
        self._changed()

    def _waits(self, entry: str) -> Turn:
        for turn in self._queue:
            if turn._entry == entry:
                return turn
        raise LocalProtocolError(f"no prompt {entry!r} waits: it was started or taken back")

    def retire(self) -> bool:
        """End the process, on which nothing runs; the next prompt starts another one. Returns at
        once. False, and nothing happens, if a turn runs or waits or there is no process."""
        if not self.free or self.waiting or not self._engine.ready:
            return False
        self.quarantine = True
        self._poke.set()
        return True

    def pause(self) -> None:
        """Hold the waiting prompts back until the next one comes, or `resume`."""
        if any(turn._held for turn in self._queue):
            self._paused = True
            self._changed()

    def resume(self) -> None:
        self._paused = False
        self._changed()

    def clear(self, failure: AgentrtError) -> None:
        """Nothing will be sent any more: every waiting prompt raises `failure`."""
        for turn in self._queue:
            turn._fail(failure)
        self._queue.clear()
        self._changed()

    def _changed(self) -> None:
        self._engine.conversation.queue(
            [QueueEntry(turn._entry, turn._content) for turn in self._queue], paused=self._paused
        )
        self._poke.set()
        self._engine.publish()

    def steer(self, content: list[Block]) -> None:
        """Send a prompt into the running turn, where the agent can take one."""
        engine = self._engine
        link, turn = engine.link, engine.turn
        if link is None or turn is None or turn._verdict is not None:
            raise LocalProtocolError("no turn runs that could be steered")
        if not isinstance(link.driver, Steers):
            raise LocalProtocolError("this agent takes no prompt into a running turn")
        id = engine.conversation.new_id("s")
        effects = link.driver.steer(id, content)
        engine.steered.add(id)
        engine.conversation.items.prompted(content)
        engine.received(link, effects)

    # --- hosting

    def start_handler(self, turn: Turn, start: Start) -> None:
        """Start a handler in the turn's nursery and context."""
        if self._hosted is turn and self._nursery is not None:
            turn._context.run(start, self._nursery)
        else:
            self._wanted.append((turn, start))
            self._poke.set()

    def adjust(self) -> None:
        """The running turn, its state or what waits has changed: so may the next deadline.

        One that comes later than before is left alone: moving it costs more than to wake up once
        in vain, and turns are many while limits are long.
        """
        if self._engine.turn is None and (self._hosted is not None or self._queue):
            self._poke.set()
        elif self._asleep is not None and (alarm := self._alarm()) < self._asleep.deadline:
            self._asleep.deadline = alarm

    async def run(self) -> None:
        """Host turns for as long as the session lives. To be run once, in its service nursery."""
        try:
            while True:
                if self._wanted:
                    await self._host(self._wanted[0][0])
                elif self.quarantine:
                    await self._engine.shut()
                    self.quarantine = False
                    self._engine.publish()
                elif self.free and self.waiting:
                    await self._next()
                else:
                    await self._sleep()
        finally:
            while self._wanted:  # begun only to be cancelled with the rest
                turn, start = self._wanted.popleft()
                turn._context.run(start, self._engine.nursery)

    async def _sleep(self) -> None:
        """Until somebody pokes, or a clock has rung and was seen to."""
        with trio.CancelScope(deadline=self._alarm()) as self._asleep:
            await self._poke.wait()
        self._asleep = None
        self._poke = trio.Event()
        due = self._alarm()
        if trio.current_time() >= due:
            # The whole program may have been too busy to hear what the agent said in time: let the
            # pipes be looked at, and the reader have its turn.
            for _ in range(2):
                await trio.lowlevel.checkpoint()
            if self._alarm() == due:
                self._ring()

    async def _next(self) -> None:
        """Bring the next prompt on its way, on a new process if the old one is gone."""
        engine = self._engine
        if not engine.ready:
            turn = self._upcoming()
            assert turn is not None
            try:
                await engine.revival.run()
            except AgentrtError as error:
                if turn in self._queue:
                    self._queue.remove(turn)
                    turn._fail(error)
                    self._changed()
                return
        if self.free and (turn := self._upcoming()) is not None:
            self._queue.remove(turn)
            self._changed()
            try:
                engine.begin(turn)
            except AgentrtError as error:
                turn._fail(error)
                engine.publish()

    async def _host(self, turn: Turn) -> None:
        """The turn's nursery: lives until the turn has ended and its handlers have stopped."""
        self._hosted = turn
        async with trio.open_nursery() as self._nursery:
            while self._wanted and self._wanted[0][0] is turn:
                turn._context.run(self._wanted.popleft()[1], self._nursery)
            while turn._result is None:
                await self._sleep()
            self._nursery.cancel_scope.cancel()
            self._nursery = None  # what the agent asks from here on belongs to no turn
        self._hosted = None
        self._engine.publish()

    # --- clocks

    def _alarm(self) -> float:
        """When the next clock rings."""
        turn, active = self._engine.turn, self._engine.last_activity
        if turn is None:
            return active + self._engine.limits.settle if self._engine.settling else math.inf
        machine = turn._machine
        assert machine is not None
        if self._engine.settling:  # an agent that goes on talking meets the turn's limits, too
            limit = turn._grace_at if machine.state is TurnState.CANCELLING else turn._hard_at
            return min(active + self._engine.limits.settle, limit)
        if machine.state is TurnState.CANCELLING:
            return min(turn._grace_at, turn._resend_at)
        if not machine.explicit:
            if self.waiting:
                # Its last words shall not be the first of the next turn, but it may have no end.
                limits = self._engine.limits
                return min(active + limits.tail, turn._began + limits.settle)
            # Silence is no end while a person is asked.
            asked = machine.state is TurnState.WAITING
            return math.inf if asked else active + self._engine.limits.settle
        if machine.state is TurnState.WAITING or turn.limits.idle is None:
            return turn._hard_at
        return min(turn._hard_at, active + turn.limits.idle)

    def _ring(self) -> None:
        """A clock is due: do what it asks for."""
        engine, now = self._engine, trio.current_time()
        if engine.settling:
            engine.settle()
            return
        turn = engine.turn
        assert turn is not None
        machine = turn._machine
        assert machine is not None
        if machine.state is TurnState.CANCELLING:
            if now >= turn._grace_at and not machine.explicit:
                engine.finish_turn("cancelled")  # its end could not have been told
            elif now >= turn._grace_at:
                self.quarantine = True
                engine.give_up(gave_up(turn.limits.cancel_grace))
            else:
                turn._resend_at = math.inf
                engine.tell_cancel()
        elif not machine.explicit:
            engine.finish_turn("completed")
        else:
            which = "hard" if now >= turn._hard_at else "idle"
            limit = turn.limits.hard if which == "hard" else turn.limits.idle
            assert limit is not None
            self.time_out(turn, which, limit)
        engine.publish()

    def end_now(self) -> None:
        """End the process under the turn that is being cancelled, without giving it its time."""
        if self._engine.turn is not None and not self.quarantine:
            self.quarantine = True
            self._engine.give_up(ended())
            self._poke.set()
            self._engine.publish()

    def time_out(self, turn: Turn, which: str, limit: float) -> None:
        """Cancel a turn that has reached one of its limits; the error names it."""
        turn._timeout = Error(
            "timed_out",
            f"the turn reached its {which} limit of {limit:g} s (limits.{which})",
            {"limit": which},
        )
        self._engine.cancel_turn(turn, "timed_out", by=None)


def ended() -> Notice:
    """What is told when a person did not wait for the end of a cancelled turn."""
    return Notice("info", "agent_ended", "the agent is being ended, as a user wished")


def gave_up(grace: float) -> Notice:
    """What is told when an agent did not end a cancelled turn."""
    return Notice(
        "warning",
        "cancel_ignored",
        f"the agent did not end its turn within {grace:g} s of the cancel and is being ended",
    )
