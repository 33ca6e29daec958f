"""A place for a store."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of every store runs on PostgreSQL as well."""
    if metafunc.definition.get_closest_marker("every_store") is not None:
        metafunc.parametrize("place", ["file", "postgres"])


def pytest_itemcollected(item: pytest.Item) -> None:
    """The server is there before a test begins, which must leave nothing behind."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and callspec.params.get("place") == "postgres":
        item.fixturenames.insert(0, "postgres")  # type: ignore[attr-defined]


@pytest.fixture
def place() -> str:
    """The kind of the store: `file`, or `postgres`."""
    return "file"


@pytest.fixture
def path(request: pytest.FixtureRequest, place: str, tmp_path: Path) -> Any:
    """A file; or a schema of PostgreSQL, by its URL."""
    if place == "postgres":
        return request.getfixturevalue("schema")
    return tmp_path / "kept" / "sessions.db"


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """The URL of a schema that nobody has used."""
    url: str = request.getfixturevalue("postgres").url(f"t_{secrets.token_hex(6)}")
    return url
