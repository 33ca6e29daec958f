"""Separate working trees of a repository, and bringing their changes back.

A working tree starts with the files as they are now, including everything that is not committed.
Its changes come back as one patch, all or nothing. No hook, filter or monitor of the repository
runs: files are copied byte for byte through checkpoints (`shadow.py`). The index, HEAD, branches
and stash of the repository do not change.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from ..._base.home import state_folder
from ..errors import FilesError
from ..limits import Limits
from .git import repository_root, run_git
from .shadow import FileChange, FolderCheckpoints


class Worktree:
    """A separate working tree; see `open_worktree`."""

    def __init__(self, folder: str, limits: Limits, copy: Sequence[str]) -> None:
        real = os.path.realpath(folder)
        root = repository_root(real)
        if root is None:
            raise FilesError(f"{real} is not in a git repository, so it has no worktrees")
        self._limits = limits
        self._copy = tuple(copy)
        self._origin = root
        name = f"{os.path.basename(root) or 'root'}-{os.urandom(6).hex()}"
        self.root: str = str(state_folder() / "worktrees" / name)
        """The top folder of the working tree."""
        self.cwd: str = os.path.normpath(os.path.join(self.root, os.path.relpath(real, root)))
        """The folder for `open_session`: in the place of the folder that was given."""
        self._files: FolderCheckpoints | None = None
        self._base = 0

    def __repr__(self) -> str:
        return f"<Worktree {self.root}>"

    async def changes(self) -> list[FileChange]:
        """Return the files that differ from the start. Raises `FilesError`.

        Cancelling this takes effect when git has ended.
        """
        return await trio.to_thread.run_sync(self._changes)

    async def apply(self) -> list[FileChange]:
        """Bring the changes back into the original folder, all or nothing, and return them.

        Staged changes there stay staged, and other changes that were made there in the meantime
        stay as they are. Later changes can be brought back by another call. Raises `FilesError`,
        and changes nothing, if a change does not fit any more. Cancelling this takes effect when
        git has ended.
        """
        return await trio.to_thread.run_sync(self._apply)

    # --- in a thread

    def _changes(self) -> list[FileChange]:
        return self._saved.changes(self._base)

    @property
    def _saved(self) -> FolderCheckpoints:
        assert self._files is not None
        return self._files

    def _create(self) -> None:
        origin = FolderCheckpoints(self._origin, self._limits)
        taken = origin.take()
        Path(self.root).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._git("worktree", "add", "--no-checkout", "--detach", "--force", self.root, "HEAD")
        origin.write_to(taken, self.root)
        run_git("read-tree", "HEAD", cwd=self.root, env={}, timeout_s=self._timeout_s)
        for name in self._copy:
            source, target = os.path.join(self._origin, name), os.path.join(self.root, name)
            outside = os.path.relpath(os.path.realpath(source), self._origin).startswith("..")
            if os.path.isabs(name) or outside or not os.path.exists(source):
                raise FilesError(f"copy: {name!r} is not a file or folder in {self._origin}")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)
        self._files = FolderCheckpoints(self.root, self._limits)
        self._mark()

    def _mark(self) -> None:
        self._base = self._saved.record(self._saved.take(), "before").number

    def _apply(self) -> list[FileChange]:
        changes = self._changes()
        if changes:
            FolderCheckpoints(self._origin, self._limits).apply(self._saved.patch(self._base))
            self._mark()
        return changes

    def _remove(self) -> None:
        with suppress(FilesError):
            self._git("worktree", "remove", "--force", "--force", self.root)
        if os.path.isdir(self.root):
            shutil.rmtree(self.root, ignore_errors=True)
        if self._files is not None:
            self._files.forget()

    @property
    def _timeout_s(self) -> float:
        return self._limits.checkpoint_timeout_s

    def _git(self, *words: str) -> None:
        run_git(*words, cwd=self._origin, env={}, timeout_s=self._timeout_s)


@asynccontextmanager
async def open_worktree(
    folder: str | os.PathLike[str] = ".",
    *,
    copy: Sequence[str] = (),
    limits: Limits | None = None,
) -> AsyncIterator[Worktree]:
    """Open a separate working tree of the repository around `folder`::

        async with open_worktree() as worktree:
            async with agentrt.open_session("claude", cwd=worktree.cwd) as session:
                await session.run("Fix the failing tests.")
            await worktree.apply()

    It starts with the files as they are, including what is not committed. Ignored files and the
    contents of submodules are missing; `copy` names ignored files and folders to copy, relative to
    the top of the repository, such as `[".env"]`. `limits` has the limits of checkpoints, which
    apply to the files.

    Leaving the block removes the working tree with all changes that were not brought back by
    `Worktree.apply`. If the block is left by an exception, a working tree with such changes is
    kept; its folder is `Worktree.root`.

    Raises `FilesError`, for example without a repository or a commit.
    """
    worktree = Worktree(os.fspath(folder), limits or Limits(), copy)
    try:
        await trio.to_thread.run_sync(worktree._create)
        yield worktree
    except BaseException:
        with trio.CancelScope(shield=True):  # bounded by the limit for each git command
            await trio.to_thread.run_sync(_remove_unchanged, worktree)
        raise
    with trio.CancelScope(shield=True):  # bounded by the limit for each git command
        await trio.to_thread.run_sync(worktree._remove)


def _remove_unchanged(worktree: Worktree) -> None:
    changed = True
    with suppress(FilesError):
        changed = worktree._files is not None and bool(worktree._changes())
    if not changed:
        worktree._remove()
