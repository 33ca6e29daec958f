"""The table of a turn of ACP.

It is checked for every state, also for those that version 2 of the protocol does not reach.
"""

from __future__ import annotations

from agentrt._core.acp.turn import TABLE, AcpTurnInput, AcpTurnState


def test_the_table_has_a_row_for_every_state_and_keeps_the_prompt_in_it() -> None:
    assert set(TABLE) == set(AcpTurnState)
    assert all(set(row) <= set(AcpTurnInput) for row in TABLE.values())
    always = {AcpTurnInput.BUSY, AcpTurnInput.IDLE, AcpTurnInput.OUTPUT}
    assert all(always <= set(row) for row in TABLE.values())
