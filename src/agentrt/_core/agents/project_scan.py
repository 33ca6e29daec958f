"""The contents of the project files that an agent acts on, and a digest of them.

A user who trusts a folder trusts the files that were shown. So everything that is shown is read
once, never through a link, and its digest decides later whether the files are still the same.
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
from .projects import FoundFile, find_files, project_rules

MAX_SCANNED_FILES: Final = 500
"""Number of files of a folder that can be shown in a question."""
MAX_SCANNED_BYTES: Final = 256 * 1024
"""Total size of the files of a folder that can be shown in a question."""

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
    except (_Unreadable, OSError) as error:
        # A name that changes with the problem, so that the files count as changed.
        return ProjectScan(folder=real, digest=f"unreadable: {error}", problem=str(error))
    return scan.result()


class _Scan:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, ScannedFile] = {}
        self._hash = hashlib.sha256()
        self._bytes = 0

    def result(self) -> ProjectScan:
        files = tuple(self._files.values())
        digest = self._hash.hexdigest() if files else ""
        return ProjectScan(folder=self._folder, files=files, digest=digest)

    def add(self, found: FoundFile) -> None:
        place = found.path
        for _ in found.file.path.split("/"):
            place = os.path.dirname(place)
        names = os.path.relpath(found.path, place).split("/")
        fd = os.open(place, _OPEN_PLACE)
        try:
            for name in names[:-1]:
                place = os.path.join(place, name)
                inner = self._open(fd, name, place)
                os.close(fd)
                fd = inner
            self._entry(fd, names[-1], found.path, found.file.effect)
        finally:
            os.close(fd)

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
        names = []
        with os.scandir(fd) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MAX_SCANNED_FILES:
                    raise _Unreadable(f"there are more than {MAX_SCANNED_FILES} files")
        return names

    def _file(self, fd: int, path: str, effect: str) -> None:
        if path in self._files:  # it has several effects, of which one is enough
            return
        data = b""
        while piece := os.read(fd, MAX_SCANNED_BYTES + 1 - len(data)):
            data += piece
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


def changed_files(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return the paths whose contents differ, in order."""
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
