"""A schema of the shared server for each test."""

from __future__ import annotations

import secrets

import pytest

from inside.postgres import PostgresServer as Address
from inside.postgres import parse as server_of

from .server import Server


@pytest.fixture
def schema(postgres: Server) -> str:
    """The name of one that nobody has used."""
    return f"t_{secrets.token_hex(6)}"


@pytest.fixture
def url(postgres: Server, schema: str) -> str:
    return postgres.url(schema)


@pytest.fixture
def address(url: str) -> Address:
    return server_of(url)
