"""`agentrt conformance`: the table, the object, the traces, the exit status."""

from __future__ import annotations

import json
import shlex
import sys

import pytest
from program import Program

QUICK = ("--only", "initialize", "--only", "cancel-unknown")


@pytest.mark.slow
def test_a_known_agent_is_checked_and_a_table_printed(program: Program) -> None:
    told = program.run("conformance", "demo", *QUICK).stdout
    assert "✓ initialize " in told
    assert "(must)" in told
    assert "2 checks: 2 passed, 0 failed, 0 different, 0 unsupported, 0 inconclusive" in told


@pytest.mark.slow
def test_a_command_is_checked_and_leaves_traces_that_can_be_shown(program: Program) -> None:
    demo = (sys.executable, "-m", "agentrt.demo")
    arguments = (*QUICK, "--traces", "traces", "--output-format", "json")
    report = json.loads(program.run("conformance", *arguments, "--", *demo).stdout)
    assert report["counts"]["passed"] == 2
    assert report["broken"] == []
    assert report["findings"][0]["where"].startswith("https://agentclientprotocol.com/")
    shown = program.run("trace", "show", report["findings"][0]["trace"]).stdout
    assert "initialize" in shown


def test_an_agent_that_breaks_a_must_is_the_exit_status(program: Program) -> None:
    shell = 'read line; echo \'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}\'; cat'
    told = program.run("conformance", "--only", "initialize", "--", "sh", "-c", shell, status=1)
    assert "✗ initialize" in told.stdout
    assert "it answered version 2" in told.stdout
    assert "see https://agentclientprotocol.com/protocol/v1/initialization" in told.stdout


@pytest.mark.slow
def test_an_agent_of_version_1_fails_the_handshake_of_version_2(program: Program) -> None:
    arguments = ("--acp-version", "2", "--only", "initialize", "--only", "insertion")
    told = program.run("conformance", "demo", *arguments, status=1).stdout
    assert "it answered version 1" in told
    assert "unsupported: it answered version 1" in told
    assert "see https://agentclientprotocol.com/protocol/v2/draft/initialization" in told


@pytest.mark.slow
def test_agentrt_as_an_agent_meets_the_checks_of_version_2(program: Program) -> None:
    checks = {
        "initialize",
        "initialize-zero",
        "null-id",
        "insertion",
        "turn-states",
        "empty-prompt",
    }
    checks |= {"held-prompt", "close-order", "option-unknown"}
    only = [word for name in sorted(checks) for word in ("--only", name)]
    prompts = ("--text", "hello", "--long", "/slow 20")
    agent = (sys.executable, "-m", "agentrt", "acp", "--agent", "demo", "--store", "off")
    told = program.run(
        *("conformance", "--acp-version", "2", "--output-format", "json", *prompts, *only),
        *("--", *agent),
    )
    report = json.loads(told.stdout)
    assert report["acp_version"] == 2
    assert {each["check"] for each in report["findings"]} == checks
    odd = [each for each in report["findings"] if each["verdict"] != "passed"]
    assert not odd, [(each["check"], each["words"]) for each in odd]


def test_a_command_may_be_one_word(program: Program) -> None:
    told = program.run("conformance", "--only", "initialize", "--", "cat", status=1)
    assert "✗ initialize" in told.stdout


@pytest.mark.slow
def test_a_program_is_found_by_its_path_from_here(program: Program) -> None:
    demo = "import runpy\nrunpy.run_module('agentrt.demo', run_name='__main__')\n"
    (program.folder / "agent.py").write_text(demo)
    (program.folder / "agent").write_text(f"#!{sys.executable}\n{demo}")
    (program.folder / "agent").chmod(0o755)
    for command in ((sys.executable, "agent.py"), ("./agent",)):
        told = program.run("conformance", "--only", "initialize", "--", *command).stdout
        assert "✓ initialize " in told


@pytest.mark.slow
def test_an_agent_that_never_answers_is_not_waited_for_in_every_check(program: Program) -> None:
    silent = ("--timeout", "1", "--", "sleep", "100")
    told = program.run("conformance", *silent, status=1)
    assert "has not answered within 1 s: no check was run" in told.stderr
    assert told.stdout == ""


def test_a_file_that_cannot_be_executed_is_reported(program: Program) -> None:
    (program.folder / "agent").write_bytes(b"\0\0\0")
    (program.folder / "agent").chmod(0o755)
    told = program.run("conformance", "--only", "initialize", "--", "./agent", status=1)
    assert "cannot be executed" in told.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nobody-knows-it"], 4, "nobody-knows-it"),
        (["demo", "--only", "cancel"], 2, "'cancel' is not a check of acp"),
        (["demo", "--acp-version", "2", "--only", "load"], 2, "'load' is not a check of acp 2"),
        (["demo", "--protocol", "acp"], 2, "--protocol is the protocol of a command"),
        (["--", "/nowhere/agent"], 4, "/nowhere/agent"),
    ],
)
def test_what_cannot_be_checked_is_said(
    program: Program, arguments: list[str], status: int, message: str
) -> None:
    assert message in program.run("conformance", *arguments, status=status).stderr


@pytest.mark.slow
def test_codex_is_checked_by_its_name_and_as_a_command(program: Program) -> None:
    odd = (sys.executable, "-m", "agentrt.testing.odd", "--protocol", "codex", "plain")
    codex = program.home / "codex"
    codex.write_text(f'#!/bin/sh\nexec {shlex.join(odd)} "$@"\n')
    codex.chmod(0o755)
    program.env["PATH"] = f"{program.home}:{program.env['PATH']}"
    only = ("initialize", "uninitialized", "turn", "permission-rejected")
    arguments = [word for name in only for word in ("--only", name)]
    for named in (("codex",), ("--protocol", "codex", "--", *odd)):
        told = program.run("conformance", "--output-format", "json", *arguments, *named)
        found = {each["check"]: each["verdict"] for each in json.loads(told.stdout)["findings"]}
        assert found == {
            "initialize": "passed",
            "uninitialized": "failed",  # it minds no order
            "turn": "passed",
            "permission-rejected": "inconclusive",
        }


@pytest.mark.slow
def test_a_claude_code_is_checked_by_what_a_host_relies_on(program: Program) -> None:
    only = ("initialize", "unknown-request", "turn", "permission-rejected")
    arguments = [word for name in only for word in ("--only", name)]
    odd = (sys.executable, "-m", "agentrt.testing.odd", "--protocol", "claude", "plain")
    told = program.run(
        *("conformance", "--protocol", "claude", "--output-format", "json"), *arguments, "--", *odd
    )
    found = {each["check"]: each["verdict"] for each in json.loads(told.stdout)["findings"]}
    assert found == {
        "initialize": "passed",
        "unknown-request": "failed",  # it answers any request with success
        "turn": "passed",
        "permission-rejected": "inconclusive",
    }
