"""Mistakes, planted one at a time: what the simulation must find.

Each replaces one method by one that behaves as if somebody had got it wrong. What is replaced is
named by its place, so that a mistake whose place is gone is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest.mock import patch

import trio
from msgspec import structs

from agentrt import Allow, Turn
from agentrt._core.acp.messages import SessionRequest
from agentrt._core.acp.messages2 import StateUpdate
from agentrt._core.acp.turn import AcpTurnInput, AcpTurns, AcpTurnState, AcpTurnStep
from agentrt._core.codex.requests import CodexRequests
from agentrt._core.codex.turn import CodexTurn, CodexTurnInput, CodexTurns
from agentrt._core.model import conversation as conversation_module
from agentrt._core.model.deadlines import Deadline
from agentrt._core.model.items import Items
from agentrt._core.session import core as core_module
from agentrt._core.session import link as link_module
from agentrt._core.session.core import SessionCore
from agentrt._core.session.host import SessionHost
from agentrt._core.session.link import Link
from agentrt._core.session.questions import OpenQuestions
from agentrt._core.session.unsent import UnsentUntilStored
from agentrt._core.store.persister import LogPersister
from agentrt._core.wire.channel import Channel
from agentrt._serve.native import NativeViewer
from agentrt.events import ItemClosed
from agentrt.lowlevel import AcpDriver, ClaudeDriver, CodexDriver, Cursor, SessionState
from agentrt.process import LineWriter
from inside.model import AfterCancel, Conversation, PromptQueue, TurnMachine, TurnMachineState
from inside.server import Client, Feed
from inside.store import SqliteBackend, SqliteReader

from .world import Driver

Wrong: TypeAlias = Callable[..., Any]
"""Gets what was there before, and what that would have got."""

ACP: tuple[Driver, ...] = ("acp",)
CLAUDE: tuple[Driver, ...] = ("claude",)
CODEX: tuple[Driver, ...] = ("codex",)
ACP2: tuple[Driver, ...] = ("acp2",)


@dataclass(frozen=True)
class Change:
    """At `owner`, a class or a module, `name` becomes `wrong`."""

    owner: Any
    name: str
    wrong: Wrong

    @contextmanager
    def made(self) -> Iterator[None]:
        before = getattr(self.owner, self.name)  # AttributeError: it has to be planted anew
        if isinstance(before, property):
            new: Any = property(lambda *args: self.wrong(before.fget, *args))
        else:
            new = lambda *args, **more: self.wrong(before, *args, **more)  # noqa: E731
        with ExitStack() as stack:
            stack.enter_context(patch.object(self.owner, self.name, new))
            for table in (vars(self.owner).get(name) for name in ("HANDLERS", "_HANDLERS")):
                if table is not None:  # it contains the method itself
                    found = {kind: new for kind, method in table.items() if method is before}
                    stack.enter_context(patch.dict(table, found))
            yield


@dataclass(frozen=True)
class Defect:
    """A mistake, and where it can be seen."""

    name: str
    changes: tuple[Change, ...]
    drivers: tuple[Driver, ...] = ("acp", "claude")
    store: bool = False
    """Whether it takes a stored session to see it."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for change in self.changes:
                stack.enter_context(change.made())
            yield


def _one(
    name: str,
    owner: Any,
    place: str,
    wrong: Wrong,
    drivers: tuple[Driver, ...] = ("acp", "claude"),
    *,
    store: bool = False,
) -> Defect:
    return Defect(name, (Change(owner, place, wrong),), drivers, store)


def _nothing(*args: Any, **more: Any) -> None:
    pass


# --- the wire


def _answer_whoever_waits(answered: Any, self: Channel, response: Any) -> None:
    waiting = self._calls._waiting
    if waiting and response.id is not None and response.id not in waiting:
        response = structs.replace(response, id=max(waiting))
    answered(self, response)


def _cancel_at_rest(cancel: Any, self: AcpDriver) -> Any:
    effects = cancel(self)
    if not effects:
        self._channel.notify("session/cancel", SessionRequest(self._session()), urgent=False)
        effects = self._channel.take()
    return effects


def _any_idle_ends_the_prompt(apply: Any, self: AcpTurns, input: AcpTurnInput) -> Any:
    stale = (AcpTurnState.INSERTED, AcpTurnInput.IDLE)
    if (self.state, input) == stale:
        self.state = AcpTurnState.IDLE
        return AcpTurnStep.PROMPT_ENDS
    return apply(self, input)


def _reuse_the_ids_of_messages(ended: Any, self: AcpTurns) -> None:
    ended(self)
    self._over.clear()


def _end_at_the_answer(inserted: Any, self: AcpTurns, message: str) -> Any:
    self.state = AcpTurnState.IDLE
    return StateUpdate("idle", stop_reason="end_turn")


def _every_message_is_new(output: Any, self: AcpTurns, message: str | None) -> bool:
    self._over.clear()
    return bool(output(self, message))


def _no_cancel_behind_the_prompt(cancel: Any, self: AcpDriver) -> Any:
    return [] if self._turns.unanswered else cancel(self)


def _forget_the_early_end(remember: Any, self: AcpTurns, idle: Any) -> None:
    pass


def _tell_also_without_a_turn(cancel: Any, self: SessionCore, by: Any) -> None:
    if self.turn is None:
        self._send_cancel()
    cancel(self, by)


async def _reader_that_waits(
    read_loop: Any, transport: Any, on_data: Any, on_eof: Any, **more: Any
) -> None:
    writer = on_data.__self__._writer
    while (data := transport.read_nowait()) != b"":
        if data is None:
            await transport.wait_readable()
            continue
        on_data(data)
        while writer.statistics().bytes_waiting:  # noqa: ASYNC110 - the mistake
            await trio.sleep(0.01)
    on_eof()


def _forget_the_rest(flush: Any, self: LineWriter) -> None:
    flush(self)
    if self._rest:
        self._bytes_waiting -= len(self._rest)
        self._rest = memoryview(b"")


# --- the model


def _forget_calls(tool_called: Any, self: Items, effect: Any) -> None:
    call = self._calls.get(effect.id)
    if call is not None and not self._belongs(call, effect.replay):
        del self._calls[effect.id]
    tool_called(self, effect)


def _leave_questions(close_all: Any, self: Items, *statuses: Any) -> None:
    asks, self._asks = self._asks, {}
    close_all(self, *statuses)
    self._asks = asks


def _leave_calls(close_all: Any, self: Items, *statuses: Any) -> None:
    calls, append = set(self._open), self._append

    def appended(event: Any) -> None:
        if not (isinstance(event, ItemClosed) and event.item in calls):
            append(event)

    self._append = appended
    close_all(self, *statuses)
    self._append = append


def _lose_text(item_closed: Any, self: SessionState, event: Any) -> None:
    item_closed(self, event)
    if event.item in self.items:
        self.items[event.item] = structs.replace(self.items[event.item], text="")


# --- deadlines


def _idle_while_asked(next_deadline: Any, turn: TurnMachine | None, **more: Any) -> Any:
    alarm = next_deadline(turn, **more)
    if (
        turn is not None
        and turn.state is TurnMachineState.WAITING
        and turn.limits.idle_timeout_s is not None
    ):
        return min(
            (more["active_at"] + turn.limits.idle_timeout_s, Deadline.IDLE),
            alarm,
            key=lambda a: a[0],
        )
    return alarm


def _hard_limit_of_silence(next_deadline: Any, turn: TurnMachine | None, **more: Any) -> Any:
    if turn is None:
        return next_deadline(turn, **more)
    before = turn.hard_at
    turn.hard_at += more["active_at"] - turn.began_at
    alarm = next_deadline(turn, **more)
    turn.hard_at = before
    return alarm


def _never_set_anew(reschedule: Any, self: SessionHost) -> None:
    scope, self._sleep_scope = self._sleep_scope, None
    reschedule(self)
    self._sleep_scope = scope


# --- turns


def _send_again(process_ended: Any, self: SessionCore, *how: Any, **more: Any) -> None:
    turn = self.turn
    process_ended(self, *how, **more)
    if turn is not None and turn.content and not self.conversation.ended:
        self.send_or_queue(TurnMachine("user", turn.limits, turn.content), "queue")


def _believe_the_agent(end_turn: Any, self: SessionCore, outcome: Any, **more: Any) -> None:
    if self.turn is not None and outcome == "completed":
        self.turn.verdict = None
    end_turn(self, outcome, **more)


async def _leave_without_a_cancel(stop: Any, self: Turn) -> None:
    machine = self._machine
    with trio.move_on_after(machine.limits.cancel_grace_s + 1, shield=True):
        await self._host.wait_for_end(machine)
    machine.awaited = False
    if machine.cursor is not None:
        machine.cursor.close()


def _hear_everybody(
    received: Any, self: SessionHost, link: Any, effects: Any, size: int = 0
) -> Any:
    self.core.receive(*effects)


def _no_end_of_output(eof: Any, self: Link) -> None:
    self._owner.received(self, self.driver.receive_eof())


def _rest_by_the_ledger(idle: Any, self: ClaudeDriver) -> bool:
    return self._started and not self._tasks.live


# --- viewers


def _register_late(follow: Any, self: NativeViewer, feed: Feed, epoch: Any, seq: Any) -> bool:
    replay: bool = follow(self, feed, epoch, seq)
    if replay:
        self._places[feed] = feed.log.seq
    return replay


def _forget_open(item_opened: Any, self: SessionState, event: Any) -> None:
    item_opened(self, event)
    self._open.clear()


def _early_history(look_back: Any, self: NativeViewer, command: Any, feed: Feed) -> None:
    self.reply(self._history(feed, command))


def _old_snapshot(snapshot: Any, self: Feed, *args: Any, **more: Any) -> Any:
    if self._snapshot is not None:
        self._snapshot = (self.log.seq, *self._snapshot[1:])
    return snapshot(self, *args, **more)


def _carry_out_twice(seen: Any, self: Client, command: Any) -> bool:
    known = self._answers.get(command.id)
    if known is not None and known.frame is not None:
        del self._answers[command.id]
    return bool(seen(self, command))


# --- the store


def _show_at_once(put: Any, self: LogPersister, first: int, events: Any, size: int) -> None:
    put(self, first, events, size)
    self.committed(first + len(events) - 1)


def _send_the_flush_again(write: Any, self: SqliteBackend, part: Any, now: float) -> Any:
    place = self._place(part.place.num)
    assert place is not None
    return write(self, structs.replace(part, first=place[1]), now)


def _forget_who_named_it(restore: Any, self: Conversation, events: Any, **more: Any) -> Any:
    return restore(self, events, **{**more, "named": False})


def _count_from_the_start(restore: Any, self: Conversation, events: Any, **more: Any) -> Any:
    return restore(self, events, **{**more, "ids": {}})


def _cancel_behind_the_gate(
    cancel_turn: Any, self: SessionCore, turn: Any, verdict: Any, **more: Any
) -> None:
    def cancel() -> None:
        cancel_turn(self, turn, verdict, **more)

    if self.log.persister is not None and self.log.behind:
        self._unsent.send_when_stored("steer", "", None, cancel, _nothing)
    else:
        cancel()


def _send_at_once(*kinds: str) -> Wrong:
    def send_at_once(send: Any, self: UnsentUntilStored, kind: Any, *what: Any) -> None:
        if kind in kinds:
            what[2]()
        else:
            send(self, kind, *what)

    return send_at_once


def _refuse_behind_the_gate(
    close: Any, self: OpenQuestions, request: Any, *how: Any, **more: Any
) -> None:
    def refuse() -> None:
        close(self, request, *how, **more)

    log = self._conversation.log
    if more["denied"] and log.persister is not None and log.behind:
        self._unsent.send_when_stored("steer", "", None, refuse, _nothing)
    else:
        refuse()


def _send_what_was_stopped(drop: Any, self: UnsentUntilStored, turn: Any, **more: Any) -> None:
    for each in self._waiting:
        if each.turn is turn and each.kind == "prompt":
            each.drop()


def _let_the_queue_go_on(orphan: Any, self: Conversation, **more: Any) -> None:
    with patch.object(self.queue, "pause", _nothing):
        orphan(self, **more)


def _end_as_if_closed(close: Any, self: SessionCore) -> None:
    self.ask_close(discard=True)
    close(self)


def _drop_the_last(close: Any, self: SessionCore) -> None:
    if len(self.queue) > 1:
        self.queue.remove(self.queue.waiting[-1])
    close(self)


def _turn_round(close: Any, self: SessionCore) -> None:
    self.queue.waiting.reverse()
    close(self)


def _resume_by_a_prompt(put: Any, self: PromptQueue, turn: TurnMachine, **more: Any) -> None:
    self.resume()
    put(self, turn, **more)


def _forget_what_waited(orphan: Any, self: Conversation, **more: Any) -> None:
    with patch.object(self.queue, "put", _nothing):
        orphan(self, **more)


def _prompt_again(orphan: Any, self: Conversation, **more: Any) -> None:
    running = [turn.id for turn in self.log.state.turns.values() if turn.outcome is None]
    asked = [item for item in self.log.state.items.values() if item.turn in running]
    orphan(self, **more)
    for item in asked:
        if item.type == "user":
            turn = TurnMachine("user", self._limits, item.content)
            turn.entry = self.new_id("q")
            self.queue.put(turn)
            self.show_queue()


def _close_nothing(orphan: Any, self: Conversation, **more: Any) -> None:
    with patch.object(conversation_module, "left_open", lambda state: ()):
        orphan(self, **more)


def _ask_once_more(ask_again: Any, self: Items, request: Any) -> None:
    ask_again(self, structs.replace(request, orphaned=False))


def _answer_and_leave_open(
    close: Any, self: OpenQuestions, request: Any, *how: Any, **more: Any
) -> None:
    with ExitStack() as stack:
        if request.orphaned:
            stack.enter_context(patch.object(self._conversation, "resolve", _nothing))
        close(self, request, *how, **more)


def _another_epoch(load: Any, self: SqliteReader, *args: Any, **more: Any) -> Any:
    stored = load(self, *args, **more)
    return stored and structs.replace(stored, epoch=f"{stored.epoch}'")


def _only_the_checkpoint(load: Any, self: SqliteReader, *args: Any, **more: Any) -> Any:
    stored = load(self, *args, **more)
    return stored and structs.replace(stored, events=[])


def _write_over(claim: Any, self: SqliteBackend, session: str) -> Any:
    with self.transaction():
        self.database.execute(
            "DELETE FROM frame WHERE session=(SELECT num FROM session WHERE id=?)"
            " AND first>(SELECT head_seq FROM session WHERE id=?)",
            (session, session),
        )
        self.database.execute("UPDATE session SET next=head_seq+1 WHERE id=?", (session,))
    return claim(self, session)


def _acknowledge_what_waits(committed: Any, self: LogPersister, last: int) -> None:
    committed(self, max([last, *(each[0] for each in self._waiting)]))


def _interrupt_at_once(apply: Any, self: CodexTurn, input: CodexTurnInput) -> bool:
    return bool(apply(self, input)) or (input is CodexTurnInput.CANCEL and self.id is not None)


def _end_all_commands(end: Any, self: CodexDriver) -> None:
    before, self._speech.commands = self._speech.commands, {f"c{n}" for n in range(99)}
    end(self)
    self._speech.commands = before


def _any_end_is_its_end(ended: Any, self: CodexTurns, id: str) -> Any:
    if self.prompt is not None:
        id = self.prompt.id or id
    return ended(self, id)


DEFECTS = (
    _one(
        "codex: an interrupt is sent before the turn runs, and is refused",
        *(CodexTurn, "apply", _interrupt_at_once, CODEX),
    ),
    _one(
        "codex: a cancel ends the commands of other turns, too",
        *(CodexDriver, "_end_commands", _end_all_commands, CODEX),
    ),
    _one(
        "codex: whichever turn ends, it is taken for the prompt's",
        *(CodexTurns, "ended", _any_end_is_its_end, CODEX),
    ),
    _one(
        "codex: a request that nobody knows is not answered",
        *(CodexRequests, "_refuse", _nothing, CODEX),
    ),
    _one(
        "a response is routed by slot: what answers nothing answers whoever waits",
        *(Channel, "resolve", _answer_whoever_waits, ACP),
    ),
    _one(
        "a missing tombstone: calls of earlier turns are forgotten",
        *(Items, "tool_called", _forget_calls, ACP),
    ),
    _one(
        "acp 2: a stale state ends the next turn",
        *(AcpTurns, "apply", _any_idle_ends_the_prompt, ACP2),
    ),
    _one(
        "acp 2: the id of a message is forgotten with its turn, and may be reused",
        *(AcpTurns, "ended", _reuse_the_ids_of_messages, ACP2),
    ),
    _one(
        "acp 2: a turn ends with the answer to its prompt",
        *(AcpTurns, "inserted", _end_at_the_answer, ACP2),
    ),
    _one(
        "acp 2: text with the id of an ended turn's message is shown in the next one",
        *(AcpTurns, "output", _every_message_is_new, ACP2),
    ),
    _one(
        "acp 2: a cancel right behind the prompt is not sent",
        *(AcpDriver, "cancel", _no_cancel_behind_the_prompt, ACP2),
    ),
    _one(
        "acp 2: an idle before the answer to its prompt is forgotten",
        *(AcpTurns, "remember", _forget_the_early_end, ACP2),
    ),
    _one("a permission is left open on cancel", Items, "close_all", _leave_questions),
    _one(
        "a cancelled question is closed in the log, and the agent is not told",
        *(SessionCore, "_release", lambda release, self: self.conversation.items.released.clear()),
    ),
    Defect(
        "a cancel is sent after the turn has settled",
        (
            Change(AcpDriver, "cancel", _cancel_at_rest),
            Change(SessionCore, "cancel", _tell_also_without_a_turn),
        ),
        ACP,
    ),
    _one("a cancel is not sent", SessionCore, "_send_cancel", _nothing),
    _one(
        "an agent that a cancel has broken is prompted again",
        *(AfterCancel, "ended", lambda ended, self, end: ended(self, end) is None),
        ACP,
    ),
    _one(
        "an agent that answers an earlier prompt is not noticed",
        *(AfterCancel, "echoed", _nothing),
        ACP,
    ),
    _one(
        "the idle clock is not stopped while a question is open",
        *(core_module, "next_deadline", _idle_while_asked),
    ),
    _one(
        "deadlines are not rescheduled when something moves",
        SessionHost,
        "reschedule",
        _never_set_anew,
    ),
    _one(
        "the hard limit is extended by activity",
        core_module,
        "next_deadline",
        _hard_limit_of_silence,
    ),
    _one("an item is left open at the end", Items, "close_all", _leave_calls),
    _one(
        "a viewer is registered after an await: where the log is then",
        *(NativeViewer, "follow", _register_late),
    ),
    _one(
        "a snapshot is sent with the number that the log has reached since",
        *(Feed, "snapshot", _old_snapshot),
    ),
    _one(
        "what was before is sent ahead of the events that have made it so",
        *(NativeViewer, "_look_back", _early_history),
    ),
    _one(
        "what is open is left out of a snapshot with the rest",
        *(SessionState, "_item_opened", _forget_open),
    ),
    _one("the queue goes on after a Stop", PromptQueue, "pause", _nothing),
    _one(
        "the reader replies itself, and waits until that is written",
        *(link_module, "read_loop", _reader_that_waits),
    ),
    _one(
        "a partial line: what did not fit into the pipe is forgotten",
        *(LineWriter, "_flush", _forget_the_rest),
    ),
    _one(
        "input ends by the ledger alone: while the agent goes on about ended work",
        *(ClaudeDriver, "idle", _rest_by_the_ledger, CLAUDE),
    ),
    _one(
        "a policy that fails has allowed",
        *(OpenQuestions, "policy_failed", lambda failed, self, error: Allow()),
    ),
    _one("a prompt is sent again after a crash", SessionCore, "process_ended", _send_again),
    _one("handlers go on when their turn is cancelled", SessionHost, "turn_cancelled", _nothing),
    _one(
        "an agent that has closed its output is waited for",
        *(Link, "_eof", _no_end_of_output),
    ),
    _one(
        "no quarantine: the next prompt goes to an agent that was given up on",
        *(SessionCore, "replace", _nothing),
    ),
    _one(
        "what is said of a turn that was given up is heard",
        *(SessionHost, "received", _hear_everybody, CLAUDE),
    ),
    _one("a slow reader loses what leaves the ring", Cursor, "_keep", _nothing),
    _one("a command that is sent twice is carried out twice", Client, "seen", _carry_out_twice),
    _one(
        "a closed item loses its text in the snapshot",
        *(SessionState, "_item_closed", _lose_text),
    ),
    _one(
        "an agent's cancelled word counts more than what agentrt decided",
        *(SessionCore, "end_turn", _believe_the_agent),
    ),
    _one("the caller's cancel closes nothing", Turn, "_stop", _leave_without_a_cancel),
    _one("events are shown before they are stored", LogPersister, "put", _show_at_once, store=True),
    _one(
        "an acknowledgement counts for what is only queued",
        *(LogPersister, "committed", _acknowledge_what_waits),
        store=True,
    ),
    _one(
        "a flush in doubt is sent again although it was in",
        *(SqliteBackend, "_write", _send_the_flush_again),
        store=True,
    ),
    _one(
        "a restored session forgets that a person gave its title",
        *(Conversation, "restore", _forget_who_named_it),
        store=True,
    ),
    _one(
        "a restored session counts its ids from the start",
        *(Conversation, "restore", _count_from_the_start),
        store=True,
    ),
    _one(
        "a cancel waits for the store",
        *(SessionCore, "cancel_turn", _cancel_behind_the_gate),
        store=True,
    ),
    _one(
        "a refusal waits for the store",
        *(OpenQuestions, "_close", _refuse_behind_the_gate),
        store=True,
    ),
    _one(
        "a prompt is sent before it is stored",
        *(UnsentUntilStored, "send_when_stored", _send_at_once("prompt", "steer")),
        store=True,
    ),
    _one(
        "what is allowed reaches the agent before it is stored",
        *(UnsentUntilStored, "send_when_stored", _send_at_once("allow")),
        store=True,
    ),
    _one(
        "what waited goes on by itself behind a restart",
        *(Conversation, "orphan", _let_the_queue_go_on),
        store=True,
    ),
    _one(
        "the end of a host drops what waits, as if somebody had closed the session",
        *(SessionCore, "close", _end_as_if_closed),
        store=True,
    ),
    _one(
        "the end of a host drops the last prompt that waits",
        *(SessionCore, "close", _drop_the_last),
        store=True,
    ),
    _one(
        "the end of a host turns the queue round",
        *(SessionCore, "close", _turn_round),
        store=True,
    ),
    _one(
        "a new prompt resumes those that a Stop has paused",
        *(PromptQueue, "put", _resume_by_a_prompt),
    ),
    _one(
        "the end of a host drops the prompt whose agent is being started",
        *(SessionCore, "_is_waiting", lambda waits, self, turn: turn in self.queue),
        store=True,
    ),
    _one(
        "the end of a host forgets what was asked",
        *(Conversation, "ask_again", _nothing),
        store=True,
    ),
    _one(
        "what waited is forgotten behind a restart",
        *(Conversation, "orphan", _forget_what_waited),
        store=True,
    ),
    _one(
        "the prompt of a turn that was interrupted is sent once more",
        *(Conversation, "orphan", _prompt_again),
        store=True,
    ),
    _one(
        "the next host closes nothing that was open",
        *(Conversation, "orphan", _close_nothing),
        store=True,
    ),
    _one(
        "each host asks once more what the one before has asked again",
        *(Items, "ask_again", _ask_once_more),
        store=True,
    ),
    _one(
        "a question whose asker is gone can be answered twice",
        *(OpenQuestions, "_close", _answer_and_leave_open),
        store=True,
    ),
    _one(
        "the epoch is another one behind a restart",
        *(SqliteReader, "load", _another_epoch),
        store=True,
    ),
    _one(
        "the events behind the last checkpoint are not restored",
        *(SqliteReader, "load", _only_the_checkpoint),
        store=True,
    ),
    _one(
        "the next host gives the numbers behind the last checkpoint again",
        *(SqliteBackend, "claim", _write_over),
        store=True,
    ),
    _one(
        "the answer to a command is not known to the next server",
        *(Client, "answer_to", lambda answer_to, self, command, fields: None),
        store=True,
    ),
    _one(
        "a prompt that was stopped is sent when it is stored",
        *(UnsentUntilStored, "drop", _send_what_was_stopped),
        store=True,
    ),
)
