"""The scenarios of every agent once more, in a sandbox: nothing is different for the session."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest
import trio

import agentrt
from agentrt.sandbox import Sandbox

from .expectations import EXPECTATIONS
from .lab import Lab
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
    port = urlsplit(lab.model.url).port
    assert port is not None
    return replace(lab, sandbox=Sandbox(network="none", ports=[port]))


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
