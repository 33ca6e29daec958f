"""The neutral cause of an error of the API, as real agents report it."""

from __future__ import annotations

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Cut, Status, Step, prompt_for
from .story import agent_of

pytestmark = [pytest.mark.real_agent, pytest.mark.slow]

PATIENCE = 240.0

EXPECTED: dict[int | str, str | None] = {
    400: None,
    401: "auth",
    403: "auth",
    404: "model_unknown",
    413: "context_too_large",
    429: "rate_limit",
    500: "overloaded",
    529: "overloaded",
    "cut": "network",
}
TOO_PATIENT: dict[str, set[int | str]] = {
    "gemini": {429, 500, 529},
    "opencode": {429, 500, 529},
}
"""Answers that an agent retries for minutes."""
RECOVERS = {("opencode", 413)}
"""Answers after which an agent shortens the conversation and completes the turn."""
OTHERWISE: dict[tuple[str, int | str], str | None] = {
    ("gemini", 404): "overloaded",  # it reports status 500
}


@pytest.mark.parametrize("answer", EXPECTED)
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode"])
async def test_an_error_of_the_api_has_the_same_cause_with_every_agent(
    lab: Lab, answer: int | str
) -> None:
    if answer in TOO_PATIENT.get(lab.agent, ()):
        pytest.skip("this agent tries again for minutes")
    step: Step = Status(answer) if isinstance(answer, int) else Cut()
    with trio.fail_after(PATIENCE):
        async with agentrt.open_session(
            agent_of(lab), cwd=lab.work, env=lab.env, permissions=agentrt.allow_all
        ) as session:
            result = await session.run(prompt_for([[step]]), check=False)
    if (lab.agent, answer) in RECOVERS:
        assert result.outcome == "completed"
        return
    assert result.outcome == "failed"
    assert result.error is not None
    expected = OTHERWISE.get((lab.agent, answer), EXPECTED[answer])
    assert result.error.cause == expected, result.error
