"""The user's home directory, with a fallback if there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NOWHERE = Path("/")
"""The directory that stands in for a missing home, as in a container image without one."""


def home_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the home directory of this user.

    A process may have neither a variable HOME nor an entry in the password database, for example in
    a container that runs under an arbitrary user id. `NOWHERE` is returned then: files there are
    not found, and storing one reports that it is not writable.
    """
    if given := env.get("HOME"):
        return Path(given)
    found = os.path.expanduser("~")
    return NOWHERE if found.startswith("~") else Path(found)


def state_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for data that agentrt remembers."""
    given = env.get("XDG_STATE_HOME")
    return (Path(given) if given else home_folder(env) / ".local" / "state") / "agentrt"
