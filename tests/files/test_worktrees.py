"""`open_worktree`: a session on a copy, whose changes come back all or nothing."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import trio

import agentrt
from agentrt.errors import FilesError
from agentrt.store import open_store, reopen_session
from agentrt.unattended import open_worktree
from journal.kit import abandoned

from .test_shadow import bytes_below, files_of, git, project, wreck

__all__ = ["project"]

OURS = ("config", "index", "HEAD", "refs", "logs", "packed-refs", "hooks", "info")


def of_the_user(folder: Path) -> dict[str, object]:
    """The parts of a `.git` folder that belong to the user, not to its worktrees."""
    return {
        name: content
        for name, content in bytes_below(folder / ".git").items()
        if name.split("/")[0] in OURS
    }


def staged(folder: Path) -> str:
    """The staged files; the hostile settings of the project do not apply to this."""
    return git(folder, "-c", "core.fsmonitor=false", "diff", "--cached", "--name-only")


@pytest.mark.slow
@pytest.mark.parametrize("project", ["sha1", "sha256"], indirect=True)
async def test_it_starts_with_what_is_not_committed_and_brings_changes_back(
    project: Path, tmp_path: Path
) -> None:
    before = files_of(project, ignored=lambda name: name == "ignored")
    owned, status = of_the_user(project), staged(project)
    async with open_worktree(project) as worktree:
        copy = Path(worktree.cwd)
        assert files_of(copy) == before
        assert git(copy, "rev-parse", "HEAD") == git(project, "rev-parse", "HEAD")
        (copy / "b.py").write_text("agent")
        (copy / "made").write_bytes(b"\x00binary\xff")
        (copy / "sub/c.py").rename(copy / "sub/moved.py")
        (copy / "d.bin").unlink()
        (project / "e.txt").write_text("the user works meanwhile")
        changes = await worktree.apply()
        assert len(changes) == 5
        assert (project / "b.py").read_text() == "agent"
        assert (project / "made").read_bytes() == b"\x00binary\xff"
        assert not (project / "d.bin").exists()
        assert (project / "sub/moved.py").read_bytes() == before["sub/c.py"][1]
        assert (project / "e.txt").read_text() == "the user works meanwhile"
        (copy / "made").write_text("later")
        assert len(await worktree.apply()) == 1
    assert (project / "made").read_text() == "later"
    assert of_the_user(project) == owned
    assert staged(project) == status
    assert not await trio.Path(worktree.root).exists()
    assert len(git(project, "worktree", "list").splitlines()) == 1
    assert not (tmp_path / "ran").exists()  # no hook, filter or monitor of the project


@pytest.mark.slow
async def test_a_change_that_does_not_fit_changes_nothing(project: Path) -> None:
    async with open_worktree(project) as worktree:
        copy = Path(worktree.cwd)
        (copy / "a.py").write_text("agent")
        (copy / "b.py").write_text("agent")
        (project / "b.py").write_text("user")
        before = files_of(project)
        with pytest.raises(FilesError, match=r"b\.py"):
            await worktree.apply()
        assert files_of(project) == before


@pytest.mark.slow
async def test_everything_that_a_checkpoint_covers_comes_back(project: Path) -> None:
    (project / "forced").unlink()
    async with open_worktree(project) as worktree:
        (Path(worktree.cwd) / "forced").write_text("")
        wreck(Path(worktree.cwd))
        await worktree.apply()
        wanted = files_of(Path(worktree.cwd), ignored=lambda name: name == "ignored")
        found = files_of(project, ignored=lambda name: name == "ignored")
        assert {n: c[1] for n, c in found.items()} == {n: c[1] for n, c in wanted.items()}


@pytest.mark.slow
async def test_permissions_come_back_and_those_of_the_user_stay(project: Path) -> None:
    (project / "b.py").chmod(0o600)
    (project / "new").chmod(0o600)
    async with open_worktree(project) as worktree:
        copy = Path(worktree.cwd)
        (copy / "b.py").write_text("agent")
        (copy / "secret").write_text("agent")
        (copy / "secret").chmod(0o600)
        (copy / "d.bin").chmod(0o640)
        (copy / "new").chmod(0o644)
        assert {c.path for c in await worktree.changes()} == {"b.py", "secret", "d.bin", "new"}
        await worktree.apply()
    wanted = {"b.py": 0o600, "secret": 0o600, "d.bin": 0o640, "new": 0o644}
    assert {n: stat.S_IMODE((project / n).stat().st_mode) for n in wanted} == wanted


async def test_a_folder_with_pipes_is_copied_without_them(project: Path) -> None:
    (project / "ignored").unlink()
    (project / "ignored").mkdir()
    (project / "ignored/kept").write_text("1")
    (project / "ignored/link").symlink_to("/missing")
    os.mkfifo(project / "ignored/pipe")
    async with open_worktree(project, copy=["ignored"]) as worktree:
        found = await trio.to_thread.run_sync(os.listdir, f"{worktree.root}/ignored")
        assert sorted(found) == ["kept", "link"]


async def test_a_session_in_a_subfolder_and_copied_files(project: Path) -> None:
    (project / "ignored").write_text("KEY=1")
    async with open_worktree(project / "sub", copy=["ignored"]) as worktree:
        assert os.path.basename(worktree.cwd) == "sub"
        assert (Path(worktree.root) / "ignored").read_text() == "KEY=1"
        assert await worktree.changes() == []


@pytest.mark.slow
async def test_a_worktree_with_changes_is_kept_after_an_exception(project: Path) -> None:
    kept: list[str] = []

    async def fail_after_a_change(roots: list[str]) -> None:
        async with open_worktree(project) as changed:
            roots.append(changed.root)
            (Path(changed.cwd) / "a.py").unlink()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with open_worktree(project) as unchanged:
            raise ZeroDivisionError
    assert not await trio.Path(unchanged.root).exists()
    with pytest.raises(ZeroDivisionError):
        await fail_after_a_change(kept)
    assert await trio.Path(kept[0]).exists()


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../outside", "missing", ".git", ".git/config", ".", "sub/../.git"]
)
async def test_only_files_of_the_repository_are_copied(project: Path, name: str) -> None:
    (project.parent / "outside").write_text("x")
    with pytest.raises(FilesError, match="copy: "):
        async with open_worktree(project, copy=[name]):
            pass
    assert len(git(project, "worktree", "list").splitlines()) == 1


async def test_a_folder_without_a_repository_has_no_worktrees(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="not in a git repository"):
        async with open_worktree(tmp_path):
            pass
    git(tmp_path, "init", "-q")
    with pytest.raises(FilesError, match=r"no commit yet.*git commit"):
        async with open_worktree(tmp_path):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("project", ["sha1", "sha256"], indirect=True)
async def test_a_branch_has_the_changes_and_nothing_else_changes(project: Path) -> None:
    before, status = files_of(project), staged(project)
    head = git(project, "rev-parse", "HEAD")
    async with open_worktree(project) as worktree:
        copy = Path(worktree.cwd)
        (copy / "b.py").write_text("agent")
        (copy / "made").write_bytes(b"\x00binary\xff")
        (copy / "d.bin").unlink()
        name = await worktree.branch()
        with pytest.raises(FilesError):
            await worktree.branch(name)
    assert files_of(project) == before
    assert (git(project, "rev-parse", "HEAD"), staged(project)) == (head, status)
    changed = git(
        project, "diff", "--no-textconv", "--no-ext-diff", "--name-status", f"{name}^", name
    )
    assert changed.split() == ["M", "b.py", "D", "d.bin", "A", "made"]
    assert git(project, "rev-parse", f"{name}~2") == head  # what was not committed is in between


@pytest.mark.slow
async def test_a_branch_keeps_files_that_a_checkpoint_leaves_out(project: Path) -> None:
    limits = agentrt.Limits(checkpoint_file_bytes=100)
    (project / "large").write_bytes(b"x" * 200)
    git(project, "add", "large")
    git(project, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "large")
    async with open_worktree(project, limits=limits) as worktree:
        (Path(worktree.cwd) / "made").write_text("x")
        name = await worktree.branch("mine")
    assert git(project, "show", f"{name}:large").strip() == "x" * 200


async def test_a_branch_without_a_valid_name_is_refused(project: Path) -> None:
    async with open_worktree(project) as worktree:
        with pytest.raises(FilesError, match="check-ref-format"):
            await worktree.branch("a..b")


# --- the working tree of a session


def session_in(project: Path, **options: Any) -> AbstractAsyncContextManager[agentrt.Session]:
    policy = agentrt.rules(allow=["Bash", "Edit", "Trust"])
    return agentrt.open_session("demo", cwd=project, permissions=policy, worktree=True, **options)


@pytest.mark.slow
async def test_a_session_in_a_working_tree_brings_its_changes_back(project: Path) -> None:
    async with session_in(project / "sub") as session:
        tree = session.worktree
        assert tree is not None
        await session.run("run touch made-by-agent")
        assert "made-by-agent" in files_of(Path(tree.cwd))
        assert not (project / "sub/made-by-agent").exists()
    assert (project / "sub/made-by-agent").exists()
    assert tree.brought_back is not None
    assert [each.path for each in tree.brought_back.changes] == ["sub/made-by-agent"]
    assert not await trio.Path(tree.root).exists()


@pytest.mark.slow
async def test_changes_that_do_not_fit_are_left_on_a_branch(project: Path) -> None:
    async with session_in(project) as session:
        await session.run("run cp e.txt b.py")
        (project / "b.py").write_text("the user has changed it meanwhile")
        tree = session.worktree
        assert tree is not None
    assert (project / "b.py").read_text() == "the user has changed it meanwhile"
    assert tree.brought_back is not None
    assert tree.brought_back.changes == ()
    branch = tree.brought_back.branch
    blobs = {git(project, "rev-parse", f"{branch}:{name}") for name in ("b.py", "e.txt")}
    assert len(blobs) == 1


@pytest.mark.slow
async def test_a_working_tree_is_prepared_by_a_command_and_copied_files(project: Path) -> None:
    (project / "ignored").write_text("secret")
    setup = ["sh", "-c", "cp ignored prepared.txt"]
    async with session_in(project, worktree_copy=["ignored"], worktree_setup=setup) as session:
        assert session.worktree is not None
        prepared = trio.Path(session.worktree.cwd, "prepared.txt")
        assert await prepared.read_text() == "secret"


@pytest.mark.slow
async def test_a_command_that_fails_starts_no_agent(project: Path) -> None:
    with pytest.raises(FilesError, match=r"failed with status 3\nno modules"):
        async with session_in(project, worktree_setup=["sh", "-c", "echo no modules; exit 3"]):
            pass


async def test_settings_of_a_working_tree_need_one(project: Path) -> None:
    with pytest.raises(TypeError, match="only with worktree=True"):
        async with agentrt.open_session("demo", cwd=project, worktree_copy=["a"]):
            pass


# --- after the end of the process


OPTIONS: dict[str, Any] = {"permissions": agentrt.allow_all, "trust": "yes"}


async def killed(project: Path, store: Path, prompt: str) -> tuple[str, str]:
    """Run a turn of a session with a working tree in a process, which is then killed. Return the
    id of the session and its folder."""
    code = f"""
import agentrt, trio
from agentrt.store import open_store, reopen_session

async def main():
    async with open_store({str(store)!r}) as store:
        options = dict(permissions=agentrt.allow_all, trust="yes", worktree=True, store=store)
        async with agentrt.open_session("demo", cwd={str(project)!r}, **options) as session:
            await session.run({prompt!r})
            print(f"{{session.id}} {{session.worktree.cwd}}", flush=True)
            await trio.sleep_forever()

trio.run(main)
"""
    async with trio.open_nursery() as nursery:
        run = [sys.executable, "-c", code]
        process = await nursery.start(partial(trio.run_process, run, check=False, stdout=PIPE))
        assert process.stdout is not None
        async with process.stdout:
            line = b""
            while not line.endswith(b"\n"):
                line += await process.stdout.receive_some(4096)
            process.kill()
    id, cwd = line.decode().split()
    return id, cwd


@pytest.mark.slow
async def test_a_working_tree_is_continued_after_its_process_was_killed(
    project: Path, tmp_path: Path
) -> None:
    id, cwd = await killed(project / "sub", tmp_path / "store.db", "run touch first")
    assert "first" in files_of(Path(cwd))
    assert not (project / "sub/first").exists()
    async with open_store(tmp_path / "store.db") as store:
        async with reopen_session(id, store, **OPTIONS) as session:
            tree = session.worktree
            assert tree is not None
            assert (tree.cwd, tree.continued) == (cwd, True)
            await session.run("run touch second")
        assert tree.brought_back is not None
        paths = [each.path for each in tree.brought_back.changes]
        assert paths == ["sub/first", "sub/second"]
        assert (project / "sub/first").exists()
        assert not await trio.Path(tree.root).exists()
        # Once more: its changes were brought back, so it begins with the files as they are now.
        (project / "sub/mine").write_text("of the user")
        async with reopen_session(id, store, **OPTIONS) as session:
            tree = session.worktree
            assert tree is not None
            assert (tree.cwd, tree.continued) == (cwd, False)
            assert "mine" in files_of(Path(cwd))
            await session.run("run cp mine third")
        assert (project / "sub/third").read_text() == "of the user"


@pytest.mark.slow
async def test_a_server_continues_a_working_tree_after_a_restart(
    project: Path, tmp_path: Path
) -> None:
    id, cwd = await killed(project, tmp_path / "store.db", "run touch first")
    async with agentrt.open_runtime(store=tmp_path / "store.db", **OPTIONS) as runtime:
        session = await runtime.reopen(id)
        assert session.worktree is not None
        await session.run("run touch second")
        abandoned(tmp_path / "store.db", tmp_path / "other.db")
        async with agentrt.open_runtime(store=tmp_path / "other.db", **OPTIONS) as other:
            with pytest.raises(FilesError, match="another process uses the working tree"):
                await other.reopen(id)
    assert "second" in files_of(Path(cwd))  # the end of the server is not that of the session
    assert not (project / "first").exists()
    async with agentrt.open_runtime(store=tmp_path / "store.db", **OPTIONS) as runtime:
        await runtime.reopen(id)
        await runtime.close(id)
    assert (project / "first").exists()
    assert (project / "second").exists()
    assert not await trio.Path(cwd).exists()
