"""The user's decisions about project files, in a file of agentrt's own.

Nothing is written to the configuration of an agent: it would count for runs without agentrt, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ..._base.home import state_folder
from ..errors import FilesError


class TrustRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision about the files of a folder that one agent acts on."""

    folder: str
    """The folder, with symbolic links resolved."""
    agent: str
    """The name of the agent."""
    trusted: bool
    """True if the agent may act on the files; False if it must ignore them without a question."""
    digest: str
    """The digest of the files. The decision does not apply to other contents."""
    time: float
    """The time of the decision, in seconds since the Unix epoch."""
    tenant: str = ""
    """The tenant whose sessions it applies to; empty for sessions without one."""
    session: str = ""
    """The session in which the question was asked; empty for `agentrt trust add`."""
    by: str = ""
    """The party that decided, as in `PermissionClosed.by`, or `command`."""
    who: str = ""
    """As in `PermissionClosed.who`."""
    via: str = ""
    """As in `PermissionClosed.via`."""
    files: dict[str, str] = {}
    """The contents of the files by path, to show later differences."""


class TrustRecords:
    """The stored decisions. Several processes may use the same file. All methods block."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """`path`: the file. Default: `trust.json` in agentrt's state folder."""
        self.path: Path = state_folder() / "trust.json" if path is None else Path(path)

    def entries(self) -> list[TrustRecord]:
        """Return all decisions, by folder and agent. Raises `FilesError`."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FilesError(f"{self.path}: {error.strerror}") from error
        try:
            return msgspec.json.decode(data, type=list[TrustRecord])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise FilesError(
                f"{self.path} is damaged ({error}); remove the file to be asked again"
            ) from error

    def find(self, folder: str, agent: str, tenant: str = "") -> TrustRecord | None:
        """Return the decision about a folder, or None. Raises `FilesError`."""
        key = (os.path.realpath(folder), agent, tenant)
        return next((each for each in self.entries() if _key(each) == key), None)

    def put(self, *records: TrustRecord) -> None:
        """Store decisions, in the place of earlier ones. Raises `FilesError`."""
        keys = {_key(each) for each in records}
        self._change(lambda old: [*(each for each in old if _key(each) not in keys), *records])

    def remove(self, folder: str, agent: str | None = None) -> list[TrustRecord]:
        """Remove the decisions about a folder, of one agent or all, and return them.

        Raises `FilesError`.
        """
        real = os.path.realpath(folder)
        removed: list[TrustRecord] = []

        def change(old: list[TrustRecord]) -> list[TrustRecord]:
            """Note the removed decisions, and return the others."""
            removed.extend(
                each for each in old if each.folder == real and agent in (None, each.agent)
            )
            return [each for each in old if each not in removed]

        self._change(change)
        return removed

    def _change(self, change: Callable[[list[TrustRecord]], list[TrustRecord]]) -> None:
        """Replace the decisions by the result of a function; other processes wait for it."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                new = sorted(change(self.entries()), key=_key)
                self._write(msgspec.json.format(msgspec.json.encode(new)))
        except OSError as error:
            raise FilesError(f"{self.path}: the decision is not saved: {error}") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude other processes.

        It locks a separate file, because the file with the records is replaced.
        """
        with open(self.path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, data: bytes) -> None:
        """Replace the file at once, so that no reader finds a part of it."""
        fd, name = tempfile.mkstemp(dir=self.path.parent, prefix=".trust-")
        try:
            with open(fd, "wb") as file:
                file.write(data + b"\n")
                file.flush()
                os.fsync(fd)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _key(record: TrustRecord) -> tuple[str, str, str]:
    """Return the key of a decision. A newer one replaces the decision with the same key."""
    return (record.folder, record.agent, record.tenant)
