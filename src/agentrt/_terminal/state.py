"""What agentrt itself remembers from one conversation to the next, folder by folder.

Nothing of what was said: the prompts of a folder for its history (`screen/history.py`), and which
sessions were held there, for agents that keep no list of their own. Losing it costs convenience.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from .._home import home_folder
from .._session.agent_sessions import AgentSession

MOST: Final = 200
"""Sessions of a folder that are remembered."""

_decode = msgspec.json.Decoder(AgentSession).decode


def state_folder() -> Path:
    """Where agentrt keeps what it remembers."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else home_folder() / ".local" / "state") / "agentrt"


def private_file(kind: str, cwd: str) -> Path:
    """The file of a folder, there and readable for nobody else. Raises `OSError`."""
    folder = os.path.realpath(cwd)
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    path = state_folder() / kind / f"{os.path.basename(folder) or 'root'}-{digest}"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return path


def remembered(cwd: str) -> list[AgentSession]:
    """The sessions that were held in a folder, the newest first."""
    try:
        lines = private_file("sessions", cwd).read_bytes().splitlines()
    except OSError:
        return []
    newest: dict[tuple[str, str], AgentSession] = {}
    for line in reversed(lines):
        try:
            stored = _decode(line)
        except msgspec.DecodeError:
            continue  # half a line, of a disk that was full
        newest.setdefault((stored.agent, stored.id), stored)
    return sorted(newest.values(), key=lambda each: each.updated or 0, reverse=True)


def remember(stored: AgentSession, cwd: str) -> None:
    """Take note of a session: a line more, which counts instead of an older one. Where there is no
    place for it, it is forgotten."""
    try:
        path = private_file("sessions", cwd)
        with open(path, "ab") as file:
            file.write(msgspec.json.encode(stored) + b"\n")
            long = file.tell() > MOST * 400
        if long:
            kept = remembered(cwd)[:MOST]
            new = path.with_suffix(".new")
            new.touch(0o600)
            new.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in kept[::-1]))
            new.replace(path)
    except OSError:
        pass
