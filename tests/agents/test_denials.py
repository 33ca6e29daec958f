"""A deny holds on real agents, or its violation is reported in the same turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .denials import after_a_plan, after_always, in_a_second_session, in_modes, worst
from .lab import Lab

DOCUMENT = Path(__file__).parents[2] / "docs/guides/permissions.md"
AGENTS = [
    "claude",
    "claude-2.1.165",
    "claude-agent-acp",
    "codex",
    "gemini",
    "qwen",
    "opencode",
    "kimi",
]

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", AGENTS)]


async def test_a_deny_holds_or_its_violation_is_reported(
    lab: Lab, record_property: Callable[[str, object], None]
) -> None:
    situations = {
        "always": await after_always(lab),
        "modes": await in_modes(lab),
        "plan": await after_a_plan(lab),
        "second session": await in_a_second_session(lab),
    }
    record_property("situations", situations)
    cells = [worst(found.values()) for found in situations.values()]
    row = f"| `{lab.agent}` | {' | '.join(cells)} |"
    record_property("row", row)
    assert "happened" not in cells
    assert row in DOCUMENT.read_text()
