"""How Claude Code is started.

The command line is compared as a value; Claude Code itself need not be installed.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agentrt._core.claude.command import build_command, initialize_request, mcp_config
from agentrt._core.claude.options import HOOK_EVENTS, effective, with_session_id
from agentrt.claude import ClaudeOptions, HookMatcher
from agentrt.errors import LocalProtocolError
from agentrt.events import ForkPoint
from agentrt.lowlevel import Opening

UUID = "11111111-2222-4333-8444-555555555555"
OPENING = Opening(cwd="/sandbox/project")


def argv(opening: Opening = OPENING, **options: Any) -> list[str]:
    return build_command("claude", opening, ClaudeOptions(**options)).argv


def test_the_least_command_line() -> None:
    assert argv() == [
        "claude",
        "--output-format=stream-json",
        "--input-format=stream-json",
        "--verbose",
        "--permission-mode=default",
        "--permission-prompt-tool=stdio",
        "--include-partial-messages",
    ]


def test_a_program_may_have_arguments_of_its_own() -> None:
    assert build_command(["python", "cli.py"], OPENING, ClaudeOptions()).argv[:2] == [
        "python",
        "cli.py",
    ]


def test_every_value_is_tied_to_its_flag() -> None:
    line = argv(
        Opening(cwd="/", roots=("-dangerous",), resume="--evil"),
        tools=("Read",),
        model="-m",
        fallback_model="b",
        thinking=1000,
        max_turns=3,
        max_budget_usd=0.5,
        setting_sources=(),
        settings={"a": 1},
        extra_args={"debug-file": "-x", "bare": None},
    )
    assert all(part.startswith("--") for part in line[1:])
    for expected in (
        "--add-dir=-dangerous",
        "--resume=--evil",
        "--tools=Read",
        "--model=-m",
        "--max-thinking-tokens=1000",
        "--max-turns=3",
        "--max-budget-usd=0.5",
        "--setting-sources=",
        '--settings={"a": 1}',
        "--debug-file=-x",
        "--bare",
    ):
        assert expected in line


def test_no_tools_at_all_is_said() -> None:
    assert "--tools=" in argv(tools=())
    assert not [part for part in argv() if part.startswith("--tools")]


@pytest.mark.parametrize(
    ("opening", "options", "flags"),
    [
        (Opening(cwd="/"), {"session_id": UUID}, [f"--session-id={UUID}"]),
        (Opening(cwd="/", resume="r"), {"session_id": UUID}, ["--resume=r"]),
        (
            Opening(cwd="/", resume="r", fork=True),
            {"session_id": UUID},
            ["--resume=r", "--fork-session", f"--session-id={UUID}"],
        ),
        (
            Opening(cwd="/", resume="r", fork=True, fork_at=ForkPoint(messages=("m",))),
            {},
            ["--resume=r", "--fork-session", "--resume-session-at=m"],
        ),
        (Opening(cwd="/"), {"continue_last": True}, ["--continue"]),
        (
            Opening(cwd="/", resume="r"),
            {"resume_at": "m", "persist": False},
            ["--resume=r", "--resume-session-at=m", "--no-session-persistence"],
        ),
    ],
)
def test_sessions_begin_go_on_and_fork(
    opening: Opening, options: dict[str, Any], flags: list[str]
) -> None:
    words = ("session", "resume", "continue", "fork")
    found = [part for part in argv(opening, **options) if any(w in part for w in words)]
    assert found == flags


def test_a_new_session_gets_its_id_from_us() -> None:
    opening = with_session_id(OPENING, ClaudeOptions(), lambda: UUID)
    assert effective(ClaudeOptions(), opening).session_id == UUID
    again = replace(opening, resume=UUID)
    assert with_session_id(again, ClaudeOptions(), lambda: "never") == again


@pytest.mark.parametrize(
    "opening", [Opening(cwd="/", resume="r"), Opening(cwd="/", options={"continue_last": True})]
)
def test_a_session_that_goes_on_has_its_own_id(opening: Opening) -> None:
    assert with_session_id(opening, ClaudeOptions(), lambda: UUID) is opening


def test_what_a_session_is_opened_with_overrides_the_agents_options() -> None:
    opening = Opening(
        cwd="/",
        model="haiku",
        mode="plan",
        options={"system_prompt": "Be brief.", "tools": ["Read"], "max_turns": 2},
    )
    options = effective(ClaudeOptions(model="opus", effort="low"), opening)
    assert (options.model, options.effort, options.permission_mode) == ("haiku", "low", "plan")
    assert (options.tools, options.max_turns) == (("Read",), 2)


@pytest.mark.parametrize("options", [{"sistem_prompt": "x"}, {"max_turns": "many"}])
def test_an_unknown_or_wrong_option_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not an option"):
        effective(ClaudeOptions(), Opening(cwd="/", options=options))


@pytest.mark.parametrize(
    "rules", [["Bash(git log:*)"], ["Read", "mcp__app__*"], ["Bash(a, b)", "Write"]]
)
def test_tool_rules_survive_the_clis_splitting(rules: list[str]) -> None:
    assert f"--allowedTools={','.join(rules)}" in argv(allowed_tools=tuple(rules))


@pytest.mark.parametrize("rule", ["", "Read,Bash", "Read Bash", "Bash(ls", "Bash)ls(", "a\tb"])
def test_a_rule_that_would_be_split_is_an_error(rule: str) -> None:
    with pytest.raises(ValueError, match="not a tool rule"):
        argv(allowed_tools=(rule,))


@pytest.mark.parametrize(
    "options",
    [
        {"permission_mode": "plan --bypass"},
        {"session_id": "../../etc"},
        {"extra_args": {"x y": None}},
        {"extra_args": {"x": "a\0b"}},
    ],
)
def test_what_could_be_taken_for_something_else_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not|NUL"):
        argv(**options)


def test_the_environment() -> None:
    options = ClaudeOptions(env={"MCP_TOOL_TIMEOUT": "5"}, file_checkpoints=True)
    command = build_command("claude", OPENING, options)
    assert command.env_set["CLAUDE_CODE_SDK_READS_SESSION_STATE"] == "1"
    assert command.env_set["PWD"] == "/sandbox/project"
    assert command.env_set["MCP_TOOL_TIMEOUT"] == "5"
    assert command.env_set["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] == "true"
    assert {"CLAUDECODE", "NODE_OPTIONS"} <= command.env_unset


def test_the_callers_environment_wins() -> None:
    options = ClaudeOptions(env={"CLAUDE_CODE_SDK_READS_SESSION_STATE": "0"})
    environment = build_command("claude", OPENING, options).env_set
    assert environment["CLAUDE_CODE_SDK_READS_SESSION_STATE"] == "0"


def test_nobody_to_ask_means_no_prompt_tool() -> None:
    assert not [part for part in argv(ask=False) if "permission-prompt" in part]


# --- initialize


def test_the_least_initialize() -> None:
    assert initialize_request(OPENING, ClaudeOptions()) == {
        "subtype": "initialize",
        "forwardSubagentText": True,
        "perTaskStopAffordance": True,
    }


def test_what_is_long_or_secret_goes_through_initialize() -> None:
    server = {
        "name": "db",
        "command": "serve",
        "args": ["-v"],
        "env": [{"name": "TOKEN", "value": "secret"}],
    }
    opening = Opening(cwd="/", mcp_servers=(server,))
    options = ClaudeOptions(
        system_prompt="Be brief.",
        append_system_prompt="Please.",
        agents={"digger": {"description": "digs", "prompt": "dig"}},
        json_schema={"type": "object"},
        sdk_servers=("app",),
        hooks={
            "PreToolUse": (
                HookMatcher(callbacks=("h1",), matcher="Bash", timeout=5, on_failure="block"),
            )
        },
        spare_tasks=False,
    )
    request = initialize_request(opening, options)
    assert request["systemPrompt"] == ["Be brief."]
    assert request["appendSystemPrompt"] == "Please."
    assert request["agents"]["digger"]["prompt"] == "dig"
    assert request["jsonSchema"] == {"type": "object"}
    assert request["sdkMcpServers"] == ["app"]
    assert request["hooks"] == {
        "PreToolUse": [
            {
                "hookCallbackIds": ("h1",),
                "matcher": "Bash",
                "timeout": 5,
                "onFailure": "block",
            }
        ]
    }
    assert request["mcpServers"] == {
        "db": {"type": "stdio", "command": "serve", "args": ["-v"], "env": {"TOKEN": "secret"}}
    }
    assert "perTaskStopAffordance" not in request
    line = build_command("claude", opening, options).argv
    assert "--await-initialize" in line
    assert not any("secret" in part or "brief" in part for part in line)


def test_an_older_cli_gets_its_servers_on_the_command_line() -> None:
    server = {"type": "http", "name": "web", "url": "https://example.org", "headers": []}
    opening = Opening(cwd="/", mcp_servers=(server,))
    options = ClaudeOptions(mcp_delivery="argv")
    (flag,) = [p for p in build_command("claude", opening, options).argv if "mcp-config" in p]
    assert '"web": {"type": "http", "url": "https://example.org", "headers": {}}' in flag
    assert "mcpServers" not in initialize_request(opening, options)


@pytest.mark.parametrize(
    "servers", [[{"name": "a b", "command": "x"}], [{"name": "a", "command": "x"}] * 2, [{}]]
)
def test_server_names_are_checked(servers: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"name|called"):
        mcp_config(servers)


def test_every_hook_event_is_known() -> None:
    assert len(HOOK_EVENTS) == len(set(HOOK_EVENTS)) == 33


def test_the_command_line_of_the_older_dialect() -> None:
    options = ClaudeOptions(legacy=True, session_id="11111111-2222-4333-8444-555555555555")
    assert build_command("claude", Opening(cwd="/"), options).argv == [
        "claude",
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--permission-mode=default",
        "--session-id=11111111-2222-4333-8444-555555555555",
    ]


@pytest.mark.parametrize(
    ("options", "opening", "name"),
    [
        ({"json_schema": {"type": "object"}}, {}, "json_schema"),
        ({"system_prompt": "be brief"}, {}, "system_prompt"),
        ({"append_system_prompt": "be brief"}, {}, "append_system_prompt"),
        ({"max_turns": 3}, {}, "max_turns"),
        ({"model": "opus"}, {}, "model"),
        ({}, {"model": "opus"}, "model"),
        ({}, {"resume": "s1"}, "resume"),
        ({}, {"roots": ("/x",)}, "roots"),
        ({}, {"mcp_servers": ({"name": "x"},)}, "mcp_servers"),
        ({"sdk_servers": ("agentrt",)}, {}, "tools"),
        ({"hooks": {"Stop": (HookMatcher(callbacks=("h1",)),)}}, {}, "hooks"),
        ({"ask": False}, {}, "ask"),
        ({"disallowed_tools": ("Bash",)}, {}, "disallowed_tools"),
    ],
)
def test_what_the_older_dialect_has_not_is_refused(options: Any, opening: Any, name: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"has no {name}$"):
        effective(ClaudeOptions(legacy=True, **options), Opening(cwd="/", **opening))


def test_what_the_older_dialect_has_is_taken() -> None:
    options = ClaudeOptions(legacy=True, env={"A": "b"}, extra_args={"x": None})
    assert effective(options, Opening(cwd="/", mode="plan")).permission_mode == "plan"
