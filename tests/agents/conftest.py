"""Fixtures for tests with real agents: a scripted model, and one prepared agent at a time."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from .lab import Lab, Model, model_server, prepare
from .recipes import package_of
from .versions import agents_root


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    """A model server of its own process, gone with the test."""
    with model_server(tmp_path) as model:
        yield model


@pytest.fixture
def one_at_a_time() -> Iterator[None]:
    """Held while an agent runs, by every test run of this machine: some take 600 MB and a core."""
    with (Path(tempfile.gettempdir()) / "agentrt-agents.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def installed(agent: str) -> Path:
    """Where agents are installed, if the test's `agent` is among them."""
    package = package_of(agent)
    if not package.installed(agents_root()):
        pytest.skip(f"{agent} is not installed: {package.how_to_install}")
    return agents_root()


@pytest.fixture
def lab(
    agent: str, installed: Path, one_at_a_time: None, model: Model, tmp_path: Path
) -> Iterator[Lab]:
    """The agent named by the test's `agent` parameter, ready to be started."""
    lab = prepare(agent, model, installed, tmp_path)
    yield lab
    for process in lab.processes():  # a failed test must not disturb the next one
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
