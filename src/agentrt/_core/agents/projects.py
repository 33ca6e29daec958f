"""Rules that keep each agent from acting on the files of an untrusted project.

A project that was merely downloaded must not run programs, lift a permission rule or send a key to
another server before the user has looked at it. Until the user trusts the folder, an agent is
started so that it reads nothing of the project except instructions. `PROJECT_RULES` has the
settings for each agent; `_core/project_files` lists the files.

The settings are always used, even if the agent would not trust the folder by itself: some agents
let a folder inherit the trust of its parent.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from ..model.content import JsonObject
from ..project_files import AGENT_FILES, ProjectFile, files_of
from .agent import Agent

TrustMode: TypeAlias = Literal["ask", "yes", "no"]
"""The treatment of a folder that is not listed as trusted.

`"no"`: its files are ignored. `"yes"`: they count, as long as they do not change. `"ask"`: a
permission request of the session shows them.
"""

MAX_SEARCHED_BYTES: Final = 1024 * 1024
"""Maximum size of a file that is searched. A larger one counts as containing everything."""


class TrustStore(Struct, frozen=True):
    """An agent's own record of the folders that its user trusts."""

    variable: str
    """The environment variable with the agent's own folder."""
    folder: str
    """The folder below HOME if the variable is not set."""
    files: str
    """A pattern for files in that folder."""
    fields: tuple[str, ...]
    """The fields of these files that contain folders."""


class ProjectRules(Struct, frozen=True, kw_only=True):
    """Settings for starting an agent in an untrusted folder, and in a trusted one.

    The same settings in the user's configuration file and in the program that opens the session win
    over these, but an inherited environment does not.
    """

    files: tuple[ProjectFile, ...] = ()
    """The files that the agent acts on."""
    env: Mapping[str, str] = {}
    """Variables set in its environment."""
    unset_env: tuple[str, ...] = ()
    """Variables removed from its environment."""
    trusted_env: Mapping[str, str] = {}
    """Variables set in its environment if the folder is trusted."""
    claude: JsonObject = {}
    """Fields of `ClaudeOptions`."""
    meta: JsonObject = {}
    """The `_meta` of ACP's requests that open a session."""
    codex_projects: Literal["", "thread", "argument"] = ""
    """The way to pass Codex the trust level of each folder, so that it neither looks it up nor
    saves it.

    Either in the configuration of the thread, or as an argument.
    """
    qwen_settings: bool = False
    """True if Qwen Code gets a system settings file and a file of trusted folders from agentrt."""
    refused: str = ""
    """The reason why it is never started in an untrusted folder."""
    refused_files: tuple[str, ...] = ()
    """Files and folders that it acts on regardless of settings, or if not `known` may act on: if
    one exists, it is not started.
    """
    refused_words: tuple[str, ...] = ()
    """If not empty, such a file (not a folder) counts only if it contains one of these words."""
    refused_modes: tuple[str, ...] = ()
    """Modes of an ACP agent that make it save the folder as trusted in its own configuration.

    These modes are not chosen.
    """
    store: TrustStore | None = None
    """Its own list of trusted folders, which cannot be overridden.

    If the list has the folder or a parent, and the project has any of `files`, the agent is not
    started.
    """
    known: bool = True
    """False if its use of a project's files was not measured."""
    declares: bool = False
    """True if the agent's entry could list the files, because it is not in the catalogue."""
    tools_lost: bool = False
    """True if the agent does not get the tools of the program that opens the session."""
    lost: str = ""
    """Features that the user loses, as text for users."""
    residue: str = ""
    """Effects that are not prevented, as text for users."""


_CLAUDE_LOST: Final = (
    "the project's memory, commands, skills, agents and MCP servers, and MCP servers of the user"
)


def _unmeasured(agent: str) -> ProjectRules:
    """Return the rules of an agent that is known to read such files, but not what it does then."""
    files = files_of(agent)
    return ProjectRules(
        files=files,
        known=False,
        refused_files=tuple(file.path for file in files),
        residue="files that are not in the list below: the agent was not measured",
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
        refused=f"{_ACP_CODEX}; use the agent 'codex', where agentrt can prevent that",
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
    **{
        name: _unmeasured(name)
        for name in (
            "auggie",
            "cline",
            "cursor",
            "devin",
            "droid",
            "fast-agent",
            "goose",
            "grok",
            "junie",
            "kilo",
            "kiro",
            "pi",
            "qoder",
        )
    },
}
"""The agents of the catalogue, by name. Each row with `known` was tested with real projects."""


def project_rules(agent: Agent) -> ProjectRules:
    """Return the rules for an agent."""
    if agent.claude is not None and agent.claude.legacy:
        return _unmeasured("claude")
    name = agent.name if agent.name in PROJECT_RULES else _name_of_program(agent)
    if agent.protocol == "claude":
        name = "claude"
    elif agent.protocol == "codex":
        name = "codex"
    elif name in ("claude", "codex"):
        name = ""  # another program with the same name
    if name in PROJECT_RULES:
        return PROJECT_RULES[name]
    return _outside(agent)


_UNLISTED: Final = ProjectRules(
    # It may read the files of any agent.
    files=AGENT_FILES,
    known=False,
    refused_files=tuple(file.path for file in AGENT_FILES if file.protected),
    declares=True,
)
"""The rules for a program outside of the catalogue whose entry does not list its files."""


def _outside(agent: Agent) -> ProjectRules:
    """Return the rules for an agent outside of the catalogue."""
    if agent.project_files is not None:
        effect = "may decide which programs it runs and where it sends its key"
        files = tuple(ProjectFile(path, effect) for path in agent.project_files)
        return ProjectRules(files=files, refused_files=agent.project_files)
    if agent.connect is not None:  # its folder may be on another machine
        return ProjectRules(files=AGENT_FILES, known=False)
    return _UNLISTED


def _name_of_program(agent: Agent) -> str:
    """Return the agent of the catalogue with the same program, also if started through an
    interpreter.
    """
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
    "auggie": frozenset({"auggie"}),
    "cline": frozenset({"cline"}),
    "cursor": frozenset({"cursor-agent"}),
    "devin": frozenset({"devin"}),
    "droid": frozenset({"droid"}),
    "fast-agent": frozenset({"fast-agent-acp", "fast-agent"}),
    "goose": frozenset({"goose"}),
    "grok": frozenset({"grok"}),
    "junie": frozenset({"junie"}),
    "kilo": frozenset({"kilo", "kilocode"}),
    "kiro": frozenset({"kiro-cli-chat", "kiro-cli"}),
    "pi": frozenset({"pi-acp"}),
    "qoder": frozenset({"qodercli"}),
}
"""Names of programs and packages that identify an agent given by its command."""


def describe_measures(rules: ProjectRules) -> list[str]:
    """Return the measures that keep an agent from a project's files, in Markdown."""
    if not rules.known:
        return ["not started if there are files that it may act on"]
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
    found += _refusals(rules)
    return found or ["nothing is needed"]


def _refusals(rules: ProjectRules) -> list[str]:
    """Return the cases in which a mode is refused, or the agent is not started."""
    found = []
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
    return found


def _any(names: Sequence[str]) -> str:
    """Return names for a sentence."""
    return ", ".join(f"`{name}`" for name in names)


# --- trusted folders


def is_trusted(folder: str, trusted: Iterable[str | os.PathLike[str]]) -> bool:
    """Return True if the user trusts the folder, or the root of the repository that it is in.

    Links are followed. A repository that was cloned into a trusted folder is not trusted by that.
    """
    there = {os.path.realpath(os.path.expanduser(each)) for each in trusted}
    if not there:
        return False  # as in most sessions: the links need not be followed
    real = os.path.realpath(folder)
    return real in there or repository(real) in there


def repository(folder: str) -> str | None:
    """Return the root of the folder's repository: the nearest parent with a `.git`, or None."""
    return next(
        (each for each in _upwards(folder) if os.path.lexists(os.path.join(each, ".git"))), None
    )


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and all folders above it, up to the root."""
    yield folder
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        yield folder


# --- files in the folders


class FoundFile(Struct, frozen=True, kw_only=True):
    """A file of a project that an agent acts on."""

    path: str
    """Absolute path."""
    file: ProjectFile


def find_files(folder: str, files: Sequence[ProjectFile], home: str = "") -> list[FoundFile]:
    """Return the files that exist in a folder or its parents, nearest first.

    `home` and its parents are left out: files there are the user's own.
    """
    found: list[FoundFile] = []
    real = os.path.realpath(folder)
    own = set(_upwards(os.path.realpath(home))) if home else set()
    for place in _upwards(real):
        if place in own and place != real:
            break
        missing: dict[str, bool] = {}  # by the first folder of a path, which many have in common
        for file in files:
            top, below, _ = file.path.partition("/")
            if below and top not in missing:
                missing[top] = not os.path.lexists(os.path.join(place, top))
            if not (below and missing[top]):
                found += [FoundFile(path=path, file=file) for path in _there(place, file.path)]
    return found


def _there(place: str, pattern: str) -> list[str]:
    """Return the paths that a pattern of `ProjectFile.path` has in a folder.

    Without a `*`, an empty folder counts as missing; a link counts even if it leads nowhere,
    because the scan refuses it later.
    """
    if "*" in pattern:
        try:
            return [str(path) for path in sorted(Path(place).glob(pattern))]
        except OSError:
            return []
    path = os.path.join(place, pattern)
    return [path] if os.path.lexists(path) and not _is_empty_folder(path) else []


def _is_empty_folder(path: str) -> bool:
    """Return True for a folder without entries; False for a file, or if it cannot be read."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


class ProjectVerdict(Struct, frozen=True, kw_only=True):
    """The result of examining a folder before an agent is started in it."""

    found: tuple[FoundFile, ...] = ()
    refusal: str = ""
    """The reason why the agent must not be started; empty if it may."""


def judge(
    rules: ProjectRules, folders: Sequence[str], env: Mapping[str, str], *, opens: bool = True
) -> ProjectVerdict:
    """Examine untrusted folders before an agent is started with `env`. Blocks.

    `opens`: a session will be opened in the folders; otherwise only the list of sessions is
    requested.
    """
    home = env.get("HOME", "")
    found = tuple(each for folder in folders for each in find_files(folder, rules.files, home))
    if rules.refused and opens:
        return ProjectVerdict(found=found, refusal=rules.refused)
    for each in found:
        if each.file.path in rules.refused_files and _contains(each.path, rules.refused_words):
            why = (
                f"it acts on {each.path} regardless of its settings, and {each.file.effect}"
                if rules.known
                else f"it may act on {each.path}, which {each.file.effect}"
            )
            return ProjectVerdict(found=found, refusal=why)
    if rules.store is not None and found:
        for folder in folders:
            if place := _trusting(rules.store, folder, env):
                why = f"{place} marks the folder as trusted, so it acts on {found[0].path}"
                return ProjectVerdict(found=found, refusal=why)
    return ProjectVerdict(found=found)


def _contains(path: str, words: Sequence[str]) -> bool:
    """Return True if a file has one of the words or cannot be read, or if there are no words."""
    if not words:
        return True
    text = _read(path)
    return text is None or any(word in text for word in words)


def _read(path: str) -> str | None:
    """Return the text of a file; None if it is unreadable, not a regular file or too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = b""
        while piece := os.read(descriptor, MAX_SEARCHED_BYTES + 1 - len(data)):
            data += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if len(data) > MAX_SEARCHED_BYTES else data.decode(errors="replace")


def _trusting(store: TrustStore, folder: str, env: Mapping[str, str]) -> str:
    """Return the agent's own file that records a folder, or a parent, as trusted; empty if none
    does.

    A file that cannot be parsed counts as recording it.
    """
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
    """Return the path with links resolved; empty for one that no file can have."""
    return os.path.realpath(os.path.expanduser(path)) if "\0" not in path else ""


def _listed(text: str, suffix: str, fields: Sequence[str]) -> list[str] | None:
    """Return the strings in these fields of a file; None if it cannot be parsed."""
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
    """Remove comments, which many programs allow in JSON."""
    return _TOKEN.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)


# --- settings that name folders


def codex_projects(folders: Iterable[str], *, trusted: bool) -> JsonObject:
    """Return Codex's `projects`: the trust levels of the folders and, if untrusted, their
    repositories.

    They have every name that Codex may look up.
    """
    level = "trusted" if trusted else "untrusted"
    names = {name for folder in folders for name in (folder, os.path.realpath(folder))}
    if not trusted:  # otherwise the rest of the repository would become trusted, too
        names |= {root for name in names if (root := repository(name)) is not None}
    return {name: {"trust_level": level} for name in sorted(names)}


def codex_argument(projects: JsonObject) -> tuple[str, ...]:
    """Return the projects as a command line argument of Codex."""
    entries = ",".join(
        f"{_toml(name)}={{trust_level={_toml(entry['trust_level'])}}}"
        for name, entry in projects.items()
    )
    return ("-c", f"projects={{{entries}}}")


def _toml(text: str) -> str:
    """Return a string in the syntax of TOML, which is that of JSON except for DEL.

    TOML does not allow U+007F in a string, and JSON does not escape it.
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def qwen_settings(machine: str | None) -> JsonObject:
    """Return Qwen Code's system settings: those of the machine with folder trust turned on.

    Raises `ValueError` for a file that cannot be parsed.
    """
    settings: Any = json.loads(without_comments(machine)) if machine is not None else {}
    if not isinstance(settings, dict):
        raise ValueError("it is not an object")
    security = settings.get("security")
    security = security if isinstance(security, dict) else {}
    return {**settings, "security": {**security, "folderTrust": {"enabled": True}}}
