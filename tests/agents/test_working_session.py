"""A whole working session in a terminal, as `docs/guides/repl.md` shows it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psutil
import pytest

from terminal.tmux import MISSING, has_tmux

from .lab import Model, prepare
from .working_session import PAGE, settled, shown, working_session

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.skipif(not has_tmux(), reason=MISSING),
    pytest.mark.parametrize("agent", ["claude"]),
]


def test_a_working_session_goes_as_the_documentation_shows_it(
    agent: str, installed: Path, one_at_a_time: None, model: Model
) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:  # a path that fits a line
        lab = prepare(agent, model, installed, Path(name))
        try:
            screens = working_session(lab, Path(name))
        finally:
            left = lab.processes()
            for process in left:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    pass
    documented = shown(PAGE.read_text())
    assert screens.keys() == documented.keys()
    for name, screen in screens.items():
        again = "`python -m agents.working_session` in tests/ writes the page anew"
        assert settled(screen.strip()) == settled(documented[name]), f"{name}: {again}"
    assert left == []
