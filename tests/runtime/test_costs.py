"""A guard for what timing cannot hold: the costs of a short turn and of a text update, counted."""

from __future__ import annotations

import costs
import pytest
import trio.testing

MARGIN = {"calls": 0.02, "steps": 0.02, "blocks": 0.1, "garbage": 0.0}
"""How much more is let pass. Blocks differ a little between the versions of Python."""


@pytest.mark.parametrize("protocol", costs.AGENTS)
async def test_a_turn_and_an_update_cost_no_more_than_what_is_stored(
    protocol: str, mock_clock: trio.testing.MockClock
) -> None:
    measured, stored = await costs.measure(protocol), costs.stored()[protocol]
    more = [
        f"{thing}: {count:.2f} {cost}, {stored[thing][cost]:.2f} are stored"
        for thing, figures in measured.items()
        for cost, count in figures.items()
        if count > stored[thing][cost] * (1 + MARGIN[cost]) + 0.1
    ]
    how = "If that is meant, store the new figures: python tests/runtime/costs.py --store"
    assert not more, "\n".join([*more, how])
