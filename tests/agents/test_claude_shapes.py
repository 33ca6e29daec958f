"""The page about Claude Code's failure shapes has them all."""

from __future__ import annotations

import re

from .versions import REPOSITORY


def test_every_shape_has_its_row_and_every_row_its_test() -> None:
    page = (REPOSITORY / "docs/project/claude-shapes.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]*) \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 52))
    assert all("`test_" in tests for _, tests in rows)
