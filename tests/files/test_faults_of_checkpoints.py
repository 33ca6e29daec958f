"""Checkpoints of files that cannot be read, written or saved: nothing is lost."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from agentrt import Limits
from agentrt.errors import FilesError
from agentrt.unattended import FolderCheckpoints, open_worktree

from .test_shadow import checkpoint, files_of, git, project, wreck

__all__ = ["project"]

SMALL = structs.replace(Limits(), checkpoint_file_bytes=1000)

WRITER = """
import os, random, sys
place, = sys.argv[1:]
print(flush=True)
while True:
    with open(place + "/unstable", "wb") as file:
        file.write(os.urandom(random.randrange(1, 2_000_000)))
        file.truncate(random.randrange(1, 1_000_000))
    name = f"{place}/short{random.randrange(20)}"
    open(name, "wb").close()
    os.unlink(name)
"""


@contextmanager
def file_size_limit(most_bytes: int) -> Iterator[None]:
    """Kill programs that write a larger file, as a full disk stops them."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
def test_a_restore_that_fails_half_way_changes_nothing(project: Path) -> None:
    (project / "big").write_bytes(b"0" * 200_000)
    shadow = FolderCheckpoints(project, Limits())
    number = checkpoint(shadow)
    saved = files_of(project)
    wreck(project)
    (project / "big").unlink()
    (project / "d.bin").chmod(0o640)
    wrecked = files_of(project)
    with file_size_limit(100_000), pytest.raises(FilesError, match="none has changed"):
        shadow.restore(number)
    assert files_of(project) == wrecked
    restored = shadow.restore(number)
    assert files_of(project) == saved
    shadow.restore(restored.undo)
    assert files_of(project) == wrecked


@pytest.mark.slow
async def test_bringing_back_changes_that_fails_half_way_changes_nothing(project: Path) -> None:
    before = files_of(project)
    async with open_worktree(project) as worktree:
        copy = Path(worktree.cwd)
        (copy / "a.py").write_text("agent")
        (copy / "e.txt").unlink()
        (copy / "zz").write_bytes(b"0" * 200_000)
        with file_size_limit(100_000), pytest.raises(FilesError, match="git apply failed"):
            await worktree.apply()
        assert files_of(project) == before
        assert len(await worktree.apply()) == 3
    assert (project / "a.py").read_text() == "agent"
    before_it = FolderCheckpoints(project, Limits()).checkpoints()[-1]
    FolderCheckpoints(project, Limits()).restore(before_it.number)
    assert files_of(project) == before


def test_a_file_that_was_not_saved_is_not_deleted_when_it_has_become_smaller(
    project: Path,
) -> None:
    (project / "large").write_bytes(b"1" * 1001)
    nested = project / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "inner").write_text("1")
    shadow = FolderCheckpoints(project, SMALL)
    taken = shadow.take()
    assert set(taken.left_out) == {"large", "nested/"}
    number = checkpoint(shadow)
    (project / "large").write_bytes(b"1")
    (nested / ".git").rename(project.parent / "git")
    restored = shadow.restore(number)
    assert restored.kept == ("large", "nested/inner")
    assert (project / "large").read_bytes() == b"1"
    assert (nested / "inner").read_text() == "1"


@pytest.mark.skipif(os.getuid() == 0, reason="root can write every folder")
def test_files_in_a_folder_that_cannot_be_written_are_kept(project: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    number = checkpoint(shadow)
    (project / "sub/c.py").write_text("agent")
    (project / "sub/new").write_text("agent")
    (project / "b.py").write_text("agent")
    (project / "sub").chmod(0o555)
    try:
        assert shadow.restore(number).kept == ("sub/c.py", "sub/new")
        assert (project / "b.py").read_text() == "changed"
        (project / "sub").chmod(0o000)
        assert "sub/c.py" in shadow.take().left_out
    finally:
        (project / "sub").chmod(0o755)
    assert (project / "sub/c.py").read_text() == "agent"


def test_a_failed_checkpoint_leaves_no_incomplete_files(project: Path, state: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    checkpoint(shadow)
    (project / "big").write_bytes(os.urandom(200_000))
    with file_size_limit(100_000), pytest.raises(FilesError):
        shadow.take()
    (shadow_of,) = state.glob("**/shadow.git")
    assert not list(shadow_of.glob("objects/**/tmp_*"))
    shadow.take()


@pytest.mark.slow
def test_files_that_a_program_writes_to_do_not_prevent_a_checkpoint(project: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(project)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        numbers = []
        for n in range(8):
            (project / "a.py").write_text(str(n))
            numbers.append(checkpoint(shadow))
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    for n, number in enumerate(numbers):
        shadow.restore(number)
        assert (project / "a.py").read_text() == str(n)


@pytest.mark.slow
def test_a_file_that_was_saved_through_a_copy_is_restored(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow = FolderCheckpoints(project, Limits())
    number = checkpoint(shadow)
    saved = files_of(project)
    (project / "a.py").write_text("agent")
    written_ns = (project / "a.py").stat().st_ctime_ns
    while time.time_ns() < written_ns + 50_000_000:
        pass  # from then on the file's time tells that it has not changed since
    unstable = tmp_path_factory.mktemp("unstable") / "git"  # as if a program wrote to all files
    unstable.write_text(
        f"""#!/bin/sh
case " $* " in *" --add --remove "*) exit 128;; esac
exec {shutil.which("git")} "$@"
"""
    )
    unstable.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{unstable.parent}:{os.environ['PATH']}")
        checkpoint(shadow)
    shadow.restore(number)
    assert files_of(project) == saved


@pytest.mark.slow
def test_files_of_another_session_are_kept_until_they_have_a_checkpoint(project: Path) -> None:
    kept = structs.replace(Limits(), checkpoints_kept=2)
    ours, theirs = FolderCheckpoints(project, kept), FolderCheckpoints(project, kept)
    (project / "a.py").write_text("ours")
    taken = ours.take()
    for n in range(4):
        (project / "a.py").write_text(str(n))
        checkpoint(theirs)
    number = ours.record(taken, "before").number
    theirs.restore(number)
    assert (project / "a.py").read_text() == "ours"
