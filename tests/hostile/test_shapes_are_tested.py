"""The tables of `docs/` that map failures to tests are whole, and the tests that they name are
run."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"

SHAPES = {
    "project/failure-shapes.md": [
        *(f"C{number}" for number in range(1, 24)),
        *(str(number) for number in range(1, 49)),
        *(f"F{number}" for number in range(1, 63)),
        *(f"B{number}" for number in range(1, 14)),
        *(f"S{number}" for number in range(1, 26)),
    ],
    "project/claude-shapes.md": [str(number) for number in range(1, 52)],
    "project/acp-2-checks.md": [str(number) for number in range(1, 22)],
    "project/sandbox-checks.md": [str(number) for number in range(1, 36)],
    "project/browser-shapes.md": [
        *(str(number) for number in range(1, 56)),
        *(f"T{number}" for number in range(1, 16)),
    ],
    "background/security.md": [
        *(f"P{number}" for number in range(1, 7)),
        *(f"H{number}" for number in range(1, 22)),
        *(f"F{number}" for number in range(1, 18)),
        *(f"C{number}" for number in range(1, 11)),
        *(f"A{number}" for number in (*range(1, 23), 28, *range(23, 28))),
    ],
}
"""Every shape, by the page that has it: what clients, brokers and users of agents met."""


def rows(page: str) -> list[list[str]]:
    """The cells of a page's rows that begin with the number of a shape."""
    text = (DOCS / page).read_text()
    lines = re.findall(r"^\| ([A-Z]?\d+ \|.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def named(text: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", text))


@pytest.mark.parametrize("page", SHAPES)
def test_every_shape_has_its_row(page: str) -> None:
    assert [row[0] for row in rows(page)] == SHAPES[page]


@pytest.mark.parametrize("page", SHAPES)
def test_every_row_says_what_one_sees_and_names_a_test(page: str) -> None:
    for row in rows(page):
        assert all(row[:2]), row
        assert named(row[-1]), row


@pytest.mark.slow
def test_every_test_that_a_page_names_is_run() -> None:
    """At least pytest would: those of agents that are not installed here are skipped, and those in
    a browser are not even collected without what drives it."""
    wanted = set().union(*(named(page.read_text()) for page in DOCS.rglob("*.md")))
    assert wanted
    files = {}
    for file in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE):
            files.setdefault(name, file)
    assert wanted - files.keys() - {file.stem for file in files.values()} == set()
    chosen = sorted({str(files[name]) for name in wanted if name in files})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    told = subprocess.run(
        [*command, *chosen], cwd=TESTS.parent, capture_output=True, text=True, timeout=240
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-2000:]
    collected = set(re.findall(r"::(test_\w+)", told.stdout))
    missing = {name for name in wanted if name in files} - collected
    if find_spec("playwright") is None:
        missing -= {name for name in missing if files[name].parent.name == "browser"}
    assert missing == set()
