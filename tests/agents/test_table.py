"""The tables of agents are printed from a report by pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .versions import HERE, REPOSITORY

ROW = "| `demo` | held | refused | not offered | reported |"


@pytest.mark.slow
def test_the_table_of_denials_has_the_rows_that_tests_report(tmp_path: Path) -> None:
    test = tmp_path / "test_rows.py"
    test.write_text(f"def test_row(record_property):\n    record_property('row', {ROW!r})\n")
    report = tmp_path / "report.xml"
    settings = ["-c", str(REPOSITORY / "pyproject.toml"), f"--rootdir={tmp_path}"]
    run = [sys.executable, "-m", "pytest", str(test), "-n", "0", f"--junitxml={report}"]
    subprocess.run([*run, *settings], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    make = [sys.executable, str(HERE / "table.py"), "--denials", "--junit", str(report)]
    table = subprocess.run(make, check=True, capture_output=True, text=True).stdout
    assert table.splitlines()[-1] == ROW
