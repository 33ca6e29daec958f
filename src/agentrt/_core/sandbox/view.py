"""The view of the file system inside a sandbox, as arguments for bubblewrap.

Everything is resolved when the agent is started; the kernel then keeps the view, whatever happens
to links and names outside.
"""

from __future__ import annotations

import fnmatch
import os
import pkgutil
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

from msgspec import Struct

from ..errors import SandboxUnavailable
from ..project_files import PROJECT_FILES
from . import ask
from .access import AccessRefused
from .placeholders import Placeholders
from .places import (
    TOOLCHAINS,
    AgentPlaces,
    closed_to_others,
    copied_of,
    hidden_folders,
    home_of,
    is_below,
    program_places,
    state_of,
)
from .policy import ProgramRule, Sandbox, resolved

MAX_COPIED_FILES: Final = 64
MAX_COPIED_BYTES: Final = 4 * 1024 * 1024
MAX_GIT_SEARCH: Final = 2000
"""Number of folders in which nested repositories are searched."""
GIT_DEPTH: Final = 3

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_GIT_FILES: Final = (
    "hooks",
    "config",
    "config.worktree",
    "info/attributes",
    "commondir",
    "gitdir",
)
_SEARCH_DIRS: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")


class SandboxView(Struct, frozen=True):
    """The view inside."""

    arguments: tuple[str, ...]
    """Arguments for bubblewrap, before the command."""
    contents: tuple[bytes, ...]
    """Contents of files. The argument `content(n)` stands for a descriptor with the nth one."""
    withheld: tuple[str, ...]
    """Paths in whose place is something else: secrets of the system, sockets, programs that have a
    rule, and what is hidden. No permission uncovers one."""
    hidden: tuple[str, ...]
    """Paths inside the session's folders that are not visible."""
    protected: tuple[str, ...]
    """Paths inside the session's folders that are read-only."""
    written: tuple[str, ...]
    """The folders that can be written."""
    asked: dict[str, str]
    """The names of the programs for which the sandbox asks, by their path."""
    covered: tuple[str, ...]
    """The folders that are hidden as a whole."""
    shown: tuple[str, ...]
    """Paths in them that are shown read-only."""
    copies: dict[str, bytes]
    """Contents of files in them of which the agent gets a copy."""


def content(number: int) -> str:
    """Return the argument that stands for a descriptor with a content."""
    return f"@content:{number}"


class ViewRequest(Struct, frozen=True, kw_only=True):
    """The input for a view."""

    policy: Sandbox
    cwd: str
    roots: Sequence[str]
    command: Sequence[str]
    env: Mapping[str, str]
    agent: AgentPlaces
    folder: str
    """The host's private folder with its sockets, which is shown read-only."""
    programs: Iterable[str] = ()
    """Programs that cannot be run, in addition to those of the policy."""
    hidden: Sequence[str] = ()
    """Absolute paths of files and folders that are empty inside."""
    places: Mapping[str, str]
    """The real paths of the folders and of the policy's paths when the session was opened."""
    placeholders: Placeholders | None = None
    """Holds the files of git that must not be missing; None: no view is built for an agent that
    could be kept from creating them."""


def build_view(wanted: ViewRequest) -> SandboxView:
    """Build the view for a start. Blocks.

    Raises `SandboxUnavailable` if a folder cannot be used in a sandbox or leads to another place
    than when the session was opened, or OSError.
    """
    return _ViewBuilder(wanted).build()


class _ViewBuilder:
    """Builds the arguments of bwrap for one view of the file system, layer by layer.

    Later arguments cover earlier ones, so the order in `build` is the policy: the system, programs
    and readable paths first, then writable folders, and last everything in them that must stay
    protected or hidden.
    """

    def __init__(self, wanted: ViewRequest) -> None:
        self.wanted = wanted
        self.policy = wanted.policy
        self.home = home_of(wanted.env)
        self.covered = hidden_folders(self.home)
        self.args: list[str] = []
        self.contents: list[bytes] = []
        self.shown: list[str] = []
        self.withheld: list[str] = []
        self.hidden: list[str] = []
        self.protected: list[str] = []
        self.asked: dict[str, str] = {}
        self.copies: dict[str, bytes] = {}

    def build(self) -> SandboxView:
        """Return the view. Raises `SandboxUnavailable` or OSError.

        Missing folders of the agent's state are created, so that they can be written inside.
        """
        wanted, policy = self.wanted, self.policy
        folders = [self.check_folder(each) for each in (wanted.cwd, *wanted.roots)]
        state = state_of(wanted.agent, wanted.env, self.home)
        extra = [self.real(path) for path in policy.write]
        read = [self.real(path) for path in policy.read]
        self.cover_system()
        for path in self.covered:
            self.private(path)
        self.args += ["--dir", self.home]
        self.show_programs()
        self.show_readable(read)
        for path in copied_of(wanted.agent, wanted.env, self.home):
            self.copy(path)
        for path, name in state.items():
            os.makedirs(path, mode=0o700, exist_ok=True)
            self.write(path)
            self.protect_state(path, name)
        for path in extra:
            self.args += ["--bind-try", path, path]
        for path in folders:
            self.write(path)
        self.link_names((*folders, *extra, *state))
        repositories = [git for path in (*folders, *extra) for git in _find_repositories(path)]
        for git in repositories:
            self.protect_repository(git, (*folders, *extra))
        for path in (*folders, *filter(os.path.isdir, extra)):
            self.protect_project(path)
        for path in folders:
            self.hide_in(path)
        for path in wanted.hidden:
            self.hide(path)
        self.cover_secrets((*folders, *extra, *state), read)
        self.cover_sockets((*folders, *extra, *state))
        self.cover_programs()
        self.args += ["--ro-bind", wanted.folder, wanted.folder]
        return SandboxView(
            tuple(self.args),
            tuple(self.contents),
            tuple(self.withheld),
            tuple(self.hidden),
            tuple(self.protected),
            (*folders, *extra, *state),
            self.asked,
            tuple(self.covered),
            tuple(self.shown),
            self.copies,
        )

    def mounts_below(self, path: str) -> list[tuple[str, str]]:
        """Return the places below a path that can be written which have a mode of their own, as
        pairs of it (`ro` or `rw`) and the place: git's files, and settings that run programs."""
        if os.path.isdir(path):
            for git in _find_repositories(path):
                self.protect_repository(git, [path])
            self.protect_project(path)
        binds = zip(self.args[::3], self.args[1::3], strict=True)
        found = [(option == "--ro-bind", place) for option, place in binds]
        return [
            ("ro" if protects else "rw", place)
            for protects, place in found
            if place != path and is_below(place, [path])
        ]

    def check_folder(self, path: str) -> str:
        """Return the real path of a session's folder. Raises `SandboxUnavailable`."""
        real = self.real(path)
        if is_below(self.home, [real]) or real in (*self.covered, "/"):
            raise SandboxUnavailable(
                f"{path!r} is a folder that the sandbox hides, because it has other files of yours:"
                " start the agent in a project folder below it"
            )
        if not os.path.isdir(real):
            raise SandboxUnavailable(f"{path!r} does not exist: give an existing folder")
        return real

    def real(self, path: str) -> str:
        """Return the real path of a path, which must be the same at each start of the session.

        Otherwise another session that can write the folder around it could put a link there, and
        open any place of this machine. Raises `SandboxUnavailable`.
        """
        real = resolved(path)
        if real != (before := self.wanted.places.get(path, path)):
            raise SandboxUnavailable(
                f"{path!r} leads to {real!r} now, and led to {before!r} when the session was"
                " opened: open another session"
            )
        return real

    # --- kinds of places

    def private(self, path: str) -> None:
        """Make a folder empty inside, and private to the sandbox."""
        size = self.policy.limits.tmp_bytes
        self.args += ["--perms", "1777" if path.endswith("tmp") else "0755"]
        self.args += [*(() if size is None else ("--size", str(size))), "--tmpfs", path]

    def show(self, path: str) -> None:
        """Show a file, a folder or a link read-only, if it exists."""
        if is_below(path, self.shown) or not os.path.lexists(path):
            return
        if os.path.islink(path):
            self.args += ["--symlink", os.readlink(path), path]
            return
        self.args += ["--ro-bind", path, path]
        self.shown.append(path)

    def show_readable(self, paths: Iterable[str]) -> None:
        """Show the places that the policy makes readable."""
        for path in paths:
            self.show(path)

    def write(self, path: str) -> None:
        """Show a file or folder, to be written."""
        self.args += ["--bind", path, path]

    def protect(self, path: str) -> None:
        """Make a file or folder read-only, if it exists."""
        if os.path.lexists(path) and not os.path.islink(path):
            self.args += ["--ro-bind", path, path]
            self.protected.append(path)

    def cover(self, path: str) -> None:
        """Put something empty in the place of a file or folder."""
        self.withheld.append(path)
        if os.path.isdir(path):
            self.args += ["--perms", "0700", "--tmpfs", path]
        else:
            self.args += ["--ro-bind", "/dev/null", path]

    def fill(self, option: str, path: str, data: bytes) -> None:
        """Put a file with this content in a place."""
        self.args += ["--perms", "0600", option, content(len(self.contents)), path]
        self.contents.append(data)

    def hide(self, path: str) -> None:
        """Cover a file or folder that exists. Raises `SandboxUnavailable` for a link."""
        if is_below(path, self.hidden):
            return
        if os.path.realpath(path) != path:
            raise SandboxUnavailable(
                f"{path!r} is a link, so it cannot be hidden: hide the file that it leads"
                " to, or remove the link"
            )
        if os.path.isdir(path):
            self.cover(path)
        else:  # readable: some agents do not start if their settings cannot be read
            data = b"{}\n" if path.endswith((".json", ".jsonc")) else b""
            self.fill("--ro-bind-data", path, data)
            self.withheld.append(path)
        self.hidden.append(path)

    # --- parts of the view

    def cover_system(self) -> None:
        """Show the system read-only, without the parts that even a powerless root may write.

        The kernel permits a nested sandbox to mount its own `/proc` only if nothing covers a part
        of this one. An ordinary user cannot write these parts anyway.
        """
        self.args += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        if self.policy.nested and os.getuid() != 0:
            return
        for path in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"):
            self.args += ["--ro-bind-try", path, path]
        for path in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/keys", "/proc/timer_list"):
            if os.path.exists(path):
                self.args += ["--ro-bind", "/dev/null", path]

    def cover_secrets(self, used: Sequence[str], named: Sequence[str]) -> None:
        """Cover files of the system that only root can read, unless the session uses them.

        Those in folders that are hidden as a whole can be given by an answer.
        """
        if os.getuid() == 0:
            prefixes = (sys.prefix, sys.base_prefix, str(_PACKAGE))
            found = shutil.which(self.wanted.command[0], path=self.wanted.env.get("PATH"))
            program = () if found is None else (os.path.realpath(found),)
            for path in closed_to_others((*used, *self.covered, *prefixes, *program), named):
                if path not in self.withheld:
                    self.cover(path)

    def link_names(self, written: Sequence[str]) -> None:
        """Make the session's folders reachable by the names that the agent gets, which may lead
        through links in hidden folders."""
        for name in map(os.path.normpath, (self.wanted.cwd, *self.wanted.roots)):
            if name != os.path.realpath(name) and is_below(name, self.covered):
                if not is_below(name, (*written, *self.shown)):
                    self.args += ["--symlink", os.path.realpath(name), name]

    def show_programs(self) -> None:
        """Show the programs in hidden folders: those of the user, of the agent, and Python."""
        wanted = self.wanted
        for path in (sys.prefix, sys.base_prefix, sys.exec_prefix, str(_PACKAGE)):
            if is_below(path, self.covered):
                self.show(path)
        for name in TOOLCHAINS:
            self.show(os.path.join(self.home, name))
        found = program_places(wanted.command, wanted.env, wanted.cwd, self.covered)
        for path in dict.fromkeys(found):
            if path not in (*self.covered, self.home):
                self.show(path)

    def copy(self, path: str) -> None:
        """Give the agent a copy of a file or a small folder."""
        if os.path.isfile(path):
            data = Path(path).read_bytes()
            if len(data) <= MAX_COPIED_BYTES:
                self.fill("--file", path, data)
                self.copies[path] = data
            return
        left = MAX_COPIED_BYTES
        for folder, names, files in os.walk(path):
            names[:] = [name for name in names if name != "node_modules"]
            for name in files:
                file = os.path.join(folder, name)
                if not os.path.isfile(file) or os.path.islink(file):
                    continue
                left -= os.path.getsize(file)
                if left < 0 or len(self.contents) >= MAX_COPIED_FILES:
                    return
                self.copies[file] = Path(file).read_bytes()
                self.fill("--file", file, self.copies[file])

    def protect_state(self, state: str, usual: str) -> None:
        """Keep the agent from writing settings that would run programs at its next start, without
        a sandbox. Missing ones are created, empty, so that they can be protected.

        `usual`: the usual name of the folder, which has the same files as in a project.
        """
        for file in PROJECT_FILES:
            first, _, rest = file.path.partition("/")
            if not file.agents or not rest or "*" in rest or first != usual:
                continue
            path = os.path.join(state, rest)
            if not os.path.lexists(path):
                _create_empty(path)
            self.protect(path)

    def protect_project(self, folder: str) -> None:
        """Make the settings of a project read-only that would run programs."""
        names = set(os.listdir(folder))
        for file in PROJECT_FILES:
            if not file.protected or file.path == ".git":
                continue
            first, _, rest = file.path.partition("/")
            for name in fnmatch.filter(names, first) if "*" in first else {first} & names:
                if "*" in rest:
                    for path in Path(folder, name).glob(rest):
                        self.protect(str(path))
                else:
                    self.protect(os.path.join(folder, name, rest) if rest else f"{folder}/{name}")

    def protect_repository(self, git: str, folders: Sequence[str]) -> None:
        """Keep git's hooks and settings from being written. A mount point cannot be renamed."""
        place = git
        if os.path.isfile(git):
            self.protect(git)
            found = _linked_repository(git, folders)
            if found is None:
                return
            place, common = found
            self.write(common)
            self.protect_git_files(common)
            if place != common:
                self.args += ["--bind", place, place]
        else:
            self.args += ["--bind", git, git]
        self.protect_git_files(place)

    def protect_git_files(self, git: str) -> None:
        """Keep programs inside from writing git's hooks, settings, and links to other folders.

        Missing hooks and a missing `commondir` are created, because only what exists can be made
        read-only. Submodules have their own git directories in `modules`.
        """
        if self.wanted.placeholders is not None:
            os.makedirs(os.path.join(git, "hooks"), exist_ok=True)
            if not os.path.lexists(os.path.join(git, "gitdir")):  # a linked working tree has it
                self.wanted.placeholders.hold(git)
        for name in _GIT_FILES:
            self.protect(os.path.join(git, name))
        for linked in _folders_in(os.path.join(git, "worktrees")):
            for name in ("commondir", "gitdir", "config.worktree"):
                self.protect(os.path.join(linked, name))
        for module in _modules(os.path.join(git, "modules"), GIT_DEPTH):
            self.args += ["--bind", module, module]
            self.protect_git_files(module)

    def hide_in(self, folder: str) -> None:
        """Cover what the policy hides in a session's folder."""
        for name in self.policy.hide:
            for path in map(str, _matches(folder, name)):
                self.hide(path)

    def cover_sockets(self, shown: Sequence[str]) -> None:
        """Cover the sockets of services, which a read-only view would not protect.

        A service that starts again makes a new socket: its own folder is covered, if it has one.
        """
        for path in _listening_sockets():
            if is_below(path, (*self.covered, *shown, *self.withheld, "/dev", "/proc")):
                continue
            folder = os.path.dirname(path)
            own = folder.startswith("/var/") and folder.count("/") > 2
            if own and not any(is_below(each, [folder]) for each in (*shown, *self.shown)):
                path = folder
            self.cover(path)

    def cover_programs(self) -> None:
        """Put a program that refuses, or asks, in the place of each program that has a rule."""
        denied: dict[str, ProgramRule] = dict.fromkeys(self.wanted.programs, "deny")
        rules = {**self.policy.program_rules, **denied}
        places = list(_SEARCH_DIRS) + self.wanted.env.get("PATH", "").split(":")
        for name, rule in sorted(rules.items(), key=itemgetter(1)):  # `deny` lies over `ask`
            for path in dict.fromkeys(
                os.path.realpath(os.path.join(folder, name)) for folder in places if folder
            ):
                if not os.path.isfile(path) or is_below(path, [self.wanted.folder]):
                    continue
                if rule == "ask":
                    self.asked[path] = name
                else:
                    self.asked.pop(path, None)
                shim = _shim(self.wanted.folder, name, path if rule == "ask" else "")
                self.args += ["--ro-bind", shim, path]
                self.withheld.append(path)


def grant_mounts(wanted: ViewRequest, path: str) -> list[tuple[str, str]]:
    """Return the places below a path with a mode of their own, once it can be written. Blocks.

    Raises OSError.
    """
    return _ViewBuilder(wanted).mounts_below(path)


def granted_place(wanted: ViewRequest, path: str, *, writing: bool) -> str:
    """Return the real path for which access to a path must be given: of a missing file, that of
    the folder in which it can be created. Blocks.

    Raises `AccessRefused` for a place to which no answer could give access, or OSError.
    """
    if "\0" in path or not os.path.expanduser(path).startswith("/"):
        raise AccessRefused(f"{path!r:.200} is not an absolute path")
    place = os.path.realpath(os.path.expanduser(path))
    if not os.path.exists(place):
        place = os.path.dirname(place)
    home = home_of(wanted.env)
    covered = hidden_folders(home)
    status = os.stat(place)
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        problem = "it is not a file or folder"
    elif place == "/" or place in covered or any(is_below(each, [place]) for each in covered):
        problem = "it contains other files of the user; name a folder below it"
    elif is_below(place, ("/proc", "/sys", "/dev", wanted.folder)):
        problem = "it is not an ordinary file or folder"
    elif any(is_below(each, [place]) for each in _listening_sockets()):
        problem = "services of this machine listen on sockets in it"
    elif writing and is_below(place, [os.path.realpath(sys.prefix), str(_PACKAGE)]):
        problem = "agentrt itself runs from it"
    else:
        return place
    raise AccessRefused(f"access to {place} cannot be given: {problem}")


_REFUSE: Final = """\
#!/bin/sh
echo 'sandbox: {name} may not be run in this session' >&2
exit 126
"""


def _shim(folder: str, name: str, asks: str) -> str:
    """Return the program for the place of another one. `asks`: that one's path, if the program
    asks before it starts it, and does not just refuse."""
    if asks:
        path = os.path.join(folder, f"ask-{zlib.crc32(asks.encode()):x}-{name}")
        source = (pkgutil.get_data(ask.__package__ or "", "ask.py") or b"").decode()
        for constant, value in (("PATH", asks), ("SOCKET", os.path.join(folder, "ask"))):
            source = source.replace(f'{constant} = ""', f"{constant} = {value!r}", 1)
        text = f"#!{sys.executable} -IS\n{source}"
    else:
        path = os.path.join(folder, f"refuse-{name}")
        text = _REFUSE.format(name=name)
    if not os.path.exists(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
        with open(fd, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)
    return path


def _create_empty(path: str) -> None:
    """Create a missing settings file, empty, or a missing folder of them."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    stem, dot, _ = os.path.basename(path).lstrip(".").rpartition(".")
    if not (stem and dot) and os.path.basename(path) != ".env":
        os.makedirs(path, exist_ok=True)
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with open(fd, "w") as file:
        file.write("{}\n" if path.endswith((".json", ".jsonc")) else "")


def _matches(folder: str, name: str) -> list[Path]:
    """Return the existing paths in a folder that an entry of `Sandbox.hide` stands for."""
    pattern = name.rstrip("/")
    if any(sign in pattern for sign in "*?["):
        return sorted(Path(folder).glob(pattern))
    path = Path(folder, pattern)
    return [path] if os.path.lexists(path) else []


def _find_repositories(folder: str) -> list[str]:
    """Return the `.git` of a folder and of repositories in it, down to a few levels."""
    found: list[str] = []
    level, left = [folder], MAX_GIT_SEARCH
    for _ in range(GIT_DEPTH + 1):
        below: list[str] = []
        for each in level:
            left -= 1
            if left < 0:
                return found
            git = os.path.join(each, ".git")
            if os.path.lexists(git) and not os.path.islink(git):
                found.append(git)
            try:
                with os.scandir(each) as entries:
                    below += [
                        entry.path
                        for entry in entries
                        if entry.name not in (".git", "node_modules", ".venv")
                        and entry.is_dir(follow_symlinks=False)
                    ]
            except OSError:
                continue
        level = below
    return found


def _folders_in(folder: str) -> list[str]:
    """Return the folders in a folder; none if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return [each.path for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _modules(folder: str, depth: int) -> Iterator[str]:
    """Yield the repositories of submodules; a name with slashes makes folders."""
    for each in _folders_in(folder)[:MAX_GIT_SEARCH]:
        if os.path.isfile(os.path.join(each, "HEAD")):
            yield each
        elif depth:
            yield from _modules(each, depth - 1)


def _linked_repository(git: str, folders: Sequence[str]) -> tuple[str, str] | None:
    """Return the folder of a linked worktree or a submodule, and the repository that it shares.

    The file may be a stranger's: its target counts only if it is in the session's folders, or leads
    back to this file, as git writes it. Returns None otherwise.
    """
    try:
        text = Path(git).read_text(errors="replace")[:4096]
        if not text.startswith("gitdir:"):
            return None
        place = os.path.realpath(
            os.path.join(os.path.dirname(git), text.removeprefix("gitdir:").strip())
        )
        if not os.path.isfile(os.path.join(place, "HEAD")):
            return None
        if is_below(place, folders):
            return place, place
        back = Path(place, "gitdir").read_text(errors="replace").strip()
        if os.path.realpath(back) != os.path.realpath(git):
            return None
        common = Path(place, "commondir").read_text(errors="replace").strip()
    except OSError:
        return None
    shared = os.path.realpath(os.path.join(place, common))
    parts = ("HEAD", "objects", "refs")
    if not all(os.path.exists(os.path.join(shared, each)) for each in parts):
        return None
    return place, shared


def _listening_sockets() -> list[str]:
    """Return the Unix sockets of this machine that listen at a path."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split(None, 7)
        if len(fields) == 8 and fields[7].startswith("/") and int(fields[3], 16) & 0x10000:
            path = os.path.realpath(fields[7])
            try:
                if stat.S_ISSOCK(os.stat(path).st_mode):
                    found.append(path)
            except OSError:
                continue
    return sorted(set(found))
