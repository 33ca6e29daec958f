"""Fixtures for pytest, which finds them by the entry point `pytest11`.

Nothing of agentrt is imported before a fixture is asked for: whoever has agentrt installed pays
nothing for it in other tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import ScriptedAgents


@pytest.fixture
def scripted_agents() -> Iterator[ScriptedAgents]:
    """Scripts in the place of agents: `open_session("claude")` of the program under test runs on
    `scripted_agents["claude"]`. After the test, the logs of all sessions are checked."""
    from .testing import scripted_agents as opened

    with opened() as agents:
        yield agents
    agents.check()
