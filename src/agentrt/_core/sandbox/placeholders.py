"""Files of git that are created for the time of a session, so that an agent cannot create them.

If `.git/commondir` exists, git reads the configuration and the hooks from the folder that it names.
A file that is missing cannot be protected in the view inside, so it is created with a content that
changes nothing. Each session holds a lock on it, in this process or another one; the last of them
removes it. The kernel drops the locks of a process that is killed, and the next session removes the
file then.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from typing import Final

COMMON_DIR: Final = "commondir"
_CONTENT: Final = b".\n"
_ATTEMPTS: Final = 20
_PAUSE_S: Final = 0.01


class Placeholders:
    """The files that one session holds. Close it when nothing runs inside any more."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def hold(self, git: str) -> None:
        """Create `commondir` in a repository, unless it has one of its own. Blocks for at most some
        tenths of a second.

        `git`: the folder with the repository's objects.

        Raises OSError, also if another program holds a lock on the file.
        """
        path = os.path.join(git, COMMON_DIR)
        if path in self._held or sys.platform != "linux":
            return
        import fcntl

        for _ in range(_ATTEMPTS):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(path, flags, 0o644)
            try:
                try:
                    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:  # perhaps another session is removing it
                    time.sleep(_PAUSE_S)
                    continue
                status = os.fstat(fd)
                if not status.st_nlink:  # another session has removed it in the meantime
                    continue
                if not status.st_size:
                    os.pwrite(fd, _CONTENT, 0)
                if stat.S_ISREG(status.st_mode) and os.pread(fd, 4096, 0) == _CONTENT:
                    self._held[path] = os.dup(fd)
                return
            finally:
                os.close(fd)
        raise OSError(f"{path} is locked by another program")

    def close(self) -> None:
        """Remove the files that no other session holds."""
        for path, fd in self._held.items():
            with contextlib.suppress(OSError):
                self._remove(path, fd)
            os.close(fd)
        self._held.clear()

    def _remove(self, path: str, fd: int) -> None:
        """Remove a file. Raises `BlockingIOError` if another session has a lock on it."""
        if sys.platform == "linux":
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
