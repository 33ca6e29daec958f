"""Checkpoints of a folder: byte for byte, and without a trace in the user's repository."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from agentrt import Limits, LocalProtocolError
from agentrt.errors import FilesError
from agentrt.unattended import FolderCheckpoints

HOSTILE = """\
[user]
\tname = a
\temail = a@b
[core]
\tfsmonitor = "touch {ran}"
\thooksPath = {hooks}
\tautocrlf = true
\tpager = "touch {ran}"
[filter "evil"]
\tclean = "touch {ran}; cat"
\tsmudge = "touch {ran}; cat"
\trequired = true
[diff "evil"]
\ttextconv = "touch {ran}; cat"
\tcommand = "touch {ran}"
[diff]
\texternal = "touch {ran}"
[gc]
\tauto = 1
"""
ATTRIBUTES = "*.bin filter=evil diff=evil\n*.txt text eol=crlf ident working-tree-encoding=UTF-16\n"


def git(folder: Path, *words: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    env |= {"GIT_OPTIONAL_LOCKS": "0"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "a", f"GIT_{role}_EMAIL": "a@b"}
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of(
    folder: Path, *, ignored: Callable[[str], bool] = lambda name: False
) -> dict[str, Any]:
    """Every file below a folder outside `.git`: its kind, permissions and content."""
    found: dict[str, Any] = {}
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in [*names, *folders]:
            path = os.path.join(at, name)
            shown = os.path.relpath(path, folder)
            if ignored(shown) or shown == ".git":
                continue
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[shown] = ("link", os.readlink(path))
            elif stat.S_ISREG(mode):
                found[shown] = (oct(stat.S_IMODE(mode)), Path(path).read_bytes())
    return found


def bytes_below(folder: Path) -> dict[str, Any]:
    """All of a `.git` folder, with the times at which its files were changed."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A repository with staged, changed and untracked files, a stash, and a hostile setup.

    Its parameter is the format of its object names.
    """
    project, ran = tmp_path / "project", tmp_path / "ran"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / hook).chmod(0o755)
    project.mkdir()
    git(project, "init", "-q", f"--object-format={getattr(request, 'param', 'sha1')}")
    for name in ("a.py", "b.py", "sub/c.py", "d.bin", "e.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(f"{name}\r\n$Id$\n".encode() + b"\x00\xff")
    (project / ".gitignore").write_text("ignored\n*.log\nforced\n")
    (project / "forced").write_text("tracked although it is ignored")
    git(project, "add", "-A")
    git(project, "add", "-f", "forced")
    git(project, "commit", "-qm", "x")
    (project / "a.py").write_text("stashed")
    git(project, "stash", "-q")
    (project / "a.py").write_text("staged")
    git(project, "add", "a.py")
    (project / "b.py").write_text("changed")
    (project / "new").write_text("untracked")
    (project / "ignored").write_text("ignored")
    (project / ".gitattributes").write_text(ATTRIBUTES)
    (project / ".git/config").write_text(
        (project / ".git/config").read_text() + HOSTILE.format(ran=ran, hooks=hooks)
    )
    return project


def checkpoint(shadow: FolderCheckpoints) -> int:
    return shadow.record(shadow.take(), "before").number


def wreck(project: Path) -> None:
    """Change a project in every way that a checkpoint covers."""
    (project / "a.py").unlink()
    (project / "b.py").write_bytes(b"agent\r\n\x00")
    (project / "sub/c.py").rename(project / "moved.py")
    (project / "sub").rmdir()
    (project / "sub").symlink_to("/etc")
    (project / "d.bin").chmod(0o700)
    (project / "e.txt").unlink()
    (project / "e.txt").mkdir()
    (project / "e.txt/inner").write_text("x")
    (project / "new").unlink()
    os.symlink("/etc/passwd", project / "new")
    (project / os.fsdecode(b"caf\xe9\n.txt")).write_text("odd name")
    (project / "forced").write_text("changed")


def test_a_restore_brings_every_file_back_and_can_itself_be_undone(project: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    before = files_of(project)
    number = checkpoint(shadow)
    wreck(project)
    wrecked = files_of(project)
    restored = shadow.restore(number)
    assert files_of(project) == before
    assert not restored.kept
    shadow.restore(restored.undo)
    assert files_of(project) == wrecked


def test_the_users_repository_is_untouched_and_runs_nothing(project: Path, tmp_path: Path) -> None:
    before = bytes_below(project / ".git")
    shadow = FolderCheckpoints(project, Limits())
    number = checkpoint(shadow)
    wreck(project)
    shadow.diff(number)
    shadow.restore(number)
    assert bytes_below(project / ".git") == before
    assert not (tmp_path / "ran").exists()


def test_files_come_back_after_the_agent_has_deleted_everything(project: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    before = files_of(project, ignored=lambda name: name == "ignored")
    number = checkpoint(shadow)
    for entry in project.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    FolderCheckpoints(project, Limits()).restore(number)
    assert files_of(project) == before


def test_ignored_files_are_neither_saved_nor_touched(project: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    (project / "secret.log").write_text("mine")
    number = checkpoint(shadow)
    (project / ".gitignore").write_text("")  # the agent makes everything visible to git
    (project / "ignored").write_text("changed")
    restored = shadow.restore(number)
    assert (project / "secret.log").read_text() == "mine"
    assert (project / "ignored").read_text() == "changed"
    assert restored.kept == ("ignored", "secret.log")


def test_a_file_that_is_too_large_is_reported_and_never_overwritten(project: Path) -> None:
    shadow = FolderCheckpoints(project, structs.replace(Limits(), checkpoint_file_bytes=100))
    number = checkpoint(shadow)
    (project / "b.py").write_bytes(b"x" * 101)
    taken = shadow.take()
    assert taken.left_out == ("b.py",)
    assert shadow.restore(number).kept == ("b.py",)
    assert (project / "b.py").read_bytes() == b"x" * 101


def test_an_ignored_file_in_the_place_of_a_folder_is_kept(project: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    number = checkpoint(shadow)
    (project / "sub/c.py").unlink()
    (project / "sub").rmdir()
    with open(project / ".gitignore", "a") as rules:
        rules.write("sub\n")
    (project / "sub").write_text("the only copy")
    assert shadow.restore(number).kept == ("sub/c.py",)
    assert (project / "sub").read_text() == "the only copy"


@pytest.mark.slow
def test_a_nested_repository_is_left_alone(project: Path, tmp_path: Path) -> None:
    nested = project / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "f").write_text("1")
    git(nested, "add", "f")
    git(nested, "commit", "-qm", "x")
    config = nested / ".git/config"
    config.write_text(f'{config.read_text()}[core]\n\tfsmonitor = "touch {tmp_path}/ran"\n')
    before = bytes_below(nested / ".git")
    shadow = FolderCheckpoints(project, Limits())
    number = checkpoint(shadow)
    (nested / "f").write_text("2")
    wreck(project)
    shadow.restore(number)
    assert (nested / "f").read_text() == "2"
    assert bytes_below(nested / ".git") == before
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_only_the_sessions_own_folder_is_covered(project: Path) -> None:
    shadow = FolderCheckpoints(project / "sub", Limits())
    number = checkpoint(shadow)
    (project / "sub/c.py").write_text("agent")
    (project / "b.py").write_text("user")
    assert [change.path for change in shadow.changes(number)] == ["c.py"]
    shadow.restore(number)
    assert (project / "sub/c.py").read_bytes().startswith(b"sub/c.py")
    assert (project / "b.py").read_text() == "user"


def test_a_link_in_the_place_of_a_folder_is_not_followed(project: Path, tmp_path: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    number = checkpoint(shadow)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.py").write_text("outside")
    (project / "sub/c.py").unlink()
    (project / "sub").rmdir()
    (project / "sub").symlink_to(outside)
    shadow.restore(number)
    assert (outside / "c.py").read_text() == "outside"
    assert (project / "sub/c.py").read_bytes().startswith(b"sub/c.py")


def test_an_unknown_checkpoint_and_too_many_files_are_clear_errors(project: Path) -> None:
    shadow = FolderCheckpoints(project, Limits())
    with pytest.raises(LocalProtocolError, match="no checkpoint 7"):
        shadow.restore(7)
    few = FolderCheckpoints(project, structs.replace(Limits(), checkpoint_files=3))
    with pytest.raises(FilesError, match=r"more than 3 files \(limits.checkpoint_files\)"):
        few.take()


@pytest.mark.slow
def test_the_oldest_checkpoints_are_dropped(project: Path) -> None:
    shadow = FolderCheckpoints(project, structs.replace(Limits(), checkpoints_kept=3))
    for n in range(7):
        (project / "a.py").write_text(str(n))
        checkpoint(shadow)
    assert [each.number for each in shadow.checkpoints()] == [5, 6, 7]
    shadow.restore(5)
    assert (project / "a.py").read_text() == "4"


NAMES = st.sampled_from(["a", "b", "d/a", "d/e/a", "x.log", "ä\n", "d/e", "d", ".gitignore", "-x"])
CONTENTS = st.sampled_from([b"", b"1\r\n2\n", b"\x00\xff", b"$Id$", b"*.log\n", b"d\n", b"x" * 300])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, CONTENTS),
        st.tuples(st.just("remove"), NAMES, st.just(b"")),
        st.tuples(st.just("link"), NAMES, st.sampled_from([b"a", b"..", b"/etc", b"missing"])),
        st.tuples(st.just("mode"), NAMES, st.sampled_from([b"600", b"755", b"640", b"711"])),
    ),
    max_size=8,
)


def carry_out(project: Path, steps: list[tuple[str, str, bytes]]) -> None:
    for what, name, value in steps:
        path = project / name
        try:
            if what == "mode" and path.is_file() and not path.is_symlink():
                path.chmod(int(value, 8))
            elif what != "mode":
                if any(p.is_symlink() for p in path.parents):
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
                if what == "write":
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(value)
                elif what == "link":
                    path.parent.mkdir(parents=True, exist_ok=True)
                    os.symlink(value, os.fsencode(path))
        except (FileExistsError, NotADirectoryError):
            pass  # a file is in the place of a folder


@pytest.mark.parametrize("name", ["notes", ".gitignore", "sub/.gitignore"])
def test_a_private_file_that_a_restore_deleted_comes_back_private(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "p" / name
    (tmp_path / "p").mkdir()
    shadow = FolderCheckpoints(tmp_path / "p", Limits())
    number = shadow.record(shadow.take(), "before").number
    file.parent.mkdir(exist_ok=True)
    file.write_text("x")
    file.chmod(0o600)
    restored = shadow.restore(number)
    assert not file.exists()
    assert shadow.restore(restored.undo).kept == ()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS, STEPS, st.booleans())
def test_any_changes_are_undone(
    first: list[tuple[str, str, bytes]], then: list[tuple[str, str, bytes]], versioned: bool
) -> None:
    """Whatever an agent does, a restore brings back every saved file and destroys none that was
    not saved; a second one brings back what the first replaced."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "p"
        project.mkdir()
        if versioned:
            git(project, "init", "-q")
        carry_out(project, first)
        shadow = FolderCheckpoints(project, Limits())
        taken = shadow.take()
        number = shadow.record(taken, "before").number
        before = files_of(project)
        carry_out(project, then)
        changed = files_of(project)
        restored = shadow.restore(number)
        after = files_of(project)
        saved = {os.fsdecode(name) for name in taken.saved}
        kept = set(restored.kept)
        for name in saved - kept:
            assert after.get(name) == before[name], name
        for name, content in changed.items():
            if after.get(name) != content:  # replaced or deleted: undoing brings it back
                assert name not in kept
        shadow.restore(restored.undo)
        again = files_of(project)
        assert {n: c for n, c in again.items() if n not in kept} == {
            n: c for n, c in changed.items() if n not in kept
        }
