"""The folders in which clients may open sessions."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath
from typing import Final

from .._base.home import home_folder
from ..lowlevel import CommandRefused

MAX_PATH_CHARS: Final = 4096
"""Characters of a path: the system accepts no more bytes. Resolving one takes their square."""
MAX_FOLDERS: Final = 32
"""Further folders that a command can name."""


class Folders:
    """The allowed folders: `roots` and everything below them, following links; without roots, every
    folder, or none (`needs_roots`).

    Relative paths are resolved in `cwd`, by default the first root or the current folder of this
    process. Raises `ValueError` for a root that is not a folder.

    This keeps honest clients in their folders. A client that may prompt an agent can make the agent
    access other folders: the agent's permissions are a separate matter.
    """

    def __init__(
        self,
        roots: Iterable[str | os.PathLike[str]] = (),
        cwd: str | os.PathLike[str] | None = None,
        *,
        missing_ok: bool = False,
        needs_roots: str = "",
        hidden: Sequence[str] = (),
    ) -> None:
        """Set the folders. `missing_ok`: roots may be folders of other servers, or be created
        later. `needs_roots`: the reason why no folder is allowed without roots. `hidden`: patterns
        of paths, as in `Sandbox.hide`, that are not allowed in any folder below a root.
        """
        if isinstance(roots, str | os.PathLike):
            raise ValueError(f"roots must be a list of folders: roots=[{os.fspath(roots)!r}]")
        self._needs_roots = needs_roots
        self._hidden = tuple(hidden)
        self._roots = tuple(os.path.realpath(root) for root in roots)
        for root in self._roots:
            if not missing_ok and not os.path.isdir(root):
                raise ValueError(f"{root} is not a folder")
        self._cwd = os.path.abspath(cwd if cwd is not None else next(iter(self._roots), "."))

    @property
    def roots(self) -> tuple[str, ...]:
        """The real paths of the roots."""
        return self._roots

    def resolve(self, folder: str) -> str:
        """Return the folder that a client named; `~` is the home of this server's user.

        Raises `CommandRefused`.
        """
        if "\0" in folder:
            raise CommandRefused("bad_request", "a path cannot contain a null byte")
        if len(folder) > MAX_PATH_CHARS:
            raise CommandRefused(
                "bad_request",
                f"a path has at most {MAX_PATH_CHARS} characters, not {len(folder)}",
            )
        if folder == "~" or folder.startswith("~/"):
            folder = f"{home_folder()}{folder[1:]}"
        named = os.path.abspath(os.path.join(self._cwd, folder))
        if not self._roots:
            if self._needs_roots:
                raise CommandRefused("forbidden", self._needs_roots)
            return named
        real = os.path.realpath(named)
        around = [root for root in self._roots if os.path.commonpath((real, root)) == root]
        for root in around:
            parts = PurePath(real).relative_to(root).parts
            if any(_hides(each.split("/"), parts) for each in self._hidden):
                raise CommandRefused("forbidden", f"{real} is hidden by the server's sandbox")
        if not around:
            allowed = ", ".join(self._roots)
            raise CommandRefused(
                "forbidden", f"sessions are opened in {allowed}, not in {real} (--root)"
            )
        return real

    def resolve_all(self, folders: Collection[str]) -> list[str]:
        """Return the further folders that a client named. Raises `CommandRefused`."""
        if len(folders) > MAX_FOLDERS:
            raise CommandRefused(
                "bad_request", f"at most {MAX_FOLDERS} further folders, not {len(folders)}"
            )
        return [self.resolve(each) for each in folders]


def _hides(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return True if a pattern would hide a path, or a folder above it, in some folder above.

    A match can begin and end at any part, so `reached` has all positions in the pattern that the
    parts so far can lead to: the time is proportional to their number.
    """
    names = [each for each in pattern if each not in ("", ".")]
    reached: set[int] = set()
    for part in parts:
        before = _with_empty(names, reached | {0})
        reached = {at for at in before if at < len(names) and names[at] == "**"}
        reached |= {
            at + 1
            for at in before
            if at < len(names) and names[at] != "**" and fnmatch.fnmatchcase(part, names[at])
        }
        if len(names) in _with_empty(names, reached):
            return True
    return False


def _with_empty(names: Sequence[str], reached: set[int]) -> set[int]:
    """Add the positions behind each `**`, which also stands for no part."""
    found = set(reached)
    for at, name in enumerate(names):
        if at in found and name == "**":
            found.add(at + 1)
    return found
