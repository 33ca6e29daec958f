"""A whole installation for a moment, under faults and while it is restarted: `nox -s cluster` does
the same for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres.server import Server, make_guest, serving

from .history import check, disturbed
from .run import Plan, run

pytestmark = pytest.mark.slow

MINUTES = 0.3


@pytest.fixture
def own_server(postgres: Server) -> Iterator[Server]:
    """One whose processes may be killed; `postgres` says whether there can be one."""
    with serving() as server:
        make_guest(server)
        yield server


async def test_nothing_is_lost_or_doubled_whatever_fails(
    own_server: Server, tmp_path: Path
) -> None:
    plan = Plan(minutes=MINUTES, clients=6, viewers=2)
    outcome = await run(plan, tmp_path, own_server)
    assert check(outcome.history) == []
    assert outcome.numbers["prompts acknowledged"] > plan.clients


@pytest.mark.parametrize("gateways", [0, 2])
async def test_a_rolling_restart_ends_no_turn_and_refuses_no_prompt(
    own_server: Server, tmp_path: Path, gateways: int
) -> None:
    plan = Plan(minutes=MINUTES, clients=6, viewers=2, gateways=gateways, rolling=True)
    outcome = await run(plan, tmp_path, own_server)
    assert check(outcome.history) == []
    assert disturbed(outcome.history) == []
    assert outcome.numbers["restart"] >= plan.workers
