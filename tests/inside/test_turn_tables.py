"""The tables of a turn of each protocol: every state with every input, and Claude's in any order.

The tables get every input in every state, which no agent sends.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrt._core.acp.turn import TABLE as ACP
from agentrt._core.acp.turn import AcpTurnInput, AcpTurnState
from agentrt._core.claude.outcome import ResultVerdict
from agentrt._core.claude.turn import (
    LOST,
    OWED,
    TURNS,
    ClaudeTurn,
    Owed,
    OwedInput,
    Progress,
    Sign,
)
from agentrt._core.claude.turns import ClaudeTurns
from agentrt._core.codex.turn import TABLE as CODEX
from agentrt._core.codex.turn import CodexTurnInput, CodexTurnState
from agentrt.effects import TurnBegan, TurnFinished
from agentrt.events import Usage
from agentrt.lowlevel import Effect

SIGNS = "run open answer rest other guess abort result"
TABLE = {
    "sent": "running opened answered sent sent sent early done",
    "running": "running opened answered rested sent guessed done done",
    "opened": "opened opened opened rested opened opened done done",
    "rested": "running opened answered rested rested guessed done done",
    "answered": "running opened answered answered answered answered done done",
    "guessed": "running opened answered guessed guessed guessed early done",
    "early": "early early early done early early early done",
    "done": "done done done done done done done done",
}
OWED_INPUTS = "work work_at_rest result idle forget"
OWED_TABLE = {
    "nothing": "result idle nothing nothing nothing",
    "result": "result idle idle result nothing",
    "idle": "result idle idle nothing nothing",
}


def test_a_turn_of_acp_has_a_row_for_every_state_and_keeps_its_prompt() -> None:
    """Version 2 of the protocol does not reach all of them."""
    assert set(ACP) == set(AcpTurnState)
    assert all(set(row) <= set(AcpTurnInput) for row in ACP.values())
    always = {AcpTurnInput.BUSY, AcpTurnInput.IDLE, AcpTurnInput.OUTPUT}
    assert all(always <= set(row) for row in ACP.values())


def test_every_state_of_a_turn_of_codex_takes_every_input() -> None:
    assert {(state, input) for state in CodexTurnState for input in CodexTurnInput} == {
        (state, input) for state, row in CODEX.items() for input in row
    }


def test_every_sign_moves_a_turn_of_every_state_as_it_should() -> None:
    told = {
        state.value: " ".join(TURNS[state][Sign(sign)].value for sign in SIGNS.split())
        for state in Progress
    }
    assert told == TABLE


def test_every_input_moves_what_is_owed_as_it_should() -> None:
    told = {
        owed.value: " ".join(OWED[owed][OwedInput(input)].value for input in OWED_INPUTS.split())
        for owed in Owed
    }
    assert told == OWED_TABLE


def test_the_tables_have_an_entry_for_every_input() -> None:
    assert all(set(row) == set(Sign) for row in TURNS.values())
    assert set(TURNS) == set(Progress)
    assert all(set(row) == set(OwedInput) for row in OWED.values())
    assert set(OWED) == set(Owed)


@pytest.mark.parametrize("progress", list(Progress))
def test_a_turn_is_presumed_to_be_over_where_nothing_more_must_come(progress: Progress) -> None:
    known = ResultVerdict("refused")
    turn = ClaudeTurn(progress, "t1", "u1", "completed", verdict=known)
    over = {True: turn.presumed(reports_states=True), False: turn.presumed(reports_states=False)}
    outcomes = {states: verdict and verdict.outcome for states, verdict in over.items()}
    expected: dict[bool, str | None] = {
        Progress.SENT: {True: None, False: None},
        Progress.RUNNING: {True: None, False: None},
        Progress.OPENED: {True: None, False: "completed"},
        Progress.RESTED: {True: "completed", False: "completed"},
    }.get(progress, {True: "refused", False: "refused"})
    assert outcomes == expected


def test_a_prompt_without_result_or_lifecycle_is_lost_at_rest() -> None:
    assert ClaudeTurn(Progress.RESTED, "t1", "u1").presumed(reports_states=True) is LOST


def test_words_after_a_guessed_result_say_that_it_was_another_s() -> None:
    guessed = ClaudeTurn(
        Progress.GUESSED, "t1", "u1", verdict=ResultVerdict("failed"), usage=Usage()
    )
    guessed.apply(Sign.RUN)
    assert guessed == ClaudeTurn(Progress.RUNNING, "t1", "u1")


def test_a_turn_that_is_not_decided_has_no_end() -> None:
    with pytest.raises(LookupError, match="turn t1 is running"):
        ClaudeTurn(Progress.RUNNING, "t1", "u1").finished()


class AnyOrder(RuleBasedStateMachine):
    """Whatever Claude writes in any order, of any version: a turn that begins ends once."""

    @initialize(states=st.booleans(), lifecycles=st.booleans())
    def start(self, states: bool, lifecycles: bool) -> None:
        self.turns = ClaudeTurns()
        self.states, self.lifecycles = states, lifecycles
        self.sent = 0
        self.open: set[str | None] = set()
        """The turns and steered prompts that have not ended, by id; None is the agent's own."""
        self.steered: set[str] = set()

    def see(self, out: list[Effect]) -> None:
        for effect in out:
            if isinstance(effect, TurnBegan):
                assert None not in self.open
                self.open.add(None)
            else:
                assert isinstance(effect, TurnFinished)
                for id in (effect.turn, *effect.folded):
                    self.open.remove(id)
                    self.steered.discard(str(id))

    # --- commands

    @precondition(lambda self: self.turns.user is None)
    @rule()
    def prompt(self) -> None:
        self.sent += 1
        self.turns.prompted(f"t{self.sent}", f"u{self.sent}")
        self.open.add(f"t{self.sent}")

    @precondition(lambda self: self.turns.running)
    @rule()
    def steer(self) -> None:
        self.sent += 1
        self.turns.steer(f"t{self.sent}", f"u{self.sent}")
        self.open.add(f"t{self.sent}")
        self.steered.add(f"t{self.sent}")

    @precondition(lambda self: self.turns.user is not None)
    @rule()
    def unsent(self) -> None:
        id = self.turns.current
        assert id is not None
        self.turns.discard_prompt(id)
        self.open.remove(id)
        assert self.turns.uuid_of(id) is None

    # --- what Claude writes

    @rule()
    def init(self) -> None:
        out: list[Effect] = []
        self.turns.initialized(out)
        self.see(out)

    @rule()
    def words(self) -> None:
        out: list[Effect] = []
        self.turns.began(out)
        self.see(out)
        assert self.turns.running or self.turns.user is not None

    @rule(held=st.booleans())
    def last_word(self, held: bool) -> None:
        self.turns.answered(held=held)

    @rule()
    def work_ends(self) -> None:
        self.turns.work_ended()
        assert not self.turns.at_rest

    @precondition(lambda self: self.states)
    @rule(state=st.sampled_from(["running", "idle", "requires_action"]))
    def state(self, state: str) -> None:
        out: list[Effect] = []
        self.turns.state_changed(state, out)
        self.see(out)
        if state == "idle":
            assert None not in self.open

    @precondition(lambda self: self.lifecycles and self.sent)
    @rule(
        back=st.integers(0, 2), to=st.sampled_from(["queued", "started", "completed", "cancelled"])
    )
    def lifecycle(self, back: int, to: str) -> None:
        out: list[Effect] = []
        self.turns.lifecycle(f"u{self.sent - back}", to, out)
        self.see(out)

    @rule(
        listed=st.sets(st.integers(0, 3)),
        unsolicited=st.booleans(),
        outcome=st.sampled_from(["completed", "cancelled", "failed"]),
        resting=st.booleans(),
    )
    def result(self, listed: set[int], unsolicited: bool, outcome: str, resting: bool) -> None:
        turns, out = self.turns, list[Effect]()
        uuids = [f"u{self.sent - back}" for back in sorted(listed)]
        mine = turns.user is not None and not turns.user.decided and turns.user.uuid in uuids
        verdict = ResultVerdict(outcome)  # type: ignore[arg-type]
        assert turns.resulted(uuids, unsolicited, verdict, None, resting, out) or not mine
        self.see(out)
        assert not mine or turns.user is None or turns.user.decided

    @rule()
    def output_ends(self) -> None:
        out: list[Effect] = []
        self.turns.closed(out)
        self.see(out)
        assert not any(turn and turn.decided for turn in (self.turns.user, self.turns.agent))

    # --- the clock

    @precondition(lambda self: self.turns.awaits_silence)
    @rule()
    def silence(self) -> None:
        for _ in range(2):  # a turn, and then what was owed
            out: list[Effect] = []
            self.turns.end_by_silence(out)
            self.see(out)
        assert not self.turns.awaits_silence

    # --- what holds after each step

    @invariant()
    def what_has_begun_and_not_ended_is_what_is_known(self) -> None:
        turns = self.turns
        assert turns.current in self.open or turns.user is None
        assert (None in self.open) is (turns.agent is not None)
        assert len(self.open - self.steered) == (turns.user is not None) + (turns.agent is not None)

    @invariant()
    def at_rest_nothing_runs_and_nothing_is_waited_for(self) -> None:
        if self.turns.at_rest:
            assert not self.turns.running
            assert not self.turns.awaits_silence

    @invariant()
    def a_turn_that_is_decided_is_waited_with_only_until_it_settles(self) -> None:
        turns = self.turns
        decided = [turn for turn in (turns.user, turns.agent) if turn and turn.decided]
        assert turns.awaits_silence or not decided
        assert all(turn.verdict is not None for turn in decided)


TestAnyOrder = AnyOrder.TestCase
