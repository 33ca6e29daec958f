"""A guard for what timing cannot hold: the costs of a short turn and of a text update, counted."""

from __future__ import annotations

from typing import Any

import costs
import pytest
import trio.testing

from agentrt._core.session.link import Link

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


@pytest.mark.slow
@pytest.mark.parametrize("protocol", costs.AGENTS)
async def test_a_wire_that_nobody_listens_to_costs_one_instruction_of_a_hundred_at_the_most(
    protocol: str, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = await costs.instructions(protocol, 100)
    made = Link.__init__

    def unheard(self: Link, *given: Any, **named: Any) -> None:
        made(self, *given, **{**named, "watcher": None})

    monkeypatch.setattr(Link, "__init__", unheard)
    assert heard <= await costs.instructions(protocol, 100) * 1.01
