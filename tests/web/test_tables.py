"""The tables in the documentation have a row, and each row a test, for everything on their lists.
(That the tests exist is held for all pages at once, in `tests/hostile/test_shapes_are_tested.py`.)
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_each_way_to_get_stuck_has_its_row_and_its_test() -> None:
    page = (DOCS / "browser-shapes.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]*) \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 56))
    assert all("`test_" in tests for _, tests in rows)


def test_a_test_that_is_named_after_a_shape_is_in_its_row() -> None:
    page = (DOCS / "browser-shapes.md").read_text()
    tests = (Path(__file__).parent / "test_browser_shapes.py").read_text()
    for name in re.findall(r"^async def (test_\d\w+)", tests, re.MULTILINE):
        for number in re.findall(r"\d\d", name.partition("_a_")[0]):
            [row] = re.findall(rf"^\| {int(number)} \|.*$", page, re.MULTILINE)
            assert f"`{name}`" in row


def test_each_bad_input_from_the_network_has_its_row_and_its_test() -> None:
    page = (DOCS / "security.md").read_text()
    rows = re.findall(r"^\| ([HFC]\d+) \|.*\| ([^|]*) \|$", page, re.MULTILINE)
    wanted = [
        f"{list}{n}"
        for list, count in (("H", 16), ("F", 10), ("C", 9))
        for n in range(1, count + 1)
    ]
    assert [number for number, _ in rows] == wanted
    assert all("`test_" in tests for _, tests in rows)
