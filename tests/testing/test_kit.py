"""`agentrt.testing` for programs that open their sessions themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import trio
import trio.testing
from mcp.server import MCPServer
from trio.testing import MockClock

import agentrt
from agentrt import testing
from agentrt.events import (
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    PermissionClosed,
    TurnEnded,
    TurnStarted,
)
from runtime.fakes import Incarnations

from . import app

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["claude", "gemini", "codex"])
async def test_a_program_that_names_an_agent_runs_on_a_script(name: str, tmp_path: Path) -> None:
    with testing.scripted_agents({name: testing.says("looks good")}) as agents:
        assert await app.review(tmp_path, name) == "looks good"
    seen = agents.session
    assert seen.agent.name == name
    assert seen.opening.cwd == str(tmp_path)
    assert seen.prompts == ["review it"]
    assert seen.outcomes == ["completed"]
    testing.check_log(seen.events)


@pytest.mark.parametrize("name", ["claude", "gemini", "codex"])
async def test_one_script_runs_as_an_agent_of_any_protocol(name: str, tmp_path: Path) -> None:
    async def script(agent: testing.FakeAgent) -> None:
        async for prompt in agent.prompts:
            agent.think("hm")
            agent.use("call_1", "ls -l")
            agent.used("call_1", "README.md")
            agent.say("done")
            prompt.end()

    with testing.scripted_agents({name: script}) as agents:
        assert await app.review(tmp_path, name) == "done"
    opened = [e.item for e in agents.session.events if isinstance(e, ItemOpened)]
    assert [item.type for item in opened] == ["user", "thought", "tool", "text"]
    agents.check()


async def test_an_agent_without_a_script_is_never_started(tmp_path: Path) -> None:
    with (
        testing.scripted_agents({"claude": testing.says("hi")}),
        pytest.raises(agentrt.AgentStartError, match="no script for the agent 'gemini'"),
    ):
        await app.review(tmp_path, "gemini")


async def test_an_agent_of_the_program_s_own_has_a_script_by_its_name(tmp_path: Path) -> None:
    own = agentrt.agents.acp(["my-agent", "--acp"], name="mine")
    with testing.scripted_agents({"mine": testing.says("hi", "bye")}):
        async with agentrt.open_session(own, cwd=tmp_path) as session:
            assert (await session.run("1")).text == "hi"
            assert (await session.run("2")).text == "bye"


async def test_behind_the_block_agents_are_programs_again(tmp_path: Path) -> None:
    with testing.scripted_agents({"claude": testing.says("hi")}):
        pass
    missing = agentrt.agents.acp(["no-such-program"], name="claude")
    with pytest.raises(agentrt.errors.AgentNotFound):
        async with agentrt.open_session(missing, cwd=tmp_path):
            pass


async def test_a_scripted_claude_calls_tools_and_hooks_and_asks(tmp_path: Path) -> None:
    told: list[object] = []

    async def script(agent: testing.FakeClaudeAgent) -> None:
        async for prompt in agent.prompts:
            told.append(await agent.call_tool("save", note="milk"))
            told.append(await agent.call_hook("PreToolUse", tool_name="Bash", tool_input="secret"))
            told.append(await agent.ask(title="ls -l"))
            told.append(await agent.ask("call_2", title="rm -rf /"))
            with pytest.raises(ValueError, match="no hook for 'Stop'"):
                await agent.call_hook("Stop")
            prompt.end()

    app.saved.clear()
    with testing.scripted_agents({"claude": script}) as agents:
        await app.review(tmp_path)
    saved, hooked, allowed, denied = told
    assert saved == testing.ToolAnswer("kept: milk", is_error=False)
    assert app.saved == ["milk"]
    assert hooked == {"decision": "block", "reason": "no"}
    assert (allowed, denied) == ("allow", "deny")
    asked = agents.session.questions
    assert [question.allowed for question in asked] == [True, True, False]
    assert asked[2].closed is not None
    assert asked[2].closed.reason == "only ls"


async def test_a_scripted_claude_is_cancelled_and_fails_as_claude_does(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def script(agent: testing.FakeAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "fail":
                prompt.fail()
            else:
                await prompt.cancelled.wait()
                prompt.end("cancelled")

    with testing.scripted_agents({"claude": script}):
        async with agentrt.open_session("claude", cwd=tmp_path) as session:
            with trio.move_on_after(5) as scope:
                await session.run("work")
            assert scope.cancelled_caught
            result = await session.run("fail", check=False)
            assert result.outcome == "failed"


async def test_a_scripted_codex_calls_tools_and_asks(tmp_path: Path) -> None:
    told: list[object] = []

    async def script(agent: testing.FakeCodexAgent) -> None:
        async for prompt in agent.prompts:
            told.append(await agent.call_tool("save", note="milk"))
            told.append(await agent.ask(title="ls -l"))
            told.append(await agent.ask("call_2", title="rm -rf /"))
            prompt.end()

    app.saved.clear()
    with testing.scripted_agents({"codex": script}) as agents:
        await app.review(tmp_path, "codex")
    saved, allowed, denied = told
    assert saved == testing.ToolAnswer("kept: milk", is_error=False)
    assert app.saved == ["milk"]
    assert (allowed, denied) == ("accept", "decline")
    assert [question.allowed for question in agents.session.questions] == [True, False]


async def test_a_scripted_codex_is_steered_set_resumed_and_fails_as_codex_does(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def script(agent: testing.FakeCodexAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "fail":
                prompt.fail()
            elif prompt.text == "work":
                await prompt.cancelled.wait()
                prompt.end("cancelled")
            else:
                await trio.sleep(5)
                agent.say(prompt.steered[0])
                prompt.end()

    with testing.scripted_agents({"codex": script}) as agents:
        async with agentrt.open_session("codex", cwd=tmp_path) as session:
            with trio.move_on_after(5) as scope:
                await session.run("work")
            assert scope.cancelled_caught
            await session.set_model("fake-mini")
            assert (await session.run("fail", check=False)).outcome == "failed"
            async with session.prompt("wait") as turn:
                await trio.sleep(1)
                session.steer("and this")
            assert turn.result.text == "and this"
        async with agentrt.open_session("codex", cwd=tmp_path, resume="t9"):
            pass
    assert agents.sessions[0].outcomes[:2] == ["cancelled", "failed"]
    sent = agents.sessions[0].agents[0].received
    [change] = [each for each in sent if each.get("method") == "thread/settings/update"]
    assert change["params"]["model"] == "fake-mini"
    assert [fake.thread for seen in agents.sessions for fake in seen.agents] == ["t1", "t9"]  # type: ignore[union-attr]


async def test_a_tool_is_called_as_an_agent_would() -> None:
    app.saved.clear()
    assert (await testing.call_tool(app.save, note="milk")).text == "kept: milk"
    wrong = await testing.call_tool(app.save, nothing="milk")
    assert wrong.is_error
    assert wrong.text == "Invalid arguments: Object contains unknown field `nothing`"
    assert app.saved == ["milk"]


async def test_a_policy_is_asked_about_a_call() -> None:
    assert isinstance(await testing.ask_policy(app.policy, "Bash", command="ls -l"), agentrt.Allow)
    assert isinstance(await testing.ask_policy(app.policy, "Bash", command="rm x"), agentrt.Deny)
    rules = agentrt.rules(allow=["Bash(git status:*)"])
    allowed = await testing.ask_policy(rules, "Bash", command="git status -s")
    assert isinstance(allowed, agentrt.Allow)


STARTED, ENDED = TurnStarted("t1", "user"), TurnEnded(turn="t1", outcome="completed")
TEXT = Item(id="i1", type="text", turn="t1")


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([STARTED], "t1 never ended"),
        ([STARTED, STARTED], "event 2: the turn t1 begins while t1 runs"),
        ([STARTED, ENDED, ENDED], "event 3: the turn t1 ends, and None runs"),
        ([STARTED, ENDED, STARTED], "begins twice"),
        ([STARTED, ItemOpened(TEXT), ENDED], "of it are open: i1"),
        ([STARTED, ItemOpened(TEXT), ItemOpened(TEXT)], "i1 is opened twice"),
        ([ItemOpened(TEXT)], "i1 is opened for t1 while None runs"),
        ([ItemDelta("i1", "x")], "i1 changes and was never opened"),
        ([ItemClosed("i1", "completed")], "i1 is closed and was not open"),
        ([STARTED, ItemOpened(TEXT), ItemClosed("i1", "running")], "which is not a final status"),
        ([PermissionClosed(request="r1", outcome="selected", by="user")], "question r1 is closed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_log_that_is_broken_is_found(events: list[agentrt.Event], why: str) -> None:
    with pytest.raises(testing.LogBroken, match=why):
        testing.check_log(events)
    testing.check_log([STARTED, ItemOpened(TEXT), ItemClosed("i1", "completed"), ENDED])


async def resilient(cwd: Path, agent: str) -> None:
    async with agentrt.open_session(agent, cwd=cwd, permissions=agentrt.allow_all) as session:
        for number in range(4):
            with trio.move_on_after(15):
                await session.run(f"{number}", check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude", "gemini", "codex"])
def test_a_program_is_run_against_agents_that_misbehave(name: str, tmp_path: Path) -> None:
    def outcomes() -> list[list[str]]:
        runs: list[testing.ScriptedAgents] = []
        testing.simulate(resilient, tmp_path, name, seeds=range(12), setup=runs.append)
        return [run.session.outcomes for run in runs]

    first = outcomes()
    assert {"completed", "agent_died", "cancelled"} <= {each for run in first for each in run}
    assert outcomes() == first


def test_a_seed_that_fails_is_named(tmp_path: Path) -> None:
    async def believes(cwd: Path) -> None:
        async with agentrt.open_session("claude", cwd=cwd) as session:
            result = await session.run("hello", check=False)
            assert result.outcome == "completed"

    with pytest.raises(AssertionError) as failed:
        testing.simulate(believes, tmp_path, seeds=range(50))
    [note] = failed.value.__notes__
    seed = int(note.split(":")[0].removeprefix("seed "))
    with pytest.raises(AssertionError):
        testing.simulate(believes, tmp_path, seeds=[seed])


TEST_OF_A_PROGRAM = """
import sys
def test_nothing_is_imported_before_it_is_asked_for():
    heavy = {name for name in sys.modules if name == "trio" or name.startswith("agentrt.")}
    light = {"_homes", "_public", "_pytest", "_version"}
    assert heavy <= {f"agentrt.{name}" for name in light}, heavy
def test_a_program_runs_on_a_script(scripted_agents, tmp_path):
    import agentrt, trio
    from agentrt.testing import says
    scripted_agents["claude"] = says("hi")
    async def main():
        async with agentrt.open_session("claude", cwd=tmp_path) as session:
            return (await session.run("hello")).text
    assert trio.run(main) == "hi"
    assert scripted_agents.session.prompts == ["hello"]
"""


@pytest.mark.slow
def test_the_fixtures_come_by_an_entry_point_and_load_nothing_unless_used(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"agentrt": "agentrt._pytest"}
    (tmp_path / "test_program.py").write_text(TEST_OF_A_PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "agentrt._pytest", "-p", "no:cacheprovider"],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


async def test_a_request_that_an_agent_has_not_offered_is_refused() -> None:
    async def script(agent: testing.FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for message in agent.received:
                if message.get("method") == "_of/mine":
                    agent.result(message["id"], "mine")
            prompt.end()

    agents = Incarnations(script, answers=["_of/mine"])
    async with testing.open_fake_session(agents.start) as session:
        for unknown in ("_nobody/s", "_or/other"):
            with pytest.raises(agentrt.errors.RequestError, match="Method not found") as refused:
                await session.call(unknown)
            assert refused.value.code == -32601
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert await session.call("_of/mine") == "mine"

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            await session.run("answer it")


async def test_a_scripted_claude_calls_a_tool_of_a_server_that_the_program_lends() -> None:
    server = MCPServer("shop")

    @server.tool()
    def price(item: str) -> str:
        """What it costs."""
        return f"{item}: 3"

    async def script(agent: testing.FakeClaudeAgent) -> None:
        async for prompt in agent.prompts:
            for _ in range(2):
                agent.say((await agent.call_tool("mcp__shop__price", item="tea")).text)
            with pytest.raises(ValueError, match="mcp__store__price: there is no server store"):
                await agent.call_tool("mcp__store__price", item="tea")
            prompt.end()

    with testing.scripted_agents({"claude": script}):
        async with agentrt.open_session("claude", tools=server) as session:
            assert (await session.run("how much?")).text == "tea: 3\n\ntea: 3"
