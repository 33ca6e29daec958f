"""Stores in PostgreSQL.

Tests look into the database, and break a connection in the middle of a commit.
"""

from __future__ import annotations

from agentrt._cluster.postgres.commands import (
    Notified,
    notified_of,
)

__all__ = [
    "Notified",
    "notified_of",
]
