"""Checks of the parsed options, and their conversion to settings.

The way of a command: `main` parses its line (`arguments`), checks the combination of options here,
reads the configuration with `flags` as its last layer, and gets from the command's `prepare` its
work, an async function. Wrong options are refused before Trio starts.
"""

from __future__ import annotations

import argparse
import os
import shlex
import stat
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from .._base.paths import NO_CURRENT_FOLDER, not_utf8
from ..agents import Agent, resolve_agent
from ..config import Config
from ..events import JsonObject
from ..storage import StoreAddress, is_server
from ..trust import repository
from ..unattended import budget_from, wait_from
from .exit_status import UsageError
from .printing import print_warning
from .setup import Setup, choose_agent, read_schema, with_acp_version
from .stores import parse_store
from .subcommands import SESSION_OPTIONS, Subcommand

Work: TypeAlias = Callable[[], Awaitable[int]]
"""The work of a command, which returns the exit status."""

_TOKENS: Final = ("token", "viewer_token", "metrics_token")
_SERVER_OPTIONS: Final = {
    "command": "--command",
    "store": "--store",
    "trace": "--trace",
    "permissions": "--permissions",
    "allow": "--allow",
    "deny": "--deny",
    "trust": "--trust",
    "on_violation": "--on-violation",
    "sandbox": "--sandbox",
    "no_sandbox": "--no-sandbox",
    "allow_network": "--allow-network",
    "allow_write": "--allow-write",
    "allow_port": "--allow-port",
    "timeout": "--timeout",
    "idle_timeout": "--idle-timeout",
    "cancel_grace": "--cancel-grace",
    "checkpoints": "--checkpoints",
    "budget": "--budget",
    "wait_for_limits": "--wait-for-limits",
    "audit": "--audit",
}
"""Options that a server sets for all its clients, with their flags."""


# --- checks for every subcommand


def expand_record(options: argparse.Namespace) -> None:
    """Turn `record FILE -- COMMAND` into a session with that agent and `--trace FILE`.

    Raises `UsageError`.
    """
    if options.command is not None or options.agent is not None or options.trace is not None:
        raise UsageError(
            "`agentrt record` sets the agent and the trace; leave out --agent, --command and"
            " --trace"
        )
    options.command, options.trace = shlex.join(options.words), options.file
    options.subcommand = None


def check_options(options: argparse.Namespace, subcommand: Subcommand) -> None:
    """Reject options that exclude each other or do not apply. Raises `UsageError`."""
    if options.command is not None and options.agent is not None:
        raise UsageError("--agent and --command exclude each other")
    if options.protocol is not None and options.command is None and not subcommand.takes_command:
        raise UsageError("--protocol is the protocol of --command; give that, too")
    for name, flag in SESSION_OPTIONS.items():
        if name not in subcommand.accepts and getattr(options, name) is not None:
            raise UsageError(f"{flag} does not apply to `agentrt {options.subcommand}`")
    if options.trace is not None and not subcommand.starts_agents:
        raise UsageError(
            f"--trace does not apply to `agentrt {options.subcommand}`, which runs no agent"
        )
    _check_folder(options.cwd, opens_sessions=subcommand.opens_sessions)


def _check_folder(folder: str, *, opens_sessions: bool) -> None:
    """Check that the folder exists, also if this process's working folder was deleted.

    Raises `UsageError`. `opens_sessions`: the path must be valid UTF-8, because it goes into
    messages.
    """
    if not os.path.isdir(folder):
        raise UsageError(f"--cwd: the folder {folder!r} does not exist")
    try:
        os.getcwd()
    except FileNotFoundError:
        if not os.path.isabs(folder):
            raise UsageError(f"{NO_CURRENT_FOLDER} with --cwd DIR") from None
        os.chdir(folder)  # so that other relative paths have an existing folder, too
    if opens_sessions and (why := not_utf8(os.path.abspath(folder))):
        raise UsageError(why)


def warn_of_exposed_secrets(options: argparse.Namespace, config: Config) -> None:
    """Warn about tokens and passwords that other users of the machine can read."""
    _warn_of_exposed_password(getattr(options, "store", None))
    flags = [f"--{name.replace('_', '-')}" for name in _TOKENS if getattr(options, name, None)]
    for flag in flags:
        name = f"AGENTRT_SERVE_{flag[2:].replace('-', '_').upper()}"
        print_warning(
            f"other users of this machine can read {flag} on the command line; set {name} instead"
        )
    for path in config.files:
        holds = any(config.origins.get(f"serve.{name}") == path for name in (*_TOKENS, "tenants"))
        try:
            if holds and os.stat(path).st_mode & stat.S_IROTH:
                print_warning(
                    f"other users of this machine can read the tokens in {path}; use chmod o-r"
                    f" {path}"
                )
        except OSError:
            continue


def _warn_of_exposed_password(given: str | None) -> None:
    """Warn if a password is on the command line, which other users can read."""
    if given is None or not is_server(given):
        return
    store = parse_store(given)
    if store is not None and not isinstance(store, Path) and store.has_password:
        print_warning(
            "other users of this machine can read a password on the command line; put it into"
            " PGPASSWORD or ~/.pgpass, or the whole URL into the configuration file"
        )


# --- settings


def flags(options: argparse.Namespace) -> dict[str, Any]:
    """Convert the options to the structure of a configuration file."""
    limits = {
        "turn_timeout_s": options.timeout,
        "idle_timeout_s": options.idle_timeout,
        "cancel_grace_s": options.cancel_grace,
    }
    permissions = {
        "mode": options.permissions,
        "allow": options.allow,
        "deny": options.deny,
        "on_violation": options.on_violation,
    }
    serve = {
        name: getattr(options, name, None)
        for name in ("host", "port", "token", "viewer_token", "allow_host", "allow_origin", "root")
    }
    if options.subcommand == "serve":
        names = ("store", "otel", "url", "metrics_token", "node", "role", "home", "webhook")
        for name in names:
            serve[name] = getattr(options, name, None)
    trust = getattr(options, "trust", None)
    terminal = {"color": options.color, "plain": options.plain or None}
    if options.subcommand in (None, "acp"):
        terminal["store"] = options.store
    return {
        "trusted": _trusted_folders(options) if trust == "yes" else [],
        **_given({"trust": trust}),
        "terminal": _given(terminal),
        "serve": _given(serve),
        "trace": _given({"file": options.trace}),
        "log": _given({"level": options.log_level, "format": options.log_format}),
        "unattended": _given(
            {
                "checkpoints": options.checkpoints,
                "budget": options.budget,
                "wait_for_limits": options.wait_for_limits,
                "audit": options.audit,
                "worktree": getattr(options, "worktree", None),
            }
        ),
        "limits": _given(limits),
        "permissions": _given(permissions),
        "sandbox": _sandbox(options),
    }


def _sandbox(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the sandbox. Raises `UsageError` for options that exclude each
    other."""
    lists = {
        "network": getattr(options, "allow_network", None),
        "write": getattr(options, "allow_write", None),
        "ports": getattr(options, "allow_port", None),
    }
    mode = getattr(options, "sandbox", None)
    if getattr(options, "no_sandbox", None):
        if mode is not None or any(lists.values()):
            raise UsageError("--no-sandbox excludes --sandbox and the --allow- options for it")
        return {"mode": "off"}
    if lists["network"] and mode in ("offline", "open-network"):
        raise UsageError(f"--allow-network and --sandbox={mode} exclude each other")
    return _given({"mode": mode, **lists})


def _check_allow_all(config: Config) -> None:
    """Raise `UsageError` if everything is allowed and nobody has decided about a sandbox."""
    if config.permissions.mode != "allow-all" or config.sandbox is not None:
        return
    if "sandbox.mode" not in config.origins:
        raise UsageError(
            "allow-all lets the agent run everything with your privileges: add --sandbox, or"
            " --no-sandbox to accept that (in the configuration: [sandbox] mode)"
        )


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given; None means that an option was not."""
    return {name: value for name, value in settings.items() if value is not None}


def _trusted_folders(options: argparse.Namespace) -> list[str]:
    """Return the folders for `--trust=yes`: the working folder and its repository."""
    folder = os.path.realpath(options.cwd)
    return [each for each in (folder, repository(folder)) if each is not None]


def timeout_s(options: argparse.Namespace) -> float | None:
    """Return the time limit for the whole command, in seconds; None without one."""
    return options.timeout if isinstance(options.timeout, float) else None


def chosen_agents(options: argparse.Namespace, config: Config) -> list[Agent]:
    """Return the agents named by the options, if any. Raises `UsageError` or `AgentNotFound`."""
    names = getattr(options, "agents", [options.agent] if options.agent else [])
    if options.command is None:
        if options.acp_version is not None and not names:
            raise UsageError("--acp-version needs the agent here; give --agent or --command, too")
        found = [resolve_agent(name, config) for name in dict.fromkeys(names)]
        return [with_acp_version(agent, options.acp_version) for agent in found]
    if names:
        raise UsageError("--agent and --command exclude each other")
    agent, _ = choose_agent(
        config, None, options.command, options.protocol, acp_version=options.acp_version
    )
    return [agent]


def make_setup(options: argparse.Namespace, config: Config, *, demo: bool = False) -> Setup:
    """Return the settings of a new session, or of one that only its agent may know.

    `demo`: the demo agent stands in if no other agent is installed. Prints warnings about rules.
    Raises `UsageError` or `AgentNotFound`.
    """
    if options.resume == "":
        raise UsageError("--resume requires a session id here (`agentrt sessions` lists them)")
    _check_allow_all(config)
    agent, note = choose_agent(
        config,
        options.agent,
        options.command,
        options.protocol,
        acp_version=options.acp_version,
        demo=demo,
    )
    return checked(
        Setup(
            agent=agent,
            note=note,
            config=config,
            cwd=options.cwd,
            resume=options.resume,
            store=options.store,
            model=options.model,
            mode=options.mode,
            options=claude_options(options, agent),
            budget=budget_from(config.unattended.budget),
            wait=wait_from(config.unattended.wait_for_limits),
        )
    )


def checked(setup: Setup) -> Setup:
    """Check the permission rules, and print warnings about them. Raises `UsageError`."""
    setup.policy("deny")  # raises for invalid rules
    for doubt in setup.doubts():  # warnings about the mode of the rules
        print(f"agentrt: warning: {doubt}", file=sys.stderr)
    return setup


COMMON: Final = ("system_prompt", "append_system_prompt")
"""Options for Claude Code that agents with ACP may have, too."""


def claude_options(options: argparse.Namespace, agent: Agent) -> JsonObject:
    """Return the options for Claude Code, by the names of `ClaudeOptions`, or for an ACP agent.

    Raises `UsageError` if there are some and the agent is a different one.
    """
    fields = {
        "system_prompt": ("--system", options.system),
        "append_system_prompt": ("--append-system", options.append_system),
        "json_schema": ("--json-schema", read_schema(options.json_schema)),
        "max_turns": ("--max-turns", options.max_turns),
    }
    given = {name: value for name, (_, value) in fields.items() if value is not None}
    lacks = [name for name in given if name not in COMMON or agent.protocol != "acp"]
    if lacks and agent.protocol != "claude":
        names = ", ".join(fields[name][0] for name in lacks)
        raise UsageError(f"{agent.name} has no equivalent of {names}; Claude Code has")
    return given


# --- a server's store and sessions


def server_store(given: str | None) -> StoreAddress | None:
    """Return the address of a server's store; None if sessions are not stored.

    `given`: the value of `--store`, or None for the default file. Raises `UsageError`.
    """
    return parse_store(given or "sqlite")


def session_of_server(options: argparse.Namespace) -> str | None:
    """Return the session id given by `--session`, or None. Raises `UsageError`."""
    session: str | None = getattr(options, "session", None)
    if session == "":
        raise UsageError("--session requires an id, and this one is empty")
    if session is not None and (options.agent, options.model, options.mode) != (None,) * 3:
        raise UsageError("--agent, --model and --mode are for a new session, not for --session")
    return session


def refuse_server_options(options: argparse.Namespace, ours: Sequence[str] = ()) -> None:
    """Reject options that only the server can set, except `ours`. Raises `UsageError`."""
    for name, flag in _SERVER_OPTIONS.items():
        if name not in ours and getattr(options, name) is not None:
            raise UsageError(f"{flag} is set on the server (`agentrt serve {flag}`)")
