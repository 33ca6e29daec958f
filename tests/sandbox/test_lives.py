"""An agent's process in a sandbox: silence, interrupts, starts that follow, and its cost."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
import trio
from msgspec import structs

import agentrt
import agentrt.agents
from agentrt import Agent, open_session
from agentrt.sandbox import Sandbox
from agentrt.store import open_store, reopen_session

HERE = Path(__file__).resolve().parent
SANDBOX = Sandbox(read=[str(HERE)])
pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

MAX_WRAPPER_BYTES = 5 << 20


async def test_an_agent_outlives_the_thread_that_started_it(
    shell_agent: Agent, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of Trio ends after some seconds without work. A signal at the end of the parent
    would then kill a silent agent."""
    monkeypatch.setattr("trio._core._thread_cache.IDLE_TIMEOUT", 0.05)
    async with open_session(shell_agent, cwd=project, sandbox=SANDBOX) as session:
        pid = (await session.run("pid")).text
        with trio.fail_after(30):
            while any("Trio" in each.name for each in threading.enumerate()):  # noqa: ASYNC110
                await trio.sleep(0.05)
        again = await session.run("pid")
    assert (again.outcome, again.text) == ("completed", pid)


async def test_an_interrupt_reaches_the_agent_and_not_the_program_around_it(
    project: Path,
) -> None:
    program = HERE.parent / "claude" / "fakecli.py"
    agent = agentrt.agents.claude([sys.executable, str(program), "legacy"], legacy=True)
    sandbox = Sandbox(read=[str(program.parent)])
    async with open_session(
        agent, cwd=project, sandbox=sandbox, permissions=agentrt.ask
    ) as session:
        outcomes = []
        pids = set()
        for _ in range(2):
            async with session.prompt("run it") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.cancel()
            outcomes.append(turn.result.outcome)
            pids.add(session.agent.pid)
        [pid] = pids
        assert Path(f"/proc/{pid}/comm").read_text() == "bwrap\n"
    assert outcomes == ["cancelled", "cancelled"]


async def test_a_resumed_session_and_a_fork_keep_the_sandbox_and_the_agents_history(
    shell_agent: Agent, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    agent = structs.replace(shell_agent, name="claude")
    options = {"cwd": project, "env": env}
    secret = "shell cat ../neighbour/secret"
    history = "shell echo line >> ~/.claude/history.jsonl; cat ~/.claude/history.jsonl"
    offline = Sandbox(read=[str(HERE)], network="none")
    async with open_store(tmp_path / "store.db") as store:
        async with agentrt.open_runtime(store=store, sandbox=offline) as runtime:
            session = await runtime.create(agent, **options)
            assert (await session.run(history)).text == "line\n"
            fork = await runtime.fork(session.id)
            assert fork.sandbox is not None
            assert fork.sandbox.policy == offline
            assert (await fork.run(history)).text == "line\nline\n"
            assert "No such file" in (await fork.run(secret)).text
        async with reopen_session(session.id, store, agent=agent, env=env) as again:
            assert (await again.run(history)).text == "line\nline\nline\n"
            assert "No such file" in (await again.run(secret)).text


@pytest.mark.parametrize("place", ["cwd", "root", "write", "read"])
async def test_a_link_in_the_place_of_a_folder_opens_nothing_at_a_later_start(
    shell_agent: Agent, project: Path, place: str
) -> None:
    """A session in the folder around it can put the link there."""
    folder, neighbour = project / "shop", project.parent / "neighbour"
    folder.mkdir()
    (project / "usual").symlink_to(folder)  # links that stay as they are do not matter
    other = project.parent / "other"
    other.mkdir()
    listed = {place: [str(folder)]} if place in ("write", "read") else {}
    sandbox = structs.replace(
        SANDBOX, **{name: (*getattr(SANDBOX, name), *value) for name, value in listed.items()}
    )
    options = {
        "cwd": project / "usual" if place == "cwd" else other,
        "roots": [folder] if place == "root" else [],
    }
    async with open_session(shell_agent, sandbox=sandbox, **options) as session:
        assert (await session.run("shell echo ready")).text == "ready\n"
        await session.run("exit 0", check=False)
        assert (await session.run("shell echo ready")).text == "ready\n"
        await session.run("exit 0", check=False)
        folder.rename(project / "before")
        folder.symlink_to(neighbour)
        reads = f"shell cat {neighbour}/secret {folder}/secret; echo x > {neighbour}/secret"
        with pytest.raises(agentrt.errors.SandboxUnavailable, match="led to"):
            await session.run(reads)
    assert (neighbour / "secret").read_text() == "secret"


async def test_the_programs_around_an_agent_take_little_memory(
    shell_agent: Agent, project: Path
) -> None:
    async with open_session(shell_agent, cwd=project, sandbox=SANDBOX) as session:
        await session.run("pid")
        outer = session.agent.pid
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        resident = sum(
            int(line.split()[1]) * 1024
            for pid in (outer, *children)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmRSS:")
        )
    assert len(children) == 1
    assert resident <= MAX_WRAPPER_BYTES


async def test_a_hundred_sessions_leave_no_descriptor_and_no_process(
    shell_agent: Agent, project: Path
) -> None:
    async def one() -> None:
        async with open_session(shell_agent, cwd=project, sandbox=SANDBOX) as session:
            assert (await session.run("pid")).outcome == "completed"

    await one()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one)
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # Trio's own
    children = Path("/proc/self/task").glob("*/children")
    names = [
        Path(f"/proc/{pid}/comm").read_text()
        for each in children
        for pid in each.read_text().split()
    ]
    assert "bwrap\n" not in names
