"""The weaker mechanism of a sandbox, for machines on which bubblewrap does not work: Landlock and a
filter of system calls, without namespaces.

Landlock restricts a process and everything that it starts to listed files and TCP ports, and needs
no privileges. It cannot make an exception inside a folder that can be written, give a program a
view of its own, or restrict the modes of files and the sockets of services. `join.py` applies it.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from ..errors import SandboxUnavailable
from .places import is_below
from .policy import Sandbox
from .view import SandboxView

MIN_VERSION: Final = 6
"""The version that restricts signals and abstract sockets: that of Linux 6.12."""

KERNEL: Final = "update to Linux 6.12, and start it with `landlock` in its parameter `lsm=`"
ORDINARY_USER: Final = "run agentrt as an ordinary user"

MISSING: Final = (
    "the sandbox is the weaker one of Landlock. The agent can change git's hooks and the settings"
    " files of the session's folders and of its own state, and the modes and times of your other"
    " files; reach services of this machine that listen on Unix sockets, such as D-Bus; and see the"
    " names of other processes. Processes that leave the agent's process tree and clear their"
    " environment outlive it"
)
"""The message of the notice at the start of a session."""

_CREATE_RULESET: Final = 444
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")


def landlock_version() -> int:
    """Return the version of Landlock of this kernel; 0: it has none, or it is switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)))


def require_landlock(policy: Sandbox, reason: str) -> None:
    """Check that Landlock can enforce a policy here. `reason`: why bubblewrap does not work.

    Raises `SandboxUnavailable`.
    """
    version = landlock_version()
    unsupported = {
        "hide": policy.hide,
        "nested": policy.nested,
        "programs: 'ask'": "ask" in policy.program_rules.values(),
        "limits: tmp_bytes": policy.limits.tmp_bytes,
    }
    names = [name for name, given in unsupported.items() if given]
    if version < MIN_VERSION:
        problem = f"version {version} of Landlock is too old; {KERNEL}" if version else KERNEL
        problem = f"Landlock cannot be used instead: {problem}"
    elif os.getuid() == 0:
        problem = (
            "Landlock cannot be used instead: it would let root change the modes of all files;"
            f" {ORDINARY_USER}"
        )
    elif names:
        problem = f"Landlock, which would be used instead, does not support {', '.join(names)}"
    else:
        return
    raise SandboxUnavailable(f"{reason}. {problem}")


def landlock_rules(view: SandboxView, own: str, private: str, ports: Iterable[int]) -> bytes:
    """Return the rules for `join.py`. Blocks.

    `own`: the folder of agentrt's sockets. `private`: the folder that is private to the sandbox.

    Raises `SandboxUnavailable` if a program that cannot be run is in a folder that can be written.
    """
    withheld = [path for path in view.withheld if not _is_socket(path)]
    for path in withheld:
        if is_below(path, view.written):
            raise SandboxUnavailable(
                f"Landlock cannot withhold {path!r}, which is in a folder that can be written"
            )
    hidden = [*view.covered, *withheld, "/dev"]
    read = [*_without("/", hidden), own]
    for path in view.shown:
        read += _without(path, withheld)
    write = [*view.written, private, *(f"/dev/{name}" for name in _DEVICES)]
    return json.dumps({"read": read, "write": write, "ports": sorted(set(ports))}).encode()


def make_home(view: SandboxView, home: str, place: str) -> None:
    """Make a home folder with links to the places in the user's own that can be used. Blocks.

    Raises OSError.
    """
    os.makedirs(place, mode=0o700)
    linked: list[str] = []
    for path in sorted({*view.shown, *view.written}):
        if path != home and is_below(path, [home]) and not is_below(path, linked):
            link = os.path.join(place, os.path.relpath(path, home))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(path, link)
            linked.append(path)
    for path, data in view.copies.items():
        if is_below(path, [home]) and not is_below(path, linked):
            copy = Path(place, os.path.relpath(path, home))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)


def _without(folder: str, hidden: Collection[str]) -> Iterator[str]:
    """Yield a folder, or the parts of it that remain without hidden ones. Links are left out: what
    they lead to is a part of its own."""
    if is_below(folder, hidden) or os.path.islink(folder):
        return
    if not any(is_below(each, [folder]) for each in hidden):
        yield folder
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    below = [each for each in hidden if is_below(each, [folder])]
    for name in names:
        yield from _without(os.path.join(folder, name), below)


def _is_socket(path: str) -> bool:
    """Return True for a socket; links are followed."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
