"""Permission rules on the command line: checked at the door, explained, and told where in vain."""

from __future__ import annotations

import json

import pytest
from program import Program


@pytest.mark.parametrize(
    ("rule", "call", "allows", "denies"),
    [
        ("Bash(rm:*)", "ls; rm -rf build", "does not allow it", "denies it"),
        ("Bash(git status:*)", "git status 2>&1", "allows it", "denies it"),
        ("Bash(rm:*)", "sh clean.sh", "does not allow it", "might match: asks"),
        (
            "Bash(rm:*)",
            "python clean.py",
            "does not allow it",
            "might match, unless an --allow rule",
        ),
        ("Edit(src/**)", "Edit(src/a.py)", "allows it", "denies it"),
        ("Edit(src/**)", "Edit(src/../a.py)", "does not allow it", "does not match"),
        ("Edit(src/**)", "Write(src/a.py)", "allows it", "denies it"),
        ("Fetch(*.example.org)", "Fetch(https://a.example.org/x)", "allows it", "denies it"),
        ("mcp__app__*", '{"tool": "mcp__app__deploy", "input": {}}', "allows it", "denies it"),
    ],
)
def test_a_rule_is_explained(
    program: Program, rule: str, call: str, allows: str, denies: str
) -> None:
    status = 1 if denies == "does not match" else 0
    lines = program.run("rules", "check", rule, call, status=status).stdout.splitlines()
    assert lines[0] == f"--allow {rule!r} {allows}"
    assert lines[1].startswith(f"--deny  {rule!r} {denies}")


def test_the_agents_that_a_rule_can_never_apply_to_are_named(program: Program) -> None:
    told = json.loads(program.run("rules", "check", "Bash(ls:*)", "ls", "--json").stdout)
    assert (told["allow"], told["deny"]) == (True, "yes")
    assert set(told["never"]) == {"gemini", "kimi", "fast-agent", "pi"}
    assert "does not say which command" in told["never"]["gemini"]["allow"]
    own = json.loads(
        program.run("rules", "check", "run_shell_command", "ls", "--json", status=1).stdout
    )
    assert "opencode" in own["never"]
    assert "qwen" not in own["never"]


def test_what_is_no_rule_is_refused_with_the_right_form(program: Program) -> None:
    done = program.run("rules", "check", "shell:rm *", "rm x", status=2)
    assert "Bash(rm:*) may be meant" in done.stderr
    config = configured(program, '[permissions]\nallow = ["read"]\n')
    done = program.run("config", status=2)
    assert f"{config}: permissions.allow: 'read' is not a permission rule" in done.stderr


@pytest.mark.parametrize(
    ("rule", "right"),
    [
        ("rm", "Bash(rm:*)"),
        ("git(push)", "Bash(git push:*)"),
        ("npm test", "Bash(npm test:*)"),
        ("/bin/rm", "Bash(rm:*)"),
    ],
)
def test_a_program_in_place_of_a_tool_is_refused_wherever_rules_are_read(
    program: Program, rule: str, right: str
) -> None:
    done = program.run("rules", "check", rule, "rm x", status=2)
    assert right in done.stderr
    done = program.run("-p", "hello", "--agent", "demo", "--deny", rule, status=2)
    assert right in done.stderr
    configured(program, f'[permissions]\ndeny = ["{rule}"]\n')
    assert right in program.run("config", status=2).stderr


def test_a_name_that_may_be_a_program_is_warned_of(program: Program) -> None:
    done = program.run("rules", "check", "frobnicate", "frobnicate x", status=1)
    assert "write Bash(frobnicate:*)" in done.stdout
    told = json.loads(program.run("rules", "check", "Bash(ls:*)", "ls", "--json").stdout)
    assert told["doubt"] == ""


def with_gemini(program: Program) -> None:
    configured(program, '[agents.gemini]\ncommand = "true"\n')


def configured(program: Program, text: str) -> str:
    config = program.home / "config.toml"
    config.write_text(text)
    program.env["AGENTRT_CONFIG"] = str(config)
    return str(config)


def test_a_rule_that_never_applies_to_the_agent_is_reported_at_the_start(program: Program) -> None:
    with_gemini(program)
    done = program.run("--agent", "gemini", "-p", "x", "--allow", "Bash(ls:*)", status=1)
    assert "the rule Bash(ls:*) never applies: gemini does not say which command" in done.stderr


def test_the_doctor_names_rules_that_never_apply(program: Program) -> None:
    text = '[permissions]\nallow = ["run_shell_command(ls:*)"]\n[agents.qwen]\ncommand = "true"\n'
    configured(program, text + '[agents.gemini]\ncommand = "true"\n')
    told = json.loads(
        program.run("doctor", "--agent", "gemini", "--agent", "qwen", "--json", status=1).stdout
    )
    rules = {each["name"]: each["rules"] for each in told}
    assert "never applies" in rules["gemini"][0]
    assert rules["qwen"] == []


def test_rules_that_would_not_hold_in_a_mode_are_refused(program: Program) -> None:
    with_gemini(program)
    flags = ("--agent", "gemini", "--mode", "yolo", "--deny", "Bash(rm:*)")
    assert "never asks in its mode yolo" in program.run(*flags, "-p", "x", status=2).stderr
