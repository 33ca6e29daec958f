"""The notes about sessions of agents that keep no list.

The notes are read back as they were written; a screen shows only the newest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt._cli.state import remember, remembered
from agentrt.agents import AgentSession


def test_agents_that_keep_no_list_are_resumed_by_our_own_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder, other = str(tmp_path / "project"), str(tmp_path / "other")
    for n in range(3):
        session = AgentSession(agent="a", id=f"s{n % 2}", title=f"t{n}", updated=float(n))
        remember(session, folder)
    assert [(s.id, s.title) for s in remembered(folder)] == [("s0", "t2"), ("s1", "t1")]
    assert remembered(other) == []
