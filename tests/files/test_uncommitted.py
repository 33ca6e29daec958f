"""The difference to the last commit: complete, and nothing of the project runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.errors import FilesError
from agentrt.hosting import ComparedFolder, FolderView

PATIENCE_S = 30.0
MAX_FILE_BYTES = 1024 * 1024
"""The size above which a file is not compared."""


def uncommitted(folder: Path) -> ComparedFolder:
    return FolderView(str(folder)).uncommitted(PATIENCE_S)


def git(folder: Path, *words: str) -> str:
    person = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(
        ["git", *person, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "first")
    return folder


def names(compared: ComparedFolder, folder: Path) -> list[str]:
    return [os.path.relpath(each.path, folder) for each in compared.files]


def test_each_file_that_differs_from_the_last_commit_has_its_patch(tmp_path: Path) -> None:
    project = repository(tmp_path / "p", changed="a\nb\n", gone="x\n", same="s\n", staged="1\n")
    (project / "changed").write_text("a\nB\n")
    (project / "gone").unlink()
    (project / "staged").write_text("2\n")
    git(project, "add", "staged")
    (project / ".gitignore").write_text("ignored\n")
    (project / "ignored").write_text("secret")
    (project / 'new "file"\t').write_text("n\n")
    compared = uncommitted(project)
    assert compared.commit == git(project, "rev-parse", "HEAD").strip()
    assert names(compared, project) == [".gitignore", "changed", "gone", 'new "file"\t', "staged"]
    patches = {Path(each.path).name: each.patch for each in compared.files}
    assert patches["changed"].endswith("@@ -1,2 +1,2 @@\n a\n-b\n+B\n")
    assert patches["gone"].endswith("@@ -1 +0,0 @@\n-x\n")
    assert patches['new "file"\t'].endswith("@@ -0,0 +1 @@\n+n\n")
    assert patches["staged"].endswith("-1\n+2\n")


CONTENTS = st.one_of(st.none(), st.sampled_from(["", "a\n", "b\n", "a\nb", "\r\n"]))
FILES = st.dictionaries(st.sampled_from(["a", "b b", "ä", "-x", ":c"]), CONTENTS)


@pytest.mark.slow
@given(before=FILES, after=FILES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_files_are_those_that_git_itself_names(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[str, str | None],
    after: dict[str, str | None],
) -> None:
    first = {name: text for name, text in before.items() if text is not None}
    project = repository(tmp_path_factory.mktemp("r") / "p", **first)
    for name, text in after.items():
        if text is None:
            (project / name).unlink(missing_ok=True)
        else:
            (project / name).write_text(text, newline="")
    told = git(project, "status", "--porcelain", "--no-renames", "-uall", "-z").split("\0")
    compared = uncommitted(project)
    assert names(compared, project) == sorted(line[3:] for line in told if line)
    assert all(each.patch.startswith("diff --git ") for each in compared.files)


def test_only_the_folder_of_the_session_is_compared(tmp_path: Path) -> None:
    project = repository(tmp_path / "p", top="1\n")
    (project / "inner").mkdir()
    (project / "inner/new").write_text("n")
    (project / "top").write_text("2\n")
    assert names(uncommitted(project / "inner"), project) == ["inner/new"]


def test_no_program_of_the_project_runs_and_nothing_is_written(tmp_path: Path) -> None:
    project = repository(tmp_path / "p", code="1\n")
    ran = tmp_path / "ran"
    for name in ("filter.x.clean", "filter.x.process", "diff.x.textconv", "diff.x.command"):
        git(project, "config", name, f"touch {ran}")
    git(project, "config", "filter.x.required", "true")
    git(project, "config", "diff.external", f"touch {ran}")
    git(project, "config", "core.pager", f"touch {ran}")
    (project / ".gitattributes").write_text("* filter=x diff=x\n")
    hooks = project / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    git(project, "config", "core.fsmonitor", str(hooks / "fsmonitor-watchman"))
    (project / "code").write_text("2\n")
    kept = {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")}
    assert names(uncommitted(project), project) == [".gitattributes", "code"]
    assert not ran.exists()
    assert {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")} == kept


def test_a_file_that_is_too_large_is_only_named(tmp_path: Path) -> None:
    project = repository(tmp_path / "p")
    (project / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    compared = uncommitted(project)
    assert (compared.files, compared.left_out) == ([], [str(project / "large")])


def test_before_the_first_commit_every_file_is_new(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a").write_text("1\n")
    compared = uncommitted(tmp_path)
    assert (compared.commit, names(compared, tmp_path)) == ("", ["a"])


def test_a_file_that_became_a_link_is_one_file(tmp_path: Path) -> None:
    project = repository(tmp_path / "p", a="1\n", b="1\n")
    (project / "a").unlink()
    (project / "a").symlink_to("/etc/passwd")
    (project / "b").write_text("2\n")
    first, second = uncommitted(project).files
    assert first.patch.count("diff --git") == 2
    assert "+/etc/passwd" in first.patch
    assert second.patch.endswith("-1\n+2\n")


def test_a_change_in_the_second_of_the_commit_that_keeps_the_size_is_found(tmp_path: Path) -> None:
    """git knows that its own index is as old as the file, and reads the file."""
    project = repository(tmp_path / "p", a="1\n")
    second = int(os.stat(project / ".git/index").st_mtime) - 10
    os.utime(project / "a", (second, second))
    git(project, "add", "a")
    (project / "a").write_text("2\n")
    for path in (project / "a", project / ".git/index"):
        os.utime(path, (second, second))
    assert names(uncommitted(project), project) == ["a"]


def test_a_separate_working_tree_is_compared_with_its_own_commit(tmp_path: Path) -> None:
    project = repository(tmp_path / "p", a="1\n")
    git(project, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    (tmp_path / "tree/a").write_text("2\n")
    assert names(uncommitted(tmp_path / "tree"), tmp_path / "tree") == ["a"]


def test_a_repository_that_is_not_of_this_folder_is_refused(tmp_path: Path) -> None:
    other = repository(tmp_path / "other", secret="s\n")
    (tmp_path / "p").mkdir()
    (tmp_path / "p/.git").write_text(f"gitdir: {other}/.git\n")
    with pytest.raises(FilesError, match="not part of a git repository"):
        uncommitted(tmp_path / "p")
