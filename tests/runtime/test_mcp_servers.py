"""A program's own servers of the package `mcp`, lent to agents beside its tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
import trio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

import agentrt
from agentrt.events import JsonObject
from agentrt.jsonrpc import encode_line
from agentrt.testing import FakeClaudeAgent, MemoryAgent, open_fake_runtime, open_fake_session
from runtime.fakes import echo, obedient, session_with
from runtime.own_tools import HTTP, client_of

MODES = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@agentrt.tool
async def own(text: str) -> str:
    """A function of the program's."""
    return text


def weather() -> MCPServer:
    """A server with one of each."""
    server = MCPServer("weather", instructions="Ask for the weather.")

    @server.tool()
    async def forecast(city: str) -> str:
        """Says what the weather will be."""
        await anyio.lowlevel.checkpoint()
        return f"rain in {city}"

    @server.tool()
    async def observe() -> str:
        await anyio.sleep_forever()
        return ""

    @server.tool()
    async def change(context: Context) -> str:
        await context.notify_resource_updated("weather://today")
        return "changed"

    @server.resource("weather://today")
    def today() -> str:
        return "sun"

    @server.prompt()
    def ask(city: str) -> str:
        return f"What is the weather in {city}?"

    return server


def text_of(result: Any) -> str:
    [block] = result.content
    text = block.text
    assert isinstance(text, str)
    return text


def entries(agents: Any, name: str) -> list[JsonObject]:
    """The ways to a server that the agent was told of."""
    [opened] = agents.sent("session/new")
    found: list[JsonObject] = opened["params"]["mcpServers"]
    return [entry for entry in found if entry["name"] == name]


@asynccontextmanager
async def served(
    way: str, mode: str = "auto", lent: Any = None, script: Any = echo, **options: Any
) -> AsyncIterator[tuple[agentrt.Session, Client]]:
    """A session with an ACP agent, and the official client in the agent's place."""
    fake = HTTP if way == "http" else {}
    lent = [own, weather()] if lent is None else lent
    with trio.fail_after(20):
        async with session_with(script, fake=fake, tools=lent, **options) as (session, agents):
            [entry] = entries(agents, "weather")
            async with client_of(entry, mode) as client:
                yield session, client


# --- ACP


@pytest.mark.parametrize("way", [pytest.param("stdio", marks=pytest.mark.slow), "http"])
@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_has_a_servers_tools_resources_and_prompts(way: str, mode: str) -> None:
    async with served(way, mode) as (_, client):
        assert client.protocol_version == MODES[mode]
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["forecast", "observe", "change"]
        assert tools[0].description == "Says what the weather will be."
        assert text_of(await client.call_tool("forecast", {"city": "Oslo"})) == "rain in Oslo"
        [resource] = (await client.list_resources()).resources
        assert str(resource.uri) == "weather://today"
        [read] = (await client.read_resource("weather://today")).contents
        assert read.text == "sun"  # type: ignore[union-attr]
        [prompt] = (await client.list_prompts()).prompts
        assert prompt.name == "ask"
        [message] = (await client.get_prompt("ask", {"city": "Rome"})).messages
        assert message.content.text == "What is the weather in Rome?"  # type: ignore[union-attr]


async def test_the_programs_own_tools_are_beside_it() -> None:
    with trio.fail_after(20):
        async with session_with(echo, tools=[own, weather()]) as (_, agents):
            [entry] = entries(agents, "agentrt")
            async with client_of(entry) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["own"]


async def test_a_server_may_be_given_alone() -> None:
    async with session_with(echo, tools=weather()) as (_, agents):
        assert len(entries(agents, "weather")) == 1
        assert entries(agents, "agentrt") == []


async def test_a_low_level_server_is_one() -> None:
    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="now", input_schema={"type": "object"})])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=f"{params.name}: noon")])

    server: Server[Any] = Server("weather", on_list_tools=list_tools, on_call_tool=call_tool)
    async with served("stdio", lent=server) as (_, client):
        assert text_of(await client.call_tool("now", {})) == "now: noon"


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_an_agent_that_listens_hears_what_the_server_says(way: str) -> None:
    async with (
        served(way) as (_, client),
        client.listen(resource_subscriptions=["weather://today"]) as changes,
    ):
        assert text_of(await client.call_tool("change", {})) == "changed"
        assert await anext(changes) == ResourceUpdated("weather://today")


async def test_a_call_is_part_of_the_turn_and_is_cancelled_with_it() -> None:
    begun, over = trio.Event(), trio.Event()
    server = MCPServer("weather")

    @server.tool()
    async def hold() -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            over.set()
        return ""

    answers: list[Any] = []

    async with served("stdio", lent=server, script=obedient) as (session, client):

        async def call() -> None:
            answers.append(await client.call_tool("hold", {}))

        async with trio.open_nursery() as nursery:
            async with session.prompt("go") as turn:
                nursery.start_soon(call)
                await begun.wait()
                turn.cancel()
            await over.wait()
    [answer] = answers
    assert (text_of(answer), answer.is_error) == ("hold was cancelled", True)


async def test_a_call_has_the_time_of_the_sessions_tools() -> None:
    async with served("stdio", limits=agentrt.Limits(tool_timeout_s=0.1)) as (_, client):
        answer = await client.call_tool("observe", {})
        assert (text_of(answer), answer.is_error) == ("observe timed out after 0.1 s", True)


async def test_a_call_that_its_client_gives_up_is_given_up() -> None:
    stopped = trio.Event()
    server = MCPServer("weather")

    @server.tool()
    async def hold() -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()
        return ""

    started = trio.Event()
    async with served("stdio", lent=server) as (_, client), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "hold", {})
        await started.wait()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await stopped.wait()


async def test_its_lifespan_is_the_sessions() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(server: MCPServer[str]) -> AsyncIterator[str]:
        seen.append("begun")
        yield "state"
        seen.append("over")

    server = MCPServer("weather", lifespan=lifespan)

    @server.tool()
    async def state(context: Context[str, Any]) -> str:
        return context.request_context.lifespan_context

    async with served("http", lent=server) as (_, client):
        assert seen == ["begun"]
        assert text_of(await client.call_tool("state", {})) == "state"
        assert text_of(await client.call_tool("state", {})) == "state"
    assert seen == ["begun", "over"]


async def test_what_its_lifespan_raises_is_raised_by_the_opening() -> None:
    @asynccontextmanager
    async def lifespan(server: MCPServer[None]) -> AsyncIterator[None]:
        raise ValueError("no database")
        yield

    with pytest.raises(ValueError, match="no database"):
        async with session_with(echo, tools=MCPServer("weather", lifespan=lifespan)):
            pass


# --- Claude Code


async def test_claude_reaches_it_by_its_name() -> None:
    found: list[Any] = []

    async def ask(agent: FakeClaudeAgent, id: int, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        answer = await agent.request("mcp_message", server_name="weather", message=message)
        return answer["response"]["mcp_response"]["result"]

    async def program(process: MemoryAgent) -> None:
        async with FakeClaudeAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                client = {"name": "fake", "version": "0"}
                hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
                found.append((await ask(agent, 1, "initialize", **hello))["instructions"])
                listed = await ask(agent, 2, "prompts/list")
                found.append([each["name"] for each in listed["prompts"]])
                city = {"city": "Oslo"}
                called = await ask(agent, 3, "tools/call", name="forecast", arguments=city)
                found.append(called["content"][0]["text"])
                found.append((await agent.call_tool("own", text="mine")).text)
                prompt.end()

    async with open_fake_session(
        lambda: MemoryAgent(program), protocol="claude", tools=[own, weather()]
    ) as session:
        assert (await session.run("go")).outcome == "completed"
    assert found == ["Ask for the weather.", ["ask"], "rain in Oslo", "mine"]


# --- Codex


async def test_codex_starts_a_program_that_reaches_it() -> None:
    begun: list[JsonObject] = []
    thread = {"id": "t", "preview": "", "cwd": "/", "updatedAt": 0, "name": None}
    policy = {"approvalPolicy": "untrusted", "sandbox": {"type": "readOnly"}}
    answers: dict[str, JsonObject] = {
        "initialize": {"userAgent": "fake/0.169.0 (here)"},
        "account/read": {"account": None, "requiresOpenaiAuth": False},
        "model/list": {"data": []},
        "thread/start": {"thread": thread, "model": "m", **policy},
    }

    async def program(process: MemoryAgent) -> None:
        while (line := await process.receive_line()) is not None:
            message = msgspec.json.decode(line)
            if message["method"] == "thread/start":
                begun.append(message["params"])
            if (answer := answers.get(message["method"])) is not None:
                process.send(encode_line({"id": message["id"], "result": answer}))

    with trio.fail_after(20):
        async with open_fake_session(
            lambda: MemoryAgent(program), protocol="codex", tools=[own, weather()]
        ):
            [params] = begun
            assert [tool["name"] for tool in params["dynamicTools"]] == ["own"]
            entry = params["config"]["mcp_servers"]["weather"]
            program_of = StdioServerParameters(
                command=entry["command"], args=entry["args"], env=entry["env"]
            )
            async with Client(stdio_client(program_of)) as client:
                [prompt] = (await client.list_prompts()).prompts
                assert prompt.name == "ask"


# --- what cannot be lent


async def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two MCP servers are called 'weather'"):
        async with session_with(echo, tools=[weather(), weather()]):
            pass
    with pytest.raises(ValueError, match="two MCP servers are called 'agentrt'"):
        async with session_with(echo, tools=[own, MCPServer("agentrt")]):
            pass


async def test_another_object_of_mcp_is_refused_with_what_would_do() -> None:
    with pytest.raises(TypeError, match=r"mcp\.server\.MCPServer or an mcp\.server\.Server"):
        async with session_with(echo, tools=[Client(weather())]):
            pass


async def test_a_server_of_an_older_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(TypeError, match=r"pip install 'agentrt\[mcp\]'"):
        async with session_with(echo, tools=[weather()]):
            pass


async def test_the_tools_of_a_running_session_are_functions() -> None:
    async with session_with(echo, tools=[own]) as (session, _):
        with pytest.raises(TypeError, match="pass servers when you open the session"):
            session.set_tools([weather()])  # type: ignore[list-item]


async def test_every_session_of_a_runtime_may_have_it() -> None:
    async with open_fake_runtime({"fake": lambda: MemoryAgent(silent)}, tools=weather()) as runtime:
        one = await runtime.create("fake")
        other = await runtime.create("fake", tools=[own])
        assert (await one.run("hi")).outcome == (await other.run("hi")).outcome == "completed"


async def silent(process: MemoryAgent) -> None:
    from agentrt.testing import FakeAcpAgent

    async with FakeAcpAgent.serving(process) as agent:
        async for prompt in agent.prompts:
            prompt.end()


@pytest.mark.slow
def test_the_package_is_imported_only_where_a_server_is_lent() -> None:
    program = (
        "import sys, trio, agentrt\n"
        "@agentrt.tool\n"
        "async def own(): ...\n"
        "async def main():\n"
        "    async with agentrt.open_session('demo', tools=[own]): pass\n"
        "trio.run(main)\n"
        "assert not {'mcp', 'anyio', 'pydantic'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
