"""A file for a store, and the libraries that can write it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

APSW = pytest.mark.skipif(importlib.util.find_spec("apsw") is None, reason="apsw is not installed")


@pytest.fixture(params=["sqlite3", pytest.param("apsw", marks=APSW)])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "sessions.db"
