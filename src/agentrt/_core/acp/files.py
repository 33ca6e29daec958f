"""File access for the agent: `fs/read_text_file` and `fs/write_text_file`, within the session's
roots, the folders that it may reach through its client.

A path is walked part by part, each opened relative to the previous folder and never through a link:
links are read, and their targets walked by the same steps. Nothing is checked first and opened
later, so a link that is swapped in between leads nowhere else. (Linux has `openat2` for this;
Python does not.) The functions of `Roots` block, because file systems may be slow: they are called
in a worker thread.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from io import BytesIO
from itertools import islice
from typing import Final, Protocol, TypeVar

import msgspec
import trio

from ..errors import RequestError
from ..limits import Limits
from ..model.content import JsonObject
from ..process.chosen import LAYER
from ..project_files import protected_file
from ..wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from .messages import NOT_FOUND_CODE, ReadTextFileRequest, WriteTextFileRequest

MAX_LINKS: Final = 40
"""Links that a path may lead through, as in the kernel."""

MAX_PATH_PARTS: Final = 200
"""Limit on the parts of a path: as many descriptors are open for a moment."""

_FOLDER: Final = LAYER.folder_flag | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class NotAllowed(Exception):
    """The path leads to a place that the agent may not access; the message gives the reason."""


class PathBarrier(Protocol):
    """The paths that a sandbox withholds from the agent, also inside the session's folders."""

    def hides(self, path: str) -> bool:
        """Return True if the agent cannot see this real path."""
        ...

    def protects(self, path: str) -> bool:
        """Return True if the agent cannot write this real path."""
        ...

    @property
    def granted_paths(self) -> Sequence[str]:
        """The real paths outside the session's folders to which access was given."""
        ...

    async def admit(self, path: str, *, writing: bool) -> str:
        """Wait until access to a path is given. Raises `AccessRefused`."""
        ...


class RootedName:
    """A name in an open folder: the target of a path, which may not exist."""

    def __init__(self, folder: int, name: str, path: str = "") -> None:
        """Name a place. `folder` stays open only as long as the walk that led here."""
        self.folder = folder
        self.name = name
        self.path = path
        """The absolute path, without links; empty for a name that was not walked to."""

    def stat(self) -> os.stat_result:
        """Return the status of the file or link at this place. Raises `OSError`."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def open(self, flags: int, mode: int = 0o666) -> int:
        """Open the file at this place and return its descriptor, without blocking or following a
        link.

        Raises `OSError`.
        """
        return os.open(self.name, flags | _SAFE, mode, dir_fd=self.folder)


class Roots:
    """Some folders and everything below them."""

    def __init__(
        self,
        folders: Sequence[str],
        barrier: PathBarrier | None = None,
        *,
        targets: Sequence[str] | None = None,
    ) -> None:
        """Create roots from the absolute paths of folders.

        `barrier`: the sandbox around the agent, which withholds further paths. `targets`: the real
        paths of the folders at an earlier moment.

        The targets of the paths at that moment, or else at this one, count, also if the paths later
        lead to other folders; an agent may use either form of a path. Below a folder that does not
        exist nothing can be located, and `check` compares paths by their text alone.
        """
        self._roots: list[tuple[list[str], list[str]]] = []
        reals = map(os.path.realpath, folders) if targets is None else targets
        for folder, target in zip(folders, reals, strict=True):
            real = _split(target)
            self._roots += [(real, real), (_split(os.path.normpath(folder)), real)]
        self._roots.sort(key=lambda root: len(root[0]), reverse=True)
        self._pseudo = _pseudo_systems()
        self._barrier = barrier

    async def admit(self, path: str, *, writing: bool) -> None:
        """Ask for access to a path outside the folders, if there is a sandbox that can be asked.

        Raises `NotAllowed` if access is refused. Otherwise `locate` decides.
        """
        await trio.lowlevel.checkpoint()
        if self._barrier is None or not path.startswith("/") or self._own_root_of(path):
            return
        from ..sandbox.access import AccessRefused  # most sessions have no sandbox

        try:
            await self._barrier.admit(path, writing=writing)
        except AccessRefused as error:
            raise NotAllowed(str(error)) from error

    @contextmanager
    def locate(self, path: str, *, writing: bool = False) -> Iterator[RootedName]:
        """Yield the place that an absolute path leads to, for the duration of the block.

        `writing`: create missing folders on the way, and refuse a protected file
        (`_core/project_files`). If the block raises, the created folders are removed again.

        Raises `NotAllowed`, or `OSError` for a part that is missing or not a folder.
        """
        walk = _RootWalk(writing=writing, barrier=self._barrier)
        try:
            walk.restart(*self._root_of(path))
            while (target := walk.step()) is not None:
                if target.startswith("/"):
                    walk.restart(*self._root_of(target))
                else:
                    walk.follow(target)
            for folder in walk.folders:
                if os.fstat(folder).st_dev in self._pseudo:
                    raise NotAllowed("it is not a file, but a view into the kernel")
            yield RootedName(walk.folders[-1], walk.name, walk.path)
        except BaseException:
            walk.unmake()
            raise
        finally:
            walk.close()

    def check(self, path: str, *, writing: bool = False) -> None:
        """Check that a path may be read or written. Raises like `locate`.

        Nothing is created, and a missing part is not an error.
        """
        walk = _RootWalk(writing=writing, makes=False, barrier=self._barrier)
        try:
            walk.restart(*self._root_of(path))
            while (target := walk.step()) is not None:
                if target.startswith("/"):
                    walk.restart(*self._root_of(target))
                else:
                    walk.follow(target)
        except FileNotFoundError:
            walk.check_rest()
        finally:
            walk.close()

    def open_folder(self, path: str) -> int:
        """Open an existing folder and return its descriptor, which the caller must close.

        Raises like `locate`.
        """
        with self.locate(path) as place:
            return os.open(place.name, _FOLDER, dir_fd=place.folder)

    def _own_root_of(self, path: str) -> tuple[list[str], list[str]] | None:
        """Return the real root that a path begins with and the parts below it, or None.

        The longest root wins. A path can be written with the folder's real path or with the given
        one.
        """
        parts = _split(path)
        for written, real in self._roots:
            if parts[: len(written)] == written:
                return real, parts[len(written) :]
        return None

    def _root_of(self, path: str) -> tuple[list[str], list[str]]:
        """Return the root that a path begins with, and the remaining path."""
        if not path.startswith("/"):
            raise NotAllowed("the path is not absolute")
        if (own := self._own_root_of(path)) is not None:
            return own
        parts = _split(path)
        granted = () if self._barrier is None else self._barrier.granted_paths
        for real in map(_split, granted):
            if parts[: len(real)] == real and os.path.isdir("/" + "/".join(real)):
                return real, parts[len(real) :]
            if parts == real:
                return real[:-1], real[-1:]
        raise NotAllowed("it is outside the folders of this session")


class _RootWalk:
    """A walk from a root to a place."""

    def __init__(
        self, *, writing: bool, makes: bool = True, barrier: PathBarrier | None = None
    ) -> None:
        """Begin a walk; `restart` gives it a root.

        `makes`: create missing folders while writing. `barrier`: see `Roots`.
        """
        self.folders: list[int] = []
        """The open folders from the root on; the last one is the current folder."""
        self.name = "."
        self._writing = writing
        self._barrier = barrier
        self._root: list[str] = []
        self._makes = writing and makes
        self._way: list[str] = []
        """The names of the open folders below the root."""
        self._made: list[tuple[int, str]] = []
        """Folders that were created, each by its parent's descriptor and its name."""
        self._links = 0
        self._parts: list[str] = []
        """The remaining parts of the path, the next part last."""

    @property
    def path(self) -> str:
        """The absolute path of the current place, without links."""
        names = [] if self.name == "." else [self.name]
        return "/" + "/".join((*self._root, *self._way, *names))

    def restart(self, root: list[str], parts: list[str]) -> None:
        """Continue at a root, and then along `parts`."""
        self._leave()
        self._way = []
        self._root = root
        self._push(parts)  # if the root itself is missing, the rest must still be checked
        self.folders = [os.open("/", _FOLDER)]
        for name in root:
            self._enter(name)
            os.close(self.folders.pop(0))

    def follow(self, target: str) -> None:
        """Continue along a relative link target, before the remaining path."""
        self._push(_split(target))

    def step(self) -> str | None:
        """Walk to the next link and return its target, or None at the end of the walk."""
        while self._parts:
            name = self._parts.pop()
            if name == "..":
                if len(self.folders) == 1:
                    raise NotAllowed("it leads out of the folders of this session")
                os.close(self.folders.pop())
                self._way.pop()
                continue
            try:
                return self._read_link(name)
            except OSError as error:
                # EINVAL: not a link. ENOENT: nothing there, which the caller handles.
                if error.errno not in (errno.EINVAL, errno.ENOENT):
                    raise
            self._check_guarded((*self._way, name))
            if not self._parts:
                self.name = name
                return None
            self._enter_or_make(name)
            self._way.append(name)
        return None

    def check_rest(self) -> None:
        """Check the missing part of the path by its text."""
        way = list(self._way)
        for name in reversed(self._parts):
            if name == "..":
                raise NotAllowed("it leads back out of a folder that is missing")
            way.append(name)
            self._check_guarded(way)

    def _check_guarded(self, way: Sequence[str]) -> None:
        """Raise if the sandbox hides the place, or if it must not be written.

        A hidden place is reported as missing, as it is for the agent itself.
        """
        if self._writing and (name := protected_file(way)) is not None:
            raise NotAllowed(
                f"agents may not write {name}, which can start programs without asking"
            )

        if self._barrier is not None:
            real = "/" + "/".join((*self._root, *way))
            if self._barrier.hides(real):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), real)
            if self._writing and self._barrier.protects(real):
                raise NotAllowed("the sandbox of this session makes it read-only")

    def unmake(self) -> None:
        """Remove the created folders, unless something was put into them in the meantime."""
        for parent, name in reversed(self._made):
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)

    def close(self) -> None:
        """Close all folders that are open."""
        self._leave()
        while self._made:
            os.close(self._made.pop()[0])

    def _leave(self) -> None:
        """Close the folders of the way so far."""
        while self.folders:
            os.close(self.folders.pop())

    def _push(self, parts: list[str]) -> None:
        """Put parts in front of the remaining path.

        Raises `NotAllowed` if the path becomes too long.
        """
        self._parts += reversed(parts)
        if len(self._parts) + len(self.folders) > MAX_PATH_PARTS:
            raise NotAllowed(f"the path has more than {MAX_PATH_PARTS} parts")

    def _read_link(self, name: str) -> str:
        """Return the target of a link.

        Raises `OSError` with `EINVAL` if the place is not a link.
        """
        target = os.readlink(name, dir_fd=self.folders[-1])
        self._links += 1
        if self._links > MAX_LINKS:
            raise NotAllowed(f"it leads through more than {MAX_LINKS} links")
        return target

    def _enter_or_make(self, name: str) -> None:
        """Enter a folder, and create it if it is missing and may be created.

        Otherwise its name stays in the remaining path, so that `check_rest` sees it.
        """
        try:
            self._enter(name)
        except FileNotFoundError:
            if not self._makes:
                self._parts.append(name)
                raise
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(name, dir_fd=self.folders[-1])
                self._made.append((os.dup(self.folders[-1]), name))
            self._enter(name)

    def _enter(self, name: str) -> None:
        """Open a folder relative to the current one, never through a link."""
        self.folders.append(os.open(name, _FOLDER, dir_fd=self.folders[-1]))


@cache
def _pseudo_systems() -> frozenset[int]:
    """Return the devices of the file systems that are views into the kernel."""
    systems = ("/proc", "/sys")
    return frozenset(os.stat(system).st_dev for system in systems if os.path.ismount(system))


def _split(path: str) -> list[str]:
    """Return the parts of a path, without empty ones and `.`; `..` is kept."""
    return [part for part in path.split("/") if part not in ("", ".")]


T = TypeVar("T")

MAX_FILE_THREADS: Final = 4
"""Concurrent file operations per session: more would only wait for the same disk."""


async def _at_once() -> None:
    """Accept a response of any size immediately; only a checkpoint."""
    await trio.lowlevel.checkpoint()


class FileService:
    """Serves an ACP agent's file requests.

    Only regular files with UTF-8 text of at most `limits.file_bytes` bytes inside the roots are
    read or written.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        limits: Limits | None = None,
        ready: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        """Create a host for the files within `roots`.

        `ready` waits until the agent accepts a response of a file's size, so that file contents do
        not pile up in memory.
        """
        self._roots = roots
        self._limit = (limits or Limits()).file_bytes
        self._ready = ready
        self._places = trio.Semaphore(MAX_FILE_THREADS)
        self._threads = trio.CapacityLimiter(MAX_FILE_THREADS)

    async def handle(self, method: str, params: JsonObject) -> JsonObject:
        """Serve a request, named by its ACP method, and return its result. Raises `RequestError`.

        Cancellation takes effect only after the file operation has finished; a write is then
        complete.
        """
        match method:
            case "fs/read_text_file":
                read = parse(params, ReadTextFileRequest)
                await self._admit(read.path, writing=False)
                async with self._places:
                    content = await self._in_thread(
                        read.path, partial(self._read, read.path, read.line, read.limit)
                    )
                    await (
                        self._ready()
                    )  # in the semaphore, so that no other file is read in the meantime
                return {"content": content}
            case "fs/write_text_file":
                write = parse(params, WriteTextFileRequest)
                await self._admit(write.path, writing=True)
                await self._in_thread(write.path, partial(self._write, write.path, write.content))
                return {}
            case _:
                raise RequestError(METHOD_NOT_FOUND, f"{method} is not supported")

    async def _admit(self, path: str, *, writing: bool) -> None:
        """Ask for access to a path outside the roots. Raises `RequestError`."""
        with reported(path):
            await self._roots.admit(path, writing=writing)

    async def _in_thread(self, path: str, function: Callable[[], T]) -> T:
        """Run a file operation in one of the session's threads. Raises `RequestError`."""
        with reported(path):
            return await trio.to_thread.run_sync(function, limiter=self._threads)

    def _read(self, path: str, line: int | None, limit: int | None) -> str:
        """Read a text file, or `limit` lines from `line` on (counted from 1). Blocks.

        The file is read up to the limit plus one byte, so that a growing file is noticed as well.
        """
        with (
            self._roots.locate(path) as place,
            open(open_regular(place, os.O_RDONLY), "rb") as file,
        ):
            data = file.read(self._limit + 1)
        if len(data) > self._limit:
            raise NotAllowed(f"the file is larger than {self._limit} bytes")
        try:
            return cut(data, line, limit).decode()
        except UnicodeDecodeError as error:
            raise NotAllowed(f"it is not UTF-8 text ({error.reason})") from error

    def _write(self, path: str, content: str) -> None:
        """Write a text file atomically if possible. Blocks.

        A file that cannot be replaced, for example because its folder is not writable, is
        overwritten in place, unless it has another hard link: that name may be outside the roots.
        """
        data = content.encode()
        if len(data) > self._limit:
            raise NotAllowed(f"the content is larger than {self._limit} bytes")
        with self._roots.locate(path, writing=True) as place:
            try:
                # Replacing a file needs no write permission on it; opening it does.
                fd = open_regular(place, os.O_WRONLY)
            except FileNotFoundError:
                _replace(place, data, None)
                return
            old = os.fstat(fd)
            try:
                _replace(place, data, old, _attributes(fd))
            except OSError as error:
                # With another hard link, the file may also be outside the roots.
                if error.errno not in _IRREPLACEABLE or old.st_nlink > 1:
                    raise
                _overwrite(fd, data)
            finally:
                os.close(fd)


def open_regular(place: RootedName, flags: int) -> int:
    """Open a regular file and return its descriptor, which the caller must close.

    Raises `OSError`, or `NotAllowed` for anything else than a regular file.
    """
    # Check before opening, because opening alone may wake a process that waits on a FIFO or a
    # device. Check again afterwards, because the file may have been replaced in between.
    _check_regular(place.stat())
    fd = place.open(flags)
    try:
        _check_regular(os.fstat(fd))
    except NotAllowed:
        os.close(fd)
        raise
    return fd


def _check_regular(status: os.stat_result) -> None:
    """Raise `NotAllowed` for anything but a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise NotAllowed("it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise NotAllowed("it is not a regular file")


def _replace(
    place: RootedName, data: bytes, old: os.stat_result | None, attributes: Mapping[str, bytes] = {}
) -> None:
    """Replace a file atomically, keeping the owner and mode of `old`: no reader sees a partial
    file.

    Raises `OSError` if that is not possible.
    """
    new = RootedName(place.folder, f".agentrt-{secrets.token_hex(8)}")
    fd = new.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                os.fchown(fd, old.st_uid, old.st_gid)
                os.fchmod(fd, stat.S_IMODE(old.st_mode))
                if sys.platform == "linux":
                    for name, value in attributes.items():
                        os.setxattr(fd, name, value)
        os.replace(new.name, place.name, src_dir_fd=new.folder, dst_dir_fd=place.folder)
    except BaseException:
        os.unlink(new.name, dir_fd=new.folder)
        raise


def _attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file, such as its access control list."""
    if sys.platform != "linux":
        return {}
    try:
        return {name: os.getxattr(fd, name) for name in os.listxattr(fd)}
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return {}


def _overwrite(fd: int, data: bytes) -> None:
    """Overwrite an open file. If the disk is full, part of the old content may follow the new."""
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
        file.truncate()


def cut(data: bytes, line: int | None, limit: int | None) -> bytes:
    """Return at most `limit` lines of a file, beginning with line number `line`."""
    if line is None and limit is None:
        return data
    first = min(max(line or 1, 1) - 1, len(data))
    count = len(data) if limit is None else min(max(limit, 0), len(data))
    return b"".join(islice(BytesIO(data), first, first + count))


def parse(params: JsonObject, kind: type[T]) -> T:
    """Convert a request's parameters. Raises `RequestError` if they are invalid."""
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise RequestError(INVALID_PARAMS, f"Invalid parameters: {error}") from error


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Convert file system errors about a path into the `RequestError` for the agent."""
    try:
        yield
    except NotAllowed as error:
        raise RequestError(INVALID_PARAMS, f"{path:.500}: {error}") from error
    except FileNotFoundError as error:
        raise RequestError(
            NOT_FOUND_CODE, f"{path:.500}: there is no such file or folder"
        ) from error
    except ValueError as error:  # a NUL, or half a character
        why = "a path cannot contain a null byte" if "\0" in path else str(error)
        raise RequestError(INVALID_PARAMS, f"{path!r:.500}: {why}") from error
    except OSError as error:
        code = INVALID_PARAMS if error.errno in _IMPOSSIBLE else INTERNAL_ERROR
        raise RequestError(code, f"{path:.500}: {error.strerror}") from error


_IRREPLACEABLE: Final = {
    # no file can be created in its folder, or given its owner
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    # its owner does not exist in this container
    errno.EINVAL,
    errno.EOVERFLOW,
    # the file is a mount point
    errno.EBUSY,
    errno.EXDEV,
    # its attributes cannot be kept
    errno.ENOTSUP,
}
"""Errors after which a writable file is overwritten instead of replaced."""

_IMPOSSIBLE: Final = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO}
"""Errors that neither free disk space nor permissions could fix."""
