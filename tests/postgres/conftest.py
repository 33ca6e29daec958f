"""A schema of the shared server for each test."""

from __future__ import annotations

import secrets

import pytest

from agentrt.lowlevel import StoreServer
from agentrt.storage import server_of

from .server import Server


@pytest.fixture
def schema(postgres: Server) -> str:
    """The name of one that nobody has used."""
    return f"t_{secrets.token_hex(6)}"


@pytest.fixture
def url(postgres: Server, schema: str) -> str:
    return postgres.url(schema)


@pytest.fixture
def address(url: str) -> StoreServer:
    return server_of(url)
