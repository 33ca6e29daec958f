"""Paths that cannot be given to an agent."""

from __future__ import annotations

NO_CURRENT_FOLDER = "the current folder no longer exists; change to another one, or give a path"


def not_utf8(path: str) -> str:
    """Return why a path cannot be sent to an agent, or an empty string if it can."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return f"the path {path!r} is not valid UTF-8, so it cannot be sent to an agent; rename it"
    return ""
