"""Fixtures for pytest, which finds them by the entry point `pytest11`.

agentrt is imported only when a fixture is requested, so that installing it does not slow down other
tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import ScriptedAgents


@pytest.fixture
def scripted_agents() -> Iterator[ScriptedAgents]:
    """Replace agents by scripts.

    `open_session("claude")` in the program under test runs on `scripted_agents["claude"]`. After
    the test, the logs of all sessions are checked.
    """
    from .testing import scripted_agents as opened

    with opened() as agents:
        yield agents
    agents.check()
