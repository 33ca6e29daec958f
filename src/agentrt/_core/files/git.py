"""Running git on a repository of agentrt, isolated from every other configuration.

No setting of the user, the system or a project applies: no hooks, filters, monitors, signing or
text conversion. Functions here block; call them in a thread.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..errors import FilesError

_SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.safecrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.ignoreCase": "false",
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    "core.quotePath": "false",
    "core.looseCompression": "1",
    "core.bigFileThreshold": "64m",
    "commit.gpgSign": "false",
    "submodule.recurse": "false",
    "diff.external": "",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "maintenance.auto": "false",
}
"""Settings that win over those of any file."""
_PERSON: Final = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "agentrt"), ("EMAIL", "agentrt@localhost"))
}
_QUOTED_CHARS: Final = 400


def isolated_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which git reads no configuration but its repository's own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= _PERSON | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
        "LC_ALL": "C",
    }
    for place, (name, value) in enumerate(_SETTINGS.items()):
        env |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": value}
    return env | dict(extra)


def run_git(
    *words: str | bytes,
    cwd: str,
    env: Mapping[str, str],
    input: bytes = b"",
    timeout_s: float,
    accept: tuple[int, ...] = (0,),
) -> bytes:
    """Run git and return its output. Raises `FilesError` if it fails or takes too long."""
    name = os.fsdecode(words[0])
    try:
        ended = subprocess.run(
            ["git", *words],
            cwd=cwd,
            env=isolated_environment(env),
            input=input,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        if not os.path.isdir(cwd):
            raise FilesError(f"the folder {cwd} does not exist") from error
        raise FilesError(
            "git is not installed; it is needed for checkpoints and worktrees"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise FilesError(
            f"git {name} took longer than {timeout_s:g} s (limits.checkpoint_timeout_s)"
        ) from error
    except OSError as error:
        raise FilesError(f"git could not be started: {error}") from error
    if ended.returncode not in accept:
        said = ended.stderr.decode(errors="replace").strip()[:_QUOTED_CHARS]
        raise FilesError(f"git {name} failed: {said or f'exit status {ended.returncode}'}")
    return ended.stdout


def repository_root(folder: str) -> str | None:
    """Return the top folder of the repository around `folder`, without running git in it."""
    for each in (Path(folder), *Path(folder).parents):
        if os.path.lexists(each / ".git"):
            return str(each)
    return None


def git_folder(root: str) -> str | None:
    """Return the git directory of a working tree, from its `.git` directory or file."""
    path = os.path.join(root, ".git")
    if os.path.isdir(path):
        return path
    line = read_regular(path, 4096)
    if line is None or not line.startswith(b"gitdir: "):
        return None
    return os.path.join(root, os.fsdecode(line[8:].strip()))


def read_regular(path: str, most_bytes: int) -> bytes | None:
    """Return the content of a regular file, or None if it is missing, larger or something else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(most_bytes + 1)
        except OSError:
            return None
    return data if len(data) <= most_bytes else None
