"""The difference between a folder's files and the last commit of its git repository.

Git runs on a temporary repository, which borrows the objects of the user's own. So no setting of
that one applies, and no hook, filter, monitor, text conversion or external diff of a project runs;
nothing is written to it. The function here blocks; call it in a thread.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from ..errors import FilesError
from .git import git_folder, read_regular, repository_root, run_git

MAX_SHOWN_FILES: Final = 500
"""Maximum number of files whose difference is shown."""
MAX_FILE_BYTES: Final = 1024 * 1024
"""Size above which a file is not compared."""
MAX_PATCH_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of all patches together."""

_INDEX_BYTES: Final = 256 * 1024 * 1024
_LINE_BYTES: Final = 8192
_ARGUMENT_BYTES: Final = 64 * 1024
_ATTRIBUTES: Final = "* -text !eol !filter -ident !working-tree-encoding !diff\n"
"""Attributes above those of every project: files are compared unchanged."""
_COMPARISON: Final = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--no-color",
    "--ignore-submodules=all",
)
_FILE: Final = re.compile(rb"^(?=diff --git )", re.MULTILINE)


class ComparedFile(Struct, frozen=True):
    """A file that differs from the last commit.

    - `path`: its absolute path.
    - `patch`: the difference, in the unified format.
    """

    path: str
    patch: str


class ComparedFolder(Struct, frozen=True):
    """The files that differ from the last commit.

    - `commit`: the id of the commit; empty before the first one.
    - `files`: the files, by path.
    - `left_out`: the paths of further ones, which are too large or too many to be compared.
    """

    commit: str
    files: list[ComparedFile]
    left_out: list[str]


def uncommitted(folder: str, timeout_s: float) -> ComparedFolder:
    """Compare the files in a folder, except ignored ones, with the last commit.

    `timeout_s` limits each of the git commands. Raises `FilesError`, also if the folder is not part
    of a git repository.
    """
    folder = os.path.realpath(folder)
    root = repository_root(folder)
    git_dir = git_folder(root) if root is not None else None
    if root is None or git_dir is None or not _belongs(git_dir, root):
        raise FilesError(f"the folder {folder} is not part of a git repository")
    common = os.path.realpath(os.path.join(git_dir, _line(f"{git_dir}/commondir") or "."))
    with tempfile.TemporaryDirectory(prefix="agentrt-compare-") as own:
        return _Comparison(folder, root, git_dir, common, own, timeout_s).compare()


def _belongs(git_dir: str, root: str) -> bool:
    """Return True if a git directory is in the working tree, or says that it is for that one."""
    if os.path.realpath(git_dir) == os.path.join(os.path.realpath(root), ".git"):
        return True
    back = _line(f"{git_dir}/gitdir")
    return back is not None and os.path.realpath(back) == os.path.join(root, ".git")


def _line(path: str) -> str | None:
    """Return the first line of a file; None if it cannot be read."""
    data = read_regular(path, _LINE_BYTES)
    return None if data is None else os.fsdecode(data.partition(b"\n")[0])


class _Comparison:
    """One comparison, in a temporary repository in the folder `own`."""

    def __init__(
        self, folder: str, root: str, git_dir: str, common: str, own: str, timeout_s: float
    ) -> None:
        """Note the places; `compare` does the work.

        `git_dir`: the git directory of this working tree, `common` that of the whole repository;
        they differ in a linked working tree. `own`: an empty folder for the temporary repository.
        """
        self._root = root
        self._git_dir = git_dir
        self._common = common
        self._own = Path(own)
        self._timeout_s = timeout_s
        self._within = os.path.relpath(folder, root)

    def compare(self) -> ComparedFolder:
        """Return the difference. Raises `FilesError`.

        New files are added to the temporary index without content (`--intent-to-add`): git diff
        then shows them as added.
        """
        commit = self._commit()
        self._create(commit)
        tree = commit or self._git("hash-object", "-t", "tree", "--stdin").decode().strip()
        self._copy_index(tree)
        new = self._untracked()
        if new:
            names = b"\0".join(new)
            options = ("--pathspec-from-file=-", "--pathspec-file-nul")
            self._git("add", "--intent-to-add", *options, input=names)
        changed, left_out = self._choose(tree)
        files = list(self._patches(tree, changed)) if changed else []
        return ComparedFolder(commit, files, left_out)

    def _commit(self) -> str:
        """Return the commit of the working tree; an empty string before the first one."""
        where = {"GIT_DIR": self._git_dir, "GIT_NO_LAZY_FETCH": "1"}
        words = ("rev-parse", "--verify", "--quiet", "HEAD")
        found = run_git(*words, cwd=self._root, env=where, timeout_s=self._timeout_s, accept=(0, 1))
        return found.decode(errors="replace").strip()

    def _create(self, commit: str) -> None:
        """Create the temporary repository."""
        kind = "sha256" if len(commit) == 64 else "sha1"
        self._git("init", "--quiet", "--bare", "--template=", f"--object-format={kind}", ".")
        info = self._own / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_ATTRIBUTES)
        excluded = read_regular(f"{self._common}/info/exclude", _INDEX_BYTES)
        (info / "exclude").write_bytes(excluded or b"")
        objects = os.fsencode(f"{self._common}/objects")
        if b"\n" in objects or objects.startswith((b"#", b'"')):
            raise FilesError("the path of the repository has characters that git cannot read")
        borrowed = self._own / "objects/info/alternates"
        borrowed.parent.mkdir(exist_ok=True)
        borrowed.write_bytes(objects + b"\n")

    def _copy_index(self, tree: str) -> None:
        """Start with the index of the working tree, so that unchanged files are not read."""
        path = f"{self._git_dir}/index"
        index = written_ns = None
        with suppress(OSError):
            written_ns = os.stat(path).st_mtime_ns
            index = read_regular(path, _INDEX_BYTES)
        if index is not None and written_ns is not None:
            (self._own / "index").write_bytes(index)
            # With its time: git reads the files that may have changed after an index was written.
            os.utime(self._own / "index", ns=(written_ns, written_ns))
            try:
                self._git("ls-files", "--error-unmatch", "--", ":/", accept=(0, 1))
            except FilesError:
                index = None
        if index is None:
            (self._own / "index").unlink(missing_ok=True)
            self._git("read-tree", tree)

    def _untracked(self) -> list[bytes]:
        """Return the new files that are not ignored, at most `MAX_SHOWN_FILES`.

        A name with a slash at its end is another repository, of which git lists no files.
        """
        words = ("ls-files", "-z", "--others", "--exclude-standard", "--", self._within)
        names = [each for each in self._git(*words).split(b"\0") if each]
        return [name for name in names if not name.endswith(b"/")][:MAX_SHOWN_FILES]

    def _choose(self, tree: str) -> tuple[dict[bytes, bytes], list[str]]:
        """Return the kinds of difference of the files to compare, and the paths of the others."""
        words = ("--name-status", "-z", tree, "--", self._within)
        told = self._git(*_COMPARISON, *words).split(b"\0")
        changed: dict[bytes, bytes] = {}
        left_out: list[str] = []
        spent = 0
        for kind, name in zip(told[::2], told[1::2], strict=False):
            path = os.path.join(self._root, os.fsdecode(name))
            try:
                size = os.lstat(path).st_size
            except OSError:
                size = 0
            spent += len(name) + 1
            if size > MAX_FILE_BYTES or len(changed) == MAX_SHOWN_FILES or spent > _ARGUMENT_BYTES:
                left_out.append(path)
            else:
                changed[name] = kind
        return changed, left_out[:MAX_SHOWN_FILES]

    def _patches(self, tree: str, changed: dict[bytes, bytes]) -> Iterator[ComparedFile]:
        """Yield the patch of each file.

        `changed` has the kinds of difference by name, in git's order.

        One git command makes all patches, which begin in the same order. Beyond `MAX_PATCH_BYTES`
        they are cut off.
        """
        text = self._git(*_COMPARISON, tree, "--", *changed)[:MAX_PATCH_BYTES]
        parts = iter(_FILE.split(text)[1:])
        for name, kind in changed.items():
            count = 2 if kind == b"T" else 1  # a file that became a link: deleted, and added
            patch = b"".join(part for _, part in zip(range(count), parts, strict=False))
            path = os.path.join(self._root, os.fsdecode(name))
            yield ComparedFile(path, patch.decode(errors="replace"))

    def _git(
        self, *words: str | bytes, input: bytes = b"", accept: tuple[int, ...] = (0,)
    ) -> bytes:
        """Run Git on the temporary repository of the comparison, and return its output.

        Missing objects are not downloaded, and no settings of the project are used. Raises
        `FilesError`.
        """
        first = words[0] == "init"
        env = {
            "GIT_DIR": str(self._own),
            "GIT_WORK_TREE": self._root,
            "GIT_INDEX_FILE": str(self._own / "index"),
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
        }
        return run_git(
            *words,
            cwd=str(self._own) if first else self._root,
            env={} if first else env,
            input=input,
            timeout_s=self._timeout_s,
            accept=accept,
        )
