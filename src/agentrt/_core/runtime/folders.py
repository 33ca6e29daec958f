"""Checks of the folders that a session is opened with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..errors import LocalProtocolError

NO_CURRENT_FOLDER = "the current folder no longer exists; change to another one, or give a path"


def not_utf8(path: str) -> str:
    """Return why a path cannot be sent to an agent, or an empty string if it can."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return f"the path {path!r} is not valid UTF-8, so it cannot be sent to an agent; rename it"
    return ""


def folder(given: str | os.PathLike[str], what: str = "cwd", *, elsewhere: bool = False) -> str:
    """Return the absolute path of an existing folder.

    With `elsewhere` the agent runs on another machine: the path must be absolute, and is not looked
    up here. Raises `LocalProtocolError`, also for a path that is not UTF-8: every protocol sends
    it as text.
    """
    if not isinstance(given, str | os.PathLike):
        raise LocalProtocolError(f"{what}: must be a string or a path, not {type(given).__name__}")
    try:
        full = os.path.abspath(given)
    except FileNotFoundError:
        raise LocalProtocolError(f"{what}: {NO_CURRENT_FOLDER}") from None
    if not_utf8(full):
        raise LocalProtocolError(f"{what}: {not_utf8(full)}")
    if elsewhere and not os.path.isabs(given) and os.fspath(given) != ".":
        raise LocalProtocolError(
            f"{what}: must be an absolute path on the agent's machine, not {os.fspath(given)!r}"
        )
    if not elsewhere and not os.path.isdir(full):
        reason = "it is a file" if os.path.exists(full) else "create it first"
        raise LocalProtocolError(f"{what}: there is no folder {full!r}: {reason}")
    return full


def folders(given: Sequence[str | os.PathLike[str]], *, elsewhere: bool = False) -> tuple[str, ...]:
    """Return the absolute paths of `roots`. Raises as `folder`."""
    if isinstance(given, str | bytes | os.PathLike):
        raise LocalProtocolError(f"`roots` must be a list: [{given!r}]")
    if not isinstance(given, Iterable):
        raise LocalProtocolError(f"`roots` must be a list of folders, not {type(given).__name__}")
    return tuple(folder(each, "roots", elsewhere=elsewhere) for each in given)
