"""A place for a store, and the libraries that can write it."""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path
from typing import Any

import pytest

APSW = pytest.mark.skipif(
    importlib.util.find_spec("apsw") is None, reason="needs apsw (pip install apsw)"
)

FILES = ["sqlite3", pytest.param("apsw", marks=[APSW, pytest.mark.slow])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is said of every store runs on PostgreSQL as well."""
    if "library" in metafunc.fixturenames:
        every = metafunc.definition.get_closest_marker("every_store") is not None
        params = [*FILES, "postgres"] if every else FILES
        metafunc.parametrize("library", params, indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """The server is there before a test begins, which must leave nothing behind."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and callspec.params.get("library") == "postgres":
        item.fixturenames.insert(0, "postgres")  # type: ignore[attr-defined]


@pytest.fixture
def library(request: pytest.FixtureRequest) -> Any:
    """None where the store is no file."""
    return None if request.param == "postgres" else request.param


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A file; or a schema of PostgreSQL, by its URL."""
    if "library" in request.fixturenames and request.getfixturevalue("library") is None:
        return request.getfixturevalue("schema")
    return tmp_path / "kept" / "sessions.db"


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """The URL of a schema that nobody has used."""
    url: str = request.getfixturevalue("postgres").url(f"t_{secrets.token_hex(6)}")
    return url
