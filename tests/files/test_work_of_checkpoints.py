"""The work of a checkpoint depends on the files that changed, not on those that are there."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt import Limits
from agentrt.unattended import FolderCheckpoints, TakenFiles
from runtime.fakes import session_with

from .test_checkpoints_of_turns import writing
from .test_shadow import STEPS, carry_out, git

WATCHED = """#!/bin/sh
echo "$@" >> '{log}'
case "$*" in
*update-index*) tee -a '{log}.names' | {git} "$@" ;;
*) exec {git} "$@" ;;
esac
"""


class WatchedGit:
    """A git program that records its runs and the files on its standard input."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "git.log"
        self._names = folder / "git.log.names"
        found = shutil.which("git")
        assert found is not None
        (folder / "bin").mkdir()
        program = folder / "bin/git"
        program.write_text(WATCHED.format(log=self._log, git=found))
        program.chmod(0o755)
        self.path = str(folder / "bin")

    def take(self) -> tuple[int, list[str]]:
        """Return the number of processes and the files since the last call."""
        runs = self._log.read_text().splitlines() if self._log.exists() else []
        names = self._names.read_text().split("\0")[:-1] if self._names.exists() else []
        self._log.write_text("")
        self._names.write_text("")
        return len(runs), sorted(names)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedGit:
    made = WatchedGit(tmp_path)
    monkeypatch.setenv("PATH", f"{made.path}:/usr/local/bin:/usr/bin:/bin")
    return made


@pytest.fixture(params=[False, True], ids=["folder", "repository"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for place in range(40):
        (folder / f"d{place % 4}").mkdir(parents=True, exist_ok=True)
        (folder / f"d{place % 4}/f{place}.py").write_text(f"file {place}\n")
    if request.param:
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "Start")
    return folder


def settle() -> None:
    """Let the clock of the file system move on, so that changed files have a later time."""
    time.sleep(0.03)


def test_unchanged_files_cost_one_process_and_are_not_read_again(
    project: Path, watched: WatchedGit
) -> None:
    shadow = FolderCheckpoints(project, Limits())
    settle()
    first = shadow.take()
    watched.take()
    second = shadow.take()
    assert watched.take() == (1, [])
    assert second.tree == first.tree
    assert second.saved == first.saved


def test_only_changed_files_are_read(project: Path, watched: WatchedGit) -> None:
    shadow = FolderCheckpoints(project, Limits())
    settle()
    shadow.take()
    watched.take()
    (project / "d1/f1.py").write_text("FILE 1\n")  # of the same size
    (project / "d3/new.py").write_text("new\n")
    (project / "d2/f2.py").chmod(0o700)
    shadow.take()
    processes, names = watched.take()
    assert names == ["d1/f1.py", "d2/f2.py", "d3/new.py"]
    assert processes <= 3


@pytest.mark.slow
def test_a_restore_reads_only_the_files_that_it_writes(project: Path, watched: WatchedGit) -> None:
    shadow = FolderCheckpoints(project, Limits())
    settle()
    number = shadow.record(shadow.take(), "before").number
    (project / "d1/f1.py").write_text("changed\n")
    settle()
    shadow.restore(number)
    fresh = FolderCheckpoints(project, Limits())  # only git's own index tells what is unchanged
    with_index = fresh.take()
    assert with_index.tree == fresh.tree_of(number)
    settle()
    watched.take()
    fresh.take()
    assert watched.take()[1] in ([], ["d1/f1.py"])


@pytest.mark.slow
def test_dropping_old_checkpoints_costs_no_further_process(
    project: Path, watched: WatchedGit
) -> None:
    shadow = FolderCheckpoints(project, Limits(checkpoints_kept=5))
    taken = shadow.take()
    counts = []
    for _ in range(9):
        watched.take()
        shadow.record(taken, "before")
        counts.append(watched.take()[0])
    assert counts.count(3) >= 8  # one of them also collects what was dropped
    assert [each.number for each in shadow.checkpoints()] == [5, 6, 7, 8, 9]


async def test_a_turn_costs_few_processes(tmp_path: Path, watched: WatchedGit) -> None:
    project = tmp_path / "small"
    project.mkdir()
    (project / "a.py").write_text("first")
    async with session_with(writing(project), cwd=str(project), checkpoints=True) as (session, _):
        await session.run("second")
        await session.checkpoints.list()
        settle()
        watched.take()
        await session.run("look")
        await session.wait_idle()
        await session.checkpoints.list()
        assert watched.take()[0] <= 8  # with that of `list`


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.booleans(), STEPS), max_size=4), st.booleans())
def test_a_checkpoint_has_the_files_as_they_are_whoever_made_the_last_one(
    rounds: list[tuple[bool, list[tuple[str, str, bytes]]]], versioned: bool
) -> None:
    """Two sessions of one folder take checkpoints in turn, and restore them. Every checkpoint is
    equal to that of an empty repository."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "p"
        project.mkdir()
        if versioned:
            git(project, "init", "-q")
        sessions = [FolderCheckpoints(project, Limits()) for _ in range(2)]
        first = sessions[0].record(sessions[0].take(), "before").number
        for second, steps in rounds:
            carry_out(project, steps)
            _equal_to_a_fresh_one(sessions[second].take(), project)
            sessions[not second].restore(first)
            _equal_to_a_fresh_one(sessions[second].take(), project)
        sessions[0].forget()


def _equal_to_a_fresh_one(taken: TakenFiles, project: Path) -> None:
    with tempfile.TemporaryDirectory() as state, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", state)
        fresh = FolderCheckpoints(project, Limits()).take()
    assert (taken.tree, taken.modes) == (fresh.tree, fresh.modes)
