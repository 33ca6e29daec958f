"""The neutral cause of an error of the API, as real agents report it: the table of
`docs/project/api-failures.md`."""

from __future__ import annotations

import pytest
import trio

from faults.quick import FULL

from .causes import ANSWERS, RETRIES, cells, observed
from .lab import Lab

pytestmark = [pytest.mark.real_agent, pytest.mark.slow]

PATIENCE = 240.0
EXPECTED = cells()


@pytest.mark.parametrize(("agent", "answer"), EXPECTED)
async def test_a_failure_of_the_api_has_the_cause_that_the_table_says(
    lab: Lab, answer: str
) -> None:
    expected = EXPECTED[lab.agent, answer]
    if expected == RETRIES and not FULL:
        pytest.skip("waits half a minute for nothing: AGENTRT_FULL=1")
    with trio.fail_after(PATIENCE):
        assert await observed(lab, answer) == expected


def test_every_answer_has_a_column() -> None:
    assert {answer for _, answer in EXPECTED} == set(ANSWERS)
