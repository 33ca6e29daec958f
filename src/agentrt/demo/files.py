"""The session's folders: resolving names to paths inside them, and reading, replacing and listing
files.

A name is resolved, including symbolic links, before it is compared with the folders; the last
component is then opened without following a link. A user who can swap folders in between can
already write inside the session's folders, and the agent runs with that user's rights.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

MAX_FILE_BYTES = 1024 * 1024
"""Size in bytes of the largest file that is read, edited or searched."""
MAX_LISTED_ENTRIES = 200
"""Entries of a folder that are shown."""


class FileRefused(Exception):
    """The work cannot be done; the message gives the reason in a sentence."""


def shown(name: str | os.PathLike[str]) -> str:
    """Return a file name as text that is always valid Unicode."""
    return os.fsencode(name).decode("utf-8", "replace")


class DemoFolder:
    """The working directory, and further folders that the client allowed."""

    def __init__(self, cwd: Path, further: Sequence[Path] = ()) -> None:
        self.cwd: Path = cwd.resolve()
        self._roots = (self.cwd, *(path.resolve() for path in further))

    def resolve(self, name: str) -> Path:
        """Return the real path of `name`. Raises `FileRefused` if it is outside the folders."""
        try:
            path = (self.cwd / os.path.expanduser(name)).resolve()
        except (OSError, RuntimeError, ValueError):
            raise FileRefused(f"`{name}` is not a path I can follow.") from None
        if not any(path.is_relative_to(root) for root in self._roots):
            raise FileRefused(f"`{name}` is outside the folder this session works in.")
        return path

    def relative(self, path: Path) -> str:
        """Return `path` as the user would write it."""
        return shown(path.relative_to(self.cwd)) if path.is_relative_to(self.cwd) else shown(path)


def read_bytes(path: Path, name: str) -> bytes:
    """Return a file's contents. Raises `FileRefused` if it cannot be read or is too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FileRefused(f"There is no file `{name}` here.") from None
    except OSError as error:
        raise FileRefused(f"I cannot open `{name}`: {error.strerror}.") from None
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        folder = f"a folder; `list {name}` shows its entries"
        raise FileRefused(
            f"`{name}` is {folder if stat.S_ISDIR(mode) else 'not an ordinary file'}."
        )
    with open(fd, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise FileRefused(f"`{name}` is larger than the {MAX_FILE_BYTES // 1024} KiB I read.")
    return data


def read_text(path: Path, name: str) -> str:
    """Return a text file's contents. Raises `FileRefused` if it cannot be read."""
    try:
        return read_bytes(path, name).decode()
    except UnicodeDecodeError:
        raise FileRefused(f"`{name}` is not UTF-8 text.") from None


def write_text(path: Path, name: str, before: str | None, after: str) -> None:
    """Replace `before` (None: a new file) with `after`, completely or not at all."""
    if before is not None and read_text(path, name) != before:
        raise FileRefused(f"`{name}` was changed in the meantime; I left it alone.")
    fresh = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    try:
        if before is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(after.encode())
        if before is None:
            os.link(
                fresh, path
            )  # unlike a rename, this never replaces a file created in the meantime
        else:
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
            fresh.replace(path)
    except OSError as error:
        raise FileRefused(f"I cannot write `{name}`: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            fresh.unlink()


def list_folder(path: Path, name: str) -> str:
    """Return a folder's entries as Markdown, folders first."""
    try:
        with os.scandir(path) as scan:
            entries = sorted(scan, key=lambda entry: (not entry.is_dir(), entry.name.lower()))
    except NotADirectoryError:
        raise FileRefused(f"`{name}` is a file; `read {name}` shows it.") from None
    except FileNotFoundError:
        raise FileRefused(f"There is no folder `{name}` here.") from None
    except OSError as error:
        raise FileRefused(f"I cannot list `{name}`: {error.strerror}.") from None
    if not entries:
        return f"`{name}` is empty."
    rows = [_row(entry) for entry in entries[:MAX_LISTED_ENTRIES]]
    if len(entries) > MAX_LISTED_ENTRIES:
        rows.append(f"\n… and {len(entries) - MAX_LISTED_ENTRIES} more.")
    return "\n".join(rows)


def _row(entry: os.DirEntry[str]) -> str:
    """Return an entry of a folder as a row; a link to nothing is named as such."""
    name = shown(entry.name)
    try:
        if entry.is_dir():
            return f"- `{name}/`"
        return f"- `{name}` {size(entry.stat().st_size)}"
    except OSError:
        return f"- `{name}` (a link to nothing)"


def size(count: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
