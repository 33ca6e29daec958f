"""The numbers of shapes mean the same in the documentation and in the names of tests. (That the
tables are whole is held for all pages at once, in `tests/hostile/test_shapes_are_tested.py`.)
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_a_test_that_is_named_after_a_shape_is_in_its_row() -> None:
    page = (DOCS / "project/browser-shapes.md").read_text()
    tests = (Path(__file__).parent / "test_browser_shapes.py").read_text()
    for name in re.findall(r"^async def (test_\d\w+)", tests, re.MULTILINE):
        for number in re.findall(r"\d\d", name.partition("_a_")[0]):
            [row] = re.findall(rf"^\| {int(number)} \|.*$", page, re.MULTILINE)
            assert f"`{name}`" in row
