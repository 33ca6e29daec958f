"""A hint follows a call in whose output the sandbox has refused something."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentrt
from agentrt import Agent, Notice, open_session
from agentrt._core.sandbox.hints import MAX_HINTS, find_refusals
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
OUTPUTS = [
    ("sh: 1: cannot create /etc/x: Read-only file system", "/etc/x"),
    ("sh: 1: cannot create .git/hooks/x: Read-only file system", "/work/.git/hooks/x"),
    ("bash: line 1: /etc/x: Read-only file system", "/etc/x"),
    ("touch: cannot touch '/opt/a b': Read-only file system", "/opt/a b"),
    ("mkdir: cannot create directory ‘../x’: Read-only file system", "/x"),
    ("error: could not lock config file .git/config: Read-only file system", "/work/.git/config"),
    ("fatal: Unable to create '/a/.git/index.lock': Read-only file system", "/a/.git/index.lock"),
    ("OSError: [Errno 30] Read-only file system: '/etc/x'", "/etc/x"),
    ("Error: EROFS: read-only file system, open '/etc/x'", "/etc/x"),
    ("open /etc/x: read-only file system", "/etc/x"),
    ("sandbox: new.invalid:80 is not allowed in this session by its sandbox", "new.invalid:80"),
    ("sandbox: [2001:db8::1]:443 is not allowed in this session", "[2001:db8::1]:443"),
    ("sandbox: rm may not be run in this session", "rm"),
]


@pytest.mark.parametrize(("output", "target"), OUTPUTS)
def test_a_refusal_is_found_in_what_programs_print(output: str, target: str) -> None:
    assert [each.target for each in find_refusals(f"ok\n{output}\n", "/work")] == [target]


@pytest.mark.parametrize(
    "output", ["", "a file system that is read-only", "Permission denied", "sandbox: it works"]
)
def test_other_output_has_no_hint(output: str) -> None:
    assert find_refusals(output, "/work") == []


@given(st.lists(st.sampled_from([each for each, _ in OUTPUTS]) | st.text(), max_size=20))
def test_any_output_has_few_hints_of_one_line(lines: list[str]) -> None:
    found = find_refusals("\n".join(lines), "/work")
    assert len(found) == len(set(found)) <= MAX_HINTS
    assert all("\n" not in each.hint(for_good=False) for each in found)


@pytest.mark.sandbox
@pytest.mark.slow
async def test_the_log_names_the_setting_that_would_allow_it(project: Path) -> None:
    (project / ".mcp.json").write_text("{}")
    policy = agentrt.allow_all
    lines = ("echo x >/opt/new", "echo x >.mcp.json", "echo x >/opt/new")
    async with open_session(
        "demo", cwd=project, sandbox=Sandbox(), trust="yes", permissions=policy
    ) as session:
        for line in lines:
            await session.run(f"run {line}")
        found = [e for e in session.log.since(0) if isinstance(e, Notice)]
        hints = [each for each in found if each.code == "sandbox_refused"]
    assert ["--allow-write /opt" in each.message for each in hints] == [True, False]
    assert "outside the sandbox" in hints[1].message
    assert isinstance(hints[0].data, dict)
    assert hints[0].data["target"] == "/opt/new"


@pytest.mark.sandbox
@pytest.mark.slow
async def test_a_page_in_a_file_is_no_refusal_of_an_answer(
    shell_agent: Agent, project: Path
) -> None:
    sandbox = Sandbox(read=[str(HERE)])
    async with open_session(shell_agent, cwd=project, sandbox=sandbox) as session:
        await session.run("shell echo /etc/x: Read-only file system")
        codes = [e.code for e in session.log.since(0) if isinstance(e, Notice)]
    assert "sandbox_refused" not in codes  # a text of the agent, and no call
