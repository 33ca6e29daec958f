"""The table of a turn of Codex.

Every state gets every input, which Codex itself never sends.
"""

from __future__ import annotations

from agentrt._core.codex.turn import TABLE, CodexTurnInput, CodexTurnState


def test_every_state_of_a_turn_takes_every_input() -> None:
    assert {(state, input) for state in CodexTurnState for input in CodexTurnInput} == {
        (state, input) for state, row in TABLE.items() for input in row
    }
