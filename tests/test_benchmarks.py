"""The benchmarks' page in the documentation belongs to its rows, and the counts run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("pauses", ["--only", "long", "--rounds", "1"]),
        ("crowd", ["--quick", "--rounds", "1", "--viewers", "5"]),
        ("long", ["--events", "1000", "--rounds", "1"]),
        ("store", ["--quick", "--rounds", "1"]),
    ],
)
def test_a_benchmark_of_the_page_measures_each_figure(
    name: str, arguments: list[str], tmp_path: Path
) -> None:
    """Its exit code says whether a target was missed, which is nothing that a test says."""
    rows = tmp_path / "rows"
    ran = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", *arguments, "--rows", rows],
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in ran.stderr
    measured = [msgspec.json.decode(line) for line in rows.read_text().splitlines()]
    assert {row["benchmark"] for row in measured} == {name}
    assert all(row["values"] for row in measured)
