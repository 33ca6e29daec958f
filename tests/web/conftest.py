"""A store of each kind, for tests that hold for all."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from postgres.server import Server


def pytest_itemcollected(item: pytest.Item) -> None:
    """The server is there before what the test leaves behind is looked for."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and callspec.params.get("kind") == "postgres":
        item.fixturenames.insert(0, "postgres")  # type: ignore[attr-defined]


@pytest.fixture
def store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str | None:
    """Where sessions are kept: None for in memory, a file, or a URL."""
    if kind == "memory":
        return None
    if kind == "sqlite":
        return str(tmp_path / "store.db")
    server: Server = request.getfixturevalue("postgres")
    return server.url(f"t_{secrets.token_hex(6)}")
