"""In-process tools for ACP agents: the bridge program through real pipes, and HTTP on loopback."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h11
import msgspec
import pytest
import trio
import trio.testing

import agentrt
from agentrt import Limits
from agentrt.events import JsonObject
from agentrt.jsonrpc import encode_line
from agentrt.testing import FakeAcpAgent
from agentrt.tools import Tool, ToolContext, tool
from runtime.fakes import obedient, session_with
from runtime.own_tools import HTTP, entry_of


@tool
async def echo(text: str) -> str:
    return text


@tool
async def sleep(context: ToolContext) -> None:
    context.report_progress(0)
    SLEEPING.add(context)
    try:
        await trio.sleep_forever()
    finally:
        SLEEPING.remove(context)


MOST = 32
"""Programs that may be connected at the same time."""
SLEEPING: set[ToolContext] = set()
"""The calls that run."""


class Endpoint(NamedTuple):
    """The tools of a session, and the entry with which its agent reaches them."""

    session: agentrt.Session
    entry: JsonObject


@asynccontextmanager
async def endpoint_of(*tools: Tool, http: bool = False, **limits: int) -> AsyncIterator[Endpoint]:
    """The tools of a session in a turn, for an agent that speaks MCP over HTTP or not."""
    with trio.fail_after(60):  # beyond the bounds that are tested with a mock clock
        async with (
            session_with(
                obedient,
                fake=HTTP if http else None,
                tools=tools or (echo, sleep),
                limits=Limits(**limits),
            ) as (session, agents),
            session.prompt("use them", check=False),
        ):
            yield Endpoint(session, entry_of(agents))
            session.cancel()


def socket_of(endpoint: Endpoint) -> Path:
    return Path(environment_of(endpoint)["AGENTRT_MCP_SOCKET"])


def environment_of(endpoint: Endpoint) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in endpoint.entry["env"]}


class Bridge:
    """The bridge program, as an agent uses it."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._buffer = b""

    async def send(self, method: str, params: Any = None, **envelope: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **envelope}
        await self.stdin.send_all(encode_line(message))

    async def call(self, name: str, id: int, meta: JsonObject | None = None, **args: Any) -> None:
        await self.send("tools/call", {"name": name, "arguments": args, "_meta": meta}, id=id)

    async def receive(self) -> Any:
        while b"\n" not in self._buffer:
            piece = await self.stdout.receive_some()
            if not piece:
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return msgspec.json.decode(line)

    async def end(self) -> int:
        """Close its input; its exit status."""
        await self.stdin.aclose()
        return await self.process.wait()


@asynccontextmanager
async def bridge_of(endpoint: Endpoint, **environment: str) -> AsyncIterator[Bridge]:
    entry = endpoint.entry
    process = await trio.lowlevel.open_process(
        [entry["command"], *entry["args"]],
        env={**environment_of(endpoint), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with process.stdin, process.stdout, process.stderr:  # type: ignore[union-attr]
        try:
            yield Bridge(process)
        finally:
            process.kill()
            with trio.move_on_after(5, shield=True):
                await process.wait()


def text_of(reply: Any) -> str:
    [block] = reply["result"]["content"]
    text = block["text"]
    assert isinstance(text, str)
    return text


# --- the program


async def test_a_tool_is_called_through_the_program() -> None:
    async with endpoint_of() as endpoint, bridge_of(endpoint) as agent:
        await agent.send("initialize", {"protocolVersion": "2025-06-18"}, id=0)
        assert (await agent.receive())["result"]["serverInfo"]["name"] == "agentrt"
        await agent.send("notifications/initialized")
        await agent.send("tools/list", id=1)
        tools = (await agent.receive())["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["echo", "sleep"]
        await agent.call("echo", 2, text="héllo")
        assert text_of(await agent.receive()) == "héllo"
        assert await agent.end() == 0


async def test_a_call_is_cancelled_through_the_program() -> None:
    async with endpoint_of() as endpoint, bridge_of(endpoint) as agent:
        await agent.call("sleep", 1, {"progressToken": 7})
        assert (await agent.receive())["params"] == {"progressToken": 7, "progress": 0}
        assert len(SLEEPING) == 1
        await agent.send("notifications/cancelled", {"requestId": 1})
        await agent.call("echo", 2, text="still there")
        assert (await agent.receive())["id"] == 2  # the cancelled call has no answer
        assert not SLEEPING


async def test_a_message_of_megabytes_passes_both_ways() -> None:
    text = "x" * 5_000_000
    async with (
        endpoint_of() as endpoint,
        bridge_of(endpoint) as agent,
        trio.open_nursery() as nursery,
    ):
        # It is written and read at once: 5 MB fit in no pipe.
        nursery.start_soon(lambda: agent.call("echo", 1, text=text))
        assert text_of(await agent.receive()) == text


async def test_the_program_may_be_started_twice() -> None:
    async with (
        endpoint_of() as endpoint,
        bridge_of(endpoint) as one,
        bridge_of(endpoint) as other,
    ):
        await one.call("echo", 1, text="one")
        await other.call("echo", 1, text="other")
        assert text_of(await other.receive()) == "other"
        assert text_of(await one.receive()) == "one"
        assert await one.end() == 0
        await other.call("echo", 2, text="alone")
        assert text_of(await other.receive()) == "alone"


async def test_new_tools_are_announced_through_the_program() -> None:
    async with endpoint_of(echo) as endpoint, bridge_of(endpoint) as agent:
        await agent.send("initialize", {}, id=0)
        await agent.receive()
        endpoint.session.set_tools([])
        assert (await agent.receive())["method"] == "notifications/tools/list_changed"


async def test_the_end_of_the_programs_input_cancels_its_calls_and_ends_it() -> None:
    async with endpoint_of() as endpoint, bridge_of(endpoint) as agent:
        await agent.call("sleep", 1, {"progressToken": 1})
        await agent.receive()
        assert await agent.end() == 0
        assert not SLEEPING


async def test_a_killed_program_cancels_its_calls() -> None:
    cancelled = trio.Event()

    @tool
    async def hold(context: ToolContext) -> None:
        context.report_progress(0)
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with endpoint_of(hold) as endpoint, bridge_of(endpoint) as agent:
        await agent.call("hold", 1, {"progressToken": 1})
        await agent.receive()
        agent.process.kill()
        await cancelled.wait()


async def test_the_program_ends_with_the_session() -> None:
    async with AsyncExitStack() as stack:
        async with endpoint_of(echo) as endpoint:
            agent = await stack.enter_async_context(bridge_of(endpoint))
            await agent.call("echo", 1, text="hi")
            await agent.receive()
        with trio.fail_after(30):
            assert await agent.receive() is None
            assert await agent.process.wait() == 0


async def test_a_wrong_secret_is_turned_away() -> None:
    async with endpoint_of() as endpoint:
        async with bridge_of(endpoint, AGENTRT_MCP_SECRET="x" * 43) as stranger:
            assert await stranger.receive() is None
        async with bridge_of(endpoint, AGENTRT_MCP_SECRET="") as stranger:
            await stranger.call("echo", 1, text="hi")
            assert await stranger.receive() is None
        async with bridge_of(endpoint) as agent:
            await agent.call("echo", 1, text="hi")
            assert text_of(await agent.receive()) == "hi"


async def test_the_secret_is_in_no_argument() -> None:
    async with endpoint_of() as endpoint:
        entry = endpoint.entry
        secret = environment_of(endpoint)["AGENTRT_MCP_SECRET"]
        assert len(secret) >= 32
        assert not any(secret in argument for argument in entry["args"])


async def test_a_program_that_nobody_serves_says_so_and_fails(tmp_path: Path) -> None:
    async with (
        endpoint_of() as endpoint,
        bridge_of(endpoint, AGENTRT_MCP_SOCKET=str(tmp_path / "nobody")) as lost,
    ):
        assert lost.process.stderr is not None
        assert b"No such file" in await lost.process.stderr.receive_some()
        assert await lost.process.wait() == 1


async def test_a_program_that_nobody_prepared_says_so_and_fails() -> None:
    async with endpoint_of() as endpoint:
        entry = endpoint.entry
        lost = await trio.run_process(
            [entry["command"], *entry["args"]], env={}, check=False, capture_stderr=True
        )
    assert lost.returncode == 2
    assert b"AGENTRT_MCP_SOCKET" in lost.stderr


async def test_the_socket_is_private_and_leaves_nothing_behind() -> None:
    async with endpoint_of() as endpoint:
        path = socket_of(endpoint)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_ISSOCK(path.stat().st_mode)
    assert not path.parent.exists()


async def test_the_socket_has_a_short_path_in_a_long_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    async with endpoint_of() as endpoint:
        assert len(os.fsencode(socket_of(endpoint))) < 104
        assert socket_of(endpoint).exists()
    assert not list(long.iterdir())


async def test_an_error_of_the_block_leaves_it_bare_and_nothing_behind() -> None:
    folders: list[Path] = []

    async def fail() -> None:
        async with session_with(obedient, tools=[echo]) as (session, agents):
            folders.append(socket_of(Endpoint(session, entry_of(agents))).parent)
            assert folders[0].exists()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()
    assert not folders[0].exists()


async def greeted(endpoint: Endpoint) -> trio.SocketStream:
    stream = await trio.open_unix_socket(socket_of(endpoint))
    await stream.send_all(environment_of(endpoint)["AGENTRT_MCP_SECRET"].encode() + b"\n")
    return stream


async def test_a_line_that_is_too_long_ends_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with endpoint_of(message_bytes=1000) as endpoint, await greeted(endpoint) as other:
        async with await greeted(endpoint) as stream:
            await stream.send_all(b"x" * 2000 + b"\n")
            assert await stream.receive_some() == b""
        await other.send_all(b'{"id":1,"method":"ping"}\n')
        assert await other.receive_some() == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    assert "a line of 2000 bytes" in caplog.text


async def test_a_client_that_does_not_read_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    limit = endpoint_of(agent_outbox_bytes=10_000)
    async with limit as endpoint, await greeted(endpoint) as stream:
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b'{"id":1,"method":"tools/list"}\n' * 100_000)
    assert "does not read its answers" in caplog.text


async def test_garbage_is_answered_with_an_error_and_the_connection_lives() -> None:
    async with endpoint_of() as endpoint, bridge_of(endpoint) as agent:
        await agent.stdin.send_all(b"\n\r\nhello\n")
        assert (await agent.receive())["error"]["code"] == -32700
        await agent.send("ping", id=1)
        assert (await agent.receive())["id"] == 1


async def test_too_many_connections_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with endpoint_of() as endpoint, AsyncExitStack() as stack:
        for _ in range(MOST):
            stream = await stack.enter_async_context(await greeted(endpoint))
            await stream.send_all(b'{"id":1,"method":"ping"}\n')
            await stream.receive_some()
        async with await trio.open_unix_socket(socket_of(endpoint)) as another:
            assert await another.receive_some() == b""
    assert "one refused" in caplog.text


async def test_a_connection_that_says_nothing_is_closed(autojump_clock: object) -> None:
    async with (
        endpoint_of() as endpoint,
        await trio.open_unix_socket(socket_of(endpoint)) as stream,
    ):
        assert await stream.receive_some() == b""


# --- HTTP


class Http:
    """An HTTP client on one connection."""

    def __init__(self, entry: JsonObject, stream: trio.SocketStream) -> None:
        self.host = entry["url"].split("/")[2]
        self.headers = {header["name"]: header["value"] for header in entry["headers"]}
        self.session: str | None = None
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT)

    async def request(
        self,
        method: str,
        body: bytes = b"",
        target: str = "/mcp",
        **changed: str | None,
    ) -> tuple[int, dict[str, str], bytes]:
        headers = {"Host": self.host, **self.headers, "Content-Length": str(len(body))}
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        given = {name: value for name, value in {**headers, **changed}.items() if value is not None}
        events: list[h11.Event] = [
            h11.Request(method=method, target=target, headers=list(given.items())),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        await self._stream.send_all(b"".join(self._http.send(event) or b"" for event in events))
        status, fields, content = 0, {}, b""
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    self._http.receive_data(await self._stream.receive_some())
                case h11.Response(status_code=status, headers=found):
                    fields = {name.decode(): value.decode() for name, value in found}
                case h11.Data(data=data):
                    content += data
                case h11.EndOfMessage():
                    break
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return status, fields, content

    async def post(self, method: str, params: Any = None, **envelope: Any) -> tuple[int, Any]:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **envelope}
        status, headers, content = await self.request("POST", encode_line(message))
        self.session = headers.get("mcp-session-id", self.session)
        return status, msgspec.json.decode(content) if content else None


@asynccontextmanager
async def http_of(endpoint: Endpoint) -> AsyncIterator[Http]:
    entry = endpoint.entry
    host, port = entry["url"].split("/")[2].split(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Http(entry, stream)


async def test_a_tool_is_called_over_http() -> None:
    async with endpoint_of(http=True) as endpoint, http_of(endpoint) as agent:
        status, reply = await agent.post("initialize", {"protocolVersion": "2025-06-18"}, id=0)
        assert (status, reply["result"]["protocolVersion"]) == (200, "2025-06-18")
        assert await agent.post("notifications/initialized") == (202, None)
        status, reply = await agent.post(
            "tools/call", {"name": "echo", "arguments": {"text": "hi"}}, id=1
        )
        assert (status, text_of(reply)) == (200, "hi")


async def test_the_port_is_on_loopback_and_the_same_for_the_agent_s_next_process() -> None:
    async def dies(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.process.exit(3)

    async with session_with(dies, obedient, fake=HTTP, tools=[echo]) as (session, agents):
        await session.run("die", check=False)
        async with session.prompt("go on", check=False):
            first, second = (
                agents.sent("session/new", number)[0]["params"]["mcpServers"] for number in (0, 1)
            )
            session.cancel()
    assert first[0]["url"].startswith("http://127.0.0.1:")
    assert second == first


async def test_a_call_is_cancelled_over_http() -> None:
    answers: list[Any] = []
    holding = trio.Event()

    @tool
    async def hold() -> None:
        holding.set()
        await trio.sleep_forever()

    async with (
        endpoint_of(hold, http=True) as endpoint,
        http_of(endpoint) as agent,
        http_of(endpoint) as second,
    ):
        await agent.post("initialize", {}, id=0)
        second.session = agent.session
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                answers.append(await second.post("tools/call", {"name": "hold"}, id=1))

            nursery.start_soon(call)
            await holding.wait()
            await agent.post("notifications/cancelled", {"requestId": 1})
    assert answers == [(202, None)]


async def test_two_http_clients_may_use_the_same_ids() -> None:
    @tool
    async def hold() -> None:
        holding.set()
        await trio.sleep_forever()

    holding = trio.Event()
    async with (
        endpoint_of(echo, hold, http=True) as endpoint,
        http_of(endpoint) as one,
        http_of(endpoint) as other,
        trio.open_nursery() as nursery,
    ):
        await one.post("initialize", {}, id=0)
        await other.post("initialize", {}, id=0)
        nursery.start_soon(lambda: one.post("tools/call", {"name": "hold"}, id=1))
        await holding.wait()
        call = {"name": "echo", "arguments": {"text": "mine"}}
        assert text_of((await other.post("tools/call", call, id=1))[1]) == "mine"
        endpoint.session.cancel()


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer x"}, 401),
        ({"Authorization": ""}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://localhost"}, 403),
        ({"Origin": "null"}, 403),
        ({"target": "/"}, 404),
        ({"Mcp-Session-Id": "unknown", "body": b'{"id":1,"method":"ping"}'}, 404),
        ({"body": b"hello"}, 400),
        ({"body": b'{"id":1,"method":"tools/list"}'}, 400),
        ({"body": b"[]"}, 400),
        ({"body": b"x" * 2000}, 413),
    ],
)
async def test_what_does_not_come_from_the_agent_is_refused(
    changed: dict[str, Any], status: int
) -> None:
    async with (
        endpoint_of(http=True, message_bytes=1000) as endpoint,
        http_of(endpoint) as stranger,
    ):
        assert (await stranger.request("POST", **changed))[0] == status


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
async def test_other_methods_are_not_allowed(method: str) -> None:
    async with endpoint_of(http=True) as endpoint, http_of(endpoint) as agent:
        status, headers, _ = await agent.request(method)
        assert (status, headers["allow"]) == (405, "POST, DELETE")


async def test_a_session_ends_by_delete() -> None:
    async with endpoint_of(http=True) as endpoint, http_of(endpoint) as agent:
        await agent.post("initialize", {}, id=0)
        assert (await agent.request("DELETE"))[0] == 204
        assert (await agent.post("ping", id=1))[0] == 404


async def test_what_is_no_http_costs_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    async with endpoint_of(http=True) as endpoint, http_of(endpoint) as agent:
        async with http_of(endpoint) as stranger:
            await stranger._stream.send_all(b"hello\r\n\r\n")
            assert await stranger._stream.receive_some() == b""
        assert (await agent.post("initialize", {}, id=0))[0] == 200
    assert "received invalid HTTP" in caplog.text


async def test_a_silent_connection_is_closed(autojump_clock: object) -> None:
    async with endpoint_of(http=True) as endpoint, http_of(endpoint) as stranger:
        assert await stranger._stream.receive_some() == b""


async def test_silent_connections_do_not_keep_the_agent_from_its_tools() -> None:
    async with endpoint_of(http=True) as endpoint, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(http_of(endpoint)) for _ in range(100)]
        for stranger in silent[::2]:
            await stranger._stream.send_all(b"POST /mcp HTTP/1.1\r\n")
        await trio.testing.wait_all_tasks_blocked(0.01)
        async with http_of(endpoint) as agent:
            assert (await agent.post("initialize", {}, id=0))[0] == 200
            for _ in range(40):  # while it is at work, its own connection stays
                await stack.enter_async_context(http_of(endpoint))
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert (await agent.post("ping", id=1))[0] == 200
        assert await silent[0]._stream.receive_some() == b""  # the oldest had to go


async def test_a_body_that_waits_to_be_asked_for_is_asked_for() -> None:
    async with endpoint_of(http=True) as endpoint, http_of(endpoint) as agent:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {agent.host}\r\nExpect: 100-continue\r\n"
            f"Authorization: {agent.headers['Authorization']}\r\nContent-Length: 30\r\n\r\n"
        )
        await agent._stream.send_all(head.encode())
        assert (await agent._stream.receive_some()).startswith(b"HTTP/1.1 100 ")
        await agent._stream.send_all(b'{"id":1, "method":"initialize"}'[:30])
        assert (await agent._stream.receive_some()).startswith(b"HTTP/1.1 ")


async def test_who_listens_and_hangs_up_is_forgotten() -> None:
    def tasks() -> int:
        return trio.lowlevel.current_statistics().tasks_living

    async with endpoint_of(echo, http=True) as endpoint:
        await trio.testing.wait_all_tasks_blocked(0.01)
        before = tasks()
        async with http_of(endpoint) as agent:
            revision = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
            listen = {"notifications": {"toolsListChanged": True}, "_meta": revision}
            message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
            body = encode_line({**message, "params": listen})
            head = h11.Request(
                method="POST",
                target="/mcp",
                headers=[
                    ("Host", agent.host),
                    *agent.headers.items(),
                    ("Content-Length", str(len(body))),
                ],
            )
            await agent._stream.send_all(agent._http.send(head) + body)
            heard = b""
            while b"acknowledged" not in heard:
                heard += await agent._stream.receive_some()
            endpoint.session.set_tools([])
            while b"list_changed" not in heard:
                heard += await agent._stream.receive_some()
            assert tasks() > before
        while tasks() > before:  # noqa: ASYNC110
            await trio.lowlevel.checkpoint()
