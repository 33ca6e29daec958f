"""One prompt with more said to it: a system prompt, a schema, a file for the last message."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from program import Program

CLAUDE = (
    "--protocol",
    "claude",
    "--command",
    shlex.join([sys.executable, str(Path(__file__).with_name("recording_claude.py"))]),
)


def received(program: Program, *arguments: str) -> dict[str, Any]:
    """What Claude Code received at its start."""
    done = program.run(*CLAUDE, "-p", "go", *arguments)
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_a_system_prompt_reaches_the_agent(program: Program) -> None:
    assert received(program, "--system", "You are a cat.")["systemPrompt"] in (
        "You are a cat.",
        ["You are a cat."],
    )
    assert received(program, "--append-system", "Be brief.")["appendSystemPrompt"] == "Be brief."


def test_a_bound_of_model_calls_reaches_the_agent(program: Program) -> None:
    assert "--max-turns=3" in received(program, "--max-turns", "3")["argv"]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["text", "json"])
def test_an_answer_with_a_schema_is_the_value(program: Program, format: str) -> None:
    schema = {"type": "object", "value": "wanted"}
    arguments = (*CLAUDE, "-p", "go", "--output-format", format, "--json-schema")
    (program.folder / "schema.json").write_text(json.dumps(schema))
    for said in (json.dumps(schema), "schema.json"):
        value = json.loads(program.run(*arguments, said).stdout)
        value = value["structured_output"] if format == "json" else value
        assert value == {"value": 42, "schema": schema}


def test_a_value_that_does_not_come_is_a_failure(program: Program) -> None:
    done = program.run(*CLAUDE, "-p", "go", "--json-schema", "{}", status=1)
    assert done.stdout == ""
    assert "structured" in done.stderr


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("nowhere.json", "--json-schema nowhere.json: No such file"),
        ("notes.txt", "--json-schema notes.txt: not valid JSON (JSON is malformed"),
        ("{", "--json-schema: "),
        ("list.json", "a JSON schema must be an object"),
    ],
)
def test_a_schema_that_is_none_is_wrong_usage(program: Program, said: str, message: str) -> None:
    (program.folder / "list.json").write_text("[]")
    assert message in program.run(*CLAUDE, "-p", "go", "--json-schema", said, status=2).stderr


@pytest.mark.parametrize(
    "said",
    [("--json-schema", "{}"), ("--max-turns", "1")],
)
def test_what_an_agent_has_no_option_for_is_wrong_usage(
    program: Program, said: tuple[str, str]
) -> None:
    stderr = program.demo("hello", *said, status=2).stderr
    assert f"demo has no equivalent of {said[0]}" in stderr


@pytest.mark.parametrize("option", ["--system", "--append-system"])
def test_an_agent_without_system_prompts_does_not_start_with_one(
    program: Program, option: str
) -> None:
    stderr = program.demo("hello", option, "x", status=None).stderr
    assert "the agent does not take a system prompt" in stderr


@pytest.mark.slow
def test_the_last_message_goes_to_a_file_too(program: Program) -> None:
    file = program.folder / "last.txt"
    done = program.run(*CLAUDE, "-p", "go", "--last-message", "last.txt")
    assert done.stdout.startswith("Before the tool.\n\n{")
    assert json.loads(file.read_text())["argv"]
    program.run(
        *(*CLAUDE, "-p", "go", "--last-message", "last.txt"),
        *("--json-schema", '{"value": 1}', "--output-format", "stream-json"),
    )
    assert json.loads(file.read_text())["value"] == 42


def test_an_old_last_message_is_not_left_for_a_new_one(program: Program) -> None:
    file = program.folder / "last.txt"
    file.write_text("from yesterday")
    program.demo("/crash", "--last-message", "last.txt", status=1)
    assert "yesterday" not in file.read_text()


def test_a_file_that_cannot_be_written_is_reported_before_anything_is_spent(
    program: Program,
) -> None:
    done = program.demo("create x with y", "--last-message", "no/such/folder", status=2)
    assert done.stderr == "agentrt: --last-message no/such/folder: No such file or directory\n"
    assert not (program.folder / "x").exists()


@pytest.mark.parametrize("flag", ["--last-message", "--json-schema", "--output-format"])
def test_what_is_for_one_prompt_is_said_to_be_so(program: Program, flag: str) -> None:
    value = "json" if flag == "--output-format" else "{}"
    with program.terminal(*CLAUDE, flag, value) as terminal:
        terminal.expect(f"{flag} is for a single prompt; use -p TEXT")
        assert terminal.ended() == 2


@pytest.mark.slow
def test_the_money_left_in_a_budget_reaches_the_agent(program: Program) -> None:
    assert "--max-budget-usd=5.0" in received(program, "--budget", "5usd,3turns")["argv"]
    argv = received(program, "--budget", "3turns")["argv"]
    assert not [each for each in argv if each.startswith("--max-budget")]
