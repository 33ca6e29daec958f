"""The folders in which clients may open sessions."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .._home import home_folder
from .answers import Refused


class Folders:
    """`roots` and all that is below them, links followed; without any: everywhere. Folders that are
    not said in full are in `cwd`, by default the first root or this process's own. Raises
    `ValueError` for a root that is no folder.

    It keeps honest clients where they belong. Whoever may prompt an agent can have it look
    elsewhere: what an agent may do is another matter.
    """

    def __init__(
        self,
        roots: Iterable[str | os.PathLike[str]] = (),
        cwd: str | os.PathLike[str] | None = None,
        *,
        missing_ok: bool = False,
    ) -> None:
        """`missing_ok`: roots may be folders of other servers, or be made later."""
        if isinstance(roots, str | os.PathLike):
            raise ValueError(f"roots are several folders: give [{os.fspath(roots)!r}]")
        self._roots = tuple(os.path.realpath(root) for root in roots)
        for root in self._roots:
            if not missing_ok and not os.path.isdir(root):
                raise ValueError(f"{root} is no folder")
        self._cwd = os.path.abspath(cwd if cwd is not None else next(iter(self._roots), "."))

    def resolve(self, folder: str) -> str:
        """Return the folder that a client named; `~` is the home of this server's user.

        Raises `Refused`.
        """
        if "\0" in folder:
            raise Refused("bad_request", "a path cannot contain a null byte")
        if folder == "~" or folder.startswith("~/"):
            folder = f"{home_folder()}{folder[1:]}"
        named = os.path.abspath(os.path.join(self._cwd, folder))
        if not self._roots:
            return named
        real = os.path.realpath(named)
        if not any(os.path.commonpath((real, root)) == root for root in self._roots):
            allowed = ", ".join(self._roots)
            raise Refused("forbidden", f"sessions are opened in {allowed}, not in {real} (--root)")
        return real
