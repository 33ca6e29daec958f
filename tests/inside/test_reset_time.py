"""The time at which a rate limit ends, in the reports of agents.

Reports are nested in many ways; the function gets each, and times that make no sense.
"""

from __future__ import annotations

from typing import Any

import pytest

from agentrt._core.session.rate_limits import reset_time


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, None),
        ({"resetsAt": 50}, None),  # has passed
        ({"resetsAt": 150, "status": "rejected"}, 150),
        (
            {
                "primary": {"used_percent": 100.0, "resets_at": 200},
                "secondary": {"used_percent": 10.0, "resets_at": 900},
            },
            200,
        ),
        ({"resetsAt": float("inf")}, None),
        ({"resetsAt": True}, None),
        ({"a": {"b": {"c": {"d": {"resetsAt": 150}}}}}, None),
    ],
)
def test_the_time_is_found_in_an_agents_report(data: Any, expected: float | None) -> None:
    assert reset_time(data, 100) == expected
