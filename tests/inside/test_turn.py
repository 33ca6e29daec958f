"""The turn's table: every state with every input.

The machine gets every input in every state; a session sends only those that are legal.
"""

from __future__ import annotations

import pytest
from msgspec.structs import astuple

from agentrt._core.model.turn import PHASES, TABLE, TurnMachineInput
from agentrt.errors import LocalProtocolError
from inside.model import TurnMachine, TurnMachineState

LEGAL = {
    ("queued", "start"): "running",
    ("queued", "drop"): "dropped",
    ("running", "ask"): "waiting",
    ("running", "cancel"): "cancelling",
    ("running", "end"): "ended",
    ("waiting", "ask"): "waiting",
    ("waiting", "resolve"): "running",
    ("waiting", "cancel"): "cancelling",
    ("waiting", "end"): "ended",
    ("cancelling", "cancel"): "cancelling",
    ("cancelling", "end"): "ended",
}
ALL = [(state, input) for state in TurnMachineState for input in TurnMachineInput]


def machine(state: TurnMachineState) -> TurnMachine:
    turn = TurnMachine("user")
    turn.id, turn.state = "t1", state
    return turn


@pytest.mark.parametrize(
    ("state", "input"), [pair for pair in ALL if (pair[0].value, pair[1].value) in LEGAL]
)
def test_a_legal_input_moves_the_turn(state: TurnMachineState, input: TurnMachineInput) -> None:
    turn = machine(state)
    assert turn.apply(input) is turn.state
    assert turn.state.value == LEGAL[state.value, input.value]


@pytest.mark.parametrize(
    ("state", "input"), [pair for pair in ALL if (pair[0].value, pair[1].value) not in LEGAL]
)
def test_an_illegal_input_raises_and_changes_nothing(
    state: TurnMachineState, input: TurnMachineInput
) -> None:
    turn = machine(state)
    before = astuple(turn)
    with pytest.raises(LocalProtocolError, match=f"{input.value} is illegal in turn t1"):
        turn.apply(input)
    assert astuple(turn) == before


def test_the_table_has_a_row_for_every_state() -> None:
    assert set(TABLE) == set(TurnMachineState)


def test_every_state_of_a_turn_that_runs_is_a_phase_of_the_session() -> None:
    ends = {TurnMachineState.ENDED, TurnMachineState.DROPPED}
    assert set(PHASES) == set(TurnMachineState) - ends - {TurnMachineState.QUEUED}


def test_from_every_state_of_a_turn_that_runs_the_end_is_one_input_away() -> None:
    for state in PHASES:
        assert TABLE[state][TurnMachineInput.END] is TurnMachineState.ENDED
