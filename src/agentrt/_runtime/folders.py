"""The folders that a session is opened with, checked where they are given."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .._errors import LocalProtocolError


def folder(given: str | os.PathLike[str], what: str = "cwd", *, elsewhere: bool = False) -> str:
    """A folder that is there, by its full name; one of another machine is not looked for. Raises
    `LocalProtocolError`."""
    if not isinstance(given, str | os.PathLike):
        raise LocalProtocolError(
            f"{what}: a folder is a string or a path, not {type(given).__name__}"
        )
    full = os.path.abspath(given)
    if not elsewhere and not os.path.isdir(full):
        reason = "it is a file" if os.path.exists(full) else "create it first"
        raise LocalProtocolError(f"{what}: there is no folder {full!r}: {reason}")
    return full


def folders(given: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The roots beside `cwd`; as `folder`."""
    if isinstance(given, str | bytes | os.PathLike):
        raise LocalProtocolError(f"roots are several folders: give [{given!r}]")
    return tuple(folder(each, "roots") for each in given)
