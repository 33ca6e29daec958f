"""Configuration from the user file, the project file, the environment and the command line.

Later sources win. User file: `$XDG_CONFIG_HOME/agentrt/config.toml`, or the file named by
`AGENTRT_CONFIG`. Project file: the nearest `.agentrt.toml` in the working folder or above it.
Environment: `AGENTRT_AGENT`, `AGENTRT_PERMISSIONS` (the mode), and `AGENTRT_LIMITS_TURN_TIMEOUT_S`,
`AGENTRT_SERVE_PORT` and so on.

    agent = "gemini"              # the default agent
    trusted = ["~/src/mine"]      # user file only: folders whose own files are acted on
    trust = "ask"                 # user file only: other folders; "ask", "yes" or "no"

    [agents.mine]
    command = "mine --acp"
    env = { MINE_KEY = "…" }
    quirks = { cancel_grace_s = 30 }

    [limits]                               # see `Limits`; "none" removes a limit
    turn_timeout_s = 600

    [permissions]
    mode = "ask"
    allow = ["Read", "Bash(git status:*)"]
    deny = ["Bash(rm:*)"]

    [serve]
    port = 8080

    [serve.tenants.acme]          # clients with this token see only these sessions
    token = "…"                   # or several: ["…", "…"]
    sessions = 20

    [unattended]
    checkpoints = true            # save the files before and after each turn
    budget = "5usd,20turns"       # for all turns of a command or a server

    [trace]
    file = "~/agents.trace"       # all wire messages

    [log]
    level = "info"                # to standard error

    [terminal]
    color = "never"               # auto (default), always, never
    plain = true                  # print the conversation line by line, as for a screen reader
"""

from __future__ import annotations

import codecs
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from .._base.home import home_folder
from .agents import BUILT_IN, Agent, ProtocolName, Quirks
from .agents.projects import TrustMode
from .claude.options import ClaudeOptions
from .errors import AgentrtError
from .limits import Limits, Tenant, parse_budget, parse_duration
from .model.content import JsonObject

if TYPE_CHECKING:
    from .sandbox.policy import Sandbox

PermissionMode: TypeAlias = Literal["ask", "deny", "allow-all"]
ColorChoice: TypeAlias = Literal["auto", "always", "never"]
ServerRole: TypeAlias = Literal["both", "gateway", "worker"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]

USER_FILE = "agentrt/config.toml"
PROJECT_FILE = ".agentrt.toml"
PREFIX = "AGENTRT_"
CONFIG_FILE_BYTES = 64 * 1024
"""Maximum size of a configuration file in bytes; a project file may come from anyone."""
DOTS_PER_LINE = 200
"""Maximum number of dots in a line: parsing dotted keys takes time quadratic in their length."""
_STRICTER = (("mode", "deny"), ("on_violation", "cancel"))
"""Permission settings that only make checks stricter."""
_VARIABLES, _FLAGS = "the environment", "the command line"
_IGNORED = "{}: {} ignored, because {} does not list this folder under `trusted`"

T = TypeVar("T", bound=Struct)


class ConfigError(AgentrtError):
    """An unknown setting or a wrong value; the message names the place and the allowed values."""


class PermissionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decisions about permission requests from agents."""

    mode: PermissionMode | None = None
    """Handling of a request that no rule covers. None: `ask` where a user can be asked."""
    allow: tuple[str, ...] = ()
    """Permission rules for requests that are allowed."""
    deny: tuple[str, ...] = ()
    """Permission rules for requests that are denied. `deny` always wins over `allow`."""
    on_violation: Literal["warn", "cancel"] = "warn"
    """Reaction to a tool call that ran without a permission request although a rule denies it."""


class TenantTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant in the configuration: its tokens and limits. See `Tenant`."""

    token: str | tuple[str, ...] = ()
    """Tokens that allow full control."""
    viewer_token: str | tuple[str, ...] = ()
    """Tokens that allow viewing only."""
    sessions: Annotated[int, Meta(ge=0)] | None = None
    """Maximum number of open sessions. None: no limit."""
    viewers: Annotated[int, Meta(ge=0)] | None = None
    """Maximum number of connections. None: no limit."""
    events: Annotated[float, Meta(ge=1)] | None = None
    """Maximum number of events per second. None: no limit."""
    root: tuple[str, ...] = ()
    """Folders in which, and below which, its clients may open sessions. Empty: the server's."""
    budget: str | None = None
    """A budget for all its turns, such as `5usd,2Mtok,30min,20turns`. None: no budget."""

    def tenant(self, name: str) -> Tenant:
        """Return the `Tenant`. Raises `ValueError` for an invalid name."""
        return Tenant(
            name=name,
            sessions=self.sessions,
            viewers=self.viewers,
            events=self.events,
            roots=self.root,
            budget=self.budget,
        )


class ServeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the web server."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Port to listen on; 0: any free port."""
    token: str | None = None
    """Token for full control; None: a random one."""
    viewer_token: str | None = None
    """Token for viewing only; None: there is none."""
    metrics_token: str | None = None
    """Token required for `/metrics`. None: it is not served."""
    url: str | None = None
    """The public address of the server, with its path if a proxy serves it below one.

    None: `host` and `port`.
    """
    allow_host: tuple[str, ...] = ()
    """Further host names under which clients reach the server."""
    allow_origin: tuple[str, ...] = ()
    """Further origins whose pages may connect."""
    root: tuple[str, ...] = ()
    """Folders in which, and below which, clients may open sessions."""
    store: str | None = None
    """A file, `sqlite:FILE`, `postgresql://…`, or `off`. None: the default file."""
    node: str | None = None
    """Name of this server among those that share a PostgreSQL store. None: it is not shared."""
    role: ServerRole = "both"
    """Role of a server that shares a store: serve browsers (`gateway`), run sessions (`worker`) or
    both.
    """
    home: str | None = None
    """Identical on all machines with the same files. None: the name of this machine."""
    otel: bool = False
    """True to export OpenTelemetry spans."""
    webhook: str | None = None
    """Address that gets a POST when a question waits for an answer, or a turn has ended."""
    tenants: dict[str, TenantTable] = {}
    """The tenants of the server, by name. As an environment variable: the same in JSON."""


KeyAction: TypeAlias = Literal[
    "newline",
    "mode",
    "expand",
    "transcript",
    "take_back",
    "editor",
    "paste_image",
    "suspend",
]
"""An action of the terminal interface whose key can be chosen."""
ColorRole: TypeAlias = Literal[
    "you",
    "good",
    "bad",
    "warn",
    "busy",
    "ask",
    "dim",
    "bold",
    "italic",
    "chosen",
    "added",
    "removed",
    "added_word",
    "removed_word",
    "place",
]
"""A kind of text of the terminal interface whose colors can be chosen."""


class TerminalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the terminal interface."""

    color: ColorChoice = "auto"
    """`auto`: colors if the output is a terminal and `NO_COLOR` is not set."""
    plain: bool = False
    """True to print the conversation line by line, without a fixed prompt."""
    store: str | None = None
    """File for stored conversations, `postgresql://…`, or `off`. None: the user's default file."""
    answer_with_key: bool = True
    """True if the letter of an answer to a question takes effect without Enter, when no other key
    is pressed shortly before or after it.
    """
    images: bool = True
    """True to show images in terminals that can: kitty, Ghostty, WezTerm and iTerm2."""
    keys: dict[KeyAction, str] = {}
    """Keys for actions, such as `{"expand": "f2", "editor": "ctrl-x ctrl-e"}`."""
    colors: dict[ColorRole, str] = {}
    """Colors for kinds of text, such as `{"you": "bold bright-blue", "added": "plain"}`."""


class UnattendedSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of agents that run without a person at hand."""

    checkpoints: bool = False
    """True to save the files before and after each turn, so that a turn can be undone."""
    budget: str | None = None
    """A budget for all turns of a command or a server, such as `5usd,2Mtok,30min,20turns`."""
    wait_for_limits: str | None = None
    """The maximum time for which a turn waits for the end of a rate limit, such as `6h`."""
    worktree: bool = False
    """True to run each new session of `agentrt` in a separate working tree of the repository."""
    worktree_copy: tuple[str, ...] = ()
    """Ignored files and folders to copy into the working tree."""
    worktree_setup: tuple[str, ...] = ()
    """A command that prepares the working tree."""
    audit: str | None = None
    """A file to which requests, decisions and actions are appended. None: nothing is written."""


class TraceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recording of wire messages in a file."""

    file: str | None = None
    """None: nothing is written."""
    max_bytes: Annotated[int, Meta(ge=4096)] = 64 * 1024 * 1024
    """Maximum size of one file."""
    files: Annotated[int, Meta(ge=1)] = 4
    """Number of files to keep: full ones and the current one."""
    redact: tuple[str, ...] = ()
    """Regular expressions; matches are removed, in addition to apparent secrets."""


class LogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Logging to standard error."""

    level: LogLevel | None = None
    """None: off, except for internal errors of a server."""
    format: LogFormat = "text"
    """The format of each line."""


class Config(Struct, frozen=True, kw_only=True):
    """All settings, from all sources."""

    agent: str | None = None
    """Name of the default agent."""
    agents: dict[str, Agent] = {}
    """Agents from the configuration files; they win over built-in agents of the same name."""
    limits: JsonObject = {}
    """The fields of `Limits` that are set. The others keep the agent's values."""
    permissions: PermissionSettings = PermissionSettings()
    """Decisions about permission requests."""
    serve: ServeSettings = ServeSettings()
    """The web server."""
    terminal: TerminalSettings = TerminalSettings()
    """The terminal interface."""
    unattended: UnattendedSettings = UnattendedSettings()
    """Agents that run without a person at hand."""
    trace: TraceSettings = TraceSettings()
    """The file for wire messages."""
    log: LogSettings = LogSettings()
    """Logging to standard error."""
    sandbox: Sandbox | None = None
    """The sandbox for all sessions; None: none."""
    trusted: tuple[str, ...] = ()
    """Folders whose own files agentrt and the agents act on, whatever they contain.

    They come from the user file and the command line, as absolute paths with symbolic links
    resolved.
    """
    trust: TrustMode | None = None
    """The decision about the files of all other folders, from the user file, the environment or the
    command line. None: the command decides.
    """
    files: tuple[str, ...] = ()
    """The files that were read."""
    origins: dict[str, str] = {}
    """Source of each setting that differs from its default, by names such as `agent`,
    `limits.turn_timeout_s` and `agents.mine`: a file, `the environment` or `the command line`.
    """
    warnings: tuple[str, ...] = ()
    """Ignored settings with the reasons, to be shown to the user."""

    def bound(self, limits: Limits) -> Limits:
        """Return the limits with the settings applied."""
        return structs.replace(limits, **self.limits)


class _AgentEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """A table `[agents.NAME]`. Missing fields are taken from the built-in agent of that name, if
    any.
    """

    command: str | tuple[str, ...] | None = None
    title: str | None = None
    protocol: ProtocolName | None = None
    env: dict[str, str] = {}
    unset_env: tuple[str, ...] | None = None
    terminal_env: tuple[str, ...] | None = None
    install: str | None = None
    docs: str | None = None
    note: str | None = None
    version_args: tuple[str, ...] | None = None
    quirks: Quirks | None = None
    claude: ClaudeOptions | None = None
    acp_version: Literal[1, 2] | None = None
    project_files: tuple[str, ...] | None = None


class _File(Struct, kw_only=True, forbid_unknown_fields=True):
    """The contents of a file; its tables are checked one by one."""

    agent: str | None = None
    agents: dict[str, JsonObject] = {}
    limits: JsonObject = {}
    permissions: JsonObject = {}
    serve: JsonObject = {}
    terminal: JsonObject = {}
    unattended: JsonObject = {}
    trace: JsonObject = {}
    log: JsonObject = {}
    sandbox: JsonObject = {}
    trusted: tuple[str, ...] = ()
    trust: TrustMode | None = None


def load_config(
    cwd: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Read all settings.

    `flags` are the settings of the command line, in the structure of a file: `{"limits":
    {"turn_timeout_s": 60.0}}`. A missing file counts as empty. Raises `ConfigError`.
    """
    env = os.environ if env is None else env
    user_path = _user_path(env)
    layers = [_read(user_path, missing_ok=PREFIX + "CONFIG" not in env)]
    places = [str(user_path)]
    warnings: list[str] = []
    narrowing: JsonObject = {}
    from_flags = _checked(_FLAGS, dict(flags or {}))
    trusted = _trusted((*layers[0].trusted, *from_flags.trusted), env)
    if project_path := _project_path(Path(cwd)):
        project = _read(project_path)
        narrowing, project.sandbox = project.sandbox, {}
        if project.trust is not None:
            project.trust = None
            warnings.append(f"{project_path}: trust ignored: a project cannot decide about itself")
        if narrowing.get("mode") == "off":
            warnings.append(f"{project_path}: sandbox ignored: a project cannot switch it off")
            narrowing = {}
        if project_path.parent not in trusted:
            project, ignored = _without_risks(project, layers[0])
            if ignored:
                warnings.append(_IGNORED.format(project_path, ", ".join(ignored), user_path))
        layers.append(project)
        places.append(str(project_path))
    warnings += _unknown_variables(env)
    layers += [_from_environment(env), from_flags]
    merged = _merge(layers)
    return Config(
        agent=merged.agent,
        agents={name: _agent(name, entry) for name, entry in merged.agents.items()},
        limits=merged.limits,
        permissions=msgspec.convert(merged.permissions, PermissionSettings),
        serve=msgspec.convert(merged.serve, ServeSettings),
        terminal=msgspec.convert(merged.terminal, TerminalSettings),
        unattended=msgspec.convert(merged.unattended, UnattendedSettings),
        trace=msgspec.convert(merged.trace, TraceSettings),
        log=msgspec.convert(merged.log, LogSettings),
        sandbox=_sandbox(merged.sandbox, narrowing, str(project_path)),
        trusted=tuple(sorted(map(str, trusted))),
        trust=merged.trust,
        files=tuple(str(path) for path in (user_path, project_path) if path and _is_file(path)),
        origins=_origins([*places, _VARIABLES, _FLAGS], layers),
        warnings=tuple(warnings),
    )


# --- files


def _sandbox(table: JsonObject, narrowing: JsonObject, place: str) -> Sandbox | None:
    """Return the sandbox of the user's settings, narrowed by those of the project, which cannot
    widen it.

    Raises `ConfigError`.
    """
    if not table and not narrowing:
        return None
    from .sandbox.policy import narrowed, overlaid, sandbox_from

    try:
        given = sandbox_from(table) if table else None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"sandbox: {error}") from None
    try:
        return narrowed(given, overlaid(given, narrowing) if narrowing else None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{place}: sandbox: {error}") from None


def _merged_sandbox(first: JsonObject, second: JsonObject) -> JsonObject:
    """Merge two tables: a mode replaces everything, lists accumulate."""
    if second.get("mode") == "off":
        return dict(second)
    if first.get("mode") == "off" or ("mode" in second and first.get("mode") != second["mode"]):
        first = {name: value for name, value in first.items() if name not in ("mode", "network")}
    merged = {**first, **second}
    for name, value in second.items():
        earlier = first.get(name)
        if isinstance(value, list) and isinstance(earlier, list):
            merged[name] = [*earlier, *value]
    return merged


def _user_path(env: Mapping[str, str]) -> Path:
    """Return the path of the user's file: from `AGENTRT_CONFIG`, or in the configuration folder."""
    if named := env.get(PREFIX + "CONFIG"):
        return Path(named)
    given = env.get("XDG_CONFIG_HOME")
    return (Path(given) if given else home_folder(env) / ".config") / USER_FILE


def _project_path(cwd: Path) -> Path | None:
    """Return the file in `cwd` or the nearest folder above it; None if all are without one."""
    folders = [cwd.resolve(), *cwd.resolve().parents]
    return next((f / PROJECT_FILE for f in folders if _is_file(f / PROJECT_FILE)), None)


def _is_file(path: Path) -> bool:
    """Return True for a file; False if it cannot be examined."""
    try:
        return path.is_file()
    except OSError:  # a parent folder that this user may not search
        return False


def _read(path: Path, *, missing_ok: bool = True) -> _File:
    """Read and check a file. An absent one has no settings. Raises `ConfigError`.

    Its size and the dots in a line are limited, because a project's file is read before anything is
    trusted.
    """
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_FILE_BYTES + 1)
    except FileNotFoundError:
        if missing_ok:
            return _File()
        raise ConfigError(f"{path}: file not found") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(data) > CONFIG_FILE_BYTES:
        raise ConfigError(f"{path}: it has more than {CONFIG_FILE_BYTES} bytes")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError(f"{path}: the file is UTF-16; save it as UTF-8")
    try:
        if any(line.count(b".") > DOTS_PER_LINE for line in data.splitlines()):
            raise RecursionError
        return _checked(str(path), msgspec.toml.decode(data.removeprefix(codecs.BOM_UTF8)))
    except RecursionError:
        raise ConfigError(f"{path}: it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _trusted(folders: Iterable[str], env: Mapping[str, str]) -> set[Path]:
    """Resolve exactly the folders that are named, not their subfolders, which may be cloned
    projects.
    """
    home = env.get("HOME", "~")
    return {Path(re.sub("^~(?=/|$)", home, folder)).resolve() for folder in folders}


def _without_risks(project: _File, user: _File) -> tuple[_File, list[str]]:
    """Split an untrusted project file into its safe part and the names of the ignored settings.

    The author of a downloaded project must not be able to run commands, answer permission requests
    or open the web server before the user has read a line of it. The choice of an agent counts as
    well: some agents read further settings from the folder, including commands. Such a file may
    therefore make checks stricter but never weaker: it may deny, and it may lower limits.
    """
    bounds = structs.asdict(Limits()) | user.limits
    safe = _File(
        limits={
            name: value
            for name, value in project.limits.items()
            if value is not None and (bounds[name] is None or value < bounds[name])
        },
        permissions={
            name: value
            for name, value in project.permissions.items()
            if name == "deny" or (name, value) in _STRICTER
        },
    )
    ignored = [n for n in _File.__struct_fields__ if getattr(project, n) != getattr(safe, n)]
    return safe, ignored


# --- environment


def _from_environment(env: Mapping[str, str]) -> _File:
    """Return the settings of the environment variables. Raises `ConfigError`."""
    file = _File()
    if agent := env.get(PREFIX + "AGENT"):
        file.agent = agent
    if mode := env.get(PREFIX + "PERMISSIONS"):
        file.permissions = {"mode": mode}
    if trust := env.get(PREFIX + "TRUST"):
        file.trust = _convert({"trust": trust}, _File, _VARIABLES).trust
    file.limits = _variables(env, Limits, "limits")
    file.serve = _variables(env, ServeSettings, "serve")
    file.terminal = _variables(env, TerminalSettings, "terminal")
    file.unattended = _variables(env, UnattendedSettings, "unattended")
    file.trace = _variables(env, TraceSettings, "trace")
    if name := env.get(PREFIX + "TRACE"):
        file.trace["file"] = name
    file.log = _variables(env, LogSettings, "log")
    return _check_tables(file, _VARIABLES)


def _unknown_variables(env: Mapping[str, str]) -> list[str]:
    """Return warnings about variables that look like settings but are unknown."""
    known = [f"{PREFIX}{name}" for name in ("AGENT", "CONFIG", "PERMISSIONS", "TRACE", "TRUST")]
    for table, struct in _SETTINGS.items():
        known += [
            f"{PREFIX}{table.upper()}_{field.name.upper()}" for field in structs.fields(struct)
        ]
    tables = tuple(f"{PREFIX}{table.upper()}_" for table in _SETTINGS)
    warnings = []
    for name in sorted(env):
        # A wrong name in a known table is an error; agentrt sets some others for the agents' use.
        if name.startswith(PREFIX) and name not in known and not name.startswith((*tables, *_OURS)):
            near = get_close_matches(name, known, 1, 0.8)
            meant = f"; did you mean {near[0]}?" if near else ""
            warnings.append(f"the variable {name} is not a setting and is ignored{meant}")
    return warnings


_SETTINGS: dict[str, type[Struct]] = {
    "limits": Limits,
    "serve": ServeSettings,
    "terminal": TerminalSettings,
    "unattended": UnattendedSettings,
    "trace": TraceSettings,
    "log": LogSettings,
}
"""The tables that can also be set by environment variables."""
_OURS = tuple(f"{PREFIX}{name}" for name in ("GUARD", "MCP_", "TEST_", "FULL", "BUILD_"))
"""Variables that agentrt and its tests set."""


def _variables(env: Mapping[str, str], table: type[Struct], name: str) -> JsonObject:
    """Return the table's settings from the environment, converted to their types."""
    start = f"{PREFIX}{name.upper()}_"
    texts: JsonObject = {
        variable.removeprefix(start).lower(): text
        for variable, text in env.items()
        if variable.startswith(start)
    }
    for field in structs.fields(table):
        if field.name not in texts:
            continue
        if field.default == ():
            texts[field.name] = [part.strip() for part in texts[field.name].split(",")]
        elif field.default_factory is dict:
            try:
                texts[field.name] = msgspec.json.decode(texts[field.name])
            except msgspec.DecodeError as error:
                variable = f"{start}{field.name.upper()}"
                raise ConfigError(f"{_VARIABLES}: {variable}: {error}") from None
    typed = _convert(_without_none(texts), table, _VARIABLES, name, strict=False)
    return {field: getattr(typed, field) for field in texts}


# --- checking and merging


def _checked(source: str, settings: JsonObject) -> _File:
    """Check the settings of one source. Raises `ConfigError`, which names the source."""
    return _check_tables(_convert(settings, _File, source), source)


def _check_tables(file: _File, source: str) -> _File:
    """Check the values in the tables of a file. Raises `ConfigError`, which names the setting.

    The tables stay plain dicts: only what is set may replace the settings of another source.
    """
    file.limits = _without_none(file.limits)
    _convert(file.limits, Limits, source, "limits")
    permissions = _convert(file.permissions, PermissionSettings, source, "permissions")
    for name, texts in (("allow", permissions.allow), ("deny", permissions.deny)):
        _check_rules(texts, f"{source}: permissions.{name}", denies=name == "deny")
    for tenant, table in _convert(file.serve, ServeSettings, source, "serve").tenants.items():
        _check_tenant(tenant, table, f"{source}: serve.tenants")
    _convert(file.terminal, TerminalSettings, source, "terminal")
    unattended = _convert(file.unattended, UnattendedSettings, source, "unattended")
    try:
        if unattended.budget is not None:
            parse_budget(unattended.budget)
    except ValueError as error:
        raise ConfigError(f"{source}: unattended.budget: {error}") from None
    try:
        if unattended.wait_for_limits is not None:
            parse_duration(unattended.wait_for_limits)
    except ValueError as error:
        raise ConfigError(f"{source}: unattended.wait_for_limits: {error}") from None
    _convert(file.log, LogSettings, source, "log")
    for pattern in _convert(file.trace, TraceSettings, source, "trace").redact:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{source}: trace.redact: {pattern!r}: {error}") from None
    for name, settings in file.agents.items():
        entry = _convert(settings, _AgentEntry, source, f"agents.{name}")
        if entry.command is None and name not in BUILT_IN:
            raise ConfigError(f"{source}: agents.{name}.command is missing")
        try:
            if entry.command is not None and not _words(entry.command):
                raise ConfigError(f"{source}: agents.{name}.command is empty")
        except ValueError as error:
            raise ConfigError(f"{source}: agents.{name}.command: {error}") from None
    return file


def _check_tenant(name: str, table: TenantTable, place: str) -> None:
    """Check a tenant of the server. Raises `ConfigError`."""
    try:
        table.tenant(name)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None
    if not table.token and not table.viewer_token:
        raise ConfigError(f"{place}.{name}: `token` is missing, so no client could connect")


def _check_rules(texts: Sequence[str], place: str, *, denies: bool) -> None:
    """Check permission rules. Raises `ConfigError`."""
    if not texts:
        return
    from .permissions.rules import PermissionRule  # slow to import

    for text in texts:
        try:
            PermissionRule(text, denies=denies)
        except ValueError as error:
            raise ConfigError(f"{place}: {error}") from None


def _without_none(table: JsonObject) -> JsonObject:
    """Replace the word `none` by None: TOML and environment variables have no null."""
    return {name: None if value == "none" else value for name, value in table.items()}


def _convert(
    settings: JsonObject, type: type[T], source: str, table: str = "", *, strict: bool = True
) -> T:
    """Return a table as this type. Raises `ConfigError` with the setting's name.

    Not `strict`: texts are converted to numbers and truth values, as the environment needs it.
    """
    try:
        return msgspec.convert(settings, type, strict=strict)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_explained(str(error), type, table)}") from None


_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_TABLES: dict[str, type[Struct]] = {
    "quirks": Quirks,
    "claude": ClaudeOptions,
    "tenants[...]": TenantTable,
}


def _explained(message: str, type: type[Struct], table: str) -> str:
    """Rewrite msgspec's message with the setting's name in the file and the allowed names."""
    found = _PLACE.fullmatch(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    place = ".".join(part for part in (table, path) if part)
    if unknown := _UNKNOWN.fullmatch(what):
        struct = _TABLES.get(path, type)
        names = ", ".join(field.name for field in structs.fields(struct))
        return f"{'.'.join(filter(None, (place, unknown[1])))} is not a setting; settings: {names}"
    return f"{place}: {what}"


def _merge(layers: Sequence[_File]) -> _File:
    """Merge the layers: later settings win, but rules of `allow` and `deny` accumulate."""
    merged = _File()
    for layer in layers:
        merged.agent = layer.agent or merged.agent
        merged.trust = layer.trust or merged.trust
        merged.agents |= layer.agents
        merged.limits |= layer.limits
        merged.serve |= layer.serve
        merged.terminal |= layer.terminal
        merged.unattended |= layer.unattended
        merged.trace |= layer.trace
        merged.log |= layer.log
        merged.sandbox = _merged_sandbox(merged.sandbox, layer.sandbox)
        rules = {
            name: [*merged.permissions.get(name, ()), *layer.permissions[name]]
            for name in ("allow", "deny")
            if name in layer.permissions
        }
        merged.permissions |= layer.permissions | rules
    return merged


def _origins(places: Sequence[str], layers: Sequence[_File]) -> dict[str, str]:
    """Return the source of each setting, or all sources if they accumulate."""
    origins: dict[str, str] = {}
    for place, layer in zip(places, layers, strict=True):
        for table, settings in structs.asdict(layer).items():
            names = [f"{table}.{name}" for name in settings] if isinstance(settings, dict) else []
            if table in ("agent", "trust") and settings is not None:
                names = [table]
            for name in names:
                adds = name in origins and name in ("permissions.allow", "permissions.deny")
                origins[name] = f"{origins[name]}, {place}" if adds else place
    return origins


def _agent(name: str, settings: JsonObject) -> Agent:
    """Build an agent from its table, on top of the built-in agent of that name, if any."""
    entry = msgspec.convert(settings, _AgentEntry)
    agent = BUILT_IN.get(name) or Agent(name=name, command=())
    given = {field: getattr(entry, field) for field in settings}
    if entry.command is not None:
        given |= {"command": _words(entry.command), "alternatives": (), "installed_as": None}
    given["env"] = agent.env | entry.env
    if entry.quirks is not None:
        changes = {field: getattr(entry.quirks, field) for field in settings["quirks"]}
        given["quirks"] = structs.replace(agent.quirks, **changes)
    agent = structs.replace(agent, **given)
    if agent.protocol == "claude" and agent.claude is None:
        return structs.replace(agent, claude=ClaudeOptions())
    return agent


def _words(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command; a string is split as a shell does it. Raises `ValueError`."""
    return tuple(shlex.split(command)) if isinstance(command, str) else command
