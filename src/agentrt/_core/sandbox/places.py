"""The places on this machine that a sandbox shows, covers or leaves out.

The home folder and the folders of other data are hidden as a whole, and only a list of places in
them is shown again: no list of secrets has to be complete.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

SYSTEM: Final = frozenset(
    "bin dev etc gnu lib lib32 lib64 libx32 nix opt proc sbin snap sys usr var".split()  # noqa: SIM905
)
"""The top-level folders that programs need. All others are hidden, except for the session's own
folders in them."""

DATA: Final = ("/var/tmp", "/var/spool", "/var/backups", "/var/crash", "/var/mail", "/var/run")
"""Folders in `SYSTEM` that are hidden."""

_GUARDED: Final = {"/etc": 8, "/var": 4}
"""Folders of the system in which some files are only for root or a service, and the number of
levels below that are looked at."""
_PUBLIC: Final = ("/etc/ssl/certs", "/etc/alternatives", "/var/lib/dpkg")
"""Large folders in them without such files."""
_GUARDED_ENTRIES: Final = 20_000

TOOLCHAINS: Final = tuple(
    """.nvm .volta .fnm .bun .deno .pyenv .rbenv .asdf .rustup .cargo/bin .cargo/env .sdkman
    .local/bin .local/lib .local/share/mise .local/share/uv .local/share/fnm .local/share/pnpm
    .local/share/claude .npm-global go/bin .go .dotnet""".split()  # noqa: SIM905
)
"""Folders of programs in the home folder, which are shown read-only."""


class AgentPlaces(Struct, frozen=True):
    """An agent's files in the home folder, and the hosts of its model."""

    state: tuple[str, ...] = ()
    """Folders with its login and its conversations, which it can write."""
    copied: tuple[str, ...] = ()
    """Files and folders of which it gets a copy: it can change the copy, which is then lost."""
    hosts: tuple[str, ...] = ()
    """The hosts of its model and its login."""
    variables: tuple[str, ...] = ()
    """Variables that name another folder for its state."""


_CLAUDE: Final = AgentPlaces(
    (".claude",),
    (".claude.json",),
    ("api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"),
    ("CLAUDE_CONFIG_DIR",),
)
_CODEX: Final = AgentPlaces(
    (".codex",),
    (),
    ("api.openai.com", "chatgpt.com", "auth.openai.com"),
    ("CODEX_HOME",),
)
_GOOGLE: Final = (
    "generativelanguage.googleapis.com",
    "cloudcode-pa.googleapis.com",
    "oauth2.googleapis.com",
    "accounts.google.com",
)

PLACES: Final[dict[str, AgentPlaces]] = {
    "claude": _CLAUDE,
    "claude-agent-acp": _CLAUDE,
    "codex": _CODEX,
    "codex-acp": _CODEX,
    "codex-acp-zed": _CODEX,
    "gemini": AgentPlaces((".gemini",), (), _GOOGLE, ("GEMINI_CLI_HOME",)),
    "qwen": AgentPlaces(
        (".qwen",),
        (),
        ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "chat.qwen.ai", "portal.qwen.ai"),
    ),
    "opencode": AgentPlaces(
        (".local/share/opencode", ".local/state/opencode"),
        (".config/opencode",),
        ("opencode.ai", "models.dev", "api.anthropic.com", "api.openai.com"),
    ),
    "kimi": AgentPlaces(
        (".kimi", ".kimi-code"), (), ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com")
    ),
    "vibe": AgentPlaces((".vibe",), (), ("api.mistral.ai",), ("VIBE_HOME",)),
    "goose": AgentPlaces((".local/share/goose", ".local/state/goose"), (".config/goose",)),
    "copilot": AgentPlaces(
        (".copilot",),
        (".config/github-copilot",),
        ("api.github.com", "*.githubcopilot.com", "github.com"),
    ),
    "cursor": AgentPlaces(
        (".cursor", ".local/share/cursor-agent"), (".config/cursor",), ("*.cursor.sh",)
    ),
    # Without PI_CODING_AGENT_DIR: the folder that it names would be writable, with settings that
    # run programs.
    "pi": AgentPlaces(
        (".pi/agent/sessions", ".pi/pi-acp"),
        (
            ".pi/agent/settings.json",
            ".pi/agent/models.json",
            ".pi/agent/auth.json",
            ".pi/agent/mcp.json",
            ".pi/agent/AGENTS.md",
            ".pi/agent/extensions",
            ".pi/agent/skills",
            ".pi/agent/prompts",
        ),
        ("api.anthropic.com", "api.openai.com"),
    ),
    # Its conversations are in the session's folder. Without FAST_AGENT_HOME: the folder that it
    # names would be writable, with settings that run programs.
    "fast-agent": AgentPlaces(
        (),
        (".fast-agent/auth.json", ".fast-agent/plugins"),
        ("api.anthropic.com", "api.openai.com", "auth.openai.com", "router.huggingface.co"),
    ),
    "auggie": AgentPlaces((".augment",), (), ("*.augmentcode.com",)),
    "droid": AgentPlaces((".factory",), (), ("*.factory.ai",)),
    "kiro": AgentPlaces((".kiro",), (), ("*.amazonaws.com", "*.kiro.dev")),
    "cline": AgentPlaces((".cline",), (), ("api.cline.bot",)),
    "kilo": AgentPlaces((".local/share/kilo", ".local/state/kilo"), (".config/kilo",)),
    "qoder": AgentPlaces((".qoder",), (), ("*.qoder.com",)),
    "junie": AgentPlaces((".junie",), (), ("*.jetbrains.com",)),
    "grok": AgentPlaces((".grok",), (), ("api.x.ai",)),
    "devin": AgentPlaces((), (".config/devin",), ("*.devin.ai",)),
    "demo": AgentPlaces(),  # it stores nothing, and has no model
}
"""The places of each agent of the catalogue, by name."""

ADDRESS_SUFFIXES: Final = ("_BASE_URL", "_API_BASE", "_API_URL", "_ENDPOINT", "_HOST")
"""Endings of variables with the address of a model."""

UNSET: Final = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "TMUX",
    "TMUX_PANE",
    "TMPDIR",
)
"""Variables that lead to services of the user, which are not visible inside."""


MAX_FIRST_LINE: Final = 256
"""Bytes of a script's first line, as the kernel reads it."""


def home_of(env: Mapping[str, str]) -> str:
    """Return the home folder of a program with this environment, as its real path."""
    return os.path.realpath(env.get("HOME") or os.path.expanduser("~"))


def closed_to_others(used: Sequence[str], named: Sequence[str]) -> list[str]:
    """Return the files and folders of the system that an ordinary user cannot read.

    Without everything in the `used` folders, and without the `named` places. In `/var`, files are
    found in the upper three levels and folders in the upper four. At most `_GUARDED_ENTRIES`
    entries are examined; the agent cannot add any, since it sees both folders read-only.
    """
    left_out = {*map(os.path.normpath, (*used, *_PUBLIC))}
    left_out -= _parents(_GUARDED) | _GUARDED.keys()
    left_out.update(named)
    way_to_them = _parents(left_out)
    found, left = list[str](), _GUARDED_ENTRIES
    for root, depth in _GUARDED.items():
        level = [root]
        for last in (*[False] * (depth - 1), True):
            below: list[str] = []
            entries = list(chain.from_iterable(map(_entries, level)))[:left]
            left -= len(entries)
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if (last and not is_folder) or entry.path in left_out:
                    continue
                if is_folder and (entry.path in way_to_them or _is_open(entry)):
                    below.append(entry.path)
                elif not _is_open(entry):
                    found.append(entry.path)
            level = below
    return found


def _parents(paths: Iterable[str]) -> set[str]:
    """Return all folders that a path is in."""
    return {str(folder) for each in paths for folder in Path(each).parents}


def _is_open(entry: os.DirEntry[str]) -> bool:
    """Return True if other users can read a file, a folder or the target of a link."""
    if entry.is_symlink():
        return True
    is_folder = entry.is_dir(follow_symlinks=False)
    wanted = stat.S_IROTH | stat.S_IXOTH if is_folder else stat.S_IROTH
    try:
        return entry.stat(follow_symlinks=False).st_mode & wanted == wanted
    except FileNotFoundError:
        return True  # there is nothing left to cover


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def hidden_folders(home: str) -> list[str]:
    """Return the folders that are hidden as a whole, outer ones first."""
    found = {home}
    for entry in sorted(os.listdir("/")):
        path = f"/{entry}"
        if entry not in SYSTEM and os.path.isdir(path) and not os.path.islink(path):
            found.add(path)
    found.update(path for path in DATA if os.path.isdir(path) and not os.path.islink(path))
    found.discard("/")
    return sorted(found)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return True if a path is one of the folders, or below one."""
    return any(path == each or path.startswith(each.rstrip("/") + "/") for each in folders)


def state_of(agent: AgentPlaces, env: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the folders of an agent's state, each with its usual name in the home folder.

    A variable of the agent may name another folder.
    """
    named = [os.path.realpath(env[name]) for name in agent.variables if env.get(name)]
    if named:
        return dict.fromkeys(named, agent.state[0])
    return {_moved(each, env, home): each for each in agent.state}


def copied_of(agent: AgentPlaces, env: Mapping[str, str], home: str) -> list[str]:
    """Return the files and folders of which an agent gets a copy."""
    if any(env.get(name) for name in agent.variables):
        return []
    return [_moved(each, env, home) for each in agent.copied]


_XDG: Final = {
    ".config/": "XDG_CONFIG_HOME",
    ".local/share/": "XDG_DATA_HOME",
    ".local/state/": "XDG_STATE_HOME",
    ".cache/": "XDG_CACHE_HOME",
}


def _moved(path: str, env: Mapping[str, str], home: str) -> str:
    """Return the absolute path of a place in the home folder, moved as the XDG variables say."""
    for start, variable in _XDG.items():
        if path.startswith(start) and env.get(variable):
            return os.path.join(env[variable], path.removeprefix(start))
    return os.path.join(home, path)


def model_hosts(agent: AgentPlaces, env: Mapping[str, str]) -> tuple[list[str], list[int]]:
    """Return the hosts of an agent's model, and the ports of a model on this machine.

    Addresses in the environment are added: a user has chosen them.
    """
    hosts, ports = list(agent.hosts), []
    for name, value in env.items():
        if not name.endswith(ADDRESS_SUFFIXES) or "://" not in value:
            continue
        try:
            url = urlsplit(value)
            host, port = url.hostname, url.port
        except ValueError:
            continue
        if host is None:
            continue
        port = port or (80 if url.scheme == "http" else 443)
        if host == "localhost" or host.startswith("127.") or host == "::1":
            ports.append(port)
        else:
            hosts.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return hosts, ports


def program_places(
    command: Sequence[str], env: Mapping[str, str], cwd: str, hidden: Sequence[str]
) -> Iterator[str]:
    """Yield the places below hidden folders that the agent's program needs: the folders of `PATH`
    with the libraries next to them, the program itself, and files in its arguments."""
    for folder in env.get("PATH", "").split(":"):
        if folder.startswith("/") and os.path.isdir(folder):
            yield from _with_libraries(folder, hidden)
    program = _located(command[0], env, cwd)
    if program is not None:
        yield from _chain(program, hidden)
        interpreter = _located(name, env, cwd) if (name := _searched(program)) else None
        if interpreter is not None:
            yield from _chain(interpreter, hidden)
    for word in command[1:]:
        if word.startswith("/") and os.path.isfile(word):
            yield from _chain(word, hidden)


def _searched(program: str) -> str:
    """Return the interpreter of a script that is searched in `PATH` (`#!/usr/bin/env node`).

    Empty without one. A path in the first line does not count: a script of the project could
    name any file.
    """
    try:
        with open(program, "rb") as file:
            line = file.readline(MAX_FIRST_LINE).decode(errors="surrogateescape")
    except OSError:
        return ""
    if not line.startswith("#!"):
        return ""
    env, *words = line[2:].split() or [""]
    if os.path.basename(env) != "env":
        return ""
    name = next((each for each in words if not each.startswith("-") and "=" not in each), "")
    return "" if "/" in name else name


def _located(program: str, env: Mapping[str, str], cwd: str) -> str | None:
    """Return the path of a program as the system finds it; None if it is not in `PATH`.

    A name with a slash is taken from `cwd`, and not looked up.
    """
    if "/" in program:
        return os.path.join(cwd, program)
    for folder in env.get("PATH", "").split(":"):
        path = os.path.join(folder or cwd, program)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def _with_libraries(folder: str, hidden: Sequence[str]) -> Iterator[str]:
    """Yield a hidden folder of programs, and the `lib` next to a `bin`, which has their libraries.

    A folder that is hidden as a whole, such as the home folder, is not shown again.
    """
    real = os.path.realpath(folder)
    for each in (folder, real):
        if is_below(each, hidden) and each not in hidden:
            yield each
            if os.path.basename(each) == "bin" and os.path.isdir(lib := f"{each[:-4]}/lib"):
                yield lib


def _chain(path: str, hidden: Sequence[str]) -> Iterator[str]:
    """Yield a file, the files that it leads to by links, and the package around the last one."""
    for _ in range(40):
        if is_below(path, hidden):
            yield path
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    real = os.path.realpath(path)
    if not is_below(real, hidden):
        return
    yield real
    parts = Path(real).parts
    if "node_modules" in parts:
        yield str(Path(*parts[: parts.index("node_modules") + 1]))
    else:
        yield from _with_libraries(os.path.dirname(real), hidden)
        yield from _python_places(os.path.dirname(os.path.dirname(path)))
        yield from _python_places(os.path.dirname(os.path.dirname(real)))


def _python_places(folder: str) -> Iterator[str]:
    """Yield a Python environment, and the installation that it is made of."""
    settings = os.path.join(folder, "pyvenv.cfg")
    if not os.path.isfile(settings):
        return
    yield folder
    for line in Path(settings).read_text(errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and value.strip().startswith("/"):
            yield os.path.dirname(os.path.realpath(value.strip()))
