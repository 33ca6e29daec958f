"""The contents of the project files that an agent acts on, and a digest of them.

A user who trusts a folder trusts the files that were shown. So everything that is shown is read
once, never through a link, and its digest decides later whether the files are still the same.

The programs and other files of the project that these files name are shown, too: a hook
`./scripts/check.sh` runs whatever is in the script. Files that a script names in turn are not.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..._base.home import home_folder
from ..project_files import ProjectFile
from .agent import Agent
from .named_files import names_in
from .projects import FoundFile, find_files, project_rules, repository

MAX_SCANNED_FILES: Final = 500
"""Number of files of a folder that can be shown in a question."""
MAX_SCANNED_BYTES: Final = 256 * 1024
"""Total size of the files of a folder that can be shown in a question."""
MAX_NAMED_BYTES: Final = 64 * 1024
"""Size of a named file up to which its content is shown. Of a larger one, it is a digest."""
MAX_HASHED_BYTES: Final = 64 * 1024 * 1024
"""Total size of the named files of which only a digest is shown."""

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_PLACE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class ScannedFile(Struct, frozen=True, kw_only=True):
    """A file of a project that an agent acts on, with its content."""

    path: str
    """Path relative to the session's folder."""
    effect: str
    """The effect on the agent, as a sentence without its subject."""
    text: str
    """The content. Bytes that are not UTF-8 are shown as escapes."""


class ProjectScan(Struct, frozen=True, kw_only=True):
    """The files of a folder and its parents that an agent acts on."""

    folder: str
    """The folder, with symbolic links resolved."""
    files: tuple[ScannedFile, ...] = ()
    """The files, in the order in which they were found."""
    digest: str = ""
    """A digest of the names and contents of all files; empty if there are none."""
    problem: str = ""
    """The reason why the files cannot be shown, and so cannot be trusted by a question."""

    @property
    def texts(self) -> dict[str, str]:
        """The contents by path."""
        return {file.path: file.text for file in self.files}


class _Unreadable(Exception):
    """A file cannot be shown."""


def scan_project(agent: Agent, folder: str | os.PathLike[str]) -> ProjectScan:
    """Read the files of a folder and its parents that an agent acts on. Blocks.

    The user's home and its parents are left out. The work is bounded, and links are not followed: a
    folder whose files cannot be shown has a `problem`.
    """
    home = str(home_folder())
    return read_project_files(os.fspath(folder), project_rules(agent).files, home)


def read_project_files(folder: str, files: Sequence[ProjectFile], home: str = "") -> ProjectScan:
    """Read those of `files` that exist in a folder and its parents. Blocks.

    `home` and its parents are left out: files there are the user's own. The work is bounded by
    `MAX_SCANNED_FILES` and `MAX_SCANNED_BYTES`; links are not followed.
    """
    real = os.path.realpath(folder)
    scan = _Scan(real)
    try:
        for found in find_files(real, files, home):
            scan.add(found)
        scan.add_named()
    except (_Unreadable, OSError) as error:
        # A name that changes with the problem, so that the files count as changed.
        return ProjectScan(folder=real, digest=f"unreadable: {error}", problem=str(error))
    return scan.result()


class _Scan:
    """The files that were read so far, and a digest that grows with each.

    Files are opened by descriptors of their folders, one name at a time, and never through a link:
    a file cannot be exchanged for one outside of the project, even if an agent renames files during
    the scan. (The links in the path of a named file are resolved first.) Any file that cannot be
    shown makes the whole scan fail (`_Unreadable`), so that a person never trusts more than was
    shown.
    """

    def __init__(self, folder: str) -> None:
        """`folder`: that of the session, with links resolved; paths are shown relative to it."""
        self._folder = folder
        self._files: dict[str, ScannedFile] = {}
        self._places: dict[str, str] = {}
        """The folder that each file was looked for in, by its path."""
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._hashed_bytes = 0

    def result(self) -> ProjectScan:
        """Return the files and their digest, which is empty if there are none."""
        files = tuple(self._files.values())
        digest = self._hash.hexdigest() if files else ""
        return ProjectScan(folder=self._folder, files=files, digest=digest)

    def add(self, found: FoundFile) -> None:
        """Read a file, or all files of a folder, that an agent acts on.

        The path of its rule can have several names, such as `.claude/settings.json`: the walk
        starts above the first of them.
        """
        place = found.path
        for _ in found.file.path.split("/"):
            place = os.path.dirname(place)
        known = set(self._files)
        fd, name = self._open_folder_of(found.path, place)
        try:
            self._entry(fd, name, found.path, found.file.effect)
        finally:
            os.close(fd)
        self._places |= dict.fromkeys(self._files.keys() - known, place)

    def add_named(self) -> None:
        """Add the files of the project that the files so far name."""
        root = repository(self._folder) or self._folder
        for file in list(self._files.values()):
            place = self._places[file.path]
            own = os.path.dirname(os.path.join(self._folder, file.path))
            try:
                names = names_in(file.path, file.text)
            except ValueError as error:
                raise _Unreadable(f"{file.path} {error}") from None
            for base in dict.fromkeys((place, own, self._folder)):
                for name in names:
                    path = os.path.normpath(os.path.join(base, name))
                    top = next((each for each in (place, root) if _is_file_in(path, each)), None)
                    if top is not None:
                        self._add_named_file(path, top, file.path)

    def _add_named_file(self, path: str, top: str, by: str) -> None:
        """Read a file that another file names, in `by`. It must be below `top`.

        The path counts in the digest as it was named, too: if a link later leads to another file,
        the contents have changed.
        """
        real = os.path.realpath(path)
        shown = os.path.relpath(real, self._folder)
        self._hash.update(b"named %s\n" % os.fsencode(os.path.relpath(path, self._folder)))
        if shown in self._files:
            return
        fd, name = self._open_folder_of(real, top)
        try:
            file = self._open(fd, name, real)
        finally:
            os.close(fd)
        try:
            self._file(file, shown, f"is named by {by}, which can run it", named=True)
        finally:
            os.close(file)

    def _open_folder_of(self, path: str, place: str) -> tuple[int, str]:
        """Open the folder of a file below `place` without following links."""
        names = os.path.relpath(path, place).split("/")
        fd = os.open(place, _OPEN_PLACE)
        try:
            for name in names[:-1]:
                place = os.path.join(place, name)
                inner = self._open(fd, name, place)
                os.close(fd)
                fd = inner
        except BaseException:
            os.close(fd)
            raise
        return fd, names[-1]

    def _open(self, parent: int, name: str, path: str) -> int:
        """Open a file or folder without following a link."""
        shown = os.path.relpath(path, self._folder)
        try:
            fd = os.open(name, _OPEN, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise _Unreadable(f"{shown} is a symbolic link") from None
            raise _Unreadable(f"{shown} cannot be read: {error.strerror}") from None
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            os.close(fd)
            raise _Unreadable(f"{shown} is neither a file nor a folder")
        return fd

    def _entry(self, parent: int, name: str, path: str, effect: str) -> None:
        """Read a file, or the files of a folder with those of its folders, by name."""
        fd = self._open(parent, name, path)
        try:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                for each in sorted(self._names(fd)):
                    self._entry(fd, each, os.path.join(path, each), effect)
            else:
                self._file(fd, os.path.relpath(path, self._folder), effect)
        finally:
            os.close(fd)

    def _names(self, fd: int) -> list[str]:
        """Return the names in an open folder. Raises `_Unreadable` if there are too many."""
        names = []
        with os.scandir(fd) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MAX_SCANNED_FILES:
                    raise _Unreadable(f"there are more than {MAX_SCANNED_FILES} files")
        return names

    def _file(self, fd: int, path: str, effect: str, *, named: bool = False) -> None:
        """Add an open file, unless it was added before. `named`: a large one is shown as a digest.

        The digest gets the lengths of path and content before them, so two scans with the same
        digest have the same files.
        """
        if path in self._files:  # it has several effects, of which one is enough
            return
        if named and os.fstat(fd).st_size > MAX_NAMED_BYTES:
            data = self._digest(fd, path)
            effect += " (shown: its digest)"
        else:
            data = self._content(fd)
        self._bytes += len(data)
        if self._bytes > MAX_SCANNED_BYTES:
            raise _Unreadable(f"the files have more than {MAX_SCANNED_BYTES // 1024} kB")
        if len(self._files) >= MAX_SCANNED_FILES:
            raise _Unreadable(f"there are more than {MAX_SCANNED_FILES} files")
        name = os.fsencode(path)
        self._hash.update(b"%d:%s%d:" % (len(name), name, len(data)) + data)
        shown = name.decode(errors="backslashreplace")
        text = data.decode(errors="backslashreplace")
        self._files[shown] = ScannedFile(path=shown, effect=effect, text=text)

    def _digest(self, fd: int, path: str) -> bytes:
        """Return a line with the digest of a large file."""
        digest = hashlib.sha256()
        while piece := os.read(fd, 1024 * 1024):
            digest.update(piece)
            self._hashed_bytes += len(piece)
            if self._hashed_bytes > MAX_HASHED_BYTES:
                raise _Unreadable(f"{path} and others are too large to be checked")
        return f"sha256 {digest.hexdigest()}\n".encode()

    def _content(self, fd: int) -> bytes:
        """Read a file, at most one byte more than may be shown, which is enough to refuse it."""
        data = b""
        while piece := os.read(fd, MAX_SCANNED_BYTES + 1 - len(data)):
            data += piece
        return data


def _is_file_in(path: str, top: str) -> bool:
    """Return True if this is a file below a folder, also after links are followed."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        return os.path.realpath(path).startswith(os.path.join(top, ""))
    except OSError:
        return False


def changed_files(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return the paths whose contents differ, in order."""
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
