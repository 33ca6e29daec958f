"""The command line, the environment and the `initialize` request that start Claude Code.

Values go on the command line as `--flag=value`, so that a value with a leading dash is not taken
for a flag. Long or secret values go through `initialize` instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..model.content import JsonObject
from ..model.driver import Opening
from .options import ClaudeOptions


class ClaudeCommand(NamedTuple):
    """The command line and environment of a process."""

    argv: list[str]
    env_set: dict[str, str]
    env_unset: frozenset[str]
    """Variables to remove from an inherited environment."""


NESTED = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "NODE_OPTIONS"})
"""Variables that are removed. `CLAUDECODE` marks a CLI that runs inside another one, and the
second names its kind; `NODE_OPTIONS` is meant for other Node programs."""

_FLAG = re.compile(r"[a-z][a-zA-Z0-9-]*")
_SERVER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MODE = re.compile(r"[a-zA-Z]+")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def build_command(
    binary: str | Sequence[str], opening: Opening, options: ClaudeOptions
) -> ClaudeCommand:
    """Build the command that starts Claude Code for this session. `options` are the effective ones.

    Raises `ValueError` for values that the CLI could misinterpret.
    """
    program = [binary] if isinstance(binary, str) else list(binary)
    argv = [*program, *(_legacy_flags(options) if options.legacy else _flags(opening, options))]
    for name, value in options.extra_args.items():
        _check(_FLAG, name, "a flag's name")
        argv.append(f"--{name}" if value is None else f"--{name}={value}")
    if any("\0" in argument for argument in argv):
        raise ValueError("an argument contains a NUL character")
    env = {} if options.legacy else _environment(opening, options)
    return ClaudeCommand(argv, {**env, **options.env}, NESTED)


def _legacy_flags(options: ClaudeOptions) -> Iterator[str]:
    """Yield the flags for the older dialect, which knows few of them."""
    yield from ("-p", "--input-format=stream-json", "--output-format=stream-json", "--verbose")
    yield f"--permission-mode={_check(_MODE, options.permission_mode, 'a permission mode')}"
    if options.session_id is not None:
        yield f"--session-id={_check(_UUID, options.session_id, 'a session id')}"


def _flags(opening: Opening, options: ClaudeOptions) -> Iterator[str]:
    """Yield the flags for a session.

    MCP servers go on the command line, where other processes of the user can read them, unless
    `mcp_delivery` sends them with `initialize`.
    """
    yield from ("--output-format=stream-json", "--input-format=stream-json", "--verbose")
    yield f"--permission-mode={_check(_MODE, options.permission_mode, 'a permission mode')}"
    yield from _permission_flags(options)
    yield from _model_flags(options)
    yield from _session_flags(opening, options)
    if options.settings is not None:
        given = options.settings
        yield f"--settings={given if isinstance(given, str) else json.dumps(given)}"
    if options.setting_sources is not None:
        yield f"--setting-sources={','.join(options.setting_sources)}"
    if options.agent is not None:
        yield f"--agent={options.agent}"
    for folder in opening.roots:
        yield f"--add-dir={folder}"
    for folder in options.plugins:
        yield f"--plugin-dir={folder}"
    if opening.mcp_servers:
        if options.mcp_delivery == "initialize":
            yield "--await-initialize"
        else:
            yield f"--mcp-config={json.dumps({'mcpServers': mcp_config(opening.mcp_servers)})}"
    for wanted, flag in (
        (options.strict_mcp, "--strict-mcp-config"),
        (options.partial_messages, "--include-partial-messages"),
        (options.hook_events, "--include-hook-events"),
        (options.replay_user_messages, "--replay-user-messages"),
    ):
        if wanted:
            yield flag


def _permission_flags(options: ClaudeOptions) -> Iterator[str]:
    """Yield the flags about tools and permissions.

    `--permission-prompt-tool=stdio` makes the CLI ask by control requests.
    """
    if options.ask:
        yield "--permission-prompt-tool=stdio"
    if options.allow_bypass:
        yield "--allow-dangerously-skip-permissions"
    if options.tools is not None:
        yield f"--tools={_rules(options.tools)}"
    if options.allowed_tools:
        yield f"--allowedTools={_rules(options.allowed_tools)}"
    if options.disallowed_tools:
        yield f"--disallowedTools={_rules(options.disallowed_tools)}"


def _model_flags(options: ClaudeOptions) -> Iterator[str]:
    """Yield the flags about the model and the limits of a turn."""
    thinking = options.thinking
    for flag, value in (
        ("model", options.model),
        ("fallback-model", options.fallback_model),
        ("effort", options.effort),
        ("betas", ",".join(options.betas) or None),
        ("thinking", thinking if isinstance(thinking, str) else None),
        ("max-thinking-tokens", thinking if isinstance(thinking, int) else None),
        ("max-turns", options.max_turns),
        ("max-budget-usd", options.max_budget_usd),
        ("task-budget", options.task_budget),
    ):
        if value is not None:
            yield f"--{flag}={value}"


def _session_flags(opening: Opening, options: ClaudeOptions) -> Iterator[str]:
    """Yield the flags that choose the conversation: resumed, forked, or new with a given id."""
    if opening.resume is not None:
        yield f"--resume={opening.resume}"
    elif options.continue_last:
        yield "--continue"
    if opening.fork:
        yield "--fork-session"
        if opening.fork_at is not None:
            yield f"--resume-session-at={opening.fork_at.messages[0]}"
    if options.session_id is not None and (opening.resume is None or opening.fork):
        yield f"--session-id={_check(_UUID, options.session_id, 'a session id')}"
    if options.resume_at is not None:
        yield f"--resume-session-at={options.resume_at}"
    if options.resume_drops_turn is not None:
        yield f"--resume-drops-turn={options.resume_drops_turn}"
    if not options.persist:
        yield "--no-session-persistence"


def _environment(opening: Opening, options: ClaudeOptions) -> dict[str, str]:
    """Return the variables that the CLI needs for this driver."""
    env = {
        # Makes the CLI report when it is idle: the only reliable sign that no more output will
        # come.
        "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
        "CLAUDE_AGENT_SDK_CLIENT_APP": options.client_app,
        "PWD": opening.cwd,
    }
    if options.file_checkpoints:
        env["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "true"
    return env


def initialize_request(opening: Opening, options: ClaudeOptions) -> JsonObject:
    """Return the `initialize` control request: the settings that a session gets on standard
    input."""
    system = options.system_prompt
    # An empty value means something, except in the second group.
    given: JsonObject = {
        "jsonSchema": options.json_schema,
        "systemPrompt": [system] if isinstance(system, str) else system,
        "appendSystemPrompt": options.append_system_prompt,
        "planModeInstructions": options.plan_mode_instructions,
        "excludeDynamicSections": options.exclude_dynamic_sections,
        "title": options.title,
        "skills": options.skills,
    }
    not_empty: JsonObject = {
        "hooks": {event: [_hook(m) for m in ms] for event, ms in options.hooks.items()},
        "sdkMcpServers": [_check(_SERVER, name, "a server's name") for name in options.sdk_servers],
        "sdkMcpServerConfigs": options.sdk_server_configs,
        "agents": options.agents,
        "toolAliases": options.tool_aliases,
        "promptSuggestions": options.prompt_suggestions,
        "agentProgressSummaries": options.agent_progress_summaries,
        "forwardSubagentText": options.forward_subagent_text,
        "perTaskStopAffordance": options.spare_tasks,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    fields |= {name: value for name, value in not_empty.items() if value}
    if opening.mcp_servers and options.mcp_delivery == "initialize":
        fields["mcpServers"] = mcp_config(opening.mcp_servers)
    return {"subtype": "initialize", **fields}


def _hook(matcher: Any) -> JsonObject:
    """Return a matcher of hooks in the form of `initialize`; the timeout is in seconds."""
    hook: JsonObject = {"hookCallbackIds": matcher.callbacks}
    if matcher.matcher is not None:
        hook["matcher"] = matcher.matcher
    if matcher.timeout is not None:
        hook["timeout"] = matcher.timeout
    if matcher.on_failure is not None:
        hook["onFailure"] = matcher.on_failure
    return hook


def mcp_config(servers: Iterable[JsonObject]) -> JsonObject:
    """Convert ACP's `McpServer` entries to Claude's `mcpServers`, by name.

    Lists of name and value become plain objects. Raises `ValueError` for a bad or duplicate name.
    """
    config: JsonObject = {}
    for server in servers:
        name = _check(_SERVER, str(server.get("name", "")), "a server's name")
        if name in config:
            raise ValueError(f"two MCP servers are called {name!r}")
        kind = server.get("type", "stdio" if "command" in server else "http")
        entry: JsonObject = {"type": kind}
        for key, value in server.items():
            if key in ("env", "headers") and isinstance(value, list):
                entry[key] = {pair["name"]: pair["value"] for pair in value}
            elif key not in ("name", "type", "_meta"):
                entry[key] = value
        config[name] = entry
    return config


def _check(pattern: re.Pattern[str], value: str, what: str) -> str:
    """Return a value that matches the pattern. Raises `ValueError` for others."""
    if not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is not {what}")
    return value


def _rules(rules: Iterable[str]) -> str:
    """Join tool rules into one value. The CLI splits it at commas and spaces outside parentheses.

    Raises `ValueError` for a rule that the CLI would split.
    """
    for rule in rules:
        depth = 0
        for character in rule:
            depth += (character == "(") - (character == ")")
            if depth < 0 or (depth == 0 and (character == "," or character.isspace())):
                break
        else:
            if depth == 0 and rule:
                continue
        raise ValueError(f"{rule!r} is not a tool rule: it would be split into something else")
    return ",".join(rules)
