"""The folders in which clients may open sessions."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .._base.home import home_folder
from ..lowlevel import CommandRefused


class Folders:
    """The allowed folders: `roots` and everything below them, following links; without roots, every
    folder.

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
    ) -> None:
        """Set the folders. `missing_ok`: roots may be folders of other servers, or be created
        later.
        """
        if isinstance(roots, str | os.PathLike):
            raise ValueError(f"roots must be a list of folders: roots=[{os.fspath(roots)!r}]")
        self._roots = tuple(os.path.realpath(root) for root in roots)
        for root in self._roots:
            if not missing_ok and not os.path.isdir(root):
                raise ValueError(f"{root} is not a folder")
        self._cwd = os.path.abspath(cwd if cwd is not None else next(iter(self._roots), "."))

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
            return named
        real = os.path.realpath(named)
        if not any(os.path.commonpath((real, root)) == root for root in self._roots):
            allowed = ", ".join(self._roots)
            raise CommandRefused(
                "forbidden", f"sessions are opened in {allowed}, not in {real} (--root)"
            )
        return real
