"""`conftest.py` itself: what it leaves out and says so, and what it finds behind a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faults.quick import mostly_slow

CONFTEST = Path(__file__).with_name("conftest.py").read_text()

LONG = """
import pytest

def test_quick():
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.parametrize("long", [pytest.param(True, marks=pytest.mark.slow), False])
def test_either(long):
    pass
"""

LEAVES = '''
import subprocess, sys

LATER = "import time; time.sleep(60)"
START = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {LATER!r}], start_new_session=True)
"""
kept = []

def test_a_child_that_runs():
    kept.append(subprocess.Popen([sys.executable, "-c", LATER]))

def test_a_grandchild_whose_parent_is_gone():
    subprocess.run([sys.executable, "-c", START], check=True)

def test_nothing():
    pass
'''


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = .\nmarkers =\n    slow: long\n    real_agent: long as well\n"
    )
    (tmp_path / "test_long.py").write_text(LONG)
    return tmp_path


def run(suite: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=suite, capture_output=True, text=True, timeout=120)
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", mostly_slow([(), (".",)], one_in=2))
def test_what_is_slow_is_left_out_and_the_end_says_how_to_run_it(
    suite: Path, arguments: tuple[str, ...]
) -> None:
    told = run(suite, *arguments)
    assert "2 passed, 1 deselected" in told
    assert "Left out: 2 slow. With them: .venv/bin/python -m pytest --slow" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (("--slow",), 4),
        (("-m", "slow"), 2),
        (("test_long.py",), 4),
        (("test_long.py::test_slow",), 1),
    ],
    ids=str,
)
def test_what_is_slow_runs_when_it_is_asked_for(
    suite: Path, arguments: tuple[str, ...], passed: int
) -> None:
    told = run(suite, *arguments)
    assert f"{passed} passed" in told
    assert "Left out" not in told


@pytest.mark.slow
def test_a_process_that_is_left_fails_its_test_and_no_other(suite: Path) -> None:
    (suite / "test_long.py").write_text(LEAVES)
    patience = CONFTEST.replace("VANISH = 20.0", "VANISH = 2.0")
    assert patience != CONFTEST
    (suite / "conftest.py").write_text(patience)
    told = run(suite, "-W", "ignore")
    assert "processes left running" in told
    assert "3 passed, 2 errors" in told
