"""Sessions with agents behind a WebSocket."""

from __future__ import annotations

import json
import re
import ssl
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha1
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trustme
from trio_websocket import WebSocketConnection, WebSocketRequest, serve_websocket
from websocket_bridge import bridge

import agentrt

pytestmark = pytest.mark.usefixtures("forked_demo")

PATIENCE = 60
DEMO = (sys.executable, "-m", "agentrt.demo")
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The one that RFC 6455 has a server answer with."""
SHORT = agentrt.Limits(ws_handshake_timeout_s=0.2)


async def tool_runs(turn: agentrt.Turn) -> None:
    async for event in turn:
        if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
            return


@pytest.mark.slow
async def test_a_session_prompts_and_cancels_and_its_agent_ends_with_it(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with bridge(DEMO) as there:
            far = agentrt.agents.websocket(there.url, headers={"authorization": "Bearer right"})
            async with agentrt.agents.connect(far, cwd=tmp_path, name="far") as session:
                assert (await session.run("/think")).outcome == "completed"
                async with session.prompt("/slow 60") as turn:
                    turn.cancel()
                assert turn.result.outcome == "cancelled"
            while not there.ended:  # noqa: ASYNC110 - it is the other side's
                await trio.sleep(0.01)
            assert there.headers[0]["authorization"] == "Bearer right"


@pytest.mark.slow
async def test_a_cut_ends_the_turn_with_its_reason_and_the_next_prompt_connects_again(
    tmp_path: Path,
) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            bridge(DEMO) as there,
            agentrt.agents.connect(agentrt.agents.websocket(there.url), cwd=tmp_path) as session,
        ):
            async with session.prompt("/slow 60", check=False) as turn:
                await tool_runs(turn)
                await there.connections[0].aclose(1008, "the token has expired")
            assert turn.result.outcome == "agent_died"
            assert "1008" in str(turn.result.error)
            assert "the token has expired" in str(turn.result.error)
            assert (await session.run("/think")).outcome == "completed"
            assert len(there.connections) == 2


async def test_who_is_not_let_in_or_finds_nobody_is_told(tmp_path: Path) -> None:
    async def start(far: Any) -> str:
        with pytest.raises(agentrt.AgentStartError) as failed:
            async with agentrt.agents.connect(far, cwd=tmp_path):
                pass
        return str(failed.value)

    with trio.fail_after(PATIENCE):
        async with bridge(DEMO) as there:
            wrong = {"authorization": "Bearer wrong"}
            assert "answers 401" in await start(agentrt.agents.websocket(there.url, headers=wrong))
        assert "no agent can be reached" in await start(
            agentrt.agents.websocket(there.url + "?token=x")
        )
        assert "token=x" not in await start(agentrt.agents.websocket(there.url + "?token=x"))
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        told = await start(agentrt.agents.websocket(f"ws://127.0.0.1:{port}/", limits=SHORT))
        assert "does not answer" in told
        await listeners[0].aclose()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    """Of a server at 127.0.0.1, whom the system does not trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.mark.slow
async def test_tls_is_spoken_with_whom_the_given_context_trusts(
    tmp_path: Path, authority: trustme.CA, server_context: ssl.SSLContext
) -> None:
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    with trio.fail_after(PATIENCE):
        async with bridge(DEMO, context=server_context) as there:
            far = agentrt.agents.websocket(there.url, ssl_context=ours)
            async with agentrt.agents.connect(far, cwd=tmp_path) as session:
                async with session.prompt("/slow 60", check=False) as turn:
                    await tool_runs(turn)
                    await there.connections[0].aclose(1001)
                assert turn.result.outcome == "agent_died"
                assert (await session.run("/think")).outcome == "completed"
            assert len(there.connections) == 2


async def test_a_server_that_nobody_vouches_for_is_not_spoken_to_and_that_is_said(
    tmp_path: Path, server_context: ssl.SSLContext
) -> None:
    with trio.fail_after(PATIENCE):
        async with bridge(DEMO, context=server_context) as there:
            with pytest.raises(agentrt.AgentStartError, match="CERTIFICATE_VERIFY_FAILED"):
                async with agentrt.agents.connect(
                    agentrt.agents.websocket(there.url), cwd=tmp_path
                ):
                    pass
            assert there.connections == []


@pytest.mark.parametrize(
    "url", ["http://host/", "ws://", "host:1", "wss://user:password@host/", "ws://host:x/"]
)
def test_what_is_no_url_of_a_websocket_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"wss://HOST/PATH|[Pp]ort"):
        agentrt.agents.websocket(url)


@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        ({"url": 3}, TypeError, "a URL must be a string, not int"),
        (
            {"headers": [("a", "b")]},
            TypeError,
            "`headers` must be a mapping of names to values, not list",
        ),
        ({"limits": 5}, TypeError, "`limits` must be agentrt.Limits"),
        ({"ssl_context": 5}, TypeError, "`ssl_context` must be an ssl.SSLContext, not int"),
        ({"ssl_context": ssl.create_default_context()}, ValueError, "over ws:// nothing is encr"),
        ({"headers": {"a": 3}}, TypeError, "a header's name and value are strings"),
        ({"headers": {"a": "b\r\nc: d"}}, ValueError, "the header 'a'"),
        ({"headers": {"a b": "c"}}, ValueError, "the header 'a b'"),
    ],
)
def test_what_cannot_be_sent_along_is_refused_before_anybody_connects(
    wrong: dict[str, Any], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why) as refused:
        agentrt.agents.websocket(**{"url": "ws://HOST/", **wrong})
    assert "c: d" not in str(refused.value)  # it may be a secret


async def test_a_message_above_the_limit_ends_the_connection_and_nothing_is_kept(
    tmp_path: Path,
) -> None:
    async def large(request: WebSocketRequest) -> None:
        socket = await request.accept()
        await socket.get_message()
        await socket.send_message("x" * 2000)
        await trio.sleep_forever()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(
                partial(serve_websocket, large, "127.0.0.1", 0, ssl_context=None)
            )
            limits = agentrt.Limits(message_bytes=1000)
            far = agentrt.agents.websocket(f"ws://127.0.0.1:{server.port}/", limits=limits)
            with pytest.raises(agentrt.AgentStartError, match="1009"):
                async with agentrt.agents.connect(far, cwd=tmp_path):
                    pass
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def served(
    peer: Callable[[WebSocketConnection], Awaitable[None]],
) -> AsyncIterator[trio.abc.Stream]:
    """The streams to an agent that is a coroutine."""

    async def accept(request: WebSocketRequest) -> None:
        await peer(await request.accept())

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(
                partial(serve_websocket, accept, "127.0.0.1", 0, ssl_context=None)
            )
            far = agentrt.agents.websocket(f"ws://127.0.0.1:{server.port}/")
            async with far() as (send, _):
                yield cast("trio.abc.Stream", send)
            nursery.cancel_scope.cancel()


async def test_a_peer_that_answers_no_ping_is_taken_for_gone() -> None:
    async def silent(stream: trio.SocketStream) -> None:
        """Accept a WebSocket, and never answer."""
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some()
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head)
        assert key is not None
        accepted = b64encode(sha1(key[1] + GUID).digest()).decode()
        fields = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accepted}"
        await stream.send_all(f"HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n\r\n".encode())
        await trio.sleep_forever()

    limits = agentrt.Limits(ping_interval_s=0.05, ws_close_timeout_s=0.05)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = listener.socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, silent, [listener])
            far = agentrt.agents.websocket(f"ws://127.0.0.1:{port}/", limits=limits)
            async with far() as (_, receive):
                with pytest.raises(trio.BrokenResourceError, match="no ping was answered"):
                    await receive.receive_some()
            nursery.cancel_scope.cancel()


async def test_a_line_is_a_message_wherever_it_is_cut() -> None:
    heard: list[str] = []
    heard_all = trio.Event()

    async def hear(socket: WebSocketConnection) -> None:
        heard.extend([await socket.get_message(), await socket.get_message()])
        heard_all.set()

    async with served(hear) as stream:
        for piece in (b'{"a":', b'1}\n{"b"', b':"\xc3', b'\xa9"}\n', b"{"):
            await stream.send_all(piece)
        await heard_all.wait()
    assert heard == ['{"a":1}', '{"b":"é"}']


async def test_a_message_is_a_line_however_it_is_written() -> None:
    async def say(socket: WebSocketConnection) -> None:
        await socket.send_message(json.dumps({"a": [1, "two\nlines"]}, indent=2))
        await socket.send_message(b'{"b":2}\n')
        await trio.sleep_forever()

    async with served(say) as stream:
        first = b""
        while not first.endswith(b"\n"):
            first += await stream.receive_some(7)
        assert first.count(b"\n") == 1
        assert json.loads(first) == {"a": [1, "two\nlines"]}
        assert await stream.receive_some() == b'{"b":2} \n'
