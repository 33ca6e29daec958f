"""Programs on asyncio: the same objects, awaited there."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE

import anyio
import httpx2
import pytest
import trio
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer

import agentrt
from agentrt import aio
from agentrt.aio.guest import guest
from agentrt.aio.handlers import adapt_arguments
from agentrt.aio.views import _VIEWS, view
from agentrt.testing import FakeAcpAgent
from aio.kit import fake_session, run
from public import HOMES, PUBLIC
from runtime.fakes import Incarnations, asking, echo, obedient

pytestmark = pytest.mark.usefixtures("forked_demo")


@pytest.mark.slow
@pytest.mark.door("asyncio", "prompt", "stream")
def test_a_session_and_its_turns_are_awaited_from_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open_session("demo", cwd=tmp_path) as session:
            assert isinstance(session, agentrt.Session)
            assert (await session.run("list the files")).outcome == "completed"
            async with session.prompt("list the files") as turn:
                events = [event async for event in turn]
            assert isinstance(events[0], agentrt.TurnStarted)
            assert isinstance(events[-1], agentrt.TurnEnded)
            assert turn.result.outcome == "completed"
        assert session.state.phase == "closed"

    run(main)


@pytest.mark.door("asyncio", "cancel")
def test_a_cancelled_task_cancels_its_turn_and_the_agent_is_notified() -> None:
    agents = Incarnations(obedient)

    async def main() -> None:
        async with fake_session(agents.start) as session:
            task = asyncio.create_task(session.run("work"))
            while session.state.phase != "running":
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(agents.sent("session/cancel")) == 1
            assert session.state.turn is None
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit:
                    async with session.prompt("more") as turn:
                        limit.reschedule(asyncio.get_running_loop().time())
                        async for _ in turn:
                            pass
            assert turn.result.outcome == "cancelled"

    run(main)


def test_a_task_that_is_cancelled_as_it_starts_a_turn_leaves_none_behind() -> None:
    async def main() -> None:
        async with fake_session(Incarnations(obedient).start) as session:
            for steps in range(12):

                async def one() -> None:
                    async with session.prompt("work") as turn:
                        async for _ in turn:
                            pass

                task = asyncio.create_task(one())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert session.state.turn is None
                assert list(session.queue) == []

    run(main)


def test_errors_come_through_with_their_types() -> None:
    async def dies(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.process.exit(9)

    async def main() -> None:
        with pytest.raises(agentrt.errors.AgentNotFound):
            async with aio.open_session("nobody"):
                pass
        async with fake_session(Incarnations(dies).start) as session:
            with pytest.raises(agentrt.errors.AgentDied) as caught:
                await session.run("hello")
            assert caught.value.result.outcome == "agent_died"
        with pytest.raises(ZeroDivisionError):
            async with fake_session(Incarnations(echo).start):
                _ = 1 / 0
        with pytest.raises(agentrt.LocalProtocolError, match="not open"):
            await session.run("too late")

    run(main)


def test_a_session_that_breaks_cancels_the_task_that_is_in_its_block() -> None:
    broken = trio.Event()

    async def breaks(agent: FakeAcpAgent) -> None:
        await broken.wait()
        raise OSError("the host broke")

    async def main() -> None:
        with pytest.raises(OSError, match="the host broke"):
            async with fake_session(Incarnations(breaks).start):
                broken.set()
                await asyncio.sleep(60)
        await asyncio.sleep(0)  # the cancellation is used up

    run(main)


def test_policies_tools_and_hooks_may_be_coroutines_of_asyncio() -> None:
    asked: list[str] = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        await asyncio.sleep(0.001)
        asked.append(request.title)
        return agentrt.Allow()

    async def main() -> str:
        async with fake_session(Incarnations(asking).start, permissions=policy) as session:
            return (await session.run("go")).text

    assert run(main) == "yes"
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.door("asyncio", "tools")
def test_a_tool_runs_in_asyncio_and_sees_its_session_so(tmp_path: Path) -> None:
    seen: list[object] = []

    @agentrt.tool
    async def record_result(summary: str, context: agentrt.ToolContext) -> str:
        """Persist the final outcome of a job."""
        await asyncio.sleep(0.001)
        assert context.session is not None
        seen.append(context.session.state.phase)
        return f"recorded: {summary}"

    async def main() -> str:
        async with aio.open_session(
            "demo", cwd=tmp_path, tools=[record_result], permissions=agentrt.allow_all
        ) as session:
            return (await session.run('/tool record_result {"summary": "done"}')).text

    run(main)
    assert seen == ["running"]


def test_a_hook_is_asked_in_asyncio() -> None:
    @agentrt.hook("PreToolUse")
    async def look(given: dict[str, str], context: agentrt.tools.HookContext) -> None:
        await asyncio.sleep(0.001)
        assert (given, context.turn) == ({"tool": "x"}, None)

    async def main() -> None:
        async with guest() as trios:
            [hook] = adapt_arguments(trios, {"hooks": [look]}, view)["hooks"]
            assert hook.takes_context
            context = agentrt.tools.HookContext("PreToolUse", None, None)
            assert await trios.call(hook.function, {"tool": "x"}, context) is None

    run(main)


def test_an_extension_is_served_in_asyncio() -> None:
    answers: list[object] = []

    async def asking_double(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            answers.append((await agent.request("_acme.dev/double", {"n": 21}))["result"])
            prompt.end()

    @agentrt.tools.extension("_acme.dev/double")
    async def double(given: dict[str, object], context: agentrt.tools.ExtensionContext) -> object:
        await asyncio.sleep(0.001)
        assert isinstance(context.turn, agentrt.Turn)
        return [context.session.state.phase, given["n"]]

    async def main() -> None:
        async with fake_session(Incarnations(asking_double).start, extensions=[double]) as session:
            await session.run("go")

    run(main)
    assert answers == [["running", 21]]


def test_files_and_terminals_of_a_program_are_served_in_asyncio() -> None:
    answers: list[object] = []
    ended: list[str] = []

    async def using(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            path = {"path": "/nowhere/a"}
            await agent.request("fs/write_text_file", {**path, "content": "mine"})
            answers.append((await agent.request("fs/read_text_file", path))["result"])
            made = (await agent.request("terminal/create", {"command": "ls"}))["result"]
            answers.append((await agent.request("terminal/output", made))["result"]["output"])
            await agent.request("terminal/kill", made)
            answers.append((await agent.request("terminal/wait_for_exit", made))["result"])
            prompt.end()

    class Own:
        text = ""

        async def read_text_file(self, path: str) -> str:
            await asyncio.sleep(0.001)
            return self.text

        async def write_text_file(self, path: str, content: str) -> None:
            await asyncio.sleep(0.001)
            self.text = content

        async def create(self, command: object, **about: object) -> Own:
            await asyncio.sleep(0.001)
            return Own()

        async def output(self) -> agentrt.tools.TerminalOutput:
            await asyncio.sleep(0.001)
            return agentrt.tools.TerminalOutput("hello")

        async def wait(self) -> agentrt.tools.TerminalExit:
            await asyncio.sleep(0.001)
            return agentrt.tools.TerminalExit(0)

        async def kill(self) -> None:
            await asyncio.sleep(0.001)

        async def release(self) -> None:
            await asyncio.sleep(0.001)
            ended.append("released")

    async def main() -> None:
        agents, own = Incarnations(using), Own()
        async with fake_session(agents.start, cwd="/nowhere", files=own, terminals=own) as session:
            await session.run("go")

    run(main)
    assert answers == [{"content": "mine"}, "hello", {"exitCode": 0}]
    assert ended == ["released"]


def test_a_handler_of_asyncio_is_cancelled_with_its_turn() -> None:
    ended: list[str] = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(request.title)
        return agentrt.Allow()

    async def main() -> None:
        async with fake_session(Incarnations(asking).start, permissions=policy) as session:
            async with session.prompt("go") as turn:
                while not session.pending_permissions:
                    await asyncio.sleep(0.001)
                turn.cancel()
            assert turn.result.outcome == "cancelled"
        assert len(ended) == 1

    run(main)


@pytest.mark.door("asyncio", "permission")
def test_a_question_waits_for_its_reader_s_answer() -> None:
    async def main() -> str:
        async with fake_session(Incarnations(asking).start) as session:
            async with session.prompt("go") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.answer(event.request, "allow_once")
            return turn.result.text

    assert run(main) == "yes"


def test_several_blocks_share_one_trio_and_the_last_one_ends_it() -> None:
    async def one(text: str) -> str:
        async with fake_session(Incarnations(echo).start) as session:
            return (await session.run(text)).text

    async def main() -> None:
        for _ in range(3):
            texts = await asyncio.gather(*(one(str(n)) for n in range(5)))
            assert texts == ["0", "1", "2", "3", "4"]
            assert not trio.lowlevel.in_trio_run()

    run(main)


def test_a_slow_reader_holds_nothing_up_and_misses_nothing() -> None:
    async def main() -> None:
        async with fake_session(Incarnations(echo).start) as session:
            following = session.subscribe_all()
            for n in range(50):
                assert (await session.run(str(n))).text == str(n)
            last = session.log.seq
            ends = 0
            while following.seq < last:
                ends += isinstance(await anext(following), agentrt.TurnEnded)
            assert ends == 50

    run(main)


@pytest.mark.slow
def test_a_query_a_runtime_a_store_and_a_server_are_there_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.query("list the files", agent="demo", cwd=tmp_path) as events:
            kinds = {type(event) async for event in events}
        assert agentrt.TurnEnded in kinds
        assert events.results[-1].outcome == "completed"
        async with (
            aio.open_store(tmp_path / "sessions.db") as store,
            aio.open_runtime(store=store) as runtime,
            aio.serve(runtime) as site,
        ):
            session = await runtime.create("demo", cwd=tmp_path)
            assert (await runtime.get(session.id).run("list the files")).outcome == "completed"
            assert site.link().startswith(f"http://127.0.0.1:{site.port}/")
            assert [entry.session for entry in await store.sessions()] == [session.id]

    run(main)


def test_what_is_called_where_trio_does_not_run_names_what_to_use() -> None:
    async def main() -> None:
        for block in (
            agentrt.open_session("demo"),
            agentrt.open_runtime(),
            agentrt.store.open_store("/nowhere/x"),
            agentrt.query("hello", agent="demo"),
            agentrt.tracing.open_trace("/nowhere/x"),
        ):
            with pytest.raises(agentrt.LocalProtocolError, match=r"agentrt\.aio\.open_"):
                await block.__aenter__()
        with pytest.raises(agentrt.LocalProtocolError, match=r"agentrt\.aio\.connect"):
            await agentrt.agents.connect(agentrt.agents.websocket("ws://HOST/")).__aenter__()
        with pytest.raises(agentrt.LocalProtocolError, match=r"agentrt\.aio\.ClaudeSessions"):
            await agentrt.claude.ClaudeSessions("/nowhere").list()
        with pytest.raises(agentrt.LocalProtocolError, match=r"agentrt\.aio\.agent_version"):
            await agentrt.agents.agent_version(agentrt.agents.acp("x"))

    asyncio.run(main())


def test_what_is_called_where_no_loop_runs_either_says_so() -> None:
    for started in (aio.open_session("demo").__aenter__(), aio.agent_version("demo")):
        with pytest.raises(agentrt.LocalProtocolError, match=r"no event loop runs.*asyncio\.run"):
            started.send(None)


@pytest.mark.slow
async def test_in_a_task_of_trio_s_it_is_what_it_is_in_agentrt(tmp_path: Path) -> None:
    async with aio.open_session("demo", cwd=tmp_path) as session:
        assert type(session) is agentrt.Session
        assert (await session.run("list the files")).outcome == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_anyio_program_cancels_by_its_own_scopes(backend: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open_session("demo", cwd=tmp_path) as session:
            with anyio.move_on_after(0.3) as scope:
                await session.run("/slow 60")
            assert scope.cancelled_caught
            assert session.state.turn is None
            assert (await session.run("list the files")).outcome == "completed"

    anyio.run(main, backend=backend)


def test_claude_s_own_requests_are_awaited_from_asyncio(tmp_path: Path) -> None:
    fake = Path(__file__).parents[1] / "claude" / "fakecli.py"

    async def main() -> None:
        agent = agentrt.agents.claude([sys.executable, str(fake), "plain"])
        async with aio.open_session(agent, cwd=tmp_path) as session:
            await agentrt.claude.ClaudeControl(session).rename("New")
            with pytest.raises(agentrt.errors.RemoteProtocolError):
                await agentrt.claude.ClaudeControl(session).mcp_servers()

    run(main)


@pytest.mark.slow
def test_an_agent_that_is_elsewhere_is_reached_from_asyncio(tmp_path: Path) -> None:
    @asynccontextmanager
    async def reach() -> AsyncIterator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream]]:
        command = [sys.executable, "-m", "agentrt.demo"]
        async with trio.open_nursery() as nursery:  # a function that reaches an agent is Trio's
            run = partial(trio.run_process, command, stdin=PIPE, stdout=PIPE)
            far = await nursery.start(run)
            yield far.stdin, far.stdout

    async def main() -> str:
        async with aio.connect(reach, name="far", cwd=tmp_path) as session:
            task = asyncio.create_task(session.run("/slow 60"))
            async for event in session.subscribe_all():
                if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await session.run("list the files")).outcome

    assert asyncio.run(main()) == "completed"


def test_claude_s_stored_sessions_are_listed_read_and_deleted_from_asyncio(tmp_path: Path) -> None:
    transcript = tmp_path / "projects" / "-tmp" / "5f0c1f3e-0000-4000-8000-000000000001.jsonl"
    transcript.parent.mkdir(parents=True)
    said = {"type": "user", "cwd": "/tmp", "message": {"role": "user", "content": "hello"}}
    transcript.write_text(json.dumps({**said, "uuid": "u1", "sessionId": transcript.stem}) + "\n")

    async def main() -> None:
        kept = aio.ClaudeSessions(tmp_path)
        assert isinstance(kept, agentrt.claude.ClaudeSessions)
        [session] = await kept.list()
        assert len(await kept.read(session.id)) == 1
        await kept.delete(session.id)
        assert await kept.list() == []

    asyncio.run(main())


def test_every_public_asynchronous_method_is_carried_over() -> None:
    programs = {
        name: value
        for name, value in PUBLIC.items()
        if HOMES.get(name) not in ("hosting", "process", "storage")  # for Trio
    }
    classes = {
        value
        for value in programs.values()
        if isinstance(value, type)
        and any(
            inspect.iscoroutinefunction(member)
            for name, member in vars(value).items()
            if not name.startswith("_") or name in ("__anext__", "__aenter__")
        )
    }
    lent = {
        agentrt.tools.Files,
        agentrt.tools.Terminal,
        agentrt.tools.Terminals,
    }  # the program's: asyncio's anyway
    made_of_views = {
        agentrt.Query,
        agentrt.claude.ClaudeControl,
    }  # of a subscription, and of a session
    without_a_block = {agentrt.claude.ClaudeSessions}
    for_trio = {agentrt.agents.Transport, agentrt.tracing.RecentWire}
    for_trio |= {kind for kind in classes if kind.__module__ == "agentrt._core.store.shared"}
    assert classes - made_of_views - lent - without_a_block - for_trio == set(_VIEWS)
    for kind in without_a_block:
        for name, member in inspect.getmembers(kind, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                assert getattr(getattr(aio, kind.__name__), name) is not member
    for kind, shown in _VIEWS.items():
        for name, member in inspect.getmembers(kind, inspect.iscoroutinefunction):
            if not name.startswith("_") or name in ("__anext__", "__aenter__", "__aexit__"):
                assert getattr(shown, name) is not member
    functions = {
        name
        for name, value in programs.items()
        if inspect.iscoroutinefunction(inspect.unwrap(value))
        or inspect.isasyncgenfunction(inspect.unwrap(value))
    }
    assert functions | {"connect"} | {kind.__name__ for kind in without_a_block} == set(aio.__all__)


def test_serving_takes_what_it_takes_under_trio() -> None:
    under_trio = dict(inspect.signature(agentrt.web.serve).parameters)
    del under_trio["task_status"]
    assert list(inspect.signature(aio.serve).parameters.values()) == list(under_trio.values())


def test_a_server_of_the_mcp_package_runs_on_asyncio() -> None:
    agents = Incarnations(echo, capabilities={"mcpCapabilities": {"http": True}})
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(server: MCPServer[None]) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        yield
        seen.append("over")

    server = MCPServer("weather", lifespan=lifespan)

    @server.tool()
    async def forecast(city: str) -> str:
        await asyncio.sleep(0)
        return f"rain in {city}"

    async def main() -> None:
        async with fake_session(agents.start, tools=server):
            [opened] = agents.sent("session/new")
            [entry] = opened["params"]["mcpServers"]
            headers = {header["name"]: header["value"] for header in entry["headers"]}
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                Client(streamable_http_client(entry["url"], http_client=http)) as client,
            ):
                result = await client.call_tool("forecast", {"city": "Oslo"})
                assert result.content[0].text == "rain in Oslo"  # type: ignore[union-attr]

    run(main)
    assert seen == ["over"]
