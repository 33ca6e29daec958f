"""The folders that a session is opened with, checked where they are given."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from .._errors import LocalProtocolError


def folder(given: str | os.PathLike[str], what: str = "cwd", *, elsewhere: bool = False) -> str:
    """A folder that is there, by its full name; one of another machine is not looked for, and a
    name of it that begins nowhere means nothing here. Raises `LocalProtocolError`."""
    if not isinstance(given, str | os.PathLike):
        raise LocalProtocolError(
            f"{what}: a folder is a string or a path, not {type(given).__name__}"
        )
    full = os.path.abspath(given)
    if elsewhere and not os.path.isabs(given) and os.fspath(given) != ".":
        raise LocalProtocolError(
            f"{what}: a folder where the agent is has a full name: {os.fspath(given)!r} is none"
        )
    if not elsewhere and not os.path.isdir(full):
        reason = "it is a file" if os.path.exists(full) else "create it first"
        raise LocalProtocolError(f"{what}: there is no folder {full!r}: {reason}")
    return full


def folders(given: Sequence[str | os.PathLike[str]], *, elsewhere: bool = False) -> tuple[str, ...]:
    """The roots beside `cwd`; as `folder`."""
    if isinstance(given, str | bytes | os.PathLike):
        raise LocalProtocolError(f"roots are several folders: give [{given!r}]")
    if not isinstance(given, Iterable):
        raise LocalProtocolError(f"roots are a list of folders, not {type(given).__name__}")
    return tuple(folder(each, "roots", elsewhere=elsewhere) for each in given)
