"""Foreign dialects have the entrance and the bounds of the native one, and are told in their own
words: by clients that write their frames by hand.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

from agentrt.testing import FakeAcpAgent
from agentrt.web import Security
from clients.kit import TOKEN, WATCH, served_script
from runtime.fakes import echo
from web.hub_kit import stage_with, viewer_of
from web.sockets import BINARY, Client, frame, header, websocket

BEARER = {"authorization": f"Bearer {TOKEN}", "sec_websocket_protocol": None}
PATHS = ["/ai", "/acp"]


async def ends(client: Client, code: int) -> None:
    """Closed, with that code and without a message that these clients could not understand."""
    assert await client.until_closed() == ([], code)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"authorization": "Bearer nonsense nonsense nonsense"}, 4401),
        ({"authorization": None}, 4401),
        ({"host": "evil.example"}, 4403),
        ({"origin": "https://evil.example"}, 4403),
        ({"origin": "null"}, 4403),
    ],
)
async def test_a_stranger_is_refused_as_at_the_native_entrance(
    path: str, headers: dict[str, str | None], code: int
) -> None:
    async with (
        served_script(echo) as (site, _),
        websocket(site.port, target=path, **{**BEARER, **headers}) as client,
    ):
        await ends(client, code)


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_taken_from_the_url(path: str) -> None:
    async with (
        served_script(echo) as (site, _),
        websocket(site.port, target=f"{path}?token={TOKEN}", **BEARER) as client,
    ):
        await ends(client, 4400)


@pytest.mark.parametrize("path", PATHS)
async def test_a_message_that_is_too_big_or_binary_ends_the_connection(path: str) -> None:
    async with served_script(echo, client_message_bytes=1000) as (site, _):
        for sent, code in ((frame(b"x" * 1001), 1009), (frame(b"{}", BINARY), 1003)):
            async with websocket(site.port, target=path, **BEARER) as client:
                await client.send(sent)
                await ends(client, code)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
async def test_a_revoked_token_and_the_server_s_end_close_the_connection(path: str) -> None:
    rules = Security(token=TOKEN, viewer_token=WATCH)
    watcher = {**BEARER, "authorization": f"Bearer {WATCH}"}
    async with (
        AsyncExitStack() as outside,
        trio.open_nursery() as nursery,
        served_script(echo, rules) as (site, _),
    ):
        async with websocket(site.port, target=path, **watcher) as client:
            rules.revoke(WATCH)
            await ends(client, 4401)
        stays = await outside.enter_async_context(websocket(site.port, target=path, **BEARER))
        nursery.start_soon(ends, stays, 4410)


@pytest.mark.parametrize(
    ("path", "protocol"), [("/ai", "agentrt.ai"), ("/acp", "agentrt.acp"), ("/ws", "agentrt.v1")]
)
async def test_each_path_has_its_subprotocol(path: str, protocol: str) -> None:
    offered = {**BEARER, "sec_websocket_protocol": f"something, {protocol}"}
    async with (
        served_script(echo) as (site, _),
        websocket(site.port, target=path, **offered) as client,
    ):
        assert header(client, "sec-websocket-protocol") == protocol
        assert (header(client, "acp-connection-id") is not None) == (path == "/acp")


async def test_sessions_are_opened_only_where_the_server_says(tmp_path: Path) -> None:
    async with served_script(echo, roots=[str(tmp_path)]) as (site, runtime):
        async with websocket(site.port, target="/acp", **BEARER) as client:
            await client.send(frame('{"id": 1, "method": "initialize"}'))
            await client.message()
            for cwd in ("/", str(tmp_path)):
                new = {"id": 2, "method": "session/new", "params": {"cwd": cwd}}
                await client.send(frame(json.dumps(new)))
            assert (await client.message())["error"]["data"]["code"] == "forbidden"
            assert (await client.message())["result"]["sessionId"]
        async with websocket(site.port, target="/ai", **BEARER) as client:
            message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
            send = {"type": "send", "requestId": "r", "id": "c", "messages": [message]}
            await client.send(frame(json.dumps({**send, "body": {"cwd": "/"}})))
            assert "(forbidden)" in (await client.message())["errorText"]
            await client.send(frame(json.dumps(send)))
            assert (await client.message())["type"] == "start"
        assert [info.cwd for info in runtime.list()] == [str(tmp_path)] * 2


# --- messages that nobody should send


@asynccontextmanager
async def raw(path: str, *, installed: bool = True) -> AsyncIterator[Client]:
    async with (
        served_script(echo, installed=installed) as (site, _),
        websocket(site.port, target=path, **BEARER) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "7", '{"type": "send"}', '{"type": "abort", "requestId": 7}']
)
async def test_ai_a_message_without_a_request_ends_the_connection(text: str) -> None:
    async with raw("/ai") as client:
        await client.send(frame(text))
        await ends(client, 4400)


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "hello"},
        {"type": "send", "id": "chat"},
        {"type": "send", "id": "chat", "messages": []},
        {"type": "send", "id": "chat", "messages": [{"id": "m", "role": "user", "parts": []}]},
        {"type": "send", "id": "chat", "messages": [{"id": "m", "role": "assistant"}]},
        {"type": "send", "id": "", "messages": [{"id": "m", "role": "user"}]},
        {"type": "resume", "id": "chat", "body": {"abort": "nonsense"}},
    ],
)
async def test_ai_a_wrong_request_fails_and_no_other(request_: dict[str, Any]) -> None:
    async with raw("/ai") as client:
        await client.send(frame(json.dumps({**request_, "requestId": "r1"})))
        answer = await client.message()
        assert (answer["type"], answer["requestId"]) == ("error", "r1")
        assert answer["errorText"]
        await client.send(frame(json.dumps({"type": "abort", "requestId": "never was"})))
        resume = {"type": "resume", "requestId": "r2", "id": "chat"}
        await client.send(frame(json.dumps(resume)))
        assert await client.message() == {"type": "no-active", "requestId": "r2"}


async def test_acp_the_first_message_must_be_initialize() -> None:
    async with raw("/acp") as client:
        await client.send(frame('{"jsonrpc": "2.0", "id": 1, "method": "session/list"}'))
        assert (await client.message())["error"]["code"] == -32600
        await ends(client, 1002)


@pytest.mark.parametrize(
    ("text", "id", "code"),
    [
        ("nonsense", None, -32700),
        ("[]", None, -32600),
        ('{"id": 2, "method": "initialize"}', 2, -32602),
        ('{"id": 2, "method": "no/such"}', 2, -32601),
        ('{"id": 2, "method": "session/prompt", "params": {}}', 2, -32602),
        ('{"id": 2, "method": "session/prompt", "params": 7}', 2, -32602),
        (
            '{"id": 2, "method": "session/prompt",'
            ' "params": {"sessionId": "x", "prompt": [{"type": "new kind"}]}}',
            2,
            -32602,
        ),
        ('{"id": 2, "method": "session/load", "params": {"sessionId": "x"}}', 2, -32002),
        ('{"id": "two", "method": "session/new", "params": null}', "two", -32602),
    ],
)
async def test_acp_a_wrong_message_is_an_error_and_no_more(
    text: str, id: int | str | None, code: int
) -> None:
    async with raw("/acp") as client:
        await client.send(frame('{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'))
        assert (await client.message())["result"]["protocolVersion"] == 1
        await client.send(frame('{"method": "session/cancel", "params": {"sessionId": "x"}}'))
        await client.send(frame('{"id": 77, "result": {}}'), frame('{"method": "no/such"}'))
        await client.send(frame(text))
        answer = await client.message()
        assert (answer["id"], answer["error"]["code"]) == (id, code)
        await client.send(frame('{"id": 3, "method": "session/list"}'))
        assert (await client.message())["result"] == {"sessions": []}


# --- a client that does not read


async def talkative(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        for number in range(200):
            agent.say("x" * 100_000)
            agent.update("tool_call", toolCallId=f"c{number}", title="t" * 1000)
            await trio.lowlevel.checkpoint()
        prompt.end()


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_does_not_read_loses_its_connection_and_nobody_else_anything(
    path: str,
) -> None:
    async with served_script(talkative, ws_write_timeout_s=0.5, recent_events_bytes=2**20) as (
        site,
        runtime,
    ):
        session = await runtime.create("fake")
        async with websocket(site.port, target=path, **BEARER) as client:
            if path == "/ai":
                message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
                send = {"type": "send", "requestId": "r", "id": session.id, "messages": [message]}
                await client.send(frame(json.dumps(send)))
            else:
                await client.send(frame('{"id": 1, "method": "initialize"}'))
                prompt = {"sessionId": session.id, "prompt": [{"type": "text", "text": "go"}]}
                call = {"id": 2, "method": "session/prompt", "params": prompt}
                await client.send(frame(json.dumps(call)))
            while not site.statistics().dropped:  # noqa: ASYNC110 - a counter tells nobody
                await trio.sleep(0.05)
            await session.wait_idle()
            assert len(session.snapshot().items) >= 200
            assert session.snapshot().turns[0].outcome == "completed"
            assert site.statistics().clients == 0


async def test_ai_a_stop_is_heeded_also_while_the_session_opens() -> None:
    async with served_script(echo) as (site, runtime):
        async with websocket(site.port, target="/ai", **BEARER) as client:
            message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
            send = {"type": "send", "requestId": "r1", "id": "chat", "messages": [message]}
            abort = {"type": "abort", "requestId": "r1"}
            await client.send(frame(json.dumps(send)), frame(json.dumps(abort)))
            while not runtime.list():  # noqa: ASYNC110 - nobody tells
                await trio.sleep(0.01)
            answer = {"type": "error"}  # as long as the session is just being opened
            while answer["type"] == "error":
                await client.send(frame(json.dumps({**send, "requestId": "r2"})))
                answer = await client.message()
            while answer["type"] != "end":
                answer = await client.message()
        session = runtime.get(runtime.list()[0].session)
        assert len(session.snapshot().turns) == 1


# --- what one client may cost


async def test_ai_a_connection_has_so_many_streams_and_no_more() -> None:
    async with served_script(talkative) as (site, runtime):
        session = await runtime.create("fake")
        async with websocket(site.port, target="/ai", **BEARER) as client:
            message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
            send = {"type": "send", "id": session.id, "messages": [message]}
            waits = {**send, "body": {"when": "queue"}}
            await client.send(frame(json.dumps({**send, "requestId": "first"})))
            for number in range(32):
                await client.send(frame(json.dumps({**waits, "requestId": f"r{number}"})))
            while (answer := await client.message())["type"] != "error":
                pass
            assert answer["requestId"] == "r31"
            assert "(limit)" in answer["errorText"]


async def test_ai_a_request_that_no_agent_can_answer_takes_no_place() -> None:
    async with raw("/ai", installed=False) as client:
        message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
        for number in range(40):
            send = {"type": "send", "requestId": f"r{number}", "id": "c", "messages": [message]}
            await client.send(frame(json.dumps(send)))
            assert "(agent_failed)" in (await client.message())["errorText"]


@pytest.mark.slow
async def test_acp_sessions_that_are_loaded_again_and_again_are_told_once() -> None:
    async with served_script(talkative) as (site, runtime):
        session = await runtime.create("fake")
        await session.run("go")
        async with websocket(site.port, target="/acp", **BEARER) as client:
            load = {"method": "session/load", "params": {"sessionId": session.id}}
            loads = [frame(json.dumps({"id": number, **load})) for number in range(2, 102)]
            await client.send(frame('{"id": 1, "method": "initialize"}'), *loads)
            answers, size = 0, 0
            while answers < 101:
                text = await client.text()
                size += len(text)
                answers += "result" in json.loads(text)
            assert size < 5 * 20_000_000, "a history of 20 MB"


async def test_a_session_that_is_open_when_the_client_has_gone_keeps_nothing_of_it() -> None:
    async with stage_with(echo) as stage:
        client = viewer_of(stage.hub, "/acp")
        client.receive('{"id": 1, "method": "initialize"}')
        await client.next_frame()
        client.receive('{"id": 2, "method": "session/new", "params": {"cwd": "/"}}')
        while not stage.runtime.list():  # noqa: ASYNC110 - it is opening
            await trio.lowlevel.checkpoint()
        client.close()
        while stage.runtime.list()[0].phase != "idle":  # noqa: ASYNC110
            await trio.lowlevel.checkpoint()
        (feed,) = stage.hub.feeds.values()
        assert not feed.viewers
