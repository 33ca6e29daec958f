"""Stores in SQLite.

Tests let a disk fail, or a process end, between two commits, and check what the file contains.
"""

from __future__ import annotations

from agentrt._core.store import sqlite, writer
from agentrt._core.store.reader import SqliteReader
from agentrt._core.store.service import StoreService
from agentrt._core.store.sqlite import SqliteBackend
from agentrt._core.store.writer import Batch, StoreWriter, WriterJob, gathered

__all__ = [
    "Batch",
    "SqliteBackend",
    "SqliteReader",
    "StoreService",
    "StoreWriter",
    "WriterJob",
    "gathered",
    "sqlite",
    "writer",
]
