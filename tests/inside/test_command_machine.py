"""The life of a command, step by step, in a world where anything may happen between two steps.

The machine gets every event in every state; two servers that fail on cue cannot be arranged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentrt._serve.command_machine import (
    FINAL,
    TABLE,
    Branch,
    CommandMachine,
    CommandPlan,
    CommandState,
    IllegalInput,
)
from inside.server import OWNER_PATIENCE_S, CommandEvent, CommandOrder, CommandPlace

ME, OTHERS = 1, (2, 3)
STATEMENTS = frozenset(
    {
        CommandState.LOCATING,
        CommandState.POSTING,
        CommandState.PASSING_ON,
        CommandState.WITHDRAWING,
        CommandState.ABANDONING,
        CommandState.OPENING,
        CommandState.RECALLING,
        CommandState.STORING,
    }
)
"""The states whose actions a store may fail."""

SHARED = CommandPlan(ordered=True, prepared=True, checked=True, stored=True, shared=True)


@dataclass
class Row:
    node: int
    taken: bool = False
    answer: str | None = None


class Servers(RuleBasedStateMachine):
    """A command at one server, the other servers, and the store that they share."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = CommandMachine()
        self.plan = SHARED
        self.now = 0.0
        self.client_here = True
        self.owner: int | None = None
        self.alive = {ME, *OTHERS}
        self.row: Row | None = None
        self.target = 0
        self.pending = False
        """The command was carried out here, and that is not stored."""
        self.committed = False
        self.lost = False
        """The session moved before that was stored; opened again, it is another one."""
        self.stored = 0
        """How often the effects of the command are in the store."""
        self.own_error = False

    @initialize(
        way=st.sampled_from(["here", "located", "located", "forwarded"]),
        owner=st.sampled_from([None, *OTHERS]),
    )
    def begin(self, way: str, owner: int | None) -> None:
        self.owner = ME if way == "here" else owner
        self.plan = CommandPlan(
            ordered=True,
            located=way == "located",
            prepared=True,
            checked=True,
            stored=True,
            shared=True,
            forwarded=way == "forwarded",
        )
        self.machine.begin(self.plan, self.now)

    def give(self, given: CommandEvent) -> CommandState:
        return self.machine.step(given, self.now, client_here=self.client_here)

    # --- the action of the state, and what becomes of its statement

    @precondition(lambda self: self.machine.state not in FINAL)
    @rule(
        fates=st.lists(
            st.sampled_from(["done", "done", "done", "done", "lost", "unanswered"]),
            min_size=1,
            max_size=6,
        ),
        wish=st.sampled_from([ME, *OTHERS]),
        here=st.booleans(),
    )
    def act(self, fates: list[str], wish: int, here: bool) -> None:
        for fate in fates:
            if self.machine.state not in FINAL:
                self.act_once(fate, wish, here)

    def act_once(self, fate: str, wish: int, here: bool) -> None:
        state = self.machine.state
        if state in STATEMENTS and fate == "lost":
            self.give(CommandEvent.STORE_FAILED)
            return
        given = self.perform(state, wish, here)
        if state in STATEMENTS and fate == "unanswered" and given is not CommandEvent.MOVED:
            given = CommandEvent.STORE_FAILED
        if (
            self.give(given) is CommandState.CHECKING
        ):  # nothing comes between this and the beginning
            unread = fate == "unanswered"
            given = (
                CommandEvent.STORE_FAILED
                if unread
                else self.perform(CommandState.CHECKING, wish, here)
            )
            self.give(given)
        if self.machine.state is CommandState.BEGUN:
            self.give(self.carry_out())

    def perform(self, state: CommandState, wish: int, here: bool) -> CommandEvent:
        match state:
            case CommandState.WAITING:
                return CommandEvent.EARLIER_OVER if here else CommandEvent.CLOCK
            case CommandState.PAUSING:
                self.now += 0.2
                return CommandEvent.CLOCK
            case CommandState.LOCATING:
                return self.locate(wish, here)
            case CommandState.OPENING:
                if self.owner not in (None, ME):
                    return CommandEvent.LEFT
                self.owner = ME
                return CommandEvent.OPENED
            case CommandState.CHECKING | CommandState.RECALLING:
                return CommandEvent.KNOWN if self.stored else CommandEvent.UNKNOWN
            case CommandState.STORING:
                return self.store()
            case CommandState.CONFIRMING:
                return CommandEvent.KNOWN
        return self.perform_on_row(state)

    def locate(self, wish: int, here: bool) -> CommandEvent:
        if self.owner is not None:
            self.target = self.owner
            return CommandEvent.OWNER_HERE if self.owner == ME else CommandEvent.OWNER_REMOTE
        if here:
            return CommandEvent.OWNER_HERE
        if wish == ME or wish not in self.alive:
            return CommandEvent.NO_OWNER
        self.target = wish
        return CommandEvent.OWNER_REMOTE

    def perform_on_row(self, state: CommandState) -> CommandEvent:
        row = self.row
        match state:
            case CommandState.POSTING:
                self.row = row or Row(self.target)
                return CommandEvent.POSTED
            case CommandState.PASSING_ON:
                if row is not None and self.machine.is_row_ours:
                    row.answer = ""
                elif row is not None and self.is_free(row):
                    self.row = Row(self.target)
                return CommandEvent.PASSED_ON
            case CommandState.WITHDRAWING | CommandState.ABANDONING:
                untouched = row is not None and not row.taken and row.answer is None
                if row is None or not (untouched or self.is_free(row)):
                    return CommandEvent.NOT_WITHDRAWN
                self.row = None
                return CommandEvent.WITHDRAWN
        assert state is CommandState.REMOTE
        if row is None:
            return CommandEvent.ROW_GONE
        if row.answer:
            return CommandEvent.ROW_ANSWERED
        if row.node not in self.alive:
            return CommandEvent.OWNER_DEAD
        if row.answer is not None:
            return CommandEvent.ROW_RETURNED
        return CommandEvent.ROW_GIVEN_HERE if row.node == ME else CommandEvent.CLOCK

    def is_free(self, row: Row) -> bool:
        return row.answer == "" or (row.answer is None and row.node not in self.alive)

    def carry_out(self) -> CommandEvent:
        if self.owner != ME:
            return CommandEvent.LEFT
        self.pending, self.committed, self.lost = True, False, False
        return CommandEvent.DONE

    def store(self) -> CommandEvent:
        if self.owner != ME or self.lost:
            return CommandEvent.MOVED
        self.commit()
        return CommandEvent.STORED

    # --- the others

    @precondition(lambda self: self.pending and self.owner == ME)
    @rule()
    def commit(self) -> None:
        """Data that waits to be stored is stored, whoever waits for it."""
        if self.pending:
            self.stored += 1
            self.pending, self.committed = False, True

    @rule(owner=st.sampled_from([None, *OTHERS]))
    def move(self, owner: int | None) -> None:
        if owner is None or owner in self.alive:
            self.lost = self.lost or self.pending
            self.owner, self.pending = owner, False

    @precondition(lambda self: self.row is not None)
    @rule(answers=st.booleans(), gone=st.booleans())
    def carry_out_row(self, answers: bool, gone: bool) -> None:
        """The row's process takes it, and answers it after it has looked whether that was done.

        `gone`: to another server, where the client was, too, and which deletes the row.
        """
        row = self.row
        assert row is not None
        if row.node not in self.alive or row.answer is not None:
            return
        row.taken = True
        if not answers or row.node == ME:
            return
        if self.owner is None:
            self.owner = row.node
        if self.owner != row.node:
            row.answer = ""
            return
        self.stored = self.stored or 1
        row.answer = "done"
        if gone:
            self.row = None

    @rule(node=st.sampled_from(OTHERS))
    def die_or_return(self, node: int) -> None:
        self.alive ^= {node}
        if self.owner == node:
            self.owner = None

    @rule()
    def client_comes_or_goes(self) -> None:
        self.client_here = not self.client_here

    @rule(seconds=st.sampled_from([1.0, OWNER_PATIENCE_S + 1]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.machine.state is CommandState.UNSTORED)
    @rule()
    def send_again(self) -> None:
        self.machine.begin(self.plan, self.now)

    # --- what holds

    @invariant()
    def it_is_carried_out_once(self) -> None:
        assert self.stored <= 1

    @invariant()
    def its_answer_is_stored_before_it_is_given(self) -> None:
        if self.machine.state is CommandState.ANSWERED:
            assert self.stored == 1

    @invariant()
    def it_is_not_refused_if_it_is_or_will_be_carried_out(self) -> None:
        if self.machine.state is CommandState.REFUSED:
            assert self.stored == 0
            assert self.row is None


TestServers = Servers.TestCase
TestServers.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


@pytest.mark.slow
def test_a_command_is_carried_out_once_in_many_worlds() -> None:
    many = settings(max_examples=1000, stateful_step_count=60, deadline=None)
    run_state_machine_as_test(Servers, settings=many)


@pytest.mark.slow
@given(st.data())
def test_an_illegal_input_raises_and_changes_nothing(data: st.DataObject) -> None:
    machine = CommandMachine()
    machine.begin(CommandPlan(ordered=True, located=True, stored=True, shared=True), 0.0)
    for _ in range(data.draw(st.integers(0, 10))):
        if legal := sorted(TABLE[machine.state], key=lambda each: each.name):
            machine.step(data.draw(st.sampled_from(legal)), 0.0)
    before = dict(vars(machine))
    for illegal in set(CommandEvent) - TABLE[machine.state].keys():
        with pytest.raises(IllegalInput):
            machine.step(illegal, 1.0)
    assert vars(machine) == before


def silent(machine: CommandMachine) -> CommandEvent:
    """The next input in a world where no process answers, and the store works."""
    return {
        CommandState.WAITING: CommandEvent.CLOCK,
        CommandState.LOCATING: CommandEvent.OWNER_REMOTE,
        CommandState.POSTING: CommandEvent.POSTED,
        CommandState.REMOTE: CommandEvent.CLOCK,
        CommandState.PASSING_ON: CommandEvent.PASSED_ON,
        CommandState.WITHDRAWING: CommandEvent.WITHDRAWN,
        CommandState.ABANDONING: CommandEvent.WITHDRAWN,
        CommandState.PAUSING: CommandEvent.CLOCK,
        CommandState.RECALLING: CommandEvent.UNKNOWN,
        CommandState.CONFIRMING: CommandEvent.KNOWN,
        CommandState.OPENING: CommandEvent.STORE_FAILED,
        CommandState.CHECKING: CommandEvent.STORE_FAILED,
        CommandState.BEGUN: CommandEvent.STORE_FAILED,
        CommandState.STORING: CommandEvent.STORE_FAILED,
    }[machine.state]


@given(st.data())
def test_a_deadline_ends_every_wait_for_a_server_that_is_silent(data: st.DataObject) -> None:
    machine, now = CommandMachine(), 0.0
    machine.begin(
        CommandPlan(ordered=True, located=True, prepared=True, stored=True, shared=True), now
    )
    doubtful = {CommandEvent.ROW_GONE, CommandEvent.MOVED}
    for _ in range(data.draw(st.integers(0, 12))):
        legal = sorted(TABLE[machine.state].keys() - doubtful, key=lambda each: each.name)
        if machine.state is CommandState.POSTING:
            legal = [CommandEvent.POSTED]
        if not legal:
            break
        machine.step(data.draw(st.sampled_from(legal)), now)
    until = now + 3 * OWNER_PATIENCE_S
    while not machine.is_over:
        machine.step(silent(machine), now)
        now += 0.2
        assert now < until


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.booleans()), max_size=30))
def test_a_client_s_commands_to_a_session_begin_in_order(
    steps: list[tuple[bool, int, bool]],
) -> None:
    order, waiting = CommandOrder(), list[tuple[int, CommandPlace, bool]]()
    held: set[int] = set()
    for number, (holds, ended, again) in enumerate(steps):
        waiting.append((number, order.enter("s", holds=holds), holds))
        if holds:
            held.add(number)
        for each, place, _ in waiting:
            earlier = {other for other in held if other < each}
            begins = place.look()
            assert (begins is None) == bool(earlier), "it waits for the last earlier one that holds"
        first, place, _ = waiting[min(ended, len(waiting) - 1)]
        if (begins := place.look()) is not None:
            order.leave("s", place, given_up=again or begins is CommandEvent.EARLIER_GIVEN_UP)
            waiting = [entry for entry in waiting if entry[0] != first]
            held.discard(first)


def test_what_was_sent_after_a_prompt_that_must_be_sent_again_must_be_so_too() -> None:
    order = CommandOrder()
    prompts = [order.enter("s", holds=True) for _ in range(3)]
    cancel = order.enter("s", holds=False)
    order.leave("s", prompts[0], given_up=True)
    for prompt in prompts[1:]:
        assert prompt.look() is CommandEvent.EARLIER_GIVEN_UP
        order.leave("s", prompt, given_up=True)
    assert cancel.look() is CommandEvent.EARLIER_OVER
    assert order.enter("s", holds=True).look() is CommandEvent.EARLIER_OVER


def next_states(found: Any) -> set[CommandState]:
    if isinstance(found, Branch):
        return next_states(found.then) | next_states(found.otherwise)
    return {found}


def test_every_state_can_be_reached_and_only_final_ones_have_no_way_out() -> None:
    reached, new = set[CommandState](), {CommandState.NEW}
    while new:
        reached |= new
        new = {
            each for state in new for found in TABLE[state].values() for each in next_states(found)
        } - reached
    assert reached == set(CommandState)
    assert {state for state in CommandState if not TABLE[state]} == FINAL - {CommandState.UNSTORED}


def test_a_row_that_was_given_to_its_own_client_s_server_is_given_back_however_late() -> None:
    machine, late = CommandMachine(), OWNER_PATIENCE_S + 1
    machine.begin(CommandPlan(located=True, stored=True, shared=True), 0.0)
    for event in (CommandEvent.OWNER_REMOTE, CommandEvent.POSTED, CommandEvent.ROW_GIVEN_HERE):
        machine.step(event, late)
    machine.step(CommandEvent.CLOCK, late)
    assert machine.step(CommandEvent.OWNER_REMOTE, late) is CommandState.PASSING_ON
