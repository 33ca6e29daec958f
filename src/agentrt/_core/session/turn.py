"""The handle of a turn: a block, and an iterator over the turn's events.

The turn itself is a `TurnMachine` that the core runs, whether or not a handle exists; `Turn` only
waits, reads and cancels. Waiting is polling without a timer: the handle's task sleeps in the host's
`waiters`, which each batch of events wakes, and then looks at the machine.

The iterator takes events that the cursor has already fetched without any other work, because a turn
may have many thousands. `_ready` is empty whenever a step has more to do: after a question, which
the next step rejects if it is unanswered, and after the end.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Final

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..errors import AgentrtError, LocalProtocolError, StoreError, StoreUnavailable
from ..limits import Limits
from ..model.events import Event, Outcome, PermissionOpened, TurnEnded
from ..model.log import Cursor
from ..model.result import (
    AgentDied,
    AgentFailed,
    TurnFailed,
    TurnResult,
    TurnTimedOut,
)
from ..model.turn import TurnMachine, TurnMachineState
from ..permissions.policies import PermissionRequest
from .core import SessionCore, When
from .handlers import TurnTasks
from .host import SessionHost
from .questions import current_origin, request_id
from .waiters import ReaderFairness

_NOTABLE: Final = frozenset((TurnEnded, PermissionOpened))
"""Events after which iterating needs an extra step."""

_FAILURES: Final[dict[Outcome, type[TurnFailed]]] = {
    "failed": AgentFailed,
    "agent_died": AgentDied,
    "timed_out": TurnTimedOut,
}


class Turn:
    """One prompt and its answer. Made by `Session.prompt`; use it as a block::

        async with session.prompt("Why does test_io fail?") as turn:
            async for event in turn:
                ...
        print(turn.result.outcome)

    Entering the block waits until it is the prompt's turn and sends it. Iterating yields the log's
    events from `TurnStarted` to `TurnEnded`; after a cancel it yields only the end, not the
    backlog. Leaving the block waits for the end; leaving it by an exception cancels the turn first.
    With `check`, leaving it normally raises `AgentFailed`, `AgentDied` or `TurnTimedOut` if the
    turn ended that way.

    Cancelling the task inside the block cancels the turn: the agent is notified, and the block is
    left when the turn has ended, at most `limits.cancel_grace_s` seconds later. The session stays
    usable.
    """

    _offered: str | None = None  # the question that was yielded last
    _over = False
    _exhausted = False  # and the iteration has ended

    _host: SessionHost
    _core: SessionCore
    _machine: TurnMachine
    _check: bool
    _when: When
    _clock: Callable[[], float]
    _fairness: ReaderFairness
    _ready: list[Event]  # the cursor's fetched events, unless a step needs more

    def __init__(self) -> None:
        raise TypeError("a turn is made by Session.prompt or Session.submit")

    @property
    def id(self) -> str:
        """The turn's id in the log; empty until it has started."""
        return self._machine.id

    @property
    def limits(self) -> Limits:
        """The turn's limits."""
        return self._machine.limits

    @property
    def result(self) -> TurnResult:
        """The result of the turn. Raises `LocalProtocolError` while it runs."""
        result = self._machine.result
        if result is None:
            raise LocalProtocolError("the turn has not ended yet")
        return result

    @property
    def entry(self) -> str:
        """The prompt's id in the queue; empty if it did not have to wait."""
        return self._machine.entry

    @property
    def ended(self) -> bool:
        """True if the turn has ended."""
        return self._machine.ended is not None

    @property
    def failure(self) -> AgentrtError | None:
        """The reason why the prompt was never sent; None if it was sent or is still queued."""
        return self._machine.failure

    @property
    def agent_did_not_start(self) -> bool:
        """True if the prompt was never sent because no agent could be started for it."""
        return self._machine.unstarted

    @property
    def seq(self) -> int:
        """The number of the last event that the iterator yielded."""
        cursor = self._machine.cursor
        return cursor.seq if cursor is not None else 0

    @property
    def nursery(self) -> trio.Nursery:
        """A nursery for tasks that live as long as the turn.

        Its tasks are cancelled with the turn and have ended before the next turn starts. The turn's
        handlers also run in it. An error in a task cancels the turn and is raised by its block.
        Raises `LocalProtocolError` unless the turn is running.
        """
        return self._tasks().nursery

    @property
    def cancel_scope(self) -> trio.CancelScope:
        """The cancel scope of `nursery`.

        Its deadline is the turn's hard limit: move it to change that limit. Cancelling the scope
        cancels the turn, like `cancel`.
        """
        return self._tasks().cancel_scope

    def _tasks(self) -> TurnTasks:
        """Return the nursery of the running turn.

        Raises `LocalProtocolError` if the turn does not run.
        """
        machine = self._machine
        tasks = self._host.tasks_of(machine) if self._core.turn is machine else None
        if tasks is None:
            raise LocalProtocolError("the turn is not running, so it has no nursery")
        return tasks

    def place(self) -> None:
        """Send or queue the prompt and return immediately, like `Session.submit`."""
        turn = self._machine
        with self._core.acting("prompt", when=self._when, content=turn.content or ()):
            self._core.send_or_queue(turn, self._when)

    def cancel(self) -> None:
        """Ask the turn to stop and return immediately; its end is a `TurnEnded`.

        A turn that is still queued is removed and never starts. Idempotent; does nothing after the
        end.
        """
        with self._core.acting("cancel_turn", turn=self.id, entry=self.entry):
            self._core.withdraw(self._machine)
            origin = current_origin()
            self._core.cancel_turn(self._machine, "cancelled", by="caller", origin=origin)

    def answer(self, request: PermissionOpened | PermissionRequest | str, option: str) -> bool:
        """Answer a permission request, given as its event, as a
        `PermissionRequest`, or by its id.

        `option` is the id of an option, or a kind such as `"allow_once"`. Returns True if the
        answer counts, and False if the request is no longer open: the policy or another client has
        decided it, or the agent has withdrawn it. Raises `LocalProtocolError` if the request has no
        such option.
        """
        key = request_id(request)
        if self._core.conversation.items.open_request(key) is None:
            return False
        self._core.questions.answer(key, option)
        return True

    # --- the block

    async def __aenter__(self) -> Turn:
        """Send or queue the prompt, and wait until its turn has begun.

        Raises the error of a prompt that was never sent. Cancelling this removes the prompt from
        the queue, or stops the turn if it has just begun.
        """
        machine = self._machine
        machine.unused = False
        await checkpoint_if_cancelled()  # before anything is sent
        self._core.send_or_queue(machine, self._when)
        machine.awaited = True
        try:
            while machine.state is TurnMachineState.QUEUED:
                if self._host.keeper is not None and self._host.keeper.over:
                    self._host.keeper.check()
                await self._host.waiters.wait()
        except BaseException:
            self._core.withdraw(machine)
            if not self._host.over(machine):
                await self._stop()  # noqa: ASYNC102 - shields itself, with a deadline
            self._leave()
            raise
        if machine.failure is not None:
            raise machine.failure
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the end of the turn; after an exception, stop the turn first.

        Raises, in this order: an error of a task in the turn's nursery, the loss of the turn's end
        by the store, and with `check` the failure of the turn.
        """
        machine = self._machine
        try:
            if error is None:
                machine.attended = False
                if machine.ended is None:
                    self._core.questions.reject_unanswered(machine)
                elif not self._fairness.waited:
                    await checkpoint()  # noqa: ASYNC102 - as in the block
                if not self._host.over(machine):
                    await self._host.wait_for_end(machine)  # noqa: ASYNC102 - as in the block
        except BaseException:
            await self._stop()  # noqa: ASYNC102 - shields itself, with a deadline
            raise
        else:
            if error is not None:
                await self._stop()  # noqa: ASYNC102 - shields itself, with a deadline
        finally:
            self._leave()
        if machine.error is not None:
            raise machine.error
        keeper = self._host.keeper
        if error is None and keeper is not None and machine.ended_seq > self._core.log.shown.seq:
            raise self._unstored()
        ended = machine.ended
        if self._check and error is None and (ended is None or ended.outcome in _FAILURES):
            self.raise_for_outcome()

    def _unstored(self) -> StoreError:
        """Return the error for a turn with an end that will never be stored."""
        keeper = self._host.keeper
        moved = None if keeper is None else keeper.moved
        return moved or StoreUnavailable("the turn is over, but could not be stored")

    async def _stop(self) -> None:
        """Cancel the turn unless it is over, and wait for its end."""
        machine = self._machine
        self._core.cancel_turn(machine, "cancelled", by="caller")
        # The session bounds this wait: it gives up on the agent after `cancel_grace`. The extra
        # second is for a session that is being closed.
        with trio.move_on_after(machine.limits.cancel_grace_s + 1, shield=True):
            await self._host.wait_for_end(machine)

    def _leave(self) -> None:
        """Stop following the log: no task waits for the turn any more."""
        machine = self._machine
        machine.awaited = False
        if machine.cursor is not None:
            machine.cursor.close()

    def raise_for_outcome(self) -> None:
        """Raise the `TurnFailed` subclass for the outcome, if it is a failure."""
        result = self.result
        failure = _FAILURES.get(result.outcome)
        if failure is not None:
            message = result.error.message if result.error is not None else result.outcome
            raise failure(message, result)

    # --- the events

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Cancelling this call loses none.

        After the last event it is a checkpoint, unless other tasks have run during the iteration.
        """
        pace, ready, clock = self._fairness, self._ready, self._clock
        if ready and clock() <= pace.until:
            await checkpoint_if_cancelled()
        elif self._over:
            if self._exhausted or not pace.waited:
                await checkpoint()
            else:  # other tasks ran while this one waited for the agent
                await checkpoint_if_cancelled()
            self._exhausted = True
            raise StopAsyncIteration
        else:
            cursor = self._machine.cursor
            if cursor is None or ready is not cursor.ready:
                cursor = self._begin_step()
                ready = cursor.ready
            found = bool(ready) or cursor.more()
            if found:
                await pace.step()
                found = bool(ready) or cursor.more()  # other tasks may have run
            while not found:
                if self._host.keeper is not None:
                    self._check_stored()
                await pace.wait(self._host.waiters)
                found = cursor.more()
        event = ready.pop()
        if type(event) in _NOTABLE:
            self._note(event)
        return event

    def poll(self) -> Event | None:
        """Return the next event as iterating yields it, or None if there is none yet."""
        if self._over:
            raise StopAsyncIteration
        event = self._begin_step().pop()
        if event is None:
            self._check_stored()
        elif type(event) in _NOTABLE:
            self._note(event)
        return event

    def _begin_step(self) -> Cursor:
        """Reject a question that was yielded and not answered, and return the cursor.

        Raises `LocalProtocolError` outside of the turn's block.
        """
        cursor = self._machine.cursor
        if cursor is None:
            raise LocalProtocolError("iterate a turn inside its `async with` block")
        if self._offered is not None:
            self._core.questions.reject_unanswered(self._machine, self._offered)
            self._offered = None
        self._ready = cursor.ready
        return cursor

    def _check_stored(self) -> None:
        """Raise if the turn's remaining events will never be shown."""
        if self._host.lacks_its_end(self._machine):
            raise self._unstored()

    def _note(self, event: Event) -> None:
        """Note a question or the end, after which the next step must do more."""
        self._ready = []  # the next step must do more than take a fetched event
        if isinstance(event, PermissionOpened):
            self._offered = event.request
        else:
            self._over = True


def make_turn(
    host: SessionHost, machine: TurnMachine, *, check: bool, when: When = "queue"
) -> Turn:
    """Make the handle of a turn."""
    turn = Turn.__new__(Turn)
    turn._host = host
    turn._core = host.core
    turn._machine = machine
    turn._check = check
    turn._when = when
    turn._clock = host.clock
    turn._fairness = ReaderFairness(host.clock)
    turn._ready = []
    machine.handle = weakref.ref(turn)  # it holds the machine: no cycle for the collector
    return turn


def turn_of(host: SessionHost, machine: TurnMachine | None) -> Turn | None:
    """Return the handle of a turn, including one that the agent began."""
    if machine is None:
        return None
    handle = machine.handle() if machine.handle is not None else None
    return handle if isinstance(handle, Turn) else make_turn(host, machine, check=False)
