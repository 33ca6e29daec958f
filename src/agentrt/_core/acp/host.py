"""File access for the agent: `fs/read_text_file` and `fs/write_text_file`, within the session's
roots.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Final, TypeVar

import msgspec
import trio

from ..errors import RequestError
from ..limits import Limits
from ..model.content import JsonObject
from ..wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from .messages import NOT_FOUND_CODE, ReadTextFileRequest, WriteTextFileRequest
from .roots import NotAllowed, RootedName, Roots

T = TypeVar("T")

MAX_FILE_THREADS: Final = 4
"""Concurrent file operations per session: more would only wait for the same disk."""


async def _at_once() -> None:
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
                await self._in_thread(write.path, partial(self._write, write.path, write.content))
                return {}
            case _:
                raise RequestError(METHOD_NOT_FOUND, f"{method} is not supported")

    async def _in_thread(self, path: str, function: Callable[[], T]) -> T:
        with reported(path):
            return await trio.to_thread.run_sync(function, limiter=self._threads)

    def _read(self, path: str, line: int | None, limit: int | None) -> str:
        with (
            self._roots.locate(path) as place,
            open(_open_regular(place, os.O_RDONLY), "rb") as file,
        ):
            data = file.read(self._limit + 1)
        if len(data) > self._limit:
            raise NotAllowed(f"the file is larger than {self._limit} bytes")
        try:
            return cut(data, line, limit).decode()
        except UnicodeDecodeError as error:
            raise NotAllowed(f"it is not UTF-8 text ({error.reason})") from error

    def _write(self, path: str, content: str) -> None:
        data = content.encode()
        if len(data) > self._limit:
            raise NotAllowed(f"the content is larger than {self._limit} bytes")
        with self._roots.locate(path, writing=True) as place:
            try:
                # Replacing a file needs no write permission on it; opening it does.
                fd = _open_regular(place, os.O_WRONLY)
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


def _open_regular(place: RootedName, flags: int) -> int:
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
                for name, value in attributes.items():
                    os.setxattr(fd, name, value)
        os.replace(new.name, place.name, src_dir_fd=new.folder, dst_dir_fd=place.folder)
    except BaseException:
        os.unlink(new.name, dir_fd=new.folder)
        raise


def _attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file, such as its access control list."""
    if not hasattr(os, "listxattr"):
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
    # the file is a mount point
    errno.EBUSY,
    errno.EXDEV,
    # its attributes cannot be kept
    errno.ENOTSUP,
}
"""Errors after which a writable file is overwritten instead of replaced."""

_IMPOSSIBLE: Final = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO}
"""Errors that neither free disk space nor permissions could fix."""
