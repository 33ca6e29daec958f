"""`agentrt.testing.odd` under the official clients for Python: what each does with each shape, as
`docs/project/conformance.md` says it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentrt.testing.odd import SHAPES

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/project/conformance.md"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CLAUDE = CACHE / "agentrt-bench" / "venv-claude" / "bin" / "python"
"""Where `benchmarks/lab.py` puts the SDK for Claude Code."""


def meet(client: str, python: str | Path, shape: str, report: Path) -> dict[str, str]:
    source = str(HERE.parents[1] / "src")
    env = {**os.environ, "PYTHONPATH": source, "AGENTRT_PYTHON": sys.executable}
    done = subprocess.run(
        [python, HERE / client, shape, report],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    result: dict[str, str] = json.loads(done.stdout)
    return result


def heard(report: Path) -> list[Any]:
    return [json.loads(line) for line in report.read_text().splitlines()]


def said(column: int) -> dict[str, str]:
    """What the page says of each shape."""
    rows = re.findall(r"^\| `([a-z-]+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    cells = {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}
    return {name: cells[name][column] for name in SHAPES}


def words(met: dict[str, str]) -> str:
    second = met["second"] if not met["then"] else f"{met['second']}, “{met['then']}”"
    return f"{met['first']}; then {second}"


QUICK = ("plain", "dies", "permission-in-cancel")


@pytest.mark.parametrize(
    "shape",
    [pytest.param(s, marks=() if s in QUICK else pytest.mark.slow) for s in SHAPES],
)
def test_the_acp_client_does_what_the_page_says(shape: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    met = meet("odd_acp.py", sys.executable, shape, report)
    assert words(met) == said(1)[shape]
    assert heard(report)[0]["heard"]["method"] == "initialize"


@pytest.mark.skipif(not CLAUDE.exists(), reason="needs: python benchmarks/lab.py")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_sdk_for_claude_does_what_the_page_says(shape: str, tmp_path: Path) -> None:
    met = meet("odd_claude.py", CLAUDE, shape, tmp_path / "report")
    assert words(met) == said(2)[shape]


def test_the_report_says_what_the_client_answered(tmp_path: Path) -> None:
    report = tmp_path / "report"
    meet("odd_acp.py", sys.executable, "permission-in-cancel", report)
    messages = [row.get("heard") or {} for row in heard(report)]
    [answer] = [message for message in messages if message.get("id") == "q1"]
    assert answer["result"]["outcome"]["optionId"] == "yes"
    assert "session/cancel" in [message.get("method") for message in messages]
