"""The benchmarks' page in the documentation belongs to its rows, and the counts run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_page_of_figures_is_made_of_the_stored_rows() -> None:
    compare = "import page; assert page.PAGE.read_text() == page.page(*page.stored())"
    subprocess.run([sys.executable, "-c", compare], cwd=BENCHMARKS, check=True)


def test_the_stored_rows_name_no_path_of_the_machine() -> None:
    paths = re.findall(r'["\s=](/\w+/[^"\s]*)', (BENCHMARKS / "rows.jsonl").read_text())
    assert paths == []


@pytest.mark.slow
def test_a_turn_an_update_and_a_permission_stay_below_their_ceilings() -> None:
    counted = subprocess.run(
        [sys.executable, BENCHMARKS / "costs.py"], capture_output=True, text=True
    )
    assert counted.returncode == 0, counted.stdout + counted.stderr
