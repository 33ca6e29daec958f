"""The file of a trace: limited in size, readable by its owner only, shared by the writing programs.

`FILE` is the newest. When it is full it becomes `FILE.1`, the former `FILE.1` becomes `FILE.2`, and
so on. The program that renames files holds a lock; other programs notice that the name refers to a
new file, and continue there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from ..errors import TraceError

FILE_MODE = 0o600
WRITE_BYTES = 512 * 1024
"""Bytes of records that are written at a time."""
MAX_WRITE_PARTS = 256
"""Maximum number of parts in a write; a system accepts 1024."""
MAX_COPIED_BYTES = 96 * 1024
"""Maximum number of bytes that are copied into one buffer.

Larger writes use the original parts, because joining them needs new memory from the system.
"""


class TraceFile:
    """The file of a trace. Used by one thread at a time."""

    def __init__(
        self, path: str, *, max_bytes: int, files: int, header: Callable[[], bytes]
    ) -> None:
        """`header`: the first line that this program writes into a file. Raises `TraceError`."""
        self.path = path
        self._max_bytes = max_bytes
        self._files = files
        self._header = header
        self._torn = False
        """True if the last write was incomplete."""
        try:
            self._fd = self._open()
        except OSError as error:
            raise TraceError(_why(path, error)) from error

    def append(self, records: Iterable[Sequence[bytes | memoryview]]) -> None:
        """Write records, each given in parts.

        Raises `OSError`; the amount written is then unknown.
        """
        room = min(self._max_bytes - len(self._header()), WRITE_BYTES)
        together: list[bytes | memoryview] = []
        size = 0
        for parts in records:
            length = sum(map(len, parts))
            if together and (size + length > room or len(together) + len(parts) > MAX_WRITE_PARTS):
                self._append(together, size)
                together, size = [], 0
            together += parts  # a larger record gets its own file
            size += length
        if together:
            self._append(together, size)

    def _append(self, parts: list[bytes | memoryview], size: int) -> None:
        """Append parts of `size` bytes in total. Raises `OSError`.

        If the file was moved or deleted, a new one is opened; a full one is rotated. A write that
        failed leaves half a line, so the next one starts with a newline. Large parts are not
        copied.
        """
        if self._fd < 0 or not self._is_ours():
            self.close()
            self._fd = self._open()
        there = os.fstat(self._fd).st_size
        if there + size > self._max_bytes and there > len(self._header()):
            self._rotate()
        if self._torn:
            parts, size = [b"\n", *parts], size + 1
        self._torn = True
        if size > MAX_COPIED_BYTES:
            written = os.writev(self._fd, parts)
        else:
            parts = [b"".join(parts)]
            written = os.write(self._fd, parts[0])
        if written < size:
            rest = memoryview(b"".join(parts))[written:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        self._torn = False

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        """Open the file for appending, with access for this user only, and write a header.

        Raises `OSError` for a file that is no trace, no regular file, or belongs to another user:
        its content must not be changed.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(self.path, flags, FILE_MODE)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a file")
            if found.st_uid != os.geteuid():
                raise OSError(errno.EPERM, "it belongs to another user")
            if stat.S_IMODE(found.st_mode) != FILE_MODE:
                os.fchmod(fd, FILE_MODE)
            if found.st_size and not _is_trace(self.path):
                raise OSError(errno.EINVAL, "its content is not a trace")
            self._torn = False
            os.write(fd, self._header())
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _is_ours(self) -> bool:
        """Return True if the path still refers to the open file."""
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            return False
        mine = os.fstat(self._fd)
        return (named.st_ino, named.st_dev) == (mine.st_ino, mine.st_dev)

    def _rotate(self) -> None:
        """Rename the full file and its predecessors, and begin a new one.

        A lock on the file makes sure that one of several writers does it.
        """
        fcntl.flock(self._fd, fcntl.LOCK_EX)  # blocks other programs only for this short time
        if self._is_ours():
            for number in range(self._files - 1, 0, -1):
                before = self.path if number == 1 else f"{self.path}.{number - 1}"
                with suppress(FileNotFoundError):
                    os.replace(before, f"{self.path}.{number}")
            if self._files == 1:
                os.unlink(self.path)
        self.close()
        self._fd = self._open()


def _is_trace(path: str) -> bool:
    """Return True if a file begins with the header of a trace."""
    with open(path, "rb") as file:
        return b'"kind":"trace"' in file.read(200)


def _why(path: str, error: OSError) -> str:
    """Describe the error of a file, with the remedy."""
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return f"no trace can be written to {path!r}: there is no such folder; create it first"
    return f"no trace can be written to {path!r}: {reason}; give another file"
