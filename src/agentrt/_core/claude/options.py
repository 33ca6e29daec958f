"""Start options of Claude Code, with the overrides of one session.

Options come from the agent (`agents.claude(…)` or the configuration file) and from the session
(`options=`, `model=`, `mode=`), which overrides them field by field: `effective` merges both.
`command.py` turns the result into the command line and the `initialize` request, for each start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import Opening

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
"""All events for which Claude Code calls hooks."""


class HookMatcher(Struct, frozen=True, kw_only=True):
    """Registers hook callbacks for a set of tools."""

    callbacks: tuple[str, ...]
    """Callback ids chosen by this process; the `callback_id` of a `hook` request is one of them."""
    matcher: str | None = None
    """A regular expression over tool names (`"Write|Edit"`). None matches every tool."""
    timeout: float | None = None
    """Seconds to wait for the answer. On expiry, `PreToolUse` blocks the tool."""
    on_failure: Literal["block", "continue"] | None = None
    """Effect of an error answer. By default the action continues."""


class ClaudeOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a Claude Code process. None leaves the choice to Claude Code and its settings."""

    # --- permissions and tools
    permission_mode: str = "default"
    """`default`, `acceptEdits`, `plan`, `bypassPermissions`, `dontAsk` or `auto`. Always passed:
    without it the CLI may choose `auto`.
    """
    allow_bypass: bool = False
    """Permits `bypassPermissions`, at the start or by a later change of mode."""
    ask: bool = True
    """True if permission requests come to this process. If false, every request is denied, and the
    tools that need a person (`AskUserQuestion`, plan mode) do not exist.
    """
    tools: tuple[str, ...] | None = None
    """The available built-in tools. An empty tuple means none."""
    allowed_tools: tuple[str, ...] = ()
    """Rules such as `Read` or `Bash(git log:*)`. A tool allowed here runs without asking."""
    disallowed_tools: tuple[str, ...] = ()
    """Rules in the same form. A tool denied here never runs."""

    # --- instructions
    system_prompt: str | tuple[str, ...] | None = None
    """Replaces Claude Code's own system prompt."""
    append_system_prompt: str | None = None
    """Added to the end of the system prompt."""
    plan_mode_instructions: str | None = None
    """Instructions for plan mode, sent as `planModeInstructions`."""
    exclude_dynamic_sections: bool | None = None
    """Moves the parts that depend on the machine out of the system prompt, so that it can be
    cached.
    """
    title: str | None = None
    """The title of the session."""
    json_schema: JsonObject | None = None
    """JSON schema of every turn's answer (`structured_output`)."""

    # --- the model
    model: str | None = None
    """The name of a model or an alias, such as `sonnet`."""
    fallback_model: str | None = None
    """The model that Claude Code uses when the first one is overloaded."""
    effort: str | None = None
    """`low`, `medium`, `high`, `xhigh` or `max`."""
    thinking: Literal["adaptive", "disabled"] | int | None = None
    """An int is a fixed budget in tokens."""
    betas: tuple[str, ...] = ()
    """Beta features of the API, by their names."""

    # --- limits
    max_turns: int | None = None
    """Limit of model calls in one turn."""
    max_budget_usd: float | None = None
    """Limit of the session's cost, in US dollars."""
    task_budget: int | None = None
    """Token budget given to the model."""

    # --- sessions
    session_id: str | None = None
    """The id of a new session, a UUID. Generated if None."""
    continue_last: bool = False
    """Continues the newest session of the folder."""
    resume_at: str | None = None
    """Resumes only up to the message with this uuid."""
    resume_drops_turn: str | None = None
    """Passed on as `--resume-drops-turn`."""
    persist: bool = True
    """If false, no transcript is written and the session cannot be resumed."""
    replay: bool = True
    """True if the host wants the earlier conversation. Claude Code repeats nothing of a resumed
    session in either case; `history` reads it from the transcript.
    """

    # --- settings, agents, extensions
    settings: str | JsonObject | None = None
    """The path of a settings file, or the settings themselves."""
    setting_sources: tuple[str, ...] | None = None
    """A selection of `user`, `project` and `local`. An empty tuple isolates the session from all of
    them.
    """
    agents: dict[str, JsonObject] = {}
    """Sub-agents by name: `{"description", "prompt", "tools", "model", …}`."""
    agent: str | None = None
    """Name of the agent that runs the conversation itself."""
    skills: tuple[str, ...] | None = None
    """The skills to load. None loads all that are found."""
    plugins: tuple[str, ...] = ()
    """Plugin folders."""
    tool_aliases: dict[str, str] = {}
    """Passed on as `toolAliases`: names of tools, by the name that stands for each."""

    # --- MCP, hooks
    sdk_servers: tuple[str, ...] = ()
    """Names of the MCP servers in this process. Their messages arrive as `mcp` requests."""
    sdk_server_configs: dict[str, JsonObject] = {}
    """`{"timeout": milliseconds, "tools": [...]}` by server name."""
    strict_mcp: bool = False
    """Uses only the servers given here and ignores those in settings files."""
    mcp_delivery: Literal["initialize", "argv"] = "initialize"
    """Use `argv` for a CLI before 2.1.261. The server settings are then visible to every user of
    the machine.
    """
    hooks: dict[str, tuple[HookMatcher, ...]] = {}
    """Hooks by event (`HOOK_EVENTS`)."""

    # --- output
    partial_messages: bool = True
    """Streams text as it is written, not block by block."""
    hook_events: bool = False
    """Includes the events of hooks in the output."""
    forward_subagent_text: bool = True
    """Includes the text of sub-agents in the output, not only their tool calls."""
    replay_user_messages: bool = False
    """Repeats each user message in the output."""
    prompt_suggestions: bool = False
    """Asks for suggestions of the next prompt."""
    agent_progress_summaries: bool = False
    """Asks for summaries of the progress of sub-agents."""
    spare_tasks: bool = True
    """True if background agents keep running when a turn is cancelled; each is stopped on its own
    (`stop_task`). If false, cancelling a turn kills them.
    """

    # --- the process
    file_checkpoints: bool = False
    """Records the checkpoints that `rewind_files` needs."""
    client_app: str = "agentrt"
    """Application name in the User-Agent."""
    env: dict[str, str] = {}
    """Environment variables added to those of the process."""
    extra_args: dict[str, str | None] = {}
    """Further flags, by name without dashes. None means a flag without a value."""
    legacy: bool = False
    """Uses the older dialect, for a program that implements it in place of Claude Code (see the
    guide). It has very few options; all others are refused.
    """


def effective(options: ClaudeOptions, opening: Opening) -> ClaudeOptions:
    """Merge the agent's options with those that the session was opened with.

    Fields in `opening.options` override fields of the same name. Raises `ValueError` naming an
    unknown option, and `LocalProtocolError` for options that the older dialect lacks.
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
    chosen = replace(options, **changes) if changes else options
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
    """Check the values of options. Raises `ValueError` for a value that Claude Code does not know.

    A value newer than this list can be passed in `extra_args`.
    """
    for name, known in CHOICES.items():
        value = getattr(options, name)
        if value is not None and value not in known:
            raise ValueError(f"{name}={value!r} is not known; choose from {', '.join(known)}")
    for name, least in LEAST.items():
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise ValueError(f"{name}={value!r} is too small: {least} is the least")
    if isinstance(options.thinking, int) and options.thinking < 0:
        raise ValueError(f"thinking={options.thinking!r} is not a number of tokens")
    for source in options.setting_sources or ():
        if source not in SOURCES:
            raise ValueError(
                f"setting_sources: {source!r} is not known; choose from {', '.join(SOURCES)}"
            )


OLD: Final = frozenset({"legacy", "permission_mode", "session_id", "replay", "env", "extra_args"})
"""The options that the older dialect has."""


def _refuse_what_is_newer(options: ClaudeOptions, opening: Opening) -> None:
    """Raise `LocalProtocolError` for options that the older dialect lacks.

    If they were dropped silently, the failure would show later, or never.
    """
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
    """Return the opening with a session id in its options if it opens a new session.

    Claude Code reports the id only with the first turn. A session with an id that is known from
    the start can always be resumed. Call this before `build_command` and `start`.
    """
    given = effective(options, opening)
    goes_on = opening.resume is not None or given.continue_last
    if given.session_id is not None or (goes_on and not opening.fork):
        return opening
    return replace(opening, options={**opening.options, "session_id": new_uuid()})
