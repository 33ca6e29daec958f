"""The programs of the guide for users of `claude-agent-sdk` (`python claude`), on both sides.

Each runs as it stands there, with Claude Code and a scripted model.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from test_docs import BLOCKS, Block, assert_shows

from .lab import Lab

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

TIMEOUT_S = 120.0
PROGRAMS = [block for block in BLOCKS if block.kind == "python claude"]


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_of_the_migration_guide_prints_what_is_shown(
    block: Block, lab: Lab, installed: Path, tmp_path: Path
) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "claude").symlink_to(lab.argv[0])
    program = tmp_path / "program.py"
    program.write_text(block.text)
    (lab.work / "Makefile").write_text("clean:\n\t@echo cleaned\n")
    done = subprocess.run(
        [sys.executable, program],
        cwd=lab.work,
        env={
            **lab.env,
            "PATH": f"{scripts}:{lab.env['PATH']}",
            "PYTHONPATH": str(installed / "claude"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    after = BLOCKS[BLOCKS.index(block) + 1]
    assert after.kind == "output"
    assert_shows(after.text, done.stdout)
