"""A hint follows a call in whose output the sandbox has refused something."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import agentrt
from agentrt import Agent, Notice, open_session
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent


class SandboxSteps(trio.abc.Instrument):
    """Counts the steps of the host's tasks that serve a sandbox."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the step if the task belongs to a module of the sandbox."""
        self.count += "sandbox" in task.name.rpartition(".")[0]


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


@pytest.mark.sandbox
@pytest.mark.slow
async def test_only_a_call_makes_the_host_work_for_the_sandbox(project: Path) -> None:
    policy = agentrt.allow_all
    async with open_session(
        "demo", cwd=project, sandbox=Sandbox(), trust="yes", permissions=policy
    ) as session:
        await session.run("hi")
        steps = SandboxSteps()
        trio.lowlevel.add_instrument(steps)
        try:
            for _ in range(5):
                await session.run("hi")
            after_texts = steps.count
            await session.run("run echo x >/opt/new")
        finally:
            trio.lowlevel.remove_instrument(steps)
    assert after_texts == 0
    assert steps.count > 0  # the instrument sees the tasks of the sandbox
