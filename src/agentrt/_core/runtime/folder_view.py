"""Reading the folders of a session for people who view it.

`agentrt serve` uses it for the viewers of a session. It protects against the paths that viewers
send and against links that an agent has made: each file is opened by `Roots`, which never leaves
the session's folders, even if a folder is replaced by a link in the meantime.
"""

from __future__ import annotations

import base64
import codecs
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, TypeAlias

from ..._base.listing import branch_of, exclusion
from ..acp.files import NotAllowed, RootedName, Roots, open_regular
from ..files.uncommitted import ComparedFolder, uncommitted

MAX_SHOWN_ENTRIES: Final = 2_000
"""Maximum entries of one folder that are shown."""

HEAD_BYTES: Final = 8 * 1024
"""Bytes at the start of a file that show its kind, as git decides it."""

FileKind: TypeAlias = Literal["text", "binary"]
EntryKind: TypeAlias = Literal["file", "folder", "link"]

IMAGE_TYPES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""The first bytes of images that every browser shows."""


class ShownEntry(NamedTuple):
    """An entry of a folder."""

    name: str
    """Its name."""
    kind: Literal["file", "folder", "link"]
    """Its kind."""
    size_bytes: int
    """Its size in bytes; 0 for folders and links."""


class ShownFolder(NamedTuple):
    """The entries of a folder, folders first. `complete` is false if there are more."""

    path: str
    """The path as it was given."""
    entries: list[ShownEntry]
    """Its entries, folders first."""
    complete: bool


class ShownFile(NamedTuple):
    """A piece of a file, from the byte `start` to the byte `end`."""

    path: str
    """The path as it was given."""
    kind: Literal["text", "binary"]
    """The kind of its content, as git decides it."""
    media_type: str
    """Its media type, such as `text/plain`."""
    size_bytes: int
    """The size of the whole file."""
    modified: float
    """The time of its last change, in Unix seconds."""
    start: int
    end: int
    content: str
    """The text, or the data in base64."""


class FolderView:
    """Reads files and folders within a session's folders, and nothing else.

    Links are followed as far as they stay in these folders. Files that git or an `.ignore` file
    ignores are left out, as in the completion of file names: they hold secrets and generated files.
    The methods block. They raise `PermissionError` for a place that is not shown, and other
    `OSError` for a missing one.
    """

    def __init__(self, cwd: str, roots: Sequence[str] = ()) -> None:
        """Create a view of `cwd` and further folders. Relative paths start at `cwd`."""
        self._cwd = cwd
        folders = {os.path.realpath(folder) for folder in (cwd, *roots)}
        self._folders = sorted(folders, key=len, reverse=True)
        self._roots = Roots((cwd, *roots))

    def uncommitted(self, timeout_s: float) -> ComparedFolder:
        """Compare the working folder with the last commit of its git repository.

        `timeout_s` limits each of several git commands. Raises `FilesError`.
        """
        return uncommitted(self._cwd, timeout_s)

    def branch(self) -> str | None:
        """Return the git branch of the working folder, if it has one."""
        return branch_of(self._cwd)

    def folder(self, path: str) -> ShownFolder:
        """List a folder."""
        with self._locate(path, is_folder=True) as (named, place, top, way):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(place.name, flags, dir_fd=place.folder)
            try:
                is_hidden = exclusion(top, way)
                entries, complete = _entries_of(fd)
            finally:
                os.close(fd)
        shown = [each for each in entries if not is_hidden(each.name, each.kind == "folder")]
        shown.sort(key=lambda each: (each.kind != "folder", each.name.casefold(), each.name))
        return ShownFolder(named, shown, complete)

    def file(self, path: str, start: int, count: int, *, encoded: bool) -> ShownFile:
        """Read at most `count` bytes of a file, from the byte `start` on.

        `encoded`: return the bytes in base64. Otherwise a text is returned up to its last whole
        character, and the content of a binary file is empty.
        """
        with self._locate(path, is_folder=False) as (named, place, _, _):
            fd = open_regular(place, os.O_RDONLY)
        try:
            status = os.fstat(fd)
            head = os.pread(fd, HEAD_BYTES, 0)
            data = os.pread(fd, count, start)
        finally:
            os.close(fd)
        kind: FileKind = "binary" if b"\0" in head else "text"
        content = ""
        if encoded:
            content = base64.b64encode(data).decode()
        elif kind == "text":
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            content = decoder.decode(data, final=start + len(data) >= status.st_size)
            data = data[: len(data) - len(decoder.getstate()[0])]
        else:
            data = b""
        end = start + len(data)
        media_type = _media_type(head, kind)
        size_bytes, modified = status.st_size, status.st_mtime
        return ShownFile(named, kind, media_type, size_bytes, modified, start, end, content)

    @contextmanager
    def _locate(
        self, path: str, *, is_folder: bool
    ) -> Iterator[tuple[str, RootedName, str, list[str]]]:
        """Yield the path as it was named, its place, the session's folder that has it, and the
        parts of the path below that folder.
        """
        named = os.path.normpath(os.path.join(self._cwd, path))
        try:
            with self._roots.locate(named) as place:
                top, way = self._way_to(place.path)
                if way and exclusion(top, way[:-1])(way[-1], is_folder):
                    raise NotAllowed("git or an .ignore file ignores it")
                yield named, place, top, way
        except NotAllowed as error:
            raise PermissionError(f"{path or '.'} is not shown: {error}") from error

    def _way_to(self, real: str) -> tuple[str, list[str]]:
        """Return the folder that a resolved path is in, and the names from there to it.

        The longest folder is found first, for one that is inside another one. Raises `NotAllowed`
        if there is none.
        """
        for folder in self._folders:
            if os.path.commonpath((real, folder)) == folder:
                rest = os.path.relpath(real, folder)
                return folder, [] if rest == "." else rest.split("/")
        raise NotAllowed("it is outside the folders of this session")


def _entries_of(fd: int) -> tuple[list[ShownEntry], bool]:
    """Return the entries of an open folder with names that can be shown."""
    found: list[ShownEntry] = []
    with os.scandir(fd) as scan:
        for entry in scan:
            if len(found) >= MAX_SHOWN_ENTRIES:
                return found, False
            if not entry.name.isprintable():
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it was removed in the meantime
            if stat.S_ISDIR(status.st_mode):
                found.append(ShownEntry(entry.name, "folder", 0))
            elif stat.S_ISLNK(status.st_mode):
                found.append(ShownEntry(entry.name, "link", 0))
            elif stat.S_ISREG(status.st_mode):
                found.append(ShownEntry(entry.name, "file", status.st_size))
    return found, True


def _media_type(head: bytes, kind: FileKind) -> str:
    """Return the media type. Only images that browsers show and plain text have one of their own.

    An SVG image is `text/plain`.
    """
    for start, media_type in IMAGE_TYPES:
        if head.startswith(start):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return "text/plain" if kind == "text" else "application/octet-stream"
