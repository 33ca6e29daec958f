"""Fixtures for sandboxes, and the reason to skip their tests where none can be built."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import agentrt
import agentrt.agents
from agentrt.sandbox import probe

HERE = Path(__file__).resolve().parent
_problem = next((each for each in probe() if each.required and not each.works), None)
WHY = "" if _problem is None else f"no sandbox: {_problem.name}: {_problem.detail}"
_landlock = next((each for each in probe() if each.name.startswith("Landlock")), None)
_usable = _landlock is not None and (_landlock.works or "ordinary user" in _landlock.remedy)
REASONS = {"sandbox": WHY, "landlock": "" if _usable else "this kernel's Landlock does not suffice"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker, reason in REASONS.items():
            if reason and item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def shell_agent() -> agentrt.Agent:
    """An agent that runs each prompt as a shell line (`shell_agent.py`)."""
    command = [sys.executable, "-I", "-S", str(HERE / "shell_agent.py")]
    return agentrt.agents.acp(command, name="shell-agent")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project folder next to another one."""
    (tmp_path / "neighbour").mkdir()
    (tmp_path / "neighbour" / "secret").write_text("secret")
    (tmp_path / "project").mkdir()
    return tmp_path / "project"
