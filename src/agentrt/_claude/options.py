"""What Claude Code can be given when it is started, and how a session's settings override it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .._errors import LocalProtocolError
from .._model.content import JsonObject
from .._model.driver import Opening

HOOK_EVENTS: Final = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
)
"""Every moment at which Claude Code asks a hook."""


class HookMatcher(Struct, frozen=True, kw_only=True):
    """Which hook callbacks are asked about which tools."""

    callbacks: tuple[str, ...]
    """Ids of our own; a `hook` request carries the one that is meant as `callback_id`."""
    matcher: str | None = None
    """A regular expression over tool names (`"Write|Edit"`); None: every tool."""
    timeout: float | None = None
    """Seconds for the answer. When they are over, `PreToolUse` blocks the tool."""
    on_failure: Literal["block", "continue"] | None = None
    """What an error answer means; by default the action goes on."""


class ClaudeOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Claude Code is to run. None leaves a choice to Claude Code and its settings files."""

    # --- what it may do
    permission_mode: str = "default"
    """`default`, `acceptEdits`, `plan`, `bypassPermissions`, `dontAsk` or `auto`. Always passed:
    without it the CLI may choose `auto`."""
    allow_bypass: bool = False
    """Permits `bypassPermissions`, now or by a later change of the mode."""
    ask: bool = True
    """Permission requests come to us. False: whatever would be asked is denied, and the tools that
    talk to a person (`AskUserQuestion`, plan mode) do not exist."""
    tools: tuple[str, ...] | None = None
    """The built-in tools there are; an empty tuple means none."""
    allowed_tools: tuple[str, ...] = ()
    """Rules such as `Read` or `Bash(git log:*)` that are allowed without asking. A tool allowed
    here never asks."""
    disallowed_tools: tuple[str, ...] = ()

    # --- what it gets
    system_prompt: str | tuple[str, ...] | None = None
    """Replaces Claude Code's own prompt."""
    append_system_prompt: str | None = None
    plan_mode_instructions: str | None = None
    exclude_dynamic_sections: bool | None = None
    """Moves what depends on the machine out of the system prompt, so that it can be cached."""
    title: str | None = None
    json_schema: JsonObject | None = None
    """Every turn's answer must be a value of this JSON schema (`structured_output`)."""

    # --- the model
    model: str | None = None
    fallback_model: str | None = None
    effort: str | None = None
    """`low`, `medium`, `high`, `xhigh` or `max`."""
    thinking: Literal["adaptive", "disabled"] | int | None = None
    """An int is a fixed budget in tokens."""
    betas: tuple[str, ...] = ()

    # --- how far it may go
    max_turns: int | None = None
    """Model calls in one turn."""
    max_budget_usd: float | None = None
    task_budget: int | None = None
    """Tokens that the model is given."""

    # --- sessions
    session_id: str | None = None
    """The id of a new session, a UUID. Made for you if None."""
    continue_last: bool = False
    """Goes on with the newest session of the folder."""
    resume_at: str | None = None
    """Resumes only up to the message with this uuid."""
    resume_drops_turn: str | None = None
    persist: bool = True
    """False: no transcript is written, and the session cannot be resumed."""
    replay: bool = True
    """Whether the host wants to have what was said before. Claude Code repeats nothing of a
    resumed session whatever this says; `history` reads it from the transcript."""

    # --- settings, agents, extensions
    settings: str | JsonObject | None = None
    """A settings file's path, or the settings."""
    setting_sources: tuple[str, ...] | None = None
    """Of `user`, `project`, `local`; an empty tuple isolates the session from all of them."""
    agents: dict[str, JsonObject] = {}
    """Sub-agents by name: `{"description", "prompt", "tools", "model", …}`."""
    agent: str | None = None
    """Run the conversation itself as this agent."""
    skills: tuple[str, ...] | None = None
    """The skills to load; None: all that are found."""
    plugins: tuple[str, ...] = ()
    """Folders of plugins."""
    tool_aliases: dict[str, str] = {}

    # --- MCP, hooks
    sdk_servers: tuple[str, ...] = ()
    """Names of the MCP servers that live in this process; their messages come as `mcp` requests."""
    sdk_server_configs: dict[str, JsonObject] = {}
    """`{"timeout": milliseconds, "tools": [...]}` by name."""
    strict_mcp: bool = False
    """Only the servers given here, none from settings files."""
    mcp_delivery: Literal["initialize", "argv"] = "initialize"
    """`argv` for a CLI before 2.1.261; everybody on the machine can then read what it says."""
    hooks: dict[str, tuple[HookMatcher, ...]] = {}
    """By event (`HOOK_EVENTS`)."""

    # --- what it sends
    partial_messages: bool = True
    """Text as it is written, not block by block."""
    hook_events: bool = False
    forward_subagent_text: bool = True
    replay_user_messages: bool = False
    prompt_suggestions: bool = False
    agent_progress_summaries: bool = False
    spare_tasks: bool = True
    """A cancelled turn leaves background agents running; they are stopped one by one
    (`stop_task`). False: cancelling kills them."""

    # --- the process
    file_checkpoints: bool = False
    """Keeps what `rewind_files` needs."""
    client_app: str = "agentrt"
    """What the User-Agent says."""
    env: dict[str, str] = {}
    extra_args: dict[str, str | None] = {}
    """Further flags, by name without dashes; None: a flag without a value."""
    legacy: bool = False
    """Speaks the older dialect, for a program that implements it in Claude Code's place (see the
    guide). It has next to no options; every other one is refused."""


def effective(options: ClaudeOptions, opening: Opening) -> ClaudeOptions:
    """The options of one session: the agent's, overridden by what the session was opened with.

    `opening.options` overrides by field name; ValueError names what is not one, and
    `LocalProtocolError` what the older dialect has not.
    """
    try:
        wanted = msgspec.convert(opening.options, ClaudeOptions)
    except msgspec.ValidationError as error:
        raise ValueError(f"not an option of Claude Code: {error}") from error
    changes = {name: getattr(wanted, name) for name in opening.options}
    if opening.model is not None:
        changes["model"] = opening.model
    if opening.mode is not None:
        changes["permission_mode"] = opening.mode
    chosen = replace(options, **changes)
    if chosen.legacy:
        _refuse_what_is_newer(chosen, opening)
    return chosen


CHOICES: Final = {
    "permission_mode": (
        "default",
        "acceptEdits",
        "plan",
        "bypassPermissions",
        "dontAsk",
        "auto",
    ),
    "effort": ("low", "medium", "high", "xhigh", "max"),
    "mcp_delivery": ("initialize", "argv"),
}
LEAST: Final = {"max_turns": 1, "max_budget_usd": 0, "task_budget": 1}
SOURCES: Final = ("user", "project", "local")


def check_values(options: ClaudeOptions) -> None:
    """Raises `ValueError` for a value that Claude Code does not know. (One that is newer than this
    goes into `extra_args`.)"""
    for name, known in CHOICES.items():
        value = getattr(options, name)
        if value is not None and value not in known:
            raise ValueError(f"{name}={value!r} is not known; there are {', '.join(known)}")
    for name, least in LEAST.items():
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise ValueError(f"{name}={value!r} is too small: {least} is the least")
    if isinstance(options.thinking, int) and options.thinking < 0:
        raise ValueError(f"thinking={options.thinking!r} is no number of tokens")
    for source in options.setting_sources or ():
        if source not in SOURCES:
            raise ValueError(
                f"setting_sources: {source!r} is not known; there are {', '.join(SOURCES)}"
            )


OLD: Final = frozenset({"legacy", "permission_mode", "session_id", "replay", "env", "extra_args"})
"""The options that the older dialect has."""


def _refuse_what_is_newer(options: ClaudeOptions, opening: Opening) -> None:
    """Raises `LocalProtocolError` for what a program of the older dialect cannot do: left out,
    it would be missed later, or never."""
    default = ClaudeOptions()
    wanted = [
        {"sdk_servers": "tools"}.get(name, name)
        for name in ClaudeOptions.__struct_fields__
        if name not in OLD and getattr(options, name) != getattr(default, name)
    ]
    given = {"resume": opening.resume, "roots": opening.roots, "mcp_servers": opening.mcp_servers}
    wanted += [name for name, value in given.items() if value]
    if wanted:
        raise LocalProtocolError(f"Claude Code's older dialect has no {', '.join(wanted)}")


def with_session_id(
    opening: Opening, options: ClaudeOptions, new_uuid: Callable[[], str]
) -> Opening:
    """The same opening with an id for its session, if it is a new one.

    Claude Code says an id of its own only with the first turn, and an id that is known from the
    start can be resumed whatever happens. To be called before `build_command` and `start`.
    """
    given = effective(options, opening)
    goes_on = opening.resume is not None or given.continue_last
    if given.session_id is not None or (goes_on and not opening.fork):
        return opening
    return replace(opening, options={**opening.options, "session_id": new_uuid()})
