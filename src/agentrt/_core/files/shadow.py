"""Checkpoints of a folder's files, in a repository that only agentrt uses.

The repository is in agentrt's state folder. It has its own index, objects and references, so the
index, HEAD, branches, stash and configuration of the user's own repository are never written, and
its filters, hooks and monitors never run. It borrows no objects: a checkpoint survives even if the
agent deletes the project's `.git`.

A checkpoint covers every file that the project does not ignore, byte for byte, with its
permissions, and symbolic links as links. Not covered: ignored files, files larger than
`limits.checkpoint_file_bytes`, unreadable files, contents of nested repositories, pipes, sockets
and devices, empty folders, permissions of folders, owners and extended attributes.

A checkpoint is a commit without parents, under `refs/checkpoints/NUMBER`. Its tree has the files;
its message is one line of JSON (`_Message`) with the turn, the permissions that git cannot store,
and the names of the files left out. Deleting the reference deletes the checkpoint; `git gc` frees
the space.

`take` and `record` are separate steps: files are saved before it is known whether the state is
worth a number. `take` reads only files that changed since the last one, by the same metadata as
git's own index, but with a margin for the resolution of the file system's clock (`_is_settled`).

A restore deletes and overwrites only files that were saved first, in the checkpoint that undoes it.
It leaves files alone that the checkpoint could not know: those that were ignored or left out at its
time. An error in the middle rolls back.

All operations hold an exclusive lock on a file in the state folder, so that several sessions and
processes can share the checkpoints of a folder. A killed process leaves temporary files at most,
which the next operation deletes.

The classes here block; call them in a thread.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..._base.home import state_folder
from ..errors import FilesError, LocalProtocolError
from ..limits import Limits
from .git import git_folder, read_regular, repository_root, run_git

_ATTRIBUTES: Final = "* -text !eol !filter -ident !working-tree-encoding -diff\n"
"""Attributes above those of every project: files are stored and written unchanged."""
_UNVERSIONED_EXCLUDES: Final = "node_modules/\n.venv/\n__pycache__/\n"
"""Ignored in a folder that is not part of a repository."""
_REFS: Final = "refs/checkpoints"
_DIFF_BYTES: Final = 4 * 1024 * 1024
_INDEX_BYTES: Final = 256 * 1024 * 1024
_EXCLUDE_BYTES: Final = 1024 * 1024
_PACKED_FILES: Final = 200
"""Number of new files from which they are stored in one pack instead of a file each."""
_PACKING: Final = ("-c", "core.bigFileThreshold=1", "-c", "pack.compression=1")
_COPIED_BYTES: Final = 64 * 1024 * 1024
"""Size of the copies that are saved together."""
_SHOWN_LEFT_OUT: Final = 20
_ATTEMPTS: Final = 3
"""Attempts at a checkpoint while files appear and disappear."""

_PATCH: Final = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--text")
"""Options for a patch that depends on nothing but the two trees."""

ChangeKind = Literal["added", "modified", "deleted"]
_KINDS: Final[dict[bytes, ChangeKind]] = {b"A": "added", b"D": "deleted"}


class FileChange(Struct, frozen=True):
    """A file that differs between two checkpoints.

    - `path`: its path, relative to the folder.
    - `change`: the kind of the difference.
    """

    path: str
    change: ChangeKind


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The files of a folder at one moment.

    - `number`: counts up for each folder.
    - `when`: `before` or `after` a turn, or `restore` for the state that a restore replaced.
    - `session`: the session that made it.
    - `turn`: the turn, if there was one.
    - `time`: seconds since 1970.
    - `files`: the number of files in it.
    - `left_out`: files that are not in it because of their size or permissions, and nested
      repositories (the first ones).
    """

    number: int
    when: Literal["before", "after", "restore"]
    session: str = ""
    turn: str = ""
    time: float = 0.0
    files: int = 0
    left_out: tuple[str, ...] = ()


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a restore.

    - `undo`: the checkpoint of the files before it; restoring that one undoes it.
    - `changes`: the files that were written or deleted.
    - `kept`: files that differ from the checkpoint but were left alone: not saved first or at that
      time, ignored at that time, or in a folder that cannot be written.
    """

    undo: int
    changes: tuple[FileChange, ...] = ()
    kept: tuple[str, ...] = ()


class TakenFiles(Struct, frozen=True, kw_only=True):
    """Saved files that have no checkpoint number yet."""

    tree: str
    """The id of their Git tree."""
    saved: frozenset[bytes]
    """The names of the files."""
    left_out: tuple[str, ...]
    """The files that were not saved, such as those that are too large."""
    unsaved: tuple[str, ...]
    """Their exact names in the repository."""
    modes: dict[str, int]
    """Permissions that differ from those of a new file."""


class FolderPatch(Struct, frozen=True):
    """A difference between the files of two moments."""

    data: bytes
    """The contents, for `git apply`."""
    changes: list[FileChange]
    """The files that differ."""
    names: list[str]
    """The exact names of those whose contents differ."""
    modes: dict[str, int | None]
    """New permissions, by name; None for those of a new file."""


class _Message(Struct, omit_defaults=True):
    """The message of a checkpoint's commit."""

    when: Literal["before", "after", "restore"]
    session: str
    turn: str
    time: float
    files: int
    left_out: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    modes: dict[str, int] = {}


_Identity: TypeAlias = tuple[int, ...]
"""The part of a file's metadata that changes with its content or its permissions."""


class _Listed(Struct):
    """The result of examining the folder."""

    known: set[bytes]
    """The files of the index."""
    present: dict[bytes, _Identity]
    gone: list[bytes]
    left_out: list[bytes]
    modes: dict[str, int]


class _LastTake(Struct, frozen=True):
    """The files that were saved last. Those that are unchanged since are not read again."""

    index: _Identity | None
    """The index that has them; another one if it was replaced since."""
    tree: str
    files: dict[bytes, _Identity]
    """The files that cannot have changed after they were examined without a new identity."""


def shadow_folder(folder: str) -> Path:
    """Return the place of the checkpoints of a folder."""
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return state_folder() / "checkpoints" / f"{os.path.basename(folder) or 'root'}-{digest}"


class FolderCheckpoints:
    """The checkpoints of one folder, without a session. Sessions in the folder share them.

    Its methods block; from a Trio program call them in a thread.
    """

    def __init__(self, folder: str | os.PathLike[str], limits: Limits) -> None:
        """Use the checkpoints of `folder`, which are created on first use."""
        self.folder: str = os.path.realpath(folder)
        self._limits = limits
        self._root = repository_root(self.folder) or self.folder
        self._root_bytes = os.path.join(os.fsencode(self._root), b"")
        self._versioned = os.path.lexists(os.path.join(self._root, ".git"))
        within = os.path.relpath(self.folder, self._root)
        self._within = b"" if within == "." else os.fsencode(within) + b"/"
        self._state = shadow_folder(self.folder)
        self._git_dir = self._state / "shadow.git"
        self._index = self._state / "index"
        self._last: _LastTake | None = None
        self._theirs: tuple[_Identity, list[bytes]] | None = None

    # --- reading

    def checkpoints(self) -> list[Checkpoint]:
        """Return all checkpoints, oldest first. Raises `FilesError`."""
        if not self._git_dir.exists():
            return []
        return [checkpoint for checkpoint, _, _ in self._read()]

    def diff(self, old: int, new: int | None = None) -> str:
        """Return a patch from one checkpoint to another, or to the current files.

        Raises `LocalProtocolError` for an unknown checkpoint.
        """
        with self._locked():
            first = self._find(old)[1]
            second = self._take().tree if new is None else self._find(new)[1]
            relative = f"--relative={os.fsdecode(self._within)}"
            text = self._git("diff", *_PATCH, relative, first, second)
        if len(text) > _DIFF_BYTES:
            return text[:_DIFF_BYTES].decode(errors="replace") + "\n… (the rest is left out)\n"
        return text.decode(errors="replace")

    def changes(self, old: int, new: int | None = None) -> list[FileChange]:
        """Return the files that differ between two checkpoints, or from the current files."""
        with self._locked():
            second = self._take().tree if new is None else self._find(new)[1]
            return self._changes(self._find(old)[1], second)

    def changes_between(self, old: TakenFiles, new: TakenFiles) -> list[FileChange]:
        """Return the files that differ between two sets of saved files."""
        with self._locked():
            return self._changes(old.tree, new.tree)

    # --- writing

    def take(self) -> TakenFiles:
        """Save the current files. Raises `FilesError`."""
        with self._locked():
            return self._take()

    def record(
        self,
        taken: TakenFiles,
        when: Literal["before", "after", "restore"],
        *,
        session: str = "",
        turn: str = "",
    ) -> Checkpoint:
        """Make a checkpoint of saved files, and drop the oldest ones above the limit."""
        with self._locked():
            return self._record(taken, when, session, turn)

    def restore(self, number: int, *, session: str = "") -> Restored:
        """Make the files equal to those of a checkpoint. Ignored files are not touched.

        The current files are saved as a checkpoint first. Raises `LocalProtocolError` for an
        unknown checkpoint, and `FilesError`.
        """
        with self._locked():
            _, target, message = self._find(number)
            now = self._take()
            undo = self._record(now, "restore", session, "")
            return self._restore(target, now, message, undo.number)

    def write_to(self, taken: TakenFiles, folder: str) -> None:
        """Write saved files into another folder, which has none of them. Raises `FilesError`."""
        with self._locked():
            index = self._state / "copying"
            with suppress(FileNotFoundError):
                index.unlink()
            self._git("read-tree", taken.tree, index=index)
            self._git("checkout-index", "--all", f"--prefix={folder}/", index=index)
        for name, mode in taken.modes.items():
            os.chmod(os.path.join(folder, name), mode)

    def patch(self, old: int) -> FolderPatch:
        """Return the difference from a checkpoint to the current files, for `apply`."""
        with self._locked():
            new = self._take()
            _, tree, message = self._find(old)
            changes = self._changes(tree, new.tree)
            names = [os.fsdecode(name) for _, name in self._raw_changes(tree, new.tree)]
            modes = {
                name: new.modes.get(name)
                for name in {*message.modes, *new.modes}
                if message.modes.get(name) != new.modes.get(name)
            }
            changes += [
                FileChange(self._shown(os.fsencode(name)), "modified")
                for name in sorted(modes.keys() - set(names))
            ]
            data = self._git("diff", *_PATCH, "--binary", "--full-index", tree, new.tree)
            return FolderPatch(data, changes, names, modes)

    def pack(self, *trees: str) -> bytes:
        """Return a pack of all objects of these trees, for another repository."""
        with self._locked():
            objects = self._git("rev-list", "--objects", *trees)
            return self._git("pack-objects", "--stdout", "-q", input=_ids(objects))

    def tree_of(self, number: int) -> str:
        """Return the id of a checkpoint's Git tree. Raises `LocalProtocolError`."""
        with self._locked():
            return self._find(number)[1]

    def apply(self, patch: FolderPatch) -> None:
        """Apply a difference to the files, all or nothing, after a checkpoint of them.

        Raises `FilesError`, and changes nothing, if it does not fit or a file cannot be written.
        """
        with self._locked():
            if patch.data:
                self._git("apply", "--check", "--whitespace=nowarn", "-", input=patch.data)
            now = self._take()
            undo = self._record(now, "restore", "", "").number
            usual = _new_file_modes()
            try:
                if patch.data:
                    self._git("apply", "--whitespace=nowarn", "-", input=patch.data)
                for name in {*patch.names, *patch.modes}:  # git makes changed files anew
                    mode = patch.modes.get(name, now.modes.get(name))
                    plain = None if mode is None else mode & 0o777
                    self._set_mode(os.fsencode(name), plain, usual)
            except (FilesError, OSError) as error:
                try:
                    self._restore(now.tree, self._take(), self._find(undo)[2], undo)
                except (FilesError, OSError):
                    raise FilesError(
                        f"{error}; some files have changed, and checkpoint {undo} of"
                        f" {self.folder} has the files from before"
                    ) from error
                raise

    def forget(self) -> None:
        """Delete all checkpoints of the folder."""
        shutil.rmtree(self._state, ignore_errors=True)

    # --- the parts of a checkpoint

    def _take(self) -> TakenFiles:
        """Store the present files of the folder in the repository of checkpoints.

        Only files whose size or time differs from the last take are read. If a program writes
        to them, it starts again a few times, and then stores copies. Raises `FilesError`. Runs in
        a thread.
        """
        attempts = 0
        while True:
            attempts += 1
            began_ns = time.time_ns()
            last = self._last
            if last is None or last.index != _identity(self._index):
                last = _LastTake(None, "", {})  # another session has used the index
            listed = self._examine(last.files)
            changed = [name for name, now in listed.present.items() if last.files.get(name) != now]
            try:
                if listed.gone:
                    self._update_index(listed.gone, "--force-remove")
                if changed:
                    self._save(changed, listed, copied=attempts == _ATTEMPTS)
                break
            except FilesError:
                if attempts == _ATTEMPTS:
                    raise  # else a program writes to the files
        tree = last.tree
        if changed or listed.gone or not tree:
            tree = self._git("write-tree").decode().strip()
        settled = {n: now for n, now in listed.present.items() if _is_settled(now, began_ns)}
        self._last = _LastTake(_identity(self._index), tree, settled)
        return TakenFiles(
            tree=tree,
            saved=frozenset(listed.present),
            left_out=tuple(map(self._shown, listed.left_out)),
            unsaved=tuple(map(os.fsdecode, listed.left_out)),
            modes=listed.modes,
        )

    def _save(self, names: list[bytes], listed: _Listed, *, copied: bool) -> None:
        """Save files in the index. Raises `FilesError` if git cannot read one.

        `copied`: save copies, because a program writes to the files so often that git fails.
        """
        if not copied:
            new = sum(name not in listed.known for name in names)
            settings = _PACKING if new >= _PACKED_FILES else ()
            self._update_index(names, "--add", "--remove", settings=settings)
            return
        waiting = names
        while waiting:
            with tempfile.TemporaryDirectory(dir=self._state, prefix="copies-") as folder:
                waiting = self._save_copies(waiting, listed, folder)

    def _save_copies(self, names: list[bytes], listed: _Listed, folder: str) -> list[bytes]:
        """Save files through copies in a folder, and return those for which it was too small."""
        copies: list[tuple[bytes, int]] = []
        size = done = 0
        while done < len(names) and size <= _COPIED_BYTES:
            name = names[done]
            done += 1
            try:
                mode, content = self._content(name)
            except OSError:
                del listed.present[name]
                listed.left_out += [name] if os.path.lexists(self._root_bytes + name) else []
                continue
            Path(folder, str(len(copies))).write_bytes(content)
            copies.append((name, mode))
            size += len(content)
        paths = "".join(f"{folder}/{place}\n" for place in range(len(copies)))
        words = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        ids = self._git(*words, input=os.fsencode(paths)).split()
        entries = [
            b"%o %s\t%s\0" % (mode, id, name) for (name, mode), id in zip(copies, ids, strict=True)
        ]
        gone = [name for name in names[:done] if name not in listed.present]
        self._update_index(gone, "--force-remove")
        self._git("update-index", "--add", "-z", "--index-info", input=b"".join(entries))
        return names[done:]

    def _content(self, name: bytes) -> tuple[int, bytes]:
        """Return the mode of a file for git, and its content. Raises OSError."""
        path = self._root_bytes + name
        found = os.lstat(path).st_mode
        if stat.S_ISLNK(found):
            return 0o120000, os.readlink(path)
        content = read_regular(os.fsdecode(path), self._limits.checkpoint_file_bytes)
        if content is None or not self._is_folder(name.rpartition(b"/")[0], {b"": True}):
            raise OSError(errno.EAGAIN, "the file has changed")
        return (0o100755 if found & stat.S_IXUSR else 0o100644), content

    def _examine(self, saved: Mapping[bytes, _Identity]) -> _Listed:
        """Find the files to save, the known files that are gone, and those to leave out.

        `saved` has files that are known to be readable.
        """
        known, names, nested = self._candidates()
        own = os.fsencode(os.path.relpath(os.path.realpath(state_folder()), self._root)) + b"/"
        folders: dict[bytes, bool] = {b"": True}
        listed = _Listed(known, {}, [], [each for each in nested if each != own], {})
        plain, executable = _new_file_modes()
        for name in names:
            kind, found = self._classify(name, folders, saved)
            if found is None or kind != "file" or name.startswith(own):
                if name in known:
                    listed.gone.append(name)
                if kind == "left_out" and not name.startswith(own):
                    listed.left_out.append(name)
            else:
                listed.present[name] = _identity_of(found)
                mode = stat.S_IMODE(found.st_mode)
                usual = executable if mode & stat.S_IXUSR else plain
                if stat.S_ISREG(found.st_mode) and mode != usual:
                    listed.modes[os.fsdecode(name)] = mode
        return listed

    def _candidates(self) -> tuple[set[bytes], Iterable[bytes], list[bytes]]:
        """Return the files of the index, all files to look at, and the nested repositories.

        Raises `FilesError`.
        """
        where = os.fsdecode(self._within) or "."
        words = ("-z", "-t", "--cached", "--others", "--exclude-standard", "--", where)
        entries = self._names("ls-files", *words)
        known = {entry[2:] for entry in entries if not entry.startswith(b"? ")}
        names = dict.fromkeys(sorted(known))
        names |= dict.fromkeys(entry[2:] for entry in entries if not entry.endswith(b"/"))
        names |= dict.fromkeys(n for n in self._tracked() if n.startswith(self._within))
        most = self._limits.checkpoint_files
        if len(names) > most:
            raise FilesError(f"the folder has more than {most} files (limits.checkpoint_files)")
        return known, names, [entry[2:] for entry in entries if entry.endswith(b"/")]

    def _classify(
        self, name: bytes, folders: dict[bytes, bool], saved: Mapping[bytes, _Identity]
    ) -> tuple[Literal["file", "left_out", "gone"], os.stat_result | None]:
        """Return whether a path is stored, left out or gone, and its status.

        Left out are files that are too large or unreadable. Gone are paths below a link and
        everything that Git cannot store, such as sockets and names with `.git`.
        """
        lower = name.lower()
        if b".git" in lower and b".git" in lower.split(b"/"):
            return "gone", None  # git never stores such a name
        if not self._is_folder(name.rpartition(b"/")[0], folders):
            return "gone", None
        path = self._root_bytes + name
        try:
            found = os.lstat(path)
        except PermissionError:
            return "left_out", None
        except OSError:
            return "gone", None
        if stat.S_ISLNK(found.st_mode):
            is_modules = name.rpartition(b"/")[2] == b".gitmodules"
            return ("left_out" if is_modules else "file"), found
        if not stat.S_ISREG(found.st_mode):
            return "gone", None
        if found.st_size > self._limits.checkpoint_file_bytes:
            return "left_out", found
        if saved.get(name) != _identity_of(found) and not os.access(path, os.R_OK):
            return "left_out", found
        return "file", found

    def _is_folder(self, name: bytes, folders: dict[bytes, bool]) -> bool:
        """Return True if a folder and those above it are folders and not links."""
        known = folders.get(name)
        if known is None:
            known = self._is_folder(name.rpartition(b"/")[0], folders)
            if known:
                try:
                    mode = os.lstat(os.path.join(os.fsencode(self._root), name)).st_mode
                    known = stat.S_ISDIR(mode)
                except OSError:
                    known = False
            folders[name] = known
        return known

    def _tracked(self) -> list[bytes]:
        """Return the files that the user's own repository tracks: it may also ignore some."""
        own = git_folder(self._root) if self._versioned else None
        index = os.path.join(own, "index") if own else ""
        identity = _identity(index) if own else None
        if self._theirs is not None and self._theirs[0] == identity:
            return self._theirs[1]  # git always replaces the file
        self._theirs = None
        data = read_regular(index, _INDEX_BYTES) if own else None
        if data is None or identity is None:
            return []
        copy = self._state / "theirs"
        copy.write_bytes(data)
        try:
            names = self._names("ls-files", "-z", index=copy)
        except FilesError:
            return []  # an index of an unknown kind: the other files are still found
        finally:
            copy.unlink()
        self._theirs = identity, names
        return names

    def _record(
        self,
        taken: TakenFiles,
        when: Literal["before", "after", "restore"],
        session: str,
        turn: str,
    ) -> Checkpoint:
        """Give taken files the next number, with a message about their session and turn.

        The oldest checkpoints above the limit are deleted in the same update of references; their
        files are removed by `git gc`, now and then.
        """
        known = self._read()
        number = known[-1][0].number + 1 if known else 1
        message = _Message(
            when,
            session,
            turn,
            time.time(),
            len(taken.saved),
            taken.left_out[:_SHOWN_LEFT_OUT],
            taken.unsaved,
            taken.modes,
        )
        text = _ascii(message)
        commit = self._git("commit-tree", taken.tree, input=text).decode().strip()
        most = max(2, self._limits.checkpoints_kept)
        lines = [f"update {_REFS}/{number:09d} {commit}\n"]
        for old, _, _ in known[: max(0, len(known) + 1 - most)]:
            lines.append(f"delete {_REFS}/{old.number:09d}\n")
        self._git("update-ref", "--stdin", input="".join(lines).encode())
        if number % most == 0:  # rarely, as it reads everything
            # Other sessions have files in it that have no checkpoint yet.
            self._git("gc", "--quiet", "--prune=1.hour.ago")
        return _checkpoint(number, message)

    def _read(self) -> list[tuple[Checkpoint, str, _Message]]:
        """Return each checkpoint with its tree's id and its message, in order of the numbers."""
        lines = self._git(
            "for-each-ref", "--format=%(refname:lstrip=-1) %(tree) %(contents)", _REFS
        )
        found = []
        for line in filter(None, lines.split(b"\n")):
            number, tree, text = line.split(b" ", 2)
            message = msgspec.convert(json.loads(text), _Message)
            found.append((_checkpoint(int(number), message), tree.decode(), message))
        return found

    def _find(self, number: int) -> tuple[Checkpoint, str, _Message]:
        """Return a checkpoint, its tree and its message.

        Raises `LocalProtocolError` if it is unknown.
        """
        for entry in self._read() if self._git_dir.exists() else []:
            if entry[0].number == number:
                return entry
        raise LocalProtocolError(
            f"no checkpoint {number} of {self.folder}; `agentrt checkpoints list` shows them"
        )

    # --- the parts of a restore

    def _restore(self, target: str, now: TakenFiles, message: _Message, undo: int) -> Restored:
        """Change the files back to a tree, except those that are left alone (`_change_files`).

        An error on the way rolls back the files that are already changed; the `FilesError`
        states if that succeeded. `undo`: the checkpoint from before the restore.
        """
        changes = list(self._raw_changes(target, now.tree))
        index = self._state / "restoring"
        # Files that stay as they are keep their entries, so that they are not read again.
        # With its time: git reads the files that may have changed after an index was written.
        shutil.copy2(self._index, index)
        # `-i`: files that were saved through copies have no times in the index to compare with.
        self._git("read-tree", "-m", "-i", target, index=index)
        begun: list[bytes] = []
        try:
            kept = self._change_files(changes, now, message, index, begun)
        except (FilesError, OSError) as error:
            reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
            state = self._roll_back(changes, now, begun, undo)
            raise FilesError(f"the files could not be restored: {reason}; {state}") from error
        os.replace(index, self._index)
        return Restored(
            undo=undo,
            changes=tuple(
                FileChange(self._shown(name), _UNDONE[kind])
                for kind, name in changes
                if name not in kept
            ),
            kept=tuple(sorted(map(self._shown, kept))),
        )

    def _change_files(
        self,
        changes: list[tuple[bytes, bytes]],
        now: TakenFiles,
        message: _Message,
        index: Path,
        begun: list[bytes],
    ) -> set[bytes]:
        """Make the files equal to those of an index, and return those that were left alone.

        `begun` gets the names of the files that are about to be changed.
        """
        added = [name for kind, name in changes if kind == b"A"]
        others = [name for kind, name in changes if kind != b"A"]
        # The rules of that time decide which files were ignored then.
        rules = [name for name in others if name.rpartition(b"/")[2] == b".gitignore"]
        written = set(rules) - self._write(rules, index, now.saved, begun)
        unsaved = frozenset(map(os.fsencode, message.unsaved))
        kept = self._ignored(added, index)
        kept |= {n for n in added if _is_within(n, unsaved) or not self._is_writable(n)}
        begun += [name for name in added if name not in kept]
        for name in added:
            if name not in kept:
                self._delete(name)
        rest = [name for name in others if name not in written]
        kept |= self._write(rest, index, now.saved, begun)
        touched = {os.fsdecode(name) for name in others}
        modes = message.modes
        differing = {n for n in {*modes, *now.modes} if modes.get(n) != now.modes.get(n)}
        usual = _new_file_modes()
        for text in differing | (touched & set(modes)):
            name = os.fsencode(text)
            if name not in kept and name in now.saved.union(others).difference(added):
                self._set_mode(name, modes.get(text), usual)
        return kept

    def _roll_back(
        self, changes: list[tuple[bytes, bytes]], now: TakenFiles, begun: list[bytes], undo: int
    ) -> str:
        """Put the files back that a failed restore has changed, and return the state of the files.

        The index has still the files that were saved before.
        """
        made = {name for kind, name in changes if kind == b"D"}.intersection(begun)
        try:
            for name in made:
                self._delete(name)
            again = [name for name in begun if name not in made]
            self._write(again, self._index, now.saved, [])
            usual = _new_file_modes()
            for text in {os.fsdecode(name) for name in again} | now.modes.keys():
                self._set_mode(os.fsencode(text), now.modes.get(text), usual)
        except (FilesError, OSError):
            return f"some of them have changed, and checkpoint {undo} has the files from before"
        return "none has changed"

    def _write(
        self, names: list[bytes], index: Path, saved: frozenset[bytes], begun: list[bytes]
    ) -> set[bytes]:
        """Write files of an index, and return those that were not written.

        Nothing that was not saved first is overwritten. `begun` gets the names of the others.
        """
        ready = [name for name in names if not self._is_blocked(name, saved)]
        begun += ready
        if ready:
            stdin = b"\0".join(ready) + b"\0"
            self._git("checkout-index", "-f", "-u", "-z", "--stdin", input=stdin, index=index)
        return set(names) - set(ready)

    def _is_blocked(self, name: bytes, saved: frozenset[bytes]) -> bool:
        """Return True if a file cannot be written, or its place is taken by an unsaved file."""
        root = os.fsencode(self._root)
        path = os.path.join(root, name)
        if not self._is_writable(name):
            return True
        if os.path.isdir(path) and not os.path.islink(path):
            return bool(os.listdir(path))
        parts = name.split(b"/")
        for length in range(1, len(parts) + 1):
            part = b"/".join(parts[:length])
            try:
                mode = os.lstat(os.path.join(root, part)).st_mode
            except FileNotFoundError:
                return False
            if not stat.S_ISDIR(mode):
                return part not in saved
        return False

    def _is_writable(self, name: bytes) -> bool:
        """Return True if files can be made and deleted in the folder of a file."""
        folder = name.rpartition(b"/")[0]
        while folder and not self._is_folder(folder, {b"": True}):
            folder = folder.rpartition(b"/")[0]
        return os.access(os.path.join(os.fsencode(self._root), folder), os.W_OK | os.X_OK)

    def _ignored(self, names: list[bytes], index: Path) -> set[bytes]:
        """Return the files that an index's rules ignore and that the user's repository does not
        track.

        A restore would delete files that were added since the checkpoint. Those that were ignored
        at its time were never part of it, so their absence from the tree proves nothing.
        """
        if not names:
            return set()
        # Without the prefix, a name that starts with a colon would be a pattern.
        stdin = b"".join(b"./" + name + b"\0" for name in names)
        words = ("check-ignore", "-z", "--stdin", "--no-index")
        found = self._git(*words, input=stdin, index=index, accept=(0, 1), literal=False)
        tracked = set(self._tracked())
        return {name[2:] for name in found.split(b"\0") if name} - tracked

    def _delete(self, name: bytes) -> None:
        """Delete a file, and the folders that are empty without it."""
        root = os.fsencode(self._root)
        if not self._is_folder(name.rpartition(b"/")[0], {b"": True}):
            return  # its folder was replaced in the meantime
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(root, name))
        parent = name.rpartition(b"/")[0]
        while len(parent) >= len(self._within) and parent:
            try:
                os.rmdir(os.path.join(root, parent))
            except OSError:
                return  # it has other files, or stays because of the permissions of its folder
            parent = parent.rpartition(b"/")[0]

    def _set_mode(self, name: bytes, mode: int | None, usual: tuple[int, int]) -> None:
        """Set the permissions of a file; None means those of a new file, which are `usual`."""
        if not self._is_folder(name.rpartition(b"/")[0], {b"": True}):
            return
        path = os.path.join(os.fsencode(self._root), name)
        with suppress(FileNotFoundError):
            found = os.lstat(path).st_mode
            if stat.S_ISREG(found):
                os.chmod(path, usual[bool(found & stat.S_IXUSR)] if mode is None else mode)

    # --- git

    def _raw_changes(self, old: str, new: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the status letter and the name of each file that differs between two trees."""
        parts = self._git("diff-tree", "-r", "-z", "--name-status", "--no-renames", old, new)
        fields = iter(parts.split(b"\0"))
        for kind in fields:
            if kind:
                yield kind, next(fields)

    def _changes(self, old: str, new: str) -> list[FileChange]:
        """Return the files that differ between two trees, with names relative to the folder."""
        return [
            FileChange(self._shown(name), _KINDS.get(kind, "modified"))
            for kind, name in self._raw_changes(old, new)
        ]

    def _shown(self, name: bytes) -> str:
        """Return a name relative to the folder, as text that can be displayed."""
        return name.removeprefix(self._within).decode(errors="backslashreplace")

    def _names(self, *words: str, index: Path | None = None) -> list[bytes]:
        """Run a git command with output separated by zero bytes, and return its fields."""
        return self._git(*words, index=index).split(b"\0")[:-1]

    def _update_index(
        self, names: Iterable[bytes], *options: str, settings: Iterable[str] = ()
    ) -> None:
        """Pass file names to `git update-index` on standard input: there may be too many for
        arguments.
        """
        (self._state / "index.lock").unlink(missing_ok=True)  # of a git process that was killed
        stdin = b"".join(name + b"\0" for name in names)
        self._git(*settings, "update-index", *options, "-z", "--stdin", input=stdin)

    def _git(
        self,
        *words: str,
        input: bytes = b"",
        index: Path | None = None,
        accept: tuple[int, ...] = (0,),
        literal: bool = True,
    ) -> bytes:
        """Run Git on the repository of checkpoints, and return its output.

        `accept`: exit statuses that are no error. `literal`: paths are not patterns. The repository
        of the project and its settings are not used. Raises `FilesError`, also after the time
        limit.
        """
        return run_git(
            *words,
            cwd=self._root,
            env={
                "GIT_DIR": str(self._git_dir),
                "GIT_WORK_TREE": self._root,
                "GIT_INDEX_FILE": str(self._index if index is None else index),
                "GIT_LITERAL_PATHSPECS": "1" if literal else "0",
            },
            input=input,
            timeout_s=self._limits.checkpoint_timeout_s,
            accept=accept,
        )

    def _object_format(self) -> str:
        """Return the hash of the object names: that of the repository around the folder.

        A worktree's branch gets its objects from here, and a binary patch names objects.
        """
        with suppress(FilesError):
            if repository_root(self._root) is not None:
                words = ("rev-parse", "--show-object-format")
                timeout_s = self._limits.checkpoint_timeout_s
                return run_git(*words, cwd=self._root, env={}, timeout_s=timeout_s).decode().strip()
        return "sha1"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Use the repository alone, and create it if it is missing."""
        try:
            self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FilesError(f"{self._state} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self._git_dir / "HEAD").exists():
                run_git(
                    "init",
                    "--quiet",
                    "--bare",
                    "--template=",
                    f"--object-format={self._object_format()}",
                    str(self._git_dir),
                    cwd=str(self._state),
                    env={},
                    timeout_s=self._limits.checkpoint_timeout_s,
                )
            info = self._git_dir / "info"
            info.mkdir(exist_ok=True)
            (info / "attributes").write_text(_ATTRIBUTES)
            (info / "exclude").write_bytes(self._excludes())
            self._clear()
            yield
        except (OSError, FilesError) as error:
            self._delete_parts()
            if isinstance(error, OSError):
                place = error.filename or self._state
                raise FilesError(f"{place}: {error.strerror}") from error
            raise
        finally:
            os.close(lock)

    def _clear(self) -> None:
        """Delete temporary files of processes that were killed."""
        for left in (self._state / "index.lock", self._state / "restoring.lock"):
            left.unlink(missing_ok=True)
        for copies in self._state.glob("copies-*"):
            shutil.rmtree(copies, ignore_errors=True)

    def _delete_parts(self) -> None:
        """Delete incomplete objects of git processes that failed, which could fill the disk."""
        for pattern in ("??/tmp_obj_*", "pack/tmp_*"):
            for left in (self._git_dir / "objects").glob(pattern):
                with suppress(OSError):
                    left.unlink()

    def _excludes(self) -> bytes:
        """Return the ignore rules that are not in the project's `.gitignore` files.

        They are those of the user's `.git/info/exclude`, which a separate working tree shares with
        its main repository (`commondir`), or a short built-in list without a repository. The user's
        global ignore file is not used.
        """
        if not self._versioned:
            return _UNVERSIONED_EXCLUDES.encode()
        own = git_folder(self._root)
        common = own and read_regular(os.path.join(own, "commondir"), 4096)
        if own and common:
            own = os.path.join(own, os.fsdecode(common.strip()))
        return (own and read_regular(os.path.join(own, "info/exclude"), _EXCLUDE_BYTES)) or b""


_UNDONE: Final[dict[bytes, ChangeKind]] = {
    b"A": "deleted",
    b"D": "added",
    b"M": "modified",
    b"T": "modified",
}
"""The effect of a restore on a file, by the change that it undoes."""


def _checkpoint(number: int, message: _Message) -> Checkpoint:
    """Return the public form of a checkpoint's message."""
    return Checkpoint(
        number=number,
        when=message.when,
        session=message.session,
        turn=message.turn,
        time=message.time,
        files=message.files,
        left_out=message.left_out,
    )


def _identity_of(found: os.stat_result) -> _Identity:
    """Return the metadata that changes with a file.

    They are the device, the inode, the mode, the size and both times in nanoseconds.
    """
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, *times


def _identity(path: str | os.PathLike[str]) -> _Identity | None:
    """Return a file's identity, following links; None if it cannot be examined."""
    try:
        return _identity_of(os.stat(path))
    except OSError:
        return None


def _is_within(name: bytes, listed: Collection[bytes]) -> bool:
    """Return True if a name is listed, or a folder above it with a slash."""
    parts = name.split(b"/")
    above = (b"/".join(parts[:length]) + b"/" for length in range(1, len(parts)))
    return name in listed or any(each in listed for each in above)


def _is_settled(identity: _Identity, began_ns: int) -> bool:
    """Return True if a change of the file after `began_ns` gives it another identity.

    The clock of a file system is behind by up to one tick. Some count whole seconds.
    """
    changed_ns = identity[-1]
    tick_ns = 2_000_000_000 if changed_ns % 1_000_000 == 0 else 20_000_000
    return changed_ns + tick_ns < began_ns


def _ids(listed: bytes) -> bytes:
    """Return the ids of the objects in the output of `git rev-list --objects`."""
    return b"".join(line.split(b" ", 1)[0] + b"\n" for line in listed.splitlines())


def _ascii(message: _Message) -> bytes:
    """Encode a message in one line. Names that are not text keep their bytes as surrogates."""
    return json.dumps(msgspec.to_builtins(message), separators=(",", ":")).encode()


def _new_file_modes() -> tuple[int, int]:
    """Return the permissions of new files and of new programs."""
    # `os.umask` would change it for a moment, for all threads.
    with tempfile.TemporaryDirectory(prefix="agentrt-") as folder:
        path = os.path.join(folder, "program")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o777))
        mode = stat.S_IMODE(os.stat(path).st_mode)
    return mode & 0o666, mode
