"""Whatever an agent says and whatever is done to it, in any order: the rules hold after each step.

The reducer over events `1..n` equals the snapshot at `n`, also through JSON (W1); turns start and
end in pairs (W2) with nothing open at the end (W3); every reader, quick or slow, ends up with the
same text; and a restart at any moment leaves nothing open (W10).
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrt import Limits
from agentrt._core.model.life import TABLE, ProcessLife
from agentrt._core.model.snapshot_copy import SnapshotCopy
from agentrt.effects import (
    BlockReceived,
    CommandsSet,
    ModesSet,
    PlanSet,
    TaskSet,
    TextEnded,
    TextReceived,
    TitleSet,
    UsageSet,
    UserContentReceived,
)
from agentrt.errors import EventsExpired
from agentrt.events import (
    TERMINAL,
    Command,
    Diff,
    Event,
    History,
    Image,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    Modes,
    Notice,
    PlanEntry,
    QueueEntry,
    Snapshot,
    Task,
    TerminalRef,
    Text,
    ToolText,
    Usage,
)
from agentrt.lowlevel import Cursor, SessionState
from inside.model import ProcessLifeInput, TurnMachineState
from simulation.fold import Fold

from .talk import Rules, Talk, ask, call, prompted, shown

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)

letters = st.text(st.characters(codec="utf-8"), max_size=5)
calls = st.sampled_from(["c1", "c2", "c3"])
parents = st.sampled_from([None, None, "c1", "c2", "c9"])
messages = st.sampled_from([None, "m1", "m2"])
statuses: st.SearchStrategy[ItemStatus] = st.sampled_from(
    ["pending", "running", "completed", "failed"]
)
tool_fields = st.fixed_dictionaries(
    {},
    optional={
        "status": statuses,
        "title": letters,
        "kind": st.sampled_from(["edit", "execute"]),
        "input": st.dictionaries(letters, st.none() | st.integers(-9, 9), max_size=2),
        "output": letters,
        "append": letters,
        "locations": st.just([{"path": "a", "line": 1}]),
        "content": st.lists(
            st.one_of(
                st.builds(ToolText, st.builds(Text, letters)),
                st.builds(Diff, letters, letters, st.none() | letters),
                st.just(TerminalRef("term1")),
            ),
            max_size=2,
        ),
    },
)
outcomes = st.sampled_from(
    ["completed", "cancelled", "refused", "limit", "failed", "timed_out", "agent_died"]
)
values = st.one_of(
    st.builds(PlanSet, st.lists(st.builds(PlanEntry, letters), max_size=2)),
    st.builds(lambda n: UsageSet(Usage(used=n)), st.integers(0, 3)),
    st.builds(lambda n: UsageSet(Usage(cost=n)), st.floats(0, 1)),
    st.builds(lambda m: ModesSet(Modes(mode=m)), letters),
    st.builds(lambda n: CommandsSet([Command(n)]), letters),
    st.builds(TitleSet, st.none() | letters),
    st.builds(
        lambda id, status, call, agent: TaskSet(
            Task(id=id, title="dig", status=status), call, call is not None and agent
        ),
        st.sampled_from(["b1", "b2"]),
        st.sampled_from(["running", "completed", "failed"]),
        st.sampled_from([None, "c1", "c2", "c8"]),
        st.booleans(),
    ),
    st.builds(lambda m: Notice("info", "noted", m, [m]), letters),
)


def plain(value: Snapshot | History) -> Any:
    """Return what a viewer gets."""
    return msgspec.json.decode(msgspec.json.encode(value))


class Viewer:
    """Somebody who shows the texts of a conversation."""

    def __init__(self, talk: Talk, *, lossless: bool) -> None:
        self._log = talk.log
        self._lossless = lossless
        self._cursor = talk.log.cursor(lossless=lossless)
        self.texts: dict[str, str] = {}
        self.state = SessionState(talk.conversation.agent)

    def read(self, most: int = 1_000_000) -> None:
        try:
            for _ in range(most):
                event = self._cursor.pop()
                if event is None:
                    return
                self._show(event)
        except EventsExpired:
            assert not self._lossless
            snapshot = self._log.snapshot()
            self.texts = {item.id: item.text for item in snapshot.items}
            self._cursor = Cursor(self._log, snapshot.seq)

    def _show(self, event: Event) -> None:
        if self._lossless:
            self.state.apply(event)
        if isinstance(event, ItemOpened):
            self.texts[event.item.id] = event.item.text
        elif isinstance(event, ItemDelta):
            self.texts[event.item] += event.text


class Looking:
    """Somebody who begins with the last turns, and asks for those before them now and then."""

    def __init__(self, talk: Talk, turns: int, items: int) -> None:
        self._log = talk.log
        snapshot = talk.state.snapshot("s1", "e1", talk.log.seq, turns=turns, items=items)
        self.shown = Fold(plain(snapshot))
        self._cursor = talk.log.cursor(lossless=True)

    def read(self) -> None:
        while (event := self._cursor.pop()) is not None:
            self.shown.apply(_told(event))

    def look_back(self, turns: int, items: int) -> None:
        """One page, at the number up to which it has read."""
        self.read()
        if self.shown.earlier is not None:
            page = self._log.state.history(self.shown.earlier, turns, items)
            self.shown.add_history(plain(page))


def _told(event: Event) -> dict[str, Any]:
    """As somebody gets it who reads it from a socket."""
    told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    return told


class AnyOrder(RuleBasedStateMachine):
    @initialize(events=st.integers(1, 20))
    def open(self, events: int) -> None:
        self.talk = talk = Talk(Limits(recent_events=events), ready=False)
        self.conversation = talk.conversation
        self.rules = Rules()
        self.mirror = SessionState(talk.conversation.agent)
        self.lines: list[bytes] = []
        self.snapshots: dict[int, Snapshot] = {}
        self.fast = Viewer(talk, lossless=False)
        self.looking = Looking(talk, 1, 2)
        self.copying = SnapshotCopy(talk.log, piece=1)
        self.slow = Viewer(talk, lossless=True)
        self.late = Viewer(talk, lossless=False)
        self.answer = ""
        talk.set_agent(alive=True)
        self.conversation.apply_life_input(ProcessLifeInput.OPEN)
        talk.step()

    @property
    def turn(self) -> Any:
        return self.conversation.turn

    def is_shown(self) -> bool:
        return self.turn is None or self.turn.state is not TurnMachineState.CANCELLING

    def tell(self, effect: Any) -> None:
        if self.turn is None:
            self.answer = ""
        self.talk.tell(effect)

    # --- a copy in pieces

    @rule(steps=st.integers(1, 8))
    def copy(self, steps: int) -> None:
        for _ in range(steps):
            if (found := self.copying.step()) is not None:
                assert plain(found) == plain(self.talk.log.snapshot())
                self.copying.close()
                self.copying = SnapshotCopy(self.talk.log, piece=steps)

    # --- the turn

    @precondition(lambda self: self.turn is None)
    @rule(text=letters)
    def prompt(self, text: str) -> None:
        self.answer = ""
        prompted(self.conversation, [Text(text)], hard=60.0)

    @precondition(lambda self: self.turn is None)
    @rule()
    def agent_begins(self) -> None:
        self.answer = ""
        self.conversation.begin_own(explicit=True)

    @precondition(lambda self: self.turn is not None)
    @rule(by=st.sampled_from(["user", "caller", None]))
    def cancel(self, by: Any) -> None:
        self.conversation.cancel(by, 1010.0)
        assert self.turn.state is TurnMachineState.CANCELLING

    @precondition(lambda self: self.turn is not None)
    @rule(outcome=outcomes, output=st.none() | st.just({"a": [1]}))
    def end(self, outcome: Any, output: Any) -> None:
        # Lines apart: blank ones stand between its parts.
        answer = self.talk.items.answer()()
        assert answer.replace("\n", "") == self.answer.replace("\n", "")
        self.conversation.end(outcome, stop_reason="end_turn", structured_output=output)
        assert self.turn is None

    # --- content

    @rule(text=letters, thought=st.booleans(), message=messages, parent=parents)
    def speak(self, text: str, thought: bool, message: str | None, parent: str | None) -> None:
        visible = self.is_shown()
        self.tell(TextReceived(text, thought, message, parent))
        if visible and not thought and parent is None:
            self.answer += text

    @precondition(lambda self: self.turn is not None)
    @rule(text=letters)
    def steer(self, text: str) -> None:
        self.talk.items.prompted([Text(text)])

    @rule(parent=parents)
    def speech_ends(self, parent: str | None) -> None:
        self.tell(TextEnded(parent=parent))

    @rule(thought=st.booleans(), parent=parents, replay=st.booleans())
    def show(self, thought: bool, parent: str | None, replay: bool) -> None:
        image = Image("aGk=", "image/png")
        self.tell(BlockReceived(block=image, thought=thought, parent=parent, replay=replay))

    @rule(text=letters, replay=st.booleans())
    def echo(self, text: str, replay: bool) -> None:
        self.tell(UserContentReceived(content=[Text(text)], replay=replay))

    @rule(id=calls, opens=st.booleans(), parent=parents, fields=tool_fields)
    def tool(self, id: str, opens: bool, parent: str | None, fields: Any) -> None:
        self.tell(call(id, opens=opens, parent=parent, **fields))

    @rule(text=letters.filter(bool))
    def terminal_output(self, text: str) -> None:
        self.talk.items.append_output("term1", text)

    @precondition(lambda self: self.conversation.life is ProcessLife.READY)
    @rule(value=values)
    def value(self, value: Any) -> None:
        self.tell(value)

    # --- history

    @rule(text=letters, message=messages)
    def speech_of_the_past(self, text: str, message: str | None) -> None:
        self.tell(TextReceived(text, False, message, None, True))

    @rule(id=calls, opens=st.booleans(), fields=tool_fields)
    def tool_of_the_past(self, id: str, opens: bool, fields: Any) -> None:
        self.tell(call(id, opens=opens, replay=True, **fields))

    @rule()
    def history_is_complete(self) -> None:
        self.talk.items.replayed()

    @rule(keep=st.booleans())
    def keep_history(self, keep: bool) -> None:
        self.conversation.keep_replay = keep

    # --- questions

    @rule(tool=st.none() | calls)
    def asks(self, tool: str | None) -> None:
        visible = self.is_shown()
        if self.turn is None:
            self.answer = ""
        key = self.conversation.new_id("r")
        assert self.conversation.ask(ask(key, tool), None) is visible
        assert (self.talk.items.open_request(key) is not None) is visible

    @precondition(lambda self: self.talk.items.open_requests())
    @rule(data=st.data(), denied=st.booleans())
    def answer_question(self, data: st.DataObject, denied: bool) -> None:
        key = data.draw(st.sampled_from(self.talk.items.open_requests()))
        option = "no" if denied else "yes"
        assert self.conversation.resolve(key, "selected", by="user", option=option, denied=denied)
        assert not self.conversation.resolve(key, "cancelled", by="agent")

    # --- the session

    @rule(waiting=st.integers(0, 2), paused=st.booleans())
    def queue(self, waiting: int, paused: bool) -> None:
        entries = [QueueEntry(f"q{n}", [Text("next")]) for n in range(waiting)]
        self.talk.queued(*entries, paused=paused)

    @rule(alive=st.booleans())
    def process(self, alive: bool) -> None:
        self.talk.set_agent(alive=alive, pid=42 if alive else None)
        for input in (
            [ProcessLifeInput.START, ProcessLifeInput.OPEN] if alive else [ProcessLifeInput.END]
        ):
            if input in TABLE[self.conversation.life]:
                self.conversation.apply_life_input(input)

    @rule()
    def batch_ends(self) -> None:
        self.talk.step()
        state = self.talk.state.state
        assert (state.turn and state.turn.id) == (self.turn and self.turn.id)
        if state.phase == "dead":
            assert all(task.status in TERMINAL for task in self.talk.state.tasks.values())
        elif self.turn is not None and self.is_shown():
            assert (state.phase == "waiting") is bool(self.talk.items.open_requests())

    @rule(most=st.integers(1, 9))
    def slow_viewer_reads(self, most: int) -> None:
        self.slow.read(most)

    @rule(most=st.integers(1, 9))
    def late_viewer_reads(self, most: int) -> None:
        self.late.read(most)

    @rule(turns=st.integers(1, 3), items=st.integers(1, 9))
    def somebody_comes_to_look(self, turns: int, items: int) -> None:
        self.looking = Looking(self.talk, turns, items)

    @rule(turns=st.integers(1, 3), items=st.integers(1, 9))
    def somebody_looks_back(self, turns: int, items: int) -> None:
        self.looking.look_back(turns, items)

    # --- what holds after each step

    @invariant()
    def the_rules_hold_and_the_fold_is_the_snapshot(self) -> None:
        log = self.talk.log
        for event in log.since(len(self.lines)):
            self.rules.check(event)
            self.lines.append(msgspec.json.encode(event))
            self.mirror.apply(_decoder.decode(self.lines[-1]))
        assert len(self.lines) == log.seq
        assert (self.rules.turn is None) is (self.turn is None)
        self.snapshots[log.seq] = shown(self.talk.state, log.seq)
        assert shown(self.mirror, log.seq) == self.snapshots[log.seq]

    @invariant()
    def the_fast_viewer_shows_what_there_is(self) -> None:
        self.fast.read()

    def teardown(self) -> None:
        if not hasattr(self, "talk"):
            return
        self._a_restart_leaves_nothing_open()
        if self.turn is not None:
            self.end("completed", None)
        self.talk.items.replayed()
        self.talk.items.close_background()  # as the end of its process does
        self.talk.step()
        self.the_rules_hold_and_the_fold_is_the_snapshot()
        self._every_viewer_shows_the_same()
        self._looking_back_shows_all_there_was()
        self._every_prefix_folds_to_its_snapshot()
        assert all(item.status in TERMINAL for item in self.talk.state.items.values())

    def _every_viewer_shows_the_same(self) -> None:
        texts = {item.id: item.text for item in self.talk.log.snapshot().items}
        for viewer in (self.fast, self.slow, self.late):
            viewer.read()
            viewer.read()
            assert viewer.texts == texts
        seq = self.talk.log.seq
        assert shown(self.slow.state, seq) == shown(self.talk.state, seq)

    def _looking_back_shows_all_there_was(self) -> None:
        looking, talk = self.looking, self.talk
        looking.read()
        while looking.shown.earlier is not None:
            looking.look_back(1, 3)
        whole = Fold(plain(talk.log.snapshot()))
        in_turns = {item.get("turn") for item in whole.items.values()}
        for fold in (whole, looking.shown):
            fold.turns = {id: turn for id, turn in fold.turns.items() if id in in_turns}
        assert looking.shown.differs_from(whole) == ""

    def _every_prefix_folds_to_its_snapshot(self) -> None:
        state = SessionState(
            msgspec.structs.replace(self.talk.conversation.agent, alive=False, pid=None)
        )
        for seq, line in enumerate(self.lines, 1):
            state.apply(_decoder.decode(line))
            assert shown(state, seq) == self.snapshots.get(seq, shown(state, seq))

    def _a_restart_leaves_nothing_open(self) -> None:
        talk, rules = Talk(ready=False), Rules()
        talk.conversation.restore(map(_decoder.decode, self.lines))
        talk.conversation.orphan()
        talk.log.publish()
        for event in talk.log.since(0):
            rules.check(event)
        assert rules.turn is None
        assert all(item.status in TERMINAL for item in talk.state.items.values())
        assert not talk.state.permissions
        assert talk.state.state.turn is None


TestAnyOrder = AnyOrder.TestCase


def test_of_the_process_s_life_every_state_can_be_closed_or_is() -> None:
    for row in TABLE.values():
        assert row[ProcessLifeInput.CLOSE] in (ProcessLife.CLOSING, ProcessLife.CLOSED)
        assert row[ProcessLifeInput.END] in (ProcessLife.DEAD, ProcessLife.CLOSED)


def test_the_work_of_a_process_that_came_and_went_in_one_batch_is_closed() -> None:
    state = AnyOrder()
    state.open(events=1)
    state.process(alive=False)
    state.batch_ends()
    state.process(alive=True)
    state.value(TaskSet(Task(id="b1", title="dig", status="running"), None, False))
    state.process(alive=False)
    state.batch_ends()
    assert state.talk.state.tasks["b1"].status == "orphaned"
