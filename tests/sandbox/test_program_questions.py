"""Programs for which a sandbox asks before they start."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentrt
from agentrt import Agent, PermissionOpened, open_session, rules
from agentrt.permissions import Policy
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
SANDBOX = Sandbox(read=[str(HERE)], programs={"id": "ask", "wc": "deny"})


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "asked", "ran"), [("once", 2, 2), ("session", 1, 2), ("reject", 2, 0)]
)
async def test_each_start_is_a_question_until_it_is_allowed_for_the_session(
    option: str, asked: int, ran: int, shell_agent: Agent, project: Path
) -> None:
    titles = []
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=agentrt.ask
    ) as session:
        async with session.prompt("shell id -u; V=1 /usr/bin/id -u; echo x | wc") as turn:
            async for event in turn:
                if isinstance(event, PermissionOpened):
                    titles.append(event.title)
                    assert event.subject == "Program"
                    assert event.detail == {
                        "tool": "Program",
                        "input": {"name": "id", "argv": ["id", "-u"]},
                    }
                    assert [each.name for each in event.options] == [
                        "Allow once",
                        "Allow id with any arguments for this session",
                        "Reject",
                    ]
                    turn.answer(event, option)
        said = turn.result.text
        assert session.sandbox is not None
        granted = [(each.tool, each.target) for each in session.sandbox.granted]
    assert titles == ["Run id -u"] * asked
    assert said.count("id is not allowed in this session by its sandbox") == 2 - ran
    assert len([line for line in said.splitlines() if line.isdigit()]) == ran
    assert "wc may not be run in this session" in said
    assert granted == ([("Program", "id")] if option == "session" else [])


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "ran"),
    [
        (rules(allow=["Program(id)"]), True),
        (rules(allow=["Program(i*)"]), True),
        (rules(allow=["Program(git)", "Bash(id)"]), False),
        (rules(deny=["Program(id)"], otherwise=agentrt.allow_all), False),
        (rules(allow=["Program(id)"], deny=["Bash(id:*)"]), False),
        (agentrt.allow_all, False),
        (None, False),
    ],
)
async def test_rules_answer_for_a_program_and_allow_all_does_not(
    policy: Policy | None, ran: bool, shell_agent: Agent, project: Path
) -> None:
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=policy
    ) as session:
        assert ((await session.run("shell id -u")).text.strip().isdigit()) is ran


@pytest.mark.sandbox
@pytest.mark.slow
async def test_a_script_keeps_its_name_its_arguments_and_its_streams(
    shell_agent: Agent, project: Path
) -> None:
    script = project.parent / "bin" / "tool"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nread line\necho "$# $2 $line $V"\nexit 7\n')
    script.chmod(0o755)
    sandbox = Sandbox(read=[str(HERE)], programs={"tool": "ask"})
    env = {"PATH": f"{script.parent}:/usr/bin:/bin"}
    async with open_session(
        shell_agent, cwd=project, env=env, sandbox=sandbox, permissions=rules(allow=["Program"])
    ) as session:
        said = (await session.run("shell echo in | V=v tool 'a b' 'c d'; echo $?")).text
    assert said == "2 c d in v\n7\n"


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("$(seq 998) --evil", [*map(str, range(1, 999)), "--evil"]),
        (r"$(printf 'a\377') 'b  c'", ["a\\xff", "b  c"]),
        ("$(seq 999) --evil", None),
    ],
)
async def test_a_question_shows_each_argument_or_the_program_is_refused(
    arguments: str, shown: list[str] | None, shell_agent: Agent, project: Path
) -> None:
    sandbox = Sandbox(read=[str(HERE)], programs={"echo": "ask"})
    asked = []
    async with open_session(
        shell_agent, cwd=project, sandbox=sandbox, permissions=agentrt.ask
    ) as session:
        command = f"/bin/echo {arguments} 2>&1 | LC_ALL=C tr -d '\\377'"
        async with session.prompt(f"shell {command}") as turn:
            async for event in turn:
                if isinstance(event, PermissionOpened):
                    assert isinstance(event.detail, dict)
                    asked.append(event.detail["input"]["argv"])
                    turn.answer(event, "once")
    if shown is None:
        assert asked == []
        assert turn.result.text == "sandbox: echo: its arguments are too many to be asked about\n"
    else:
        assert asked == [["echo", *shown]]
        assert turn.result.text.endswith(f" {shown[-1]}\n")


@pytest.mark.parametrize("rule", ["Program(git push)", "Program(/bin/rm)", "Program(a/b)"])
def test_a_rule_about_no_program_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="name one program"):
        rules(allow=[rule])
