"""The tables of `docs/` that map failures to tests name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGES = sorted((TESTS.parent / "docs").glob("*.md"))


@pytest.mark.parametrize("page", [page for page in PAGES if "`test_" in page.read_text()])
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text()))
    defined = set()
    for file in TESTS.rglob("test_*.py"):
        functions = re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
        defined |= {file.stem, *functions}
    assert named - defined == set()


def test_every_row_of_the_second_table_is_there() -> None:
    page = (TESTS.parent / "docs" / "failure-shapes.md").read_text()
    rows = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert rows == list(range(1, 49))
