"""How sessions with the real Claude Code end: by us, by others, at any moment of their life.

Commands of Claude's run in sessions and groups of their own, and go on when Claude is killed; what
is looked for here is their processes, and what they would have done later.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Script, Shell, Text, prompt_for
from .story import GATE, GONE, agent_of, open_gate, running, session_with, until

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0
SLEEP = "sleep 297"
LADDER = agentrt.Limits(
    cancel_grace_s=2, stdin_close_grace_s=2, terminate_grace_s=1, kill_wait_s=1, drain_timeout_s=0
)
BOUND = 2.0 + 2 + 1 + 1
"""Seconds that the limits allow for the end of a session."""
BUSY = 5.0
"""How much longer anything may take on a machine that does other things, too."""


def late(command: str = f"echo go; {SLEEP}; touch late.txt") -> Script:
    """A command that would do something long after the session is gone."""
    return [[Shell(command)], [Text("Done.")]]


def living(lab: Lab) -> list[psutil.Process]:
    """The dead whose parent was killed are left for somebody else to bury."""
    return [p for p in lab.processes() if p.status() != psutil.STATUS_ZOMBIE]


async def nothing_of(lab: Lab) -> None:
    """No process is left, and none did what it was to do later."""
    await until(lambda: not living(lab))
    assert not (lab.work / "late.txt").exists()


# --- ended by us


async def work(lab: Lab, prompt: str) -> None:
    """A session that does one thing."""
    async with session_with(lab, permissions=agentrt.allow_all, limits=LADDER) as (session, _):
        await session.run(prompt)


@pytest.mark.parametrize(
    "command",
    [
        f"echo go; {SLEEP}; touch late.txt",
        f"trap '' TERM INT HUP; echo go; {SLEEP}; touch late.txt",
        f"setsid bash -c '{SLEEP}; touch late.txt' & wait",
    ],
    ids=["plain", "ignoring signals", "in a session of its own"],
)
async def test_a_running_command_ends_with_the_session(lab: Lab, command: str) -> None:
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, lab, prompt_for(late(command)))
            await until(lambda: running(lab, SLEEP), PATIENCE)
            nursery.cancel_scope.cancel()
        await nothing_of(lab)


async def test_background_work_ends_with_the_session(lab: Lab) -> None:
    script: Script = [
        [Shell(f"{SLEEP}; touch late.txt", background=True)],
        [Text("Started.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, limits=LADDER) as (session, _):
            await session.run(prompt_for(script))
            await until(lambda: running(lab, SLEEP))
            assert [task.status for task in session.background_tasks.values()] == ["running"]
        assert [task.status for task in session.background_tasks.values()] == ["cancelled"]
        await nothing_of(lab)


async def test_a_stopped_process_is_ended_all_the_same(lab: Lab) -> None:
    """It hears neither the goodbye nor SIGTERM."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab, limits=LADDER) as (session, _):
            await session.run("Please [[text]]")
            assert session.agent.pid is not None
            os.kill(session.agent.pid, signal.SIGSTOP)


async def test_the_last_words_are_stored_before_the_end(lab: Lab) -> None:
    """SIGTERM right behind a result loses the transcript's last line."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            await session.run("Please [[text]]")
            stored = session.agent_session
        assert stored is not None
        entries = await agentrt.claude.ClaudeSessions(lab.home / ".claude").read(stored)
    assert entries[-1]["type"] in ("assistant", "system")
    assert "Hello from the scripted model." in str(entries)


# --- ended by others


@pytest.mark.parametrize(
    ("sent", "outcome", "told", "tool"),
    [
        (signal.SIGKILL, "agent_died", "SIGKILL", "orphaned"),
        (signal.SIGTERM, "agent_died", "exit status 143", "failed"),
        (signal.SIGHUP, "agent_died", "exit status 129", "failed"),
        (signal.SIGINT, "cancelled", None, "cancelled"),
    ],
)
async def test_a_killed_process_is_reported_and_the_next_prompt_resumes(
    lab: Lab, sent: signal.Signals, outcome: str, told: str | None, tool: str
) -> None:
    """SIGINT lets Claude end its turn, but then it ends itself."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            await session.run("Please [[text]]")
            async with session.prompt(prompt_for(late()), check=False) as turn:
                await until(lambda: running(lab, SLEEP))
                assert session.agent.pid is not None
                os.kill(session.agent.pid, sent)
            await until(lambda: session.state.phase == "dead")
            again = await session.run("Please [[again]]")
        await nothing_of(lab)
    assert turn.result.outcome == outcome
    if told is not None:
        assert turn.result.error is not None
        assert told in turn.result.error.message
    assert [status for _, status in story.tools()] == [tool]
    [restarted] = story.notices("agent_restarted")
    assert restarted.data == {"resumed": True}
    assert again.text == "Another answer."
    [*_, asked] = lab.model.asks()
    assert asked.history[0] == "[[text]]"


async def test_a_process_killed_at_rest_is_replaced_by_the_next_prompt(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            await session.run("Please [[text]]")
            assert session.agent.pid is not None
            os.kill(session.agent.pid, signal.SIGKILL)
            await until(lambda: session.state.phase == "dead")
            again = await session.run("Please [[again]]")
    assert again.text == "Another answer."
    assert len(story.notices("agent_restarted")) == 1
    assert {end.outcome for end in story.all(agentrt.TurnEnded)} == {"completed"}


async def test_an_exit_status_of_1_after_an_error_is_no_crash(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            await session.run("Please [[error-400]]", check=False)
            await session.aclose()
    assert [notice for notice in story.all(agentrt.Notice) if notice.level == "error"] == []
    assert session.state.phase == "closed"


HOST = """
import sys, trio, agentrt

async def main():
    agent = agentrt.agents.claude([sys.argv[1]])
    async with agentrt.open_session(agent, permissions=agentrt.allow_all) as session:
        await session.run(sys.argv[2])

trio.run(main)
"""


@pytest.mark.slow
async def test_nothing_outlives_a_host_that_is_killed(lab: Lab) -> None:
    """Claude by itself finishes its turn, with all that the turn does."""
    with trio.fail_after(PATIENCE):
        host = await trio.lowlevel.open_process(
            [sys.executable, "-c", HOST, *lab.argv, prompt_for(late())],
            cwd=lab.work,
            env={**lab.env, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
        )
        await until(lambda: running(lab, SLEEP), PATIENCE)
        host.kill()
        await host.wait()
        await until(lambda: not living(lab))
    assert not (lab.work / "late.txt").exists()


# --- what the end of its input does: the reason for a goodbye before it


class Pipes:
    """Claude Code without agentrt: its process, and its lines as they come."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.kinds: list[str] = []
        """The types of its lines, subtypes in their place where there are any."""

    async def write(self, **line: Any) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(json.dumps(line).encode() + b"\n")

    async def prompt(self, text: str) -> None:
        await self.write(type="control_request", request_id="1", request={"subtype": "initialize"})
        await self.write(type="user", message={"role": "user", "content": text})

    async def read(self) -> None:
        assert self.process.stdout is not None
        held = b""
        async for data in self.process.stdout:
            *lines, held = (held + data).split(b"\n")
            for line in map(json.loads, filter(None, lines)):
                self.kinds.append(line["type"] if line["type"] != "system" else line["subtype"])

    async def end_of_input(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()


@asynccontextmanager
async def pipes(lab: Lab) -> AsyncIterator[Pipes]:
    flags = ["--input-format=stream-json", "--output-format=stream-json", "--verbose"]
    process = await trio.lowlevel.open_process(
        [*lab.argv, *flags, "--permission-mode=acceptEdits", "--allowedTools=Bash"],
        cwd=lab.work,
        env=lab.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            raw = Pipes(process)
            nursery.start_soon(raw.read)
            yield raw
            await process.wait()


async def test_claude_at_rest_exits_at_the_end_of_its_input(lab: Lab) -> None:
    async with pipes(lab) as claude:
        await claude.prompt("Please [[text]]")
        await until(lambda: "result" in claude.kinds)
        await claude.end_of_input()
    assert claude.process.returncode == 0


async def test_claude_at_work_finishes_its_turn_behind_the_end_of_its_input(lab: Lab) -> None:
    """With all that the turn does: this is why a session's end begins with an interrupt."""
    script: Script = [[Shell(f"{GATE}; touch late.txt")], [Text("Done.")]]
    async with pipes(lab) as claude:
        await claude.prompt(prompt_for(script))
        await until(lambda: "assistant" in claude.kinds)
        await claude.end_of_input()
        open_gate(lab)
    assert claude.kinds.count("result") == 1
    assert claude.process.returncode == 0
    assert (lab.work / "late.txt").exists()


# --- a start that fails


@pytest.mark.parametrize(
    ("flag", "said"),
    [({"no-such-flag": None}, "unknown option"), ({"mcp-config": "{broken"}, "MCP")],
)
async def test_a_start_that_fails_quotes_what_claude_said(
    lab: Lab, flag: dict[str, str | None], said: str
) -> None:
    with trio.fail_after(PATIENCE):
        with pytest.raises(agentrt.AgentStartError, match=said) as caught:
            async with session_with(lab, options={"extra_args": flag}):
                pytest.fail("there is no session")
    assert caught.value.returncode == 1


# --- cancelled in every phase

Block = Callable[[agentrt.Session], Awaitable[Any]]


class Visit:
    """A session whose caller gives up in some phase of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.scope = trio.CancelScope()
        self.took = 0.0

        @agentrt.tool
        async def record_result(summary: str) -> str:
            """Persist the final outcome of a job."""
            await self.now()
            return ""

        @agentrt.hook("PreToolUse", matcher="Bash")
        async def look(input: dict[str, Any]) -> None:
            await self.now()

        self.tool, self.hook = record_result, look

    async def now(self) -> None:
        """The phase has been reached: the caller gives up."""
        self.took = trio.current_time()
        self.scope.cancel()
        await trio.sleep_forever()

    async def run(self, block: Block, **options: Any) -> None:
        with self.scope:
            async with agentrt.open_session(
                agent_of(self.lab),
                cwd=self.lab.work,
                env=self.lab.env,
                limits=LADDER,
                **{"permissions": agentrt.allow_all, **options},
            ) as session:
                await block(session)
        self.took = trio.current_time() - self.took


async def before_spawn(visit: Visit) -> None:
    visit.scope.cancel()
    visit.took = trio.current_time()
    await visit.run(lambda session: pytest.fail("there is no session"))


async def during_initialize(visit: Visit) -> None:
    async def give_up() -> None:
        await until(lambda: any(p.name() == "claude" for p in visit.lab.processes()))
        await visit.now()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up)
        await visit.run(lambda session: pytest.fail("there is no session"))
        nursery.cancel_scope.cancel()


async def at_rest(visit: Visit) -> None:
    await visit.run(lambda session: visit.now())


async def streaming(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        async with session.prompt("Please [[slow]]") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    await visit.now()

    await visit.run(block)


async def in_a_command(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        async with session.prompt(prompt_for(late())):
            await until(lambda: running(visit.lab, SLEEP))
            await visit.now()

    await visit.run(block)


async def in_a_hook(visit: Visit) -> None:
    await visit.run(lambda s: s.run(prompt_for(late("touch late.txt"))), hooks=[visit.hook])


async def in_a_tool(visit: Visit) -> None:
    await visit.run(lambda s: s.run("Please [[record]]"), tools=[visit.tool])


async def in_a_permission(visit: Visit) -> None:
    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        await visit.now()
        return agentrt.Allow()

    await visit.run(lambda s: s.run(prompt_for(late("touch late.txt"))), permissions=policy)


async def at_an_open_question(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        async with session.prompt("Please [[ask]]") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    await visit.now()

    await visit.run(block, permissions=None)


async def with_background_work(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        await session.run("Please [[background-agent]]")
        await until(lambda: running(visit.lab, SLEEP))
        await visit.now()

    await visit.run(block)


async def while_closing(visit: Visit) -> None:
    """The process is stopped, so that the ladder is climbed to its end."""

    async def block(session: agentrt.Session) -> None:
        assert session.agent.pid is not None
        os.kill(session.agent.pid, signal.SIGSTOP)
        visit.took = trio.current_time()
        visit.scope.deadline = trio.current_time() + 0.2

    await visit.run(block)


PHASES = [
    before_spawn,
    during_initialize,
    at_rest,
    streaming,
    in_a_command,
    in_a_hook,
    in_a_tool,
    in_a_permission,
    at_an_open_question,
    with_background_work,
    while_closing,
]


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
async def test_a_session_cancelled_in_any_phase_leaves_nothing(
    lab: Lab, phase: Callable[[Visit], Awaitable[None]]
) -> None:
    visit = Visit(lab)
    with trio.fail_after(PATIENCE):
        await phase(visit)
    assert visit.scope.cancel_called
    assert visit.took < BUSY * BOUND
    _, alive = psutil.wait_procs(lab.processes(), timeout=GONE)
    assert not alive, alive
    assert not (lab.work / "late.txt").exists()
