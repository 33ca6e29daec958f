"""What makes a session go: one task that hosts its turns one after the other, and the synchronous
steps by which everything else moves them.

Only the engine decides; the reader hands it effects, callers hand it wishes, clocks hand it
deadlines. Each step ends with `_publish`, so that viewers see whole steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import trio
from msgspec import structs

from .._errors import SessionClosed
from .._limits import Limits
from .._model.conversation import Conversation
from .._model.driver import (
    Asked,
    Driver,
    Effect,
    Opening,
    Requested,
    Returned,
    Settled,
    Signal,
    Started,
    StartFailed,
    TurnBegan,
    TurnFinished,
    Withdrawn,
    Write,
)
from .._model.events import CancelledBy, Error, Notice, Outcome
from .._model.result import TurnResult
from .calls import Calls
from .conductor import Conductor
from .link import Connect, Link, exit_words
from .permissions import Policy
from .questions import Questions
from .readers import Readers
from .revival import Revival
from .scopes import ServiceNursery
from .services import Services
from .tool_server import ToolServer
from .turn import Turn


class Engine:
    """The inside of a `Session`."""

    def __init__(
        self,
        conversation: Conversation,
        *,
        limits: Limits,
        opening: Opening,
        make_driver: Callable[[], Driver],
        connect: Connect,
        policy: Policy | None,
        now: Callable[[], float],
    ) -> None:
        self.conversation = conversation
        self.limits = limits
        self.opening = opening
        self.news = Readers()
        """Readers of the log wait here; woken once a batch."""
        self.turn: Turn | None = None
        """The running turn; None as soon as it has ended."""
        self.link: Link | None = None
        self.agent_session: str | None = opening.resume
        """The agent's own id of the conversation, for resuming it."""
        self.capabilities: dict[str, Any] = {}
        self.log = conversation.log
        self._batches = trio.lowlevel.ParkingLot()
        """Who waits for the agent's rest parks here: it may come without an event."""
        self._depth = 0
        """How many calls of `received` are under way, one inside the other."""
        self.ended = False
        """True once `finish` has begun: no prompt is taken any more."""
        self.closed = trio.Event()
        self._make_driver = make_driver
        self._connect = connect
        self.services = Services(self)
        self.tool_server: ToolServer | None = None
        self.questions = Questions(self, policy)
        self.wall_time = now
        self.nursery: ServiceNursery
        """Of the tasks that outlive turns."""
        self.conductor = Conductor(self)
        self.revival = Revival(self)
        self.calls = Calls(self)
        self.steered: set[str | None] = set()
        """Prompts sent into a running turn, until it ends."""
        self.log.listen(self.news.wake)
        self._take: dict[type, Callable[[Any], None]] = {
            **conversation.handled,
            Write: self._write,
            Signal: self._signal,
            Asked: self.questions.asked,
            Requested: self.services.requested,
            Withdrawn: self._withdrawn,
            TurnBegan: self._turn_began,
            TurnFinished: self._turn_finished,
            Settled: lambda effect: None,  # the quarantine ends with the process
            Started: self._opened,
            StartFailed: self._refused,
            Returned: self.calls.returned,
        }

    @property
    def ready(self) -> bool:
        """True when the process lives and takes prompts."""
        link = self.link
        return (
            self.conversation.lifecycle == "ready" and link is not None and link.returncode is None
        )

    @property
    def last_activity(self) -> float:
        """When the agent last wrote something, on Trio's clock."""
        return self.link.last_activity if self.link is not None else trio.current_time()

    @property
    def settling(self) -> bool:
        """True when only the agent's word that it rests is missing at the end of a turn."""
        settles = self.link.settles if self.link is not None else None
        return settles is not None and settles.settling

    def settle(self) -> None:
        """Wait no longer for that word."""
        if self.link is not None and self.link.settles is not None:
            self.received(self.link, self.link.settles.settle())

    # --- starting and ending the process

    async def start(self, nursery: ServiceNursery, opening: Opening) -> None:
        """Start a process and shake hands, within `limits.handshake`. Raises `AgentStartError`.
        Being cancelled, or failing, ends the process again."""
        self.nursery = nursery
        self.opening = opening
        conversation = self.conversation
        conversation.lifecycle = "starting"
        conversation.error = None
        conversation.deaf = False
        self.publish()
        link = Link(self, self._make_driver(), self.limits)
        self.link = link
        ready = False
        try:
            with trio.move_on_after(self.limits.handshake):
                await nursery.start(link.run, self._connect, opening)
                conversation.agent = structs.replace(conversation.agent, pid=link.pid, alive=True)
                self.received(link, link.driver.start(opening))
                await link.wait_started()
            ready = link.opened is not None and not link.gone
            if not ready:
                raise link.start_error(conversation.agent.name, resumes=opening.resume is not None)
        finally:
            if not ready:
                await link.close()  # noqa: ASYNC102 - shields itself, with a deadline
        conversation.lifecycle = "ready"
        self.publish()

    async def shut(self) -> None:
        """End the process, if there is one. Bounded, shielded."""
        if self.link is not None:
            await self.link.close()

    # --- the link's owner

    def received(self, link: Link, effects: list[Effect], size: int = 0) -> None:
        if link is not self.link:
            return
        if not self._depth:
            self.log.arrived(size)
        take = self._take
        self._depth += 1
        try:
            for effect in effects:
                take[type(effect)](effect)
        finally:
            self._depth -= 1
        if not self._depth:  # else it is an answer in the middle of a batch
            self._settle_batch()

    def closing(self, link: Link, reason: str) -> None:
        if link is self.link:
            self.log.append(Notice("error", "agent_unreachable", reason))
            self.nursery.start_soon(link.close)
            self.publish()

    def gone(self, link: Link) -> None:
        if link is not self.link:
            return
        self.calls.fail_all(Error("agent_died", "the agent's process has ended"))
        self.services.agent_gone()
        code = link.returncode
        how = link.unreachable or f"the agent's process ended ({exit_words(code)})"
        data = {"returncode": code, "stderr": link.stderr[-4096:]}
        self.mark_dead(None if link.wanted_away else Error("agent_died", how, data))
        if self.conversation.turn is not None:
            died = Error("agent_died", f"{how} before the turn was over", data)
            self.finish_turn("agent_died", error=died)
        self.publish()

    def mark_dead(self, error: Error | None) -> None:
        """There is no process any more, by an error or because none is wanted."""
        conversation = self.conversation
        conversation.agent = structs.replace(conversation.agent, pid=None, alive=False)
        conversation.error = error
        # Who closes a session is not told that its agent has died.
        conversation.lifecycle = "closed" if self.ended else "dead"

    # --- turns

    def begin(self, turn: Turn) -> None:
        """Send the prompt. From here on the turn runs, hosted or not. Raises, and changes
        nothing, if the agent cannot take such a prompt."""
        link = self.link
        assert link is not None
        conversation = self.conversation
        id = conversation.new_id("t")
        prompt = link.driver.prompt(id, turn._content)  # an illegal one raises here
        if turn._attended:
            turn._cursor = self.log.cursor(lossless=True)
        now, hard = trio.current_time(), turn.limits.hard
        turn._machine = conversation.begin(
            "user",
            turn._content,
            id=id,
            deadline=None if hard is None else self.wall_time() + hard,
        )
        turn.id = id
        turn._began = link.last_activity = now
        turn._hard_at = math.inf if hard is None else now + hard
        self._hand_over(turn)
        self.received(link, prompt)

    def _adopt(self) -> None:
        """Host a turn that the agent began by itself."""
        machine = self.conversation.turn
        assert machine is not None
        turn = Turn(self, [], self.limits, check=False)
        turn._machine = machine
        turn.id = machine.id
        turn._began = trio.current_time()
        turn._attended = False
        self._hand_over(turn)

    def _hand_over(self, turn: Turn) -> None:
        self.turn = turn
        if turn._started is not None:
            turn._started.set()
        self.conductor.adjust()

    # --- ending turns

    def cancel_turn(self, turn: Turn, verdict: Outcome, *, by: CancelledBy | None) -> None:
        """Phase one of a cancel: everything open is closed and the agent told. Idempotent."""
        machine = turn._machine
        if machine is None:  # it still waits for its place
            return
        if turn._result is not None or turn._verdict is not None:
            return
        turn._verdict = verdict
        now = trio.current_time()
        grace = turn.limits.cancel_grace if machine.explicit else self.limits.settle
        turn._grace_at = now + grace
        turn._resend_at = now + min(turn.limits.cancel_resend, grace)
        self.conversation.cancel(by, self.wall_time() + grace)
        self.tell_cancel()
        self.services.handlers.cancel_turn()
        self.conductor.adjust()
        self.publish()

    def tell_cancel(self) -> None:
        """Say it to the agent (again)."""
        if self.link is not None:
            self.received(self.link, self.link.driver.cancel())

    def give_up(self, why: Notice) -> None:
        """The agent did not end its cancelled turn: agentrt ends it. The session is in quarantine
        until the conductor has replaced the process."""
        self.log.append(why)
        if self.link is not None:
            self.received(self.link, self.link.driver.abandon())
        self.finish_turn("cancelled")
        self.conversation.deaf = True

    def finish_turn(
        self,
        outcome: Outcome,
        *,
        stop_reason: str | None = None,
        usage: Any = None,
        error: Error | None = None,
        structured_output: Any = None,
    ) -> None:
        """Phase two: the turn is over. What agentrt decided wins over what the agent called it."""
        conversation = self.conversation
        if self.turn is None:
            self._adopt()
        turn = self.turn
        assert turn is not None
        if turn._verdict is not None:
            outcome = turn._verdict
            error = turn._timeout if outcome == "timed_out" else None
        elif outcome == "cancelled" and turn._denied:
            outcome = "completed"  # some agents call a turn so in which something was denied
        text = conversation.items.answer_text()
        ended = conversation.end(
            outcome,
            stop_reason=stop_reason,
            usage=usage,
            error=error,
            structured_output=structured_output,
        )
        turn._result = TurnResult(
            turn=ended.turn,
            outcome=outcome,
            by=ended.by,
            stop_reason=stop_reason,
            text=text,
            usage=usage,
            error=error,
            structured_output=structured_output,
            duration=trio.current_time() - turn._began,
            denials=tuple(turn._denied),
        )
        self.turn = None
        self._release()
        if self.services.handlers:
            self.services.handlers.end_turn()
        self.conductor.adjust()

    def _release(self) -> None:
        released = self.conversation.items.released
        self._depth += 1  # one batch, however many there are
        try:
            while released:
                self.questions.drop(released.pop())
        finally:
            self._depth -= 1

    def _settle_batch(self) -> None:
        """After effects were taken: what the conversation closed by itself is told to the agent,
        and a turn that the agent began gets its host."""
        self._release()
        conversation = self.conversation
        if conversation.turn is not None and self.turn is None:
            self._adopt()
        link = self.link
        if link is not None and link.settles is not None and link.settles.settling:
            self.conductor.adjust()
        self.publish()

    # --- what a driver tells, one method an effect

    def perform(self, effects: list[Effect]) -> None:
        """Take the effects of a command, outside a batch."""
        if self.link is not None:
            self.received(self.link, effects)

    def _write(self, effect: Write) -> None:
        assert self.link is not None
        self.link.write(effect.data, urgent=effect.urgent)

    def _signal(self, effect: Signal) -> None:
        assert self.link is not None
        self.link.interrupt()

    def _withdrawn(self, effect: Withdrawn) -> None:
        self.services.handlers.cancel(effect.key)
        self.conversation.resolve(effect.key, "cancelled", by="agent")

    def _turn_began(self, effect: TurnBegan) -> None:
        turn = self.conversation.turn
        if turn is None:
            if not self.conversation.deaf:
                self.conversation.begin("agent", explicit=effect.explicit)
        elif turn.origin == "agent" and effect.explicit:
            turn.explicit = True

    def _turn_finished(self, effect: TurnFinished) -> None:
        turn = self.conversation.turn
        if turn is not None and (
            turn.id == effect.turn or (effect.turn is None and turn.origin == "agent")
        ):
            self.finish_turn(
                effect.outcome,
                stop_reason=effect.stop_reason,
                usage=effect.usage,
                error=effect.error,
                structured_output=effect.structured_output,
            )
        elif effect.turn in self.steered:
            self.steered.discard(effect.turn)  # the agent dropped it
        else:
            self.log.append(
                Notice("info", "stale", "the end of an earlier turn came late", effect.turn)
            )

    def _opened(self, effect: Started) -> None:
        link = self.link
        assert link is not None
        link.opened = effect
        self.agent_session = effect.session
        self.capabilities = effect.capabilities
        agent = self.conversation.agent
        if effect.agent_version is not None:
            self.conversation.agent = structs.replace(agent, version=effect.agent_version)
        self.conversation.items.replayed()
        link.started.set()

    def _refused(self, effect: StartFailed) -> None:
        assert self.link is not None
        self.link.failed = effect
        self.link.started.set()

    # --- the session's wishes

    def cancel_current(self, by: CancelledBy) -> None:
        if by == "user":
            self.conductor.pause()  # also if the turn is being cancelled already, or none runs yet
        if self.turn is not None:
            self.cancel_turn(self.turn, "cancelled", by=by)

    async def drained(self) -> None:
        """Until no turn runs or waits and, by its own word, the agent has nothing left to do."""
        while not (self.conductor.free and not self.conductor.waiting and self.idle):
            await self._batches.park()

    @property
    def idle(self) -> bool:
        """Whether the agent has nothing left to do, and no hook of ours runs that it left alone."""
        agent = self.link is None or self.link.gone or self.link.driver.idle
        return agent and not self.services.handlers.finishing

    async def finish(self) -> None:
        """The end: the turn is cancelled, the process ended, the state `closed`. Bounded; a second
        call waits for the first."""
        if self.ended:
            await self.closed.wait()
            return
        self.ended = True
        try:
            self.conductor.clear(SessionClosed("the session was closed while the prompt waited"))
            if self.turn is not None:
                self.cancel_turn(self.turn, "cancelled", by="caller")
            await self.revival.stop()
            await self.shut()
        finally:  # whatever went wrong, somebody may wait for the end
            if self.turn is not None:
                self.finish_turn("cancelled")
            self.conversation.lifecycle = "closed"
            self.closed.set()
            self.publish()
            self.news.wake()

    def publish(self) -> None:
        """The step is done: tell the state if it changed, set the clocks by it, and wake whoever
        reads."""
        if self.conversation.sync():
            self.conductor.adjust()
        self.log.publish()
        if self._batches:
            self._batches.unpark_all()
