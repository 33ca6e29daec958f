"""A store's file as another version, a killed process or a disk that fails leaves it.

No public function ends a store without its last writes, and no setting makes its limits so small
that one session reaches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import pytest

from agentrt._core.store import schema
from agentrt.store import Store
from inside.process import LAYER
from inside.store import SqliteBackend, WriterJob, sqlite, writer

LIMITS: Final[dict[str, tuple[ModuleType, str]]] = {
    "file_check_interval_s": (sqlite, "_FILE_CHECK_INTERVAL_S"),
    "idle_s": (writer, "IDLE_S"),
    "postponed_chars": (sqlite, "_MAX_POSTPONED_CHARS"),
    "row_delay_s": (sqlite, "_MAX_ROW_DELAY_S"),
    "unindexed_records": (sqlite, "_MAX_UNINDEXED_RECORDS"),
}


def limit_stores(patch: pytest.MonkeyPatch, **values: float) -> None:
    """Give stores other limits, by the names in `LIMITS`, as long as the patch lasts."""
    for name, value in values.items():
        patch.setattr(*LIMITS[name], value)


@contextmanager
def later_version(statement: str) -> Iterator[int]:
    """Let agentrt be a version that adds a step to the schema; yields the number of the others."""
    steps = schema.MIGRATIONS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*steps, statement))
        yield len(steps)


@contextmanager
def version_without_search() -> Iterator[None]:
    """Let agentrt be the version that had no index of words yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        patch.setattr(SqliteBackend, "index", lambda *args: None)
        yield


@contextmanager
def killed_at_the_end() -> Iterator[None]:
    """Let each process be killed before its last writes to a store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteBackend, "finish", lambda self: None)
        yield


@contextmanager
def another_boot() -> Iterator[None]:
    """Let the machine have been started again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(LAYER), "boot_id", lambda layer: "another start of the machine")
        yield


@contextmanager
def index_fails_once() -> Iterator[list[Any]]:
    """Let the first commit of an index fail; yields what it would have written."""
    set_meta, failed = SqliteBackend._set_meta, list[Any]()

    def fail_once(self: SqliteBackend, **values: Any) -> None:
        set_meta(self, **values)
        if "indexed" in values and not failed:
            failed.append(values)
            raise OSError("a disk that fails once")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteBackend, "_set_meta", fail_once)
        yield failed


def occupy(store: Store, wait: Callable[[], object]) -> None:
    """Let a store's writer do nothing else until a function returns."""
    store.write(WriterJob(lambda backend: wait(), lambda *over: None))  # type: ignore[attr-defined]
