"""What must hold, written from the design and the wire's rules: P, T, L, W, S as named there.

`Checker` follows the log event by event, at the moment of its publication; `quiet.py` holds what
can only be said when nothing moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from agentrt import Limits, TurnResult
from agentrt import events as e
from agentrt.lowlevel import Cursor

from .agent import AGENTRT, OWN, TAG, TOKEN
from .book import Prompt
from .fold import Fold, as_json

if TYPE_CHECKING:
    from .kept import SimulatedStore, Tap
    from .world import World

TERMINAL = {"completed", "failed", "denied", "cancelled", "orphaned"}
SLACK = 0.001
"""Clocks ring on time: under the simulated clock everything else takes none."""


@dataclass
class Turn:
    """A turn, as the log tells it."""

    id: str
    origin: str
    token: str | None
    began: float
    limits: Limits
    process: int
    cancelling: float | None = None
    quiet_for: float = 0.0
    """How long nothing had been heard when it began to be cancelled."""
    asked_then: bool = False
    """A question was open when it began to be cancelled."""
    person_since: float | None = None
    """Since when a person is asked, by a policy that leaves it to one."""
    person_for: float = 0.0
    """How long persons were asked before."""
    ended: float | None = None
    outcome: str | None = None
    by: str | None = None
    wishes: set[str] = field(default_factory=set)
    """Who wanted it to stop while it ran: `user`, `caller`."""


@dataclass
class Item:
    type: str
    turn: str | None
    status: str
    parent: str | None = None
    text: str = ""


@dataclass
class Question:
    turn: str | None
    """None: of no turn."""
    options: dict[str, str]
    tag: str | None
    orphaned: bool


class Checker:
    """Follows one session's log."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fail = world.fail
        self.events: list[Any] = []
        self.turns: dict[str, Turn] = {}
        self.by_token: dict[str, Turn] = {}
        self.items: dict[str, Item] = {}
        self.open: dict[str, Item] = {}
        self.calls: set[str] = set()
        """The agent's ids of the tool calls that were shown."""
        self.questions: dict[str, Question] = {}
        self.asked: set[str] = set()
        self.stopped: set[str | None] = set()
        """The tags of questions that ended with the running turn when the host was to end."""
        self.cut_off: set[str | None] = set()
        """The tags of questions that were open when the host ended."""
        self.closed_as: dict[str, tuple[str, str | None]] = {}
        """How the question of each tag was closed: outcome and the kind of its option."""
        self.opened_tags: set[str] = set()
        self.left: set[str] = set()
        """The tags of what a policy has left to a person."""
        self.turn: Turn | None = None
        self.state: e.State | None = None
        self.queue: list[str] = []
        self.queued: dict[str, str] = {}
        """The tokens that wait, by entry."""
        self.entries: dict[str, str] = {}
        """The same of all that ever waited."""
        self.paused: set[str] = set()
        """Those of them that are paused."""
        self.left_at: dict[str, str] = {}
        """Tokens that left the queue, and the one that was to be sent next then."""
        self.waited: list[str] = []
        """The tokens that waited when the last host was lost, or had ended."""
        self.restoring = False
        """The next host has begun, and has not closed yet what the one before left open."""
        self.named = False
        """A person has given the title."""
        self.held: set[str] = set()
        """Tokens that a Stop has paused."""
        self.background: set[str] = set()
        """Items of sub-agents in the background, and the calls that began them."""
        self.last_answer = 0.0
        self.fold = Fold()
        self.log: Any = None
        self._cursor: Cursor | Tap
        self._see = {
            e.StateChanged: self._state,
            e.TurnStarted: self._started,
            e.TurnEnded: self._ended,
            e.ItemOpened: self._opened,
            e.ItemDelta: self._delta,
            e.TextDelta: self._delta,
            e.ThoughtDelta: self._delta,
            e.ItemUpdated: self._updated,
            e.ItemClosed: self._closed,
            e.PermissionOpened: self._asked,
            e.PermissionClosed: self._resolved,
            e.QueueChanged: self._queue,
            e.TitleChanged: self._titled,
            e.Notice: self._noticed,
            e.TaskChanged: self._task,
        }

    def follow(self, log: Any) -> None:
        store = self.world.store
        if store is None:
            self.log = log
            self._cursor = log.cursor(0, lossless=True)
            log.listen(self.catch_up)
        self.catch_up()

    def follow_store(self, store: SimulatedStore) -> None:
        """Judge what happens and not what is shown, which is behind it."""
        self._cursor = store.tap

    def catch_up(self) -> None:
        """Take what is new. Called by the log itself, so that it is seen when it happens."""
        while (event := self._cursor.pop()) is not None:
            self.events.append(event)
            if self._cursor.seq != len(self.events):
                self.fail("L1", f"event {len(self.events)} came as number {self._cursor.seq}")
                return
            if not self.world.torn_down:
                self.world.note("event", event)
            if self.world.store is not None:
                self.world.saw(event)
            see = self._see.get(type(event))
            if see is not None:
                see(event)

    @property
    def seq(self) -> int:
        return len(self.events)

    # --- turns

    def _started(self, event: e.TurnStarted) -> None:
        if self.turn is not None:
            self.fail("T8", f"{event.turn} began while {self.turn.id} runs")
        if event.turn in self.turns:
            self.fail("T2", f"{event.turn} began twice")
        text = "".join(getattr(block, "text", "") for block in event.prompt or ())
        world = self.world
        found = TOKEN.search(text)
        token = found[1] if found is not None else None
        if text.startswith(AGENTRT):
            token = world.book.token_of_own_words(event.turn, text)
        turn = Turn(
            event.turn,
            event.origin,
            token,
            trio.current_time(),
            world.limits_of(token),
            len(world.processes) - 1,
        )
        self.turn = self.turns[turn.id] = turn
        if event.origin == "user":
            assert token is not None
            if token in self.by_token:
                self.fail("T7", f"{token} began twice")
            if token in self.held:
                self.fail("W6", f"{token} began although a Stop has paused it")
            if (next := self.left_at.get(token, token)) != token:
                self.fail("W6", f"{token} began, and {next or 'no prompt'} was the next one")
            if self.restoring:
                self.fail("J6", f"{event.turn} began before what was open was closed")
            self.by_token[token] = turn
            world.turns += 1
        else:
            world.own_turns += 1

    def _ended(self, event: e.TurnEnded) -> None:
        turn = self.turn
        if turn is None or turn.id != event.turn:
            self.fail("W2", f"{event.turn} ended, but {turn and turn.id} runs")
            return
        if self.stopped:  # else the agent was faster
            ours = (event.outcome, event.by) == ("cancelled", "caller")
            self.cut_off |= self.stopped if ours else set()
            self.stopped.clear()
        left = [id for id, item in self.open.items() if item.turn == turn.id]
        asks = [key for key, question in self.questions.items() if question.turn is not None]
        if left or asks:
            self.fail("W3", f"{turn.id} ended with {left + asks} open")
        if turn.cancelling is None and event.outcome in ("cancelled", "timed_out"):
            turn.cancelling = trio.current_time()  # its prompt was not stored: it is over at once
            turn.quiet_for = turn.cancelling - self.silent_since
        turn.ended, turn.outcome, turn.by = trio.current_time(), event.outcome, event.by
        self.turn = None
        self._judge(turn, event)

    def was_ended_by_agent(self, prompt: Prompt) -> bool:
        """Whether the log has the agent's word for the end of a prompt; of one that it cancelled,
        without an answer before."""
        turn = self.by_token.get(prompt.token)
        if turn is None or turn.by not in (None, "agent"):
            return False
        if "cancelled" not in prompt.ended:
            return turn.outcome in prompt.ended
        said = any(item.turn == turn.id and item.type == "text" for item in self.items.values())
        return turn.outcome == "cancelled" and not said

    def _judge(self, turn: Turn, event: e.TurnEnded) -> None:
        """Whether the outcome is true."""
        outcome, by = event.outcome, event.by
        known = self.world.book.prompts.get(turn.token or "")
        word: frozenset[str] = frozenset()
        if known is not None and known.end_read:
            word = known.ended
        elif known is not None and known.fate_read is not None:
            word = frozenset({known.fate_read})
        process = self.world.processes[turn.process]
        match outcome:
            case "cancelled" if by in ("user", "caller"):
                if by not in turn.wishes and not (
                    by == "caller" and self.world.may_stop(turn.token)
                ):
                    self.fail("W9", f"{turn.id} was cancelled by {by}, who did not want that")
            case "cancelled" if by == "agent":
                if turn.origin == "user" and "cancelled" not in word:
                    self.fail("T3", f"{turn.id}: the agent did not say cancelled, but {set(word)}")
            case "cancelled":
                self.fail("T5", f"{turn.id} was cancelled by nobody")
            case "timed_out":
                self._judge_limit(turn, event)
            case "agent_died" if event.error is not None and event.error.code == "interrupted":
                if not self.restoring:
                    self.fail("T7", f"{turn.id} was interrupted, and the host was not")
            case "agent_died":
                data = event.error.data if event.error is not None else {}
                code = process.returncode
                if code is None and "kill" not in process.ignores:
                    self.fail("T7", f"{turn.id}: agent_died, but the process lives")
                elif code != data.get("returncode"):
                    self.fail("T7", f"{turn.id}: exit status {data.get('returncode')}, not {code}")
                elif data.get("stderr") != process.stderr_tail()[-4096:]:
                    self.fail("P4", f"{turn.id}: the stderr tail is {data.get('stderr')!r}")
            case _ if turn.origin == "agent":
                pass
            case "failed" if event.error is not None and event.error.code == "store_unavailable":
                store = self.world.store
                if store is None or not (store.waited or store.lost):
                    self.fail("J2", f"{turn.id} failed, but the store was not waited for so long")
            case "failed" if event.error is not None and event.error.code == "no_result":
                pass  # Claude went to rest, and its result was not seen for long
            case _:
                if outcome not in word:
                    self.fail("T3", f"{turn.id}: {outcome}, but the agent's word is {set(word)}")
        if turn.wishes and outcome not in ("cancelled", "timed_out"):
            self.fail("T5", f"{turn.id} was to stop and ended as {outcome}")

    def _judge_limit(self, turn: Turn, event: e.TurnEnded) -> None:
        data = event.error.data if event.error is not None else {}
        limit, at = data.get("limit"), turn.cancelling
        assert at is not None
        if limit == "hard":
            hard = turn.limits.turn_timeout_s
            if hard is None or at < turn.began + hard + turn.person_for - SLACK:
                self.fail("T4", f"{turn.id} met its hard limit after {at - turn.began:g} s")
        elif limit == "idle":
            idle = turn.limits.idle_timeout_s
            if turn.asked_then:
                self.fail("T4", f"{turn.id} was idle while a question was open")
            elif idle is None or turn.quiet_for < idle - SLACK:
                self.fail("T4", f"{turn.id} was idle after {turn.quiet_for:g} s of silence")
        elif limit == "hang":
            if turn.quiet_for < (turn.limits.busy_silence_timeout_s or 0) - SLACK:
                self.fail("T4", f"{turn.id} hung after {turn.quiet_for:g} s of silence")
        else:
            self.fail("T4", f"{turn.id} timed out by {limit}")

    @property
    def silent_since(self) -> float:
        """When something was last heard of the agent, or said to it, or done for it."""
        handlers, store = self.world.handlers, self.world.store
        if handlers.running or (store is not None and (store.withholds or store.unread)):
            return trio.current_time()
        began = self.turn.began if self.turn is not None else 0.0
        read_at = self.world.processes[-1].read_at
        sent_at = store.sent_at if store is not None else 0.0
        return max(began, self.last_answer, read_at, handlers.ended_at, sent_at)

    def judge_result(self, token: str, result: TurnResult) -> None:
        """What the caller gets is what the log tells."""
        self.catch_up()
        turn = self.by_token[token]
        texts = [
            item.text
            for item in self.items.values()
            if item.turn == turn.id
            and item.type == "text"
            and item.parent is None
            and item.text
            # A sub-agent whose call nobody has seen, because it came behind a cancel or is one of
            # another session, has no item that its own could belong to.
            and "child" not in item.text
        ]
        if result.outcome != turn.outcome or result.turn != turn.id:
            self.fail("L1", f"{turn.id} ended as {turn.outcome}, its result is {result}")
        # In version 2 of ACP, own work that came before the prompt is taken back from the answer.
        elif _of_prompt(result.text.replace("\n\n", "")) != _of_prompt("".join(texts)):
            self.fail("L1", f"the text of {turn.id} is {texts}, its result says {result.text!r}")

    # --- items

    def _opened(self, event: e.ItemOpened) -> None:
        item = event.item
        if item.id in self.items:
            self.fail("L1", f"{item.id} was opened twice")
        running = self.turn.id if self.turn is not None else None
        if item.turn is not None and item.turn != running:
            self.fail("W3", f"{item.id} was opened for {item.turn} while {running} runs")
        if item.parent in self.background:
            self.background.add(item.id)
        known = self.items[item.id] = Item(item.type, item.turn, item.status, item.parent)
        if item.status not in TERMINAL:
            self.open[item.id] = known
            if item.turn is not None and self.turn is not None and self.turn.cancelling is not None:
                self.fail("T5", f"{item.id} was opened in a turn that is being cancelled")
        if item.tool is not None and item.type == "tool":
            if "⟦late⟧" in item.tool.title and item.tool.call in self.calls:
                self.fail("W3", f"{item.id} shows again what is late for {item.tool.call}")
            self.calls.add(item.tool.call)
            self._belongs(item.id, known, f"{item.tool.title}{item.tool.input}")

    def _delta(self, event: e.ItemDelta) -> None:
        item = self.items.get(event.item)
        if item is None:
            self.fail("L1", f"text for {event.item}, which is unknown")
            return
        if event.item not in self.open and item.type != "tool":
            self.fail("W3", f"text for {event.item}, which is closed")
        self._still_runs(event.item, item)
        item.text += event.text
        self._belongs(event.item, item, event.text)

    def _updated(self, event: e.ItemUpdated) -> None:
        item = self.items.get(event.item)
        if item is None:
            self.fail("L1", f"a change of {event.item}, which is unknown")
            return
        self._still_runs(event.item, item)
        if "⟦late⟧" in str(event.patch.get("tool")):
            self.fail("W3", f"{event.item} was changed by what is late")
        status = event.patch.get("status")
        if status is not None and (status in TERMINAL or event.item not in self.open):
            self.fail("W3", f"{event.item} became {status} by an update, from {item.status}")
        item.status = status or item.status
        if "turn" in event.patch:
            if event.patch["turn"] is not None or event.item not in self.open:
                self.fail("W3", f"{event.item} was moved to {event.patch['turn']}")
            item.turn = None
            self.background.add(event.item)

    def _task(self, event: e.TaskChanged) -> None:
        if event.task.kind == "local_agent" and event.task.item is not None:
            self.background.add(event.task.item)

    def _closed(self, event: e.ItemClosed) -> None:
        item = self.open.pop(event.item, None)
        if item is None:
            self.fail("W3", f"{event.item} was closed, but is not open")
            return
        if event.status not in TERMINAL:
            self.fail("W3", f"{event.item} was closed as {event.status}")
        self._still_runs(event.item, item)
        item.status = event.status

    def _still_runs(self, id: str, item: Item) -> None:
        running = self.turn.id if self.turn is not None else None
        if item.turn is not None and item.turn != running:
            self.fail("W3", f"{id} of {item.turn} was touched while {running} runs")

    def _belongs(self, id: str, item: Item, text: str) -> None:
        """Nothing of one prompt is shown in another's turn."""
        if "⟦" not in text or (item.turn is None and id in self.background):
            return
        turn = self.turns.get(item.turn or "")
        token = turn.token if turn is not None else None
        if "⟦foreign⟧" in text:
            self.fail("T3", f"{id} shows what another session's agent said")
        for found in TOKEN.finditer(text):
            if found[1] != token:
                self.fail("T3", f"{id} of {item.turn} ({token}) shows what is for {found[1]}")

    # --- questions

    def person_asked(self, tag: str) -> None:
        """The policy leaves this question to a person, whose time is not the turn's."""
        self.left.add(tag)
        turn = self.turn
        if turn is not None and turn.person_since is None and turn.cancelling is None:
            if any(q.tag == tag and q.turn == turn.id for q in self.questions.values()):
                turn.person_since = trio.current_time()

    def _asked(self, event: e.PermissionOpened) -> None:
        if event.request in self.asked:
            self.fail("W5", f"{event.request} was opened twice")
        self.asked.add(event.request)
        turn = None if event.background else self.turn
        if not event.background:
            if turn is None:
                self.fail("W3", f"{event.request} was opened outside turns")
            elif turn.cancelling is not None:
                self.fail("T5", f"{event.request} was opened in a turn that is being cancelled")
        title = f"{event.title} {event.detail}"
        found = TAG.search(title)
        tag = found[1] if found is not None else None
        options = {option.id: option.kind for option in event.options}
        self.questions[event.request] = Question(turn and turn.id, options, tag, event.orphaned)
        if tag is None and event.request.startswith("d"):
            return  # a call that the policy has denied without a request of the agent
        if tag is None:
            self.fail("W5", f"{event.request} is about nothing known: {title}")
            return
        self.opened_tags.add(tag)
        if tag in self.left:
            self.person_asked(tag)
        token = self.world.book.asks[tag].token
        if token is not None and turn is not None and turn.token != token:
            self.fail("T3", f"{tag} of {token} was opened in the turn of {turn.token}")

    def _resolved(self, event: e.PermissionClosed) -> None:
        question = self.questions.pop(event.request, None)
        if question is None:
            self.fail("W3", f"{event.request} was closed, but is not open")
            return
        if event.by != "turn":
            self.last_answer = trio.current_time()
        elif event.by == "turn" and self.turn is not None:
            self.turn.asked_then = True
        turn = self.turn
        world = self.world
        if world.ends and world.leaving == "cancel" and event.by == "turn" and question.options:
            interrupted = world.left_at in world.interrupts  # by a prompt from just before
            if trio.current_time() == world.left_at and turn is not None:
                if not (turn.wishes or interrupted):
                    self.stopped.add(question.tag)
        if turn is not None and turn.person_since is not None:
            if not any(q.turn and q.tag in self.left for q in self.questions.values()):
                turn.person_for += trio.current_time() - turn.person_since
                turn.person_since = None
        if question.tag is not None:
            kind = question.options.get(event.option or "")
            self.closed_as[question.tag] = (event.outcome, kind or event.option)

    # --- the state and the queue

    def _state(self, event: e.StateChanged) -> None:
        state = self.state = event.state
        turn = self.turn
        if (state.turn and state.turn.id) != (turn and turn.id):
            self.fail("L3", f"the state names {state.turn}, but {turn and turn.id} runs")
        if state.phase == "cancelling" and turn is not None and turn.cancelling is None:
            turn.cancelling = trio.current_time()
            turn.quiet_for = turn.cancelling - self.silent_since
        asked = [q for q in self.questions.values() if q.turn is not None]
        if state.phase == "waiting" and not asked:
            self.fail("L3", "the state is waiting, and nothing is asked")
        if state.phase == "running" and asked:
            self.fail("L3", f"the state is running, and {asked} wait for an answer")
        if state.phase == "idle" and turn is not None:
            self.fail("L3", f"the state is idle, and {turn.id} runs")
        if state.phase == "dead" and self.restoring:
            self._restored()

    def _queue(self, event: e.QueueChanged) -> None:
        known, self.queued = self.queued, {}
        next = "".join([token for token in known.values() if token not in self.paused][:1])
        for entry, token in zip(event.queue, self.tokens_in(event), strict=True):
            if token in self.by_token or token in self.queued.values():
                self.fail("J8", f"{token} waits, and was prompted already")
            self.queued[entry.id] = self.entries[entry.id] = token
        for entry in known.keys() - self.queued.keys():
            self.left_at[known[entry]] = next
        marks = [entry.paused for entry in event.queue]
        self.paused = {self.queued[entry.id] for entry in event.queue if entry.paused}
        if marks != sorted(marks) or event.paused != any(marks):
            self.fail("W6", f"the queue has {marks}, and is said to be paused: {event.paused}")
        if new := [self.queued[entry] for entry in self.queued.keys() - known.keys()]:
            if not self.restoring and not self.paused.isdisjoint(new):
                self.fail("W6", f"of the new prompts {new} some are paused: {self.paused}")

    def _noticed(self, event: e.Notice) -> None:
        """A prompt that is dropped because its agent does not start was not lost by an end."""
        if event.code == "prompt_dropped" and "was closed" not in event.message:
            token = self.entries.get(event.data["entry"])
            self.world.book.taken_back.add(token or "")

    def tokens_in(self, event: e.QueueChanged) -> list[str]:
        """Of the prompts that wait; those that are agentrt's own have none in their words."""
        tokens = []
        for entry in event.queue:
            text = "".join(getattr(b, "text", "") for b in entry.content)
            found = TOKEN.search(text)
            assert found is not None or text.startswith(AGENTRT)
            tokens.append(f"of {entry.id}" if found is None else found[1])
        return tokens

    def _titled(self, event: e.TitleChanged) -> None:
        if (event.title or "").startswith("named "):
            self.named = True
        elif self.named:
            self.fail("J6", f"a person gave the title, and it became {event.title}")

    def _restored(self) -> None:
        """J6: what the host before left open is closed, and nothing goes on by itself."""
        self.restoring = False
        left = [*self.open, *(key for key, each in self.questions.items() if not each.orphaned)]
        if self.turn is not None:
            left.append(self.turn.id)
        if left:
            self.fail("J6", f"the next host leaves {left} open")
        if list(self.queued.values()) != self.waited:
            self.fail("J6", f"{self.waited} waited, and {list(self.queued.values())} do now")
        if set(self.queued.values()) != self.paused:
            self.fail("J6", f"{self.waited} go on by themselves behind a restart")

    # --- after each step

    def step(self) -> None:
        """What holds at any moment."""
        self.catch_up()
        now, turn = trio.current_time(), self.turn
        if turn is not None and turn.cancelling is not None:
            left = [id for id, item in self.open.items() if item.turn == turn.id]
            if left:
                self.fail("T5", f"{turn.id} is being cancelled with {left} open")
            own = turn.origin == "agent"
            grace = max(turn.limits.cancel_grace_s, turn.limits.end_silence_s if own else 0.0)
            if now > turn.cancelling + grace + SLACK:
                self.fail("T5", f"{turn.id} was cancelled {now - turn.cancelling:g} s ago")
        elif turn is not None and turn.origin == "user":
            hard, idle = turn.limits.turn_timeout_s, turn.limits.idle_timeout_s
            prompt = self.world.book.prompts.get(turn.token or "")
            if idle is not None and prompt is not None:
                if prompt.end_read or prompt.rest_read or prompt.fate_read is not None:
                    idle = max(
                        idle, turn.limits.end_silence_s
                    )  # one of Claude's last words has come
            took = now - turn.began - turn.person_for
            if hard is not None and turn.person_since is None and took > hard + SLACK:
                self.fail("T4", f"{turn.id} runs for {took:g} s, its limit is {hard}")
            if idle is not None and not any(q.turn for q in self.questions.values()):
                silence = now - self.silent_since
                if silence > idle + SLACK:
                    self.fail("T4", f"{turn.id} is silent for {silence:g} s, its limit is {idle}")

    def same_as_snapshot(self) -> None:
        """W1: the fold of the events is the snapshot."""
        self.catch_up()
        self.fold.advance(self.events)
        theirs = as_json(self.log.snapshot())
        difference = self.fold.differs(theirs)
        if difference:
            self.fail("W1", f"at {self.seq}: {difference}")


def _of_prompt(text: str) -> str:
    return text.replace(OWN, "")
