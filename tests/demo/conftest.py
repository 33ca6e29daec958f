"""`demo`: starts a demo agent in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from .peer import Peer, run_demo

Demo: TypeAlias = Callable[..., AbstractAsyncContextManager[Peer]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a little in it."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# A project\n\nIt has a needle in it.\n")
    (folder / "src" / "main.py").write_text("def main():\n    return 'needle'\n")
    return folder


@pytest.fixture
def demo(tmp_path: Path, folder: Path) -> Demo:
    return partial(run_demo, folder, tmp_path / "state")
