"""Stores in PostgreSQL.

Tests look into the database, and break a connection in the middle of a commit.
"""

from __future__ import annotations

from agentrt._cluster.postgres.backend import PostgresBackend
from agentrt._cluster.postgres.commands import (
    Notified,
    PostgresCommands,
    PostgresListener,
    notified_of,
)
from agentrt._cluster.postgres.leases import PostgresLeases

__all__ = [
    "Notified",
    "PostgresBackend",
    "PostgresCommands",
    "PostgresLeases",
    "PostgresListener",
    "notified_of",
]
