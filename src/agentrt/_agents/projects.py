"""The agents and the files of a project: how each agent is kept from acting on them.

A project that was merely downloaded must not run programs, lift a permission rule or send a key to
another server before the user has looked at it. Until the user trusts the folder, an agent is
started so that it reads nothing of the project but instructions. `PROJECT_RULES` says how, agent by
agent; `_project_files` lists the files.

The settings are always made, not only where the agent would trust the folder by itself: some agents
let a folder inherit the trust of the folder above it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from .._model.content import JsonObject
from .._project_files import AGENT_FILES, ProjectFile, files_of
from .agent import Agent

LARGEST_BYTES: Final = 1024 * 1024
"""Of a file that is looked into. A larger one counts as having everything in it."""


class TrustStore(Struct, frozen=True):
    """Where an agent notes by itself which folders its user trusts."""

    variable: str
    """The environment variable that names the agent's own folder."""
    folder: str
    """That folder below HOME, if the variable is not set."""
    files: str
    """A pattern of files in it."""
    fields: tuple[str, ...]
    """The fields of these files with folders in them."""


class ProjectRules(Struct, frozen=True, kw_only=True):
    """How an agent is started in a folder that the user does not trust, and in one that they do.

    What is set here yields to the same setting of the agent's entry in the user's configuration
    file and of the program that opens the session, but not to an inherited environment.
    """

    files: tuple[ProjectFile, ...] = ()
    """The files that the agent acts on."""
    env: Mapping[str, str] = {}
    """Set in its environment."""
    unset_env: tuple[str, ...] = ()
    """Removed from it."""
    trusted_env: Mapping[str, str] = {}
    """Set in its environment where the folder is trusted."""
    claude: JsonObject = {}
    """Fields of `ClaudeOptions`."""
    meta: JsonObject = {}
    """The `_meta` of ACP's requests that open a session."""
    codex_projects: Literal["", "thread", "argument"] = ""
    """How Codex is told the trust level of each folder, so that it neither looks it up nor writes
    it: in the configuration of the thread, or as an argument."""
    qwen_settings: bool = False
    """Qwen Code gets a system settings file and a file of trusted folders of agentrt's own."""
    refused: str = ""
    """Why it is never started in a folder that is not trusted."""
    refused_files: tuple[str, ...] = ()
    """Files and folders that it acts on whatever it is told: with one, it is not started."""
    refused_words: tuple[str, ...] = ()
    """If there are any, such a file (not a folder) counts only if it contains one of these."""
    refused_modes: tuple[str, ...] = ()
    """Modes of an ACP agent by which it writes into its own configuration that the folder is
    trusted: they are not chosen."""
    store: TrustStore | None = None
    """Its own list of trusted folders, which nothing overrules: if it has the folder or one above
    it, the agent is not started where the project has any of `files`."""
    known: bool = True
    """False: nobody has measured what it does with a project's files."""
    tools_lost: bool = False
    """The tools of the program that opens the session are not there."""
    lost: str = ""
    """What the user loses by it, for people to read."""
    residue: str = ""
    """What is not prevented, for people to read."""


_CLAUDE_LOST: Final = (
    "the project's memory, commands, skills, agents and MCP servers, and MCP servers of the user"
)
_ACP_CODEX: Final = "it declares each folder trusted to Codex itself"

PROJECT_RULES: Final[Mapping[str, ProjectRules]] = {
    "claude": ProjectRules(
        files=files_of("claude"),
        claude={"setting_sources": ("user",), "strict_mcp": True},
        lost=_CLAUDE_LOST,
    ),
    "claude-agent-acp": ProjectRules(
        files=files_of("claude-agent-acp"),
        meta={"claudeCode": {"options": {"settingSources": ["user"], "strictMcpConfig": True}}},
        lost=_CLAUDE_LOST,
    ),
    "codex": ProjectRules(
        files=files_of("codex"),
        codex_projects="thread",
        lost="the project's configuration, rules, hooks and skills",
    ),
    "codex-acp": ProjectRules(
        files=files_of("codex-acp"),
        refused=f"{_ACP_CODEX}; use the agent 'codex', which can be kept from that",
        residue="everything",
    ),
    "codex-acp-zed": ProjectRules(
        files=files_of("codex-acp-zed"),
        codex_projects="argument",
        refused_modes=("auto", "full-access"),
        lost="the project's configuration, rules and hooks; its modes that write",
    ),
    "gemini": ProjectRules(
        files=files_of("gemini"),
        env={"GEMINI_CLI_TRUST_WORKSPACE": "false"},
        trusted_env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        tools_lost=True,
        lost="the program's own tools, all MCP servers, the user's own commands",
    ),
    "qwen": ProjectRules(
        files=files_of("qwen"),
        qwen_settings=True,
        tools_lost=True,
        lost="the program's own tools, all MCP servers, the project's settings",
    ),
    "opencode": ProjectRules(
        files=files_of("opencode"),
        env={"OPENCODE_DISABLE_PROJECT_CONFIG": "1"},
        refused_files=(
            ".opencode/plugin",
            ".opencode/plugins",
            ".opencode/tool",
            ".opencode/tools",
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ),
        # Its switch does not keep it from loading plugins. The other words can hide the first.
        refused_words=("plugin", "\\u", "{file:", "{env:"),
        lost="the project's configuration, agents, commands and AGENTS.md",
        residue="plugins and tools (`plugin` in `opencode.json`, `.opencode/plugin`,"
        " `.opencode/tool`), with which it is not started",
    ),
    "copilot": ProjectRules(
        files=files_of("copilot"),
        unset_env=("COPILOT_ALLOW_ALL",),
        refused_files=(".github/hooks",),
        store=TrustStore(
            "COPILOT_HOME", ".copilot", "config.json", ("trustedFolders", "trusted_folders")
        ),
        residue="`.github/hooks`, with which it is not started",
    ),
    "kimi": ProjectRules(
        files=files_of("kimi"),
        store=TrustStore("KIMI_CODE_HOME", ".kimi-code", "workspace-trust/*", ("root",)),
        residue="a folder that the user trusts in Kimi Code itself; it is not started there",
    ),
    "vibe": ProjectRules(
        files=files_of("vibe"),
        store=TrustStore("VIBE_HOME", ".vibe", "trusted_folders.toml", ("trusted",)),
        residue="a folder that the user trusts in Vibe itself; it is not started there",
    ),
    "demo": ProjectRules(),
}
"""The agents that were measured, by name. Each row was tried with real projects."""


def project_rules(agent: Agent) -> ProjectRules:
    """The rules for an agent. One that was not measured gets rules that only name files."""
    if agent.claude is not None and agent.claude.legacy:
        return ProjectRules(files=files_of("claude"), known=False)
    name = agent.name if agent.name in PROJECT_RULES else _name_of_program(agent)
    if agent.protocol == "claude":
        name = "claude"
    elif agent.protocol == "codex":
        name = "codex"
    elif name in ("claude", "codex"):
        name = ""  # another program of that name
    if name in PROJECT_RULES:
        return PROJECT_RULES[name]
    # Another agent may read the files of any.
    return ProjectRules(files=files_of(agent.name) or AGENT_FILES, known=False)


def _name_of_program(agent: Agent) -> str:
    """The catalogue's agent that is started by the same program, also through an interpreter."""
    words = {os.path.basename(word) for word in agent.command}
    words |= {found[1] for word in agent.command for found in _PACKAGE.finditer(word)}
    return next((name for name, names in _PROGRAMS.items() if names & words), "")


_PACKAGE: Final = re.compile(r"node_modules/(?:@[^/]+/)?([^/]+)/")


_PROGRAMS: Final[Mapping[str, frozenset[str]]] = {
    "claude-agent-acp": frozenset({"claude-agent-acp", "claude-code-acp"}),
    "codex-acp": frozenset({"codex-acp"}),
    "gemini": frozenset({"gemini", "gemini-cli", "gemini.js"}),
    "qwen": frozenset({"qwen", "qwen-code"}),
    "opencode": frozenset({"opencode", "opencode-ai"}),
    "copilot": frozenset({"copilot"}),
    "kimi": frozenset({"kimi", "kimi-code"}),
    "vibe": frozenset({"vibe-acp", "mistral-vibe"}),
}
"""Names of programs and packages by which an agent is known that was given by its command."""


def measures(rules: ProjectRules) -> list[str]:
    """The ways in which the rules keep an agent from a project's files, in Markdown."""
    found = [f"`{name}={value}`" for name, value in rules.env.items()]
    found += [f"without `{name}`" for name in rules.unset_env]
    if rules.claude:
        found.append("`--setting-sources=user --strict-mcp-config`")
    if rules.meta:
        found.append('`settingSources: ["user"]`, `strictMcpConfig: true` in `_meta.claudeCode`')
    if rules.codex_projects:
        where = "the thread's configuration" if rules.codex_projects == "thread" else "`-c`"
        found.append(f'`trust_level = "untrusted"` for each folder, in {where}')
    if rules.qwen_settings:
        found.append("a system settings file with folder trust on, and a list of trusted folders")
    if rules.refused_modes:
        modes = ", ".join(f"`{mode}`" for mode in rules.refused_modes)
        found.append(f"its modes {modes} are refused")
    if rules.refused:
        found.append("not started")
    plain = [name for name in rules.refused_files if not rules.refused_words or "json" not in name]
    worded = [name for name in rules.refused_files if name not in plain]
    if plain:
        found.append(f"not started if there is {_any(plain)}")
    if worded:
        found.append(f"not started if `{rules.refused_words[0]}` is in {_any(worded)}")
    if rules.store is not None:
        found.append(
            "not started if there are such files, and its own list trusts the folder or one above"
        )
    return found or ["nothing is needed"]


def _any(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- which folders are trusted


def is_trusted(folder: str, trusted: Iterable[str | os.PathLike[str]]) -> bool:
    """True if a folder is one of those that the user trusts, or lies in a repository whose own
    folder is one of them. Links are followed. A repository that was cloned into a trusted folder
    is not trusted by that."""
    there = {os.path.realpath(os.path.expanduser(each)) for each in trusted}
    real = os.path.realpath(folder)
    return real in there or repository(real) in there


def repository(folder: str) -> str | None:
    """The folder of the repository that a folder lies in: the nearest one with a `.git`."""
    return next(
        (each for each in _upwards(folder) if os.path.lexists(os.path.join(each, ".git"))), None
    )


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        yield folder


# --- which files there are


class FoundFile(Struct, frozen=True, kw_only=True):
    """A file of a project that an agent acts on."""

    path: str
    """Absolute."""
    file: ProjectFile


def find_files(folder: str, files: Sequence[ProjectFile], home: str = "") -> list[FoundFile]:
    """The files that are in a folder or in one above it, the nearest first.

    `home` and the folders above it are left out: what is there is the user's own.
    """
    found: list[FoundFile] = []
    real = os.path.realpath(folder)
    own = set(_upwards(os.path.realpath(home))) if home else set()
    for place in _upwards(real):
        if place in own and place != real:
            break
        for file in files:
            found += [FoundFile(path=path, file=file) for path in _there(place, file.path)]
    return found


def _there(place: str, pattern: str) -> list[str]:
    if "*" in pattern:
        try:
            return [str(path) for path in sorted(Path(place).glob(pattern))]
        except OSError:
            return []
    path = os.path.join(place, pattern)
    return [path] if os.path.lexists(path) and not _is_empty_folder(path) else []


def _is_empty_folder(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


class ProjectVerdict(Struct, frozen=True, kw_only=True):
    """The outcome of a look at a folder before an agent is started in it."""

    found: tuple[FoundFile, ...] = ()
    refusal: str = ""
    """Why the agent must not be started; empty if it may be."""


def judge(
    rules: ProjectRules, folders: Sequence[str], env: Mapping[str, str], *, opens: bool = True
) -> ProjectVerdict:
    """Look at untrusted folders before an agent is started with `env`. Blocks.

    `opens`: it will be asked for a session in the folders, and not only for its list of sessions.
    """
    home = env.get("HOME", "")
    found = tuple(each for folder in folders for each in find_files(folder, rules.files, home))
    if rules.refused and opens:
        return ProjectVerdict(found=found, refusal=rules.refused)
    for each in found:
        if each.file.path in rules.refused_files and _contains(each.path, rules.refused_words):
            why = f"it acts on {each.path} whatever it is told, and {each.file.effect}"
            return ProjectVerdict(found=found, refusal=why)
    if rules.store is not None and found:
        for folder in folders:
            if place := _trusting(rules.store, folder, env):
                why = f"{place} says that it trusts the folder, so that it acts on {found[0].path}"
                return ProjectVerdict(found=found, refusal=why)
    return ProjectVerdict(found=found)


def _contains(path: str, words: Sequence[str]) -> bool:
    if not words:
        return True
    text = _read(path)
    return text is None or any(word in text for word in words)


def _read(path: str) -> str | None:
    """The text of a file; None if it cannot be read, is no regular file or too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = b""
        while piece := os.read(descriptor, LARGEST_BYTES + 1 - len(data)):
            data += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if len(data) > LARGEST_BYTES else data.decode(errors="replace")


def _trusting(store: TrustStore, folder: str, env: Mapping[str, str]) -> str:
    """The agent's own file that says that a folder, or one above it, is trusted; empty if none
    does. A file that cannot be understood does."""
    home = env.get(store.variable) or os.path.join(env.get("HOME", "~"), store.folder)
    wanted = set(_upwards(os.path.realpath(folder))) | set(_upwards(os.path.abspath(folder)))
    for path in sorted(Path(os.path.expanduser(home)).glob(store.files)):
        if not path.is_file():
            continue
        text = _read(str(path))
        listed = None if text is None else _listed(text, path.suffix, store.fields)
        if listed is None or any(_real(each) in wanted for each in listed):
            return str(path)
    return ""


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path)) if "\0" not in path else ""


def _listed(text: str, suffix: str, fields: Sequence[str]) -> list[str] | None:
    """The strings in some fields of a file; None if it cannot be read."""
    try:
        data: Any = tomllib.loads(text) if suffix == ".toml" else json.loads(without_comments(text))
    except ValueError:
        return None
    if not isinstance(data, dict):
        return []
    values = [data[name] for name in fields if name in data]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [each for value in lists for each in value if isinstance(each, str)]


_TOKEN: Final = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)', re.DOTALL
)


def without_comments(text: str) -> str:
    """JSON without the comments that many programs allow in it."""
    return _TOKEN.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)


# --- settings that name folders


def codex_projects(folders: Iterable[str], *, trusted: bool) -> JsonObject:
    """Codex's `projects`: the trust level of each folder, and of the repository that it lies in,
    by every name that Codex may look for."""
    level = "trusted" if trusted else "untrusted"
    names = {name for folder in folders for name in (folder, os.path.realpath(folder))}
    if not trusted:  # else the rest of the repository would be trusted with it
        names |= {root for name in names if (root := repository(name)) is not None}
    return {name: {"trust_level": level} for name in sorted(names)}


def codex_argument(projects: JsonObject) -> tuple[str, ...]:
    """The same as an argument of Codex's own kind."""
    entries = ",".join(
        f"{_toml(name)}={{trust_level={_toml(entry['trust_level'])}}}"
        for name, entry in projects.items()
    )
    return ("-c", f"projects={{{entries}}}")


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def qwen_settings(machine: str | None) -> JsonObject:
    """Qwen Code's system settings: those of the machine, with folder trust turned on. Raises
    `ValueError` for a file that cannot be read."""
    settings: Any = json.loads(without_comments(machine)) if machine is not None else {}
    if not isinstance(settings, dict):
        raise ValueError("it is not an object")
    security = settings.get("security")
    security = security if isinstance(security, dict) else {}
    return {**settings, "security": {**security, "folderTrust": {"enabled": True}}}
