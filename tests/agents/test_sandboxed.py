"""The scenarios of every agent once more, in a sandbox: nothing is different for the session."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

import agentrt
from agentrt.sandbox import Sandbox

from . import test_scenarios
from .expectations import EXPECTATIONS
from .lab import Lab, Model, model_server, prepare
from .story import session_with
from .test_scenarios import *  # noqa: F403 - the scenarios are run with this module's `lab`

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.sandbox,
    pytest.mark.parametrize("agent", EXPECTATIONS),
]


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The lab with a sandbox that reaches the scripted model, and no other host."""
    return replace(lab, sandbox=reaching(lab.model))


def reaching(model: Model) -> Sandbox:
    port = urlsplit(model.url).port
    assert port is not None
    return Sandbox(network="none", ports=[port])


SCENARIOS = {
    name: value
    for name, value in vars(test_scenarios).items()
    if name.startswith("test_") and "lab" in inspect.signature(value).parameters
}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_event_log_is_the_same_in_a_sandbox(
    scenario: str, agent: str, installed: Path, one_at_a_time: None, tmp_path: Path
) -> None:
    outlines = []
    for place in ("outside", "inside"):
        folder = tmp_path / place
        folder.mkdir()
        with model_server(folder) as model:
            lab = prepare(agent, model, installed, folder)
            if place == "inside":
                lab = replace(lab, sandbox=reaching(model))
            await SCENARIOS[scenario](lab)
        outlines.append([story.outline() for story in lab.stories])
    outside, inside = outlines
    assert inside == outside


async def test_a_key_of_the_user_is_not_there(lab: Lab) -> None:
    (lab.home / ".ssh").mkdir()
    (lab.home / ".ssh" / "id_rsa").write_text("TOPSECRET")
    with trio.fail_after(60):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            assert session.sandbox is not None
            result = await session.run("Please [[key]]")
    assert result.outcome == "completed"
    assert "TOPSECRET" not in "".join(str(event) for event in story.events)
    assert (lab.work / "key.txt").read_text() == "nothing\n"
