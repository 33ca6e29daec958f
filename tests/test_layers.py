"""The rules above the tree of `src/agentrt`: import contracts (`pyproject.toml`) and file sizes."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
SOURCES = sorted(SRC.rglob("*.py"))
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"
CONTRACTS = ROOT / "pyproject.toml"


def lint_imports(src: Path) -> subprocess.CompletedProcess[str]:
    """Hold the contracts against the package below `src`."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo", "--config", CONTRACTS],
        cwd=src,
        env={**os.environ, "PYTHONPATH": str(src)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_imports_point_down_and_the_pure_rooms_never_import_trio() -> None:
    linted = lint_imports(SRC)
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("_model/log.py", "import agentrt._runtime", "Imports point down"),
        ("_tools/tools.py", "import agentrt._runtime.open", "Imports point down"),
        ("_acp/driver.py", "import agentrt._claude.driver", "The two protocols do not know"),
        ("_wire/lines.py", "import trio", "The pure rooms never import Trio"),
    ],
)
def test_a_wrong_import_is_found(module: str, line: str, contract: str, tmp_path: Path) -> None:
    shutil.copytree(SRC / "agentrt", tmp_path / "agentrt")
    with open(tmp_path / "agentrt" / module, "a") as file:
        file.write(f"\n{line}\n")
    linted = lint_imports(tmp_path)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert any(contract in row and "BROKEN" in row for row in linted.stdout.splitlines())


def test_every_file_says_what_lives_in_it() -> None:
    silent = [
        str(path.relative_to(SRC))
        for path in SOURCES
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent
