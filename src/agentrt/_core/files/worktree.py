"""Separate working trees of a repository, and bringing their changes back.

A working tree starts with the files as they are now, including everything that is not committed.
Its changes come back as one patch, all or nothing. No hook, filter or monitor of the repository
runs: files are copied byte for byte through checkpoints (`shadow.py`). The index, HEAD, branches
and stash of the repository do not change.

The changes of a working tree are the difference from its *base*: the checkpoint of its files when
it was made, or when changes were last brought back. The record `ROOT.json` keeps the base, so that
another process can continue the working tree after this one has died; the lock `ROOT.lock` keeps
two processes from using it together. Both are next to the folder, not in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
import trio
from msgspec import Struct

from ..._base.home import state_folder
from ..errors import FilesError
from ..limits import Limits
from .git import repository_root, run_git
from .shadow import FileChange, FolderCheckpoints


class BroughtBack(Struct, frozen=True, kw_only=True):
    """The result of bringing the changes of a working tree back."""

    changes: tuple[FileChange, ...] = ()
    """The changes that were applied to the original folder."""
    branch: str = ""
    """The branch that has the changes, because they did not fit any more; empty if they did."""
    reason: str = ""
    """The reason why they did not fit."""


class _Record(Struct, frozen=True):
    """The data needed to continue a working tree after the end of its process."""

    head: str
    """The commit at which it was made."""
    base: int
    """The checkpoint of the files that are not a change."""


class Worktree:
    """A separate working tree; see `open_worktree`."""

    def __init__(
        self, folder: str, limits: Limits, copy: Sequence[str], cwd: str | None = None
    ) -> None:
        """`cwd`: the place of `folder` in a working tree to continue; by default a new one."""
        real = os.path.realpath(folder)
        root = repository_root(real)
        if root is None:
            raise FilesError(f"{real} is not in a git repository, so it has no worktrees")
        self._limits = limits
        self._copy = tuple(copy)
        self._origin = root
        within = os.path.relpath(real, root)
        name = f"{os.path.basename(root) or 'root'}-{os.urandom(6).hex()}"
        place = str(state_folder() / "worktrees" / name)
        if cwd is not None:
            place = os.path.normpath(
                os.path.join(cwd, *[".." for _ in within.split("/") if within != "."])
            )
        self.root: str = place
        """The top folder of the working tree."""
        self.cwd: str = os.path.normpath(os.path.join(self.root, within))
        """The folder for `open_session`: in the place of the folder that was given."""
        self.continued: bool = False
        """True if the files are those of an earlier process, which had not brought them back."""
        self.brought_back: BroughtBack | None = None
        """The result of `bring_back`; None before."""
        self.at_end: Literal["bring_back", "keep"] | None = None
        """The fate of the changes at the end of a session in the working tree, however it ends.

        None: they are brought back if its block is left normally, and kept after an exception.
        """
        self._files: FolderCheckpoints | None = None
        self._base = 0
        self._head = ""
        self._record = Path(f"{place}.json")
        self._lock = -1

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

    async def bring_back(self) -> BroughtBack:
        """Apply the changes, or make a branch with them if they do not fit, and return the result.

        `brought_back` has the result, too. Raises `FilesError`.
        """
        try:
            result = BroughtBack(changes=tuple(await self.apply()))
        except FilesError as error:
            reason = str(error)
        else:
            self.brought_back = result
            return result
        self.brought_back = BroughtBack(branch=await self.branch(), reason=reason)
        return self.brought_back

    async def branch(self, name: str | None = None) -> str:
        """Make a branch of the repository with the changes, and return its name.

        The branch begins at the commit at which the working tree was made. If there were changes
        that were not committed, they are a commit of their own. No branch is checked out, and
        nothing else changes. `name`: default `agentrt/` and the name of the working tree. Raises
        `FilesError`, for example if there is such a branch. Cancelling this takes effect when git
        has ended.
        """
        chosen = f"agentrt/{os.path.basename(self.root)}" if name is None else name
        await trio.to_thread.run_sync(self._branch, chosen)
        return chosen

    # --- in a thread

    def _branch(self, name: str) -> None:
        """Make a branch with up to two commits. Raises `FilesError`. Runs in a thread.

        The files are in the checkpoints' repository, so their objects are copied first. The empty
        old value makes git refuse a branch that exists.
        """
        ref = f"refs/heads/{name}"
        self._git("check-ref-format", ref)
        base, now = self._saved.tree_of(self._base), self._saved.take().tree
        self._git("unpack-objects", "-q", input=self._saved.pack(base, now))
        kept = self._not_saved(base)
        parent = self._head
        steps = ((base, "Changes that were not committed"), (now, f"Changes of {name}"))
        for tree, message in steps:
            whole = self._tree_with(tree, kept)
            if whole != self._git("rev-parse", f"{parent}^{{tree}}").decode().strip():
                commit = self._git("commit-tree", whole, "-p", parent, "-m", message)
                parent = commit.decode().strip()
        self._git("update-ref", ref, parent, "")

    def _not_saved(self, base: str) -> bytes:
        """Return the entries of HEAD that are not saved: submodules, and files that are too
        large."""
        saved = {line.split(b"\t", 1)[1] for line in self._entries(base)}
        return b"".join(
            entry + b"\0"
            for entry in self._entries(self._head)
            if (name := entry.split(b"\t", 1)[1]) not in saved
            and (
                entry.startswith(b"160000")
                or os.path.lexists(os.path.join(os.fsencode(self._origin), name))
            )
        )

    def _entries(self, tree: str) -> list[bytes]:
        """Return the entries of a tree and the trees in it, in the format of `git ls-tree`."""
        return self._git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]

    def _tree_with(self, tree: str, entries: bytes) -> str:
        """Return a tree with further entries, which are in the format of `git ls-tree`."""
        with tempfile.TemporaryDirectory(prefix="agentrt-") as place:
            index = {"GIT_INDEX_FILE": os.path.join(place, "index")}
            self._git("read-tree", tree, env=index)
            self._git("update-index", "-z", "--index-info", input=entries, env=index)
            return self._git("write-tree", env=index).decode().strip()

    def _changes(self) -> list[FileChange]:
        """Return the differences from the base. Runs in a thread."""
        return self._saved.patch(self._base).changes

    @property
    def _saved(self) -> FolderCheckpoints:
        """The checkpoints of the working tree, once it is open."""
        assert self._files is not None
        return self._files

    def _open(self) -> None:
        """Continue the working tree if there is a record of it, or make it."""
        self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(f"{self.root}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._unlock()
            raise FilesError(f"another process uses the working tree {self.root}") from error
        if os.path.isdir(self.root) and self._record.exists():
            try:
                record = msgspec.json.decode(self._record.read_bytes(), type=_Record)
            except msgspec.DecodeError as error:
                raise FilesError(f"{self._record} is damaged: {error}") from error
            self._files = FolderCheckpoints(self.root, self._limits)
            self._head, self._base, self.continued = record.head, record.base, True
            self._saved.tree_of(self._base)  # it must still be there
        else:
            self._create()

    def _unlock(self) -> None:
        """Let other processes use the working tree, if this one does."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _create(self) -> None:
        """Create the working tree with the files as they are now, also those that are not
        committed.

        Raises `FilesError` if the repository has no commit. Runs in a thread.
        """
        try:
            self._head = self._git("rev-parse", "--verify", "HEAD").decode().strip()
        except FilesError as error:
            raise FilesError(
                f"the repository of {self._origin} has no commit yet, and a working tree begins at"
                " one: run `git commit` first"
            ) from error
        origin = FolderCheckpoints(self._origin, self._limits)
        taken = origin.take()
        self._git("worktree", "add", "--no-checkout", "--detach", "--force", self.root, self._head)
        origin.write_to(taken, self.root)
        run_git("read-tree", "HEAD", cwd=self.root, env={}, timeout_s=self._timeout_s)
        for name in self._copy:
            self._copy_in(name)
        self._files = FolderCheckpoints(self.root, self._limits)
        self._mark()

    def _copy_in(self, name: str) -> None:
        """Copy a file or a folder of the original. Raises `FilesError`."""
        source, target = os.path.join(self._origin, name), os.path.join(self.root, name)
        place = os.path.relpath(os.path.realpath(source), self._origin)
        inside = place.split("/")[0] not in (".", "..", ".git")
        is_folder = os.path.isdir(source)
        if os.path.isabs(name) or not inside or not (is_folder or os.path.isfile(source)):
            raise FilesError(f"copy: {name!r} is not a file or folder in {self._origin}")
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if is_folder:
                ignore = _special_files
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=ignore)
            else:
                shutil.copy2(source, target)
        except (OSError, shutil.Error) as error:
            raise FilesError(f"copy: {name!r} cannot be copied: {error}") from error

    def _mark(self) -> None:
        """Make the present files the base, and write the record.

        The record is replaced as a whole, so a process that dies here leaves the earlier one.
        """
        self._base = self._saved.record(self._saved.take(), "before").number
        new = Path(f"{self._record}.new")
        new.write_bytes(msgspec.json.encode(_Record(self._head, self._base)))
        os.replace(new, self._record)

    def _apply(self) -> list[FileChange]:
        """Apply the changes to the original folder, and make the present files the base."""
        patch = self._saved.patch(self._base)
        if patch.changes:
            FolderCheckpoints(self._origin, self._limits).apply(patch)
            self._mark()
        return patch.changes

    def _remove(self) -> None:
        """Remove the working tree, its checkpoints, its record and its lock. Runs in a thread.

        Git may refuse, for example if the repository is gone; the folder is then removed without
        it.
        """
        with suppress(FilesError):
            self._git("worktree", "remove", "--force", "--force", self.root)
        if os.path.isdir(self.root):
            shutil.rmtree(self.root, ignore_errors=True)
        if self._files is not None:
            self._files.forget()
        for path in (self._record, Path(f"{self.root}.lock")):
            path.unlink(missing_ok=True)

    @property
    def _timeout_s(self) -> float:
        return self._limits.checkpoint_timeout_s

    def _git(self, *words: str, input: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Run git in the original repository. Raises `FilesError`."""
        return run_git(
            *words, cwd=self._origin, env=env or {}, input=input, timeout_s=self._timeout_s
        )


def _special_files(folder: str, names: list[str]) -> list[str]:
    """Return the pipes, sockets and devices of a folder, which cannot be copied."""
    found = ((name, os.lstat(os.path.join(folder, name)).st_mode) for name in names)
    return [n for n, m in found if not (stat.S_ISREG(m) or stat.S_ISDIR(m) or stat.S_ISLNK(m))]


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
    async with entered(Worktree(os.fspath(folder), limits or Limits(), copy)) as worktree:
        yield worktree


@asynccontextmanager
async def entered(worktree: Worktree) -> AsyncIterator[Worktree]:
    """Make or continue a working tree, and remove it after the block as `open_worktree` does."""
    try:
        try:
            await trio.to_thread.run_sync(worktree._open)
            yield worktree
        except BaseException:
            with trio.CancelScope(shield=True):  # bounded by the limit for each git command
                await trio.to_thread.run_sync(_remove_unchanged, worktree)
            raise
        with trio.CancelScope(shield=True):  # bounded by the limit for each git command
            remove = _remove_unchanged if worktree.at_end == "keep" else Worktree._remove
            await trio.to_thread.run_sync(remove, worktree)
    finally:
        worktree._unlock()


def _remove_unchanged(worktree: Worktree) -> None:
    """Remove a working tree of this process that has no changes."""
    if worktree._lock < 0:
        return
    changed = worktree.brought_back is None
    with suppress(FilesError):
        changed = changed and worktree._files is not None and bool(worktree._changes())
    if not changed:
        worktree._remove()
