"""What makes a session go: one task that hosts its turns one after the other, and the synchronous
steps by which everything else moves them.

Only the engine decides; the reader hands it effects, callers hand it wishes, clocks hand it
deadlines. Each step ends with `_publish`, so that viewers see whole steps.
"""

from __future__ import annotations

import math
import signal
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from msgspec import structs

from .._errors import AgentrtError, Busy, LocalProtocolError, RequestError, SessionClosed
from .._limits import Limits
from .._model.content import JsonObject
from .._model.conversation import Conversation
from .._model.driver import (
    Asked,
    Driver,
    Effect,
    Opening,
    Requested,
    Returned,
    Settled,
    Started,
    StartFailed,
    TurnBegan,
    TurnFinished,
    Withdrawn,
    Write,
)
from .._model.events import CancelledBy, Error, Notice, Outcome, QueueEntry
from .._model.result import TurnResult
from .._model.turn import TurnState
from .handlers import Handlers, Refuse, Reply
from .link import Connect, Link
from .permissions import Policy
from .questions import Questions
from .turn import Turn

Service = Callable[[Requested], Awaitable[Any]]
"""Answers one kind of request of the agent; an exception is an error answer."""


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
        services: dict[str, Service],
        now: Callable[[], float],
    ) -> None:
        self.conversation = conversation
        self.limits = limits
        self.opening = opening
        self.handlers = Handlers()
        self.news = trio.lowlevel.ParkingLot()
        """Readers of the log park here; woken once a batch."""
        self.turn: Turn | None = None
        """The running turn; None as soon as it has ended."""
        self.link: Link | None = None
        self.agent_session: str | None = opening.resume
        """The agent's own id of the conversation, for resuming it."""
        self.capabilities: dict[str, Any] = {}
        self.log = conversation.log
        self.closed = trio.Event()
        self._make_driver = make_driver
        self._connect = connect
        self._services = services
        self.questions = Questions(self, policy)
        self.wall_time = now
        self._services_nursery: trio.Nursery
        self._queue: deque[Turn] = deque()  # prompts that wait for their place
        self._begun: deque[Turn] = deque()  # turns that wait for their host
        self._hosting = False
        self._paused = False
        self._poke = trio.Event()
        self._calls: dict[str, tuple[trio.Event, list[Returned]]] = {}
        self.log.listen(self._wake_readers)
        self._take: dict[type, Callable[[Any], None]] = {
            **conversation.handled,
            Write: self._write,
            Asked: self.questions.asked,
            Requested: self._requested,
            Withdrawn: self._withdrawn,
            TurnBegan: self._turn_began,
            TurnFinished: self._turn_finished,
            Settled: lambda effect: None,  # the quarantine ends with the process
            Started: self._opened,
            StartFailed: self._refused,
            Returned: self._returned,
        }

    # --- starting and ending the process

    async def start(self, nursery: trio.Nursery, opening: Opening) -> None:
        """Start a process and shake hands, within `limits.handshake`. Raises `AgentStartError`.
        Being cancelled, or failing, ends the process again."""
        self._services_nursery = nursery
        conversation = self.conversation
        conversation.lifecycle = "starting"
        conversation.error = None
        self.publish()
        link = Link(self, self._make_driver(), self.limits)
        self.link = link
        ready = False
        try:
            with trio.move_on_after(self.limits.handshake):
                await nursery.start(link.run, self._connect)
                conversation.agent.pid = link.pid
                conversation.agent.alive = True
                self.received(link, link.driver.start(opening))
                await link.started.wait()
            ready = link.opened is not None and not link.gone
            if not ready:
                raise link.start_error(conversation.agent.name)
        finally:
            if not ready:
                await link.close()
        conversation.lifecycle = "ready"
        self.publish()

    async def shut(self) -> None:
        """End the process, if there is one. Bounded, shielded."""
        if self.link is not None:
            await self.link.close()

    async def _revive(self) -> None:
        """Replace a dead process; the conversation is resumed if the agent can."""
        assert self.link is not None
        await self.link.close()
        opening = self.opening
        resumable = self.agent_session is not None and self.capabilities.get("resume")
        self.conversation.keep_replay = False
        self.opening = opening = structs.replace(
            opening, resume=self.agent_session if resumable else None, fork=False
        )
        try:
            await self.start(self._services_nursery, opening)
        except AgentrtError as error:
            self._dead(Error("agent_failed", str(error)))
            raise
        data = {"resumed": bool(resumable)}
        self.conversation.log.append(
            Notice("info", "agent_restarted", "the agent was started again", data)
            if resumable
            else Notice(
                "warning",
                "agent_restarted",
                "the agent was started again and does not remember the conversation",
                data,
            )
        )
        self.publish()

    # --- the link's owner

    def received(self, link: Link, effects: list[Effect]) -> None:
        if link is not self.link:
            return
        take = self._take
        for effect in effects:
            take[type(effect)](effect)
        self._settle_batch()

    def closing(self, link: Link, reason: str) -> None:
        if link is self.link:
            self.log.append(Notice("error", "agent_unreachable", reason))
            self._services_nursery.start_soon(link.close)
            self.publish()

    def gone(self, link: Link) -> None:
        if link is not self.link:
            return
        for event, box in self._calls.values():
            box.append(Returned("", error=Error("agent_died", "the agent's process has ended")))
            event.set()
        self._calls.clear()
        self.handlers.cancel_all()
        self._dead(None)

    def _dead(self, error: Error | None) -> None:
        conversation = self.conversation
        conversation.agent.alive = False
        conversation.agent.pid = None
        if conversation.lifecycle != "closed":
            conversation.lifecycle = "dead"
        if error is not None:
            conversation.error = error
        if conversation.turn is not None:
            link = self.link
            assert link is not None
            code = link.returncode
            died = Error(
                "agent_died",
                f"the agent's process ended ({_exit_words(code)}) before the turn did",
                {"returncode": code, "stderr": link.stderr[-4096:]},
            )
            self._finish("agent_died", error=died)
        self.publish()

    # --- queueing and starting turns

    async def enter(self, turn: Turn) -> None:
        """Wait for a turn's place and send its prompt."""
        if self.closed.is_set() or self.conversation.lifecycle == "closed":
            raise SessionClosed("the session is closed")
        if turn._entry or turn._machine is not None:
            raise LocalProtocolError("a turn can be entered once")
        conversation = self.conversation
        self._paused = False
        if self._free and not self._queue and conversation.lifecycle == "ready":
            self._begin(turn)
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                await self._abort_entry(turn)
                raise
            return
        if turn._when == "reject":
            raise Busy("a turn is running")
        turn._entry = conversation.new_id("q")
        if turn._when == "interrupt":
            self._queue.appendleft(turn)
            if self.turn is not None:
                self.cancel_turn(self.turn, "cancelled", by="caller")
        else:
            self._queue.append(turn)
        self._show_queue()
        self._poke.set()
        if self.turn is not None:
            self.turn._stir.set()  # a turn without an end of its own makes room
        try:
            await turn._started.wait()
        except BaseException:
            await self._leave_queue(turn)
            raise
        if turn._failure is not None:
            raise turn._failure

    @property
    def _free(self) -> bool:
        """True when the next turn may start: the last one has ended, and so have its handlers."""
        return self.turn is None and not self._begun and not self._hosting

    async def _leave_queue(self, turn: Turn) -> None:
        """The caller was cancelled while its prompt waited, or just as it was sent."""
        if turn in self._queue:
            self._queue.remove(turn)
            self._show_queue()
        else:
            await self._abort_entry(turn)

    async def _abort_entry(self, turn: Turn) -> None:
        if turn._machine is not None and turn._result is None:
            self.cancel_turn(turn, "cancelled", by="caller")
            with trio.move_on_after(turn.limits.cancel_grace + 1, shield=True):
                await turn._ended.wait()
        if turn._cursor is not None:
            turn._cursor.close()

    def _show_queue(self) -> None:
        self.conversation.queue(
            [QueueEntry(turn._entry, turn._content) for turn in self._queue], paused=self._paused
        )
        self.publish()

    def _begin(self, turn: Turn) -> None:
        """Send the prompt. From here on the turn runs, hosted or not."""
        assert self.link is not None
        limits = turn.limits
        now = trio.current_time()
        if turn._attended:
            turn._cursor = self.log.cursor(lossless=True)
        hard = limits.hard
        machine = self.conversation.begin(
            "user", turn._content, deadline=None if hard is None else self.wall_time() + hard
        )
        turn._machine = machine
        turn.id = machine.id
        turn._began = self.link.last_activity = now
        turn._hard_at = math.inf if hard is None else now + hard
        self._hand_over(turn)
        self.received(self.link, self.link.driver.prompt(machine.id, turn._content))

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
        self._begun.append(turn)
        turn._started.set()
        self._poke.set()

    # --- the conductor

    async def conduct(self) -> None:
        """Host turns one after the other, for as long as the session lives."""
        while True:
            if self._begun:
                self._hosting = True
                await self._host(self._begun.popleft())
                self._hosting = False
            elif self._queue and not self._paused:
                await self._next()
            else:
                await self._poke.wait()
                self._poke = trio.Event()

    async def _next(self) -> None:
        """Bring the next prompt on its way, on a new process if the old one is gone."""
        if self.conversation.lifecycle != "ready":
            turn = self._queue[0]
            try:
                await self._revive()
            except AgentrtError as error:
                if turn in self._queue:
                    self._queue.remove(turn)
                    self._show_queue()
                    turn._failure = error
                    turn._started.set()
                return
        if self._free and self._queue and not self._paused:
            turn = self._queue.popleft()
            self._show_queue()
            self._begin(turn)

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
            await self.shut()

    def _alarm(self, turn: Turn) -> float:
        """When this turn's next clock rings."""
        machine = turn._machine
        assert machine is not None
        assert self.link is not None
        if machine.state is TurnState.CANCELLING:
            return min(turn._grace_at, turn._resend_at)
        if not machine.explicit:
            if self._queue and not self._paused:
                return -math.inf
            return self.link.last_activity + self.limits.settle
        if machine.state is TurnState.WAITING or turn.limits.idle is None:
            return turn._hard_at
        return min(turn._hard_at, self.link.last_activity + turn.limits.idle)

    def _ring(self, turn: Turn) -> None:
        """A clock may have rung: do what it asks for, if it is still due."""
        machine, now = turn._machine, trio.current_time()
        assert machine is not None
        assert self.link is not None
        if now < self._alarm(turn):
            return  # there was activity meanwhile
        if machine.state is TurnState.CANCELLING:
            if now >= turn._grace_at:
                turn._overdue = True
                self.log.append(
                    Notice("warning", "cancel_ignored", "the agent did not end its turn: killed")
                )
                self.received(self.link, self.link.driver.abandon())
                self._finish("cancelled")
            else:
                turn._resend_at = math.inf
                self.received(self.link, self.link.driver.cancel())
        elif not machine.explicit:
            self._finish("completed")
        else:
            which = "hard" if now >= turn._hard_at else "idle"
            limit = turn.limits.hard if which == "hard" else turn.limits.idle
            turn._timeout = Error(
                "timed_out", f"the turn reached its {which} limit of {limit:g} s", {"limit": which}
            )
            self.cancel_turn(turn, "timed_out", by=None)
        self.publish()

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
        grace = turn.limits.cancel_grace
        turn._grace_at = now + grace
        turn._resend_at = now + min(turn.limits.cancel_resend, grace)
        if by == "user" and self._queue:
            self._paused = True
            self._show_queue()
        self.conversation.cancel(by, self.wall_time() + grace)
        if self.link is not None:
            self.received(self.link, self.link.driver.cancel())
        self.handlers.cancel_all()
        turn._stir.set()
        self.publish()

    def _finish(
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
        )
        self.turn = None
        self.handlers.cancel_all()
        turn._ended.set()
        turn._stir.set()

    def _settle_batch(self) -> None:
        """After effects were taken: what the conversation closed by itself is told to the agent,
        and a turn that the agent began gets its host."""
        conversation = self.conversation
        while conversation.items.released:
            key = conversation.items.released.pop()
            self.handlers.cancel(key)
            self.questions.drop(key)
        if conversation.turn is not None and self.turn is None:
            self._adopt()
        self.publish()

    def _wake_readers(self) -> None:
        if self.news:
            self.news.unpark_all()

    # --- what a driver tells, one method an effect

    def perform(self, effects: list[Effect]) -> None:
        """Take the effects of a command, outside a batch."""
        if self.link is not None:
            self.received(self.link, effects)

    def _write(self, effect: Write) -> None:
        assert self.link is not None
        self.link.write(effect.data, urgent=effect.urgent)

    def _requested(self, effect: Requested) -> None:
        link = self.link
        assert link is not None
        driver = link.driver
        service = self._services.get(effect.method) or self._services.get(
            effect.method.partition("/")[0]
        )
        key = effect.key
        if service is None:
            self.perform(driver.refuse(key, -32601, f"{effect.method} is not offered here"))
            return
        self.spawn(
            key,
            partial(service, effect),
            lambda result: self.received(link, driver.reply(key, result)),
            lambda code, message, data: self.received(
                link, driver.refuse(key, code, message, data)
            ),
        )

    def spawn(
        self, key: str, service: Callable[[], Awaitable[Any]], reply: Reply, refuse: Refuse
    ) -> None:
        """Serve a request in the running turn's nursery and context, or in the session's."""

        async def serve() -> Any:
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have been withdrawn by now
            return await service()

        self._start_in_turn(self.handlers.prepare(key, serve, reply, refuse))

    def spawn_tool(self, call: Callable[..., Awaitable[None]], /, *args: object) -> None:
        """Run a tool call, which answers by itself, where `spawn` would."""
        key = self.conversation.new_id("tool")
        start = self.handlers.prepare(
            key, lambda: call(*args), lambda result: None, lambda *error: None
        )
        self._start_in_turn(start)

    def _start_in_turn(self, start: Callable[[trio.Nursery], None]) -> None:
        turn = self.turn
        if turn is None:
            start(self._services_nursery)
        elif turn._nursery is None:
            turn._backlog.append(start)
        else:
            turn._context.run(start, turn._nursery)

    def _withdrawn(self, effect: Withdrawn) -> None:
        self.handlers.cancel(effect.key)
        self.conversation.resolve(effect.key, "cancelled", by="agent")

    def _turn_began(self, effect: TurnBegan) -> None:
        turn = self.conversation.turn
        if turn is None:
            self.conversation.begin("agent", explicit=effect.explicit)
        elif turn.origin == "agent" and effect.explicit:
            turn.explicit = True

    def _turn_finished(self, effect: TurnFinished) -> None:
        turn = self.conversation.turn
        if turn is not None and (
            turn.id == effect.turn or (effect.turn is None and turn.origin == "agent")
        ):
            self._finish(
                effect.outcome,
                stop_reason=effect.stop_reason,
                usage=effect.usage,
                error=effect.error,
                structured_output=effect.structured_output,
            )
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
        agent.version = effect.agent_version or agent.version
        self.conversation.items.replayed()
        link.started.set()

    def _refused(self, effect: StartFailed) -> None:
        assert self.link is not None
        self.link.failed = effect
        self.link.started.set()

    # --- requests of ours

    async def call(self, method: str, params: JsonObject) -> Any:
        """A request to the agent; `RequestError` if it answers with an error."""
        link = self.link
        if link is None or self.conversation.lifecycle != "ready":
            raise SessionClosed("the agent does not run; the next prompt starts it again")
        call = self.conversation.new_id("c")
        done, box = self._calls[call] = (trio.Event(), [])
        self.perform(link.driver.call(call, method, params))
        try:
            await done.wait()
        except trio.Cancelled:
            del self._calls[call]
            self.perform(link.driver.uncall(call))
            raise
        answer = box[0]
        if answer.error is not None:
            data = answer.error.data if isinstance(answer.error.data, dict) else {}
            raise RequestError(data.get("code", 0), answer.error.message, answer.error)
        return answer.value

    def _returned(self, effect: Returned) -> None:
        waiting = self._calls.pop(effect.call, None)
        if waiting is not None:
            waiting[1].append(effect)
            waiting[0].set()

    # --- the session's wishes

    def cancel_current(self, by: CancelledBy) -> None:
        if self.turn is not None:
            self.cancel_turn(self.turn, "cancelled", by=by)

    def resume_queue(self) -> None:
        self._paused = False
        self._show_queue()
        self._poke.set()

    async def drained(self) -> None:
        """Until no turn runs or waits and, by its own word, the agent has nothing left to do."""
        while not (self._free and not self._queue and (self._idle or self.link is None)):
            await self.news.park()

    @property
    def _idle(self) -> bool:
        return self.link is not None and (self.link.gone or self.link.driver.idle)

    async def finish(self) -> None:
        """The end: the turn is cancelled, the process ended, the state `closed`. Bounded."""
        self.conversation.lifecycle = "closed" if self.turn is None else "ready"
        for turn in self._queue:
            turn._failure = SessionClosed("the session was closed while the prompt waited")
            turn._started.set()
        self._queue.clear()
        if self.turn is not None:
            self.cancel_turn(self.turn, "cancelled", by="caller")
        await self.shut()
        if self.turn is not None:
            self._finish("cancelled")
        self.conversation.lifecycle = "closed"
        self.closed.set()
        self.publish()
        self.news.unpark_all()

    def publish(self) -> None:
        self.conversation.sync()
        self.log.publish()


def _exit_words(code: int | None) -> str:
    """An exit status for people."""
    if code is None:
        return "without an exit status"
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit status {code}"
