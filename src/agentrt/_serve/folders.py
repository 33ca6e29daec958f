"""The folders in which clients may open sessions."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from .._base.home import home_folder
from ..lowlevel import CommandRefused


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


def _hides(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return True if a pattern would hide a path, or a folder above it, in some folder above."""
    names = [each for each in pattern if each not in ("", ".")]
    return any(
        _matches(names, parts[start:end])
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
    )


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(pattern[1:], parts[skipped:]) for skipped in range(len(parts) + 1))
    return (
        bool(parts)
        and fnmatch.fnmatchcase(parts[0], pattern[0])
        and _matches(pattern[1:], parts[1:])
    )
