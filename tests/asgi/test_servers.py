"""`agentrt.asgi` under real servers, on Trio and on asyncio, and over real sockets."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
import trio
from trio_websocket import ConnectionClosed

from asgi.kit import METRICS, SERVERS, TOKEN, ask, greeted, native, served, web_socket
from web.sockets import frame, handshake

LONG = "x" * 1_000_000
pytestmark = pytest.mark.slow
EVERY = pytest.mark.parametrize("server", SERVERS)


@EVERY
@pytest.mark.door("asgi", "prompt", "stream", "permission", "cancel")
async def test_a_client_prompts_answers_cancels_and_the_server_ends_in_peace(
    server: str, tmp_path: Path
) -> None:
    with served(server, "hypercorn_app:app", tmp_path) as running:
        async with greeted(running.port) as wire:
            opened = await wire.command("session", op="new", agent="demo", cwd=str(tmp_path))
            session = opened["session"]
            await wire.command("attach", session=session)
            await wire.prompt(session, "/ask")
            asked = await wire.until(kind="permission.opened")
            await wire.command(
                "permission",
                session=session,
                request=asked["request"],
                option=asked["options"][0]["id"],
            )
            assert (await wire.until(kind="turn.ended"))["outcome"] == "completed"
            await wire.prompt(session, "/slow 60")
            await wire.until(kind="turn.started")
            await wire.command("cancel", session=session)
            assert (await wire.until(kind="turn.ended"))["outcome"] == "cancelled"
            await wire.prompt(session, "/slow 60")
            await wire.until(kind="turn.started")  # and the server ends in the middle of it
    assert "Traceback" not in running.errors


@EVERY
def test_the_page_opens_with_the_token_and_its_files_with_the_cookie(
    server: str, tmp_path: Path
) -> None:
    with served(server, "hypercorn_app:app", tmp_path) as running:
        port = running.port
        assert ask(port, "/healthz")[1] == b"ok\n"
        assert ask(port, "/")[0].status == 401
        assert ask(port, "/", form={"token": "a-wrong-token-of-some-length"})[0].status == 401
        answer, _ = ask(port, "/", form={"token": TOKEN})
        assert answer.status == 303
        assert answer.headers["location"].startswith("/#key=")
        cookie = answer.headers["set-cookie"].partition(";")[0]
        answer, page = ask(port, "/", cookie=cookie)
        assert answer.status == 200
        assert b"<script" in page
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        answer, file = ask(port, "/page/main.js", "HEAD", cookie=cookie)
        assert (answer.status, file) == (200, b"")
        assert ask(port, "/", cookie=cookie, host="evil.example")[0].status == 421
        assert ask(port, "/", "PUT", cookie=cookie)[0].status == 405
        assert ask(port, "/", form={"token": "x" * 5000})[0].status == 413


@EVERY
async def test_who_may_not_come_in_is_told_why(server: str, tmp_path: Path) -> None:
    with served(server, "hypercorn_app:app", tmp_path) as running:
        for path, token, origin, code in (
            ("/ws", "a-wrong-token-of-some-length", None, 4401),
            ("/ws", TOKEN, "http://evil.example", 4403),
            ("/nothing", TOKEN, None, 4400),
            ("/ws?token=x", TOKEN, None, 4400),
        ):
            async with native(running.port, path, token=token, origin=origin) as wire:
                assert (await wire.next())["type"] == "closing"
                with pytest.raises(ConnectionClosed):
                    await wire.next()
                assert wire.socket.closed.code == code
        async with greeted(running.port) as wire:
            await wire.socket.send_message(b"binary")
            with pytest.raises(ConnectionClosed):
                await wire.until(type="never")
            assert wire.socket.closed.code == 1003
        async with greeted(running.port) as wire:
            await wire.socket.send_message("x" * (9 << 20))
            with pytest.raises(ConnectionClosed):
                await wire.until(type="never")
            assert wire.socket.closed.code == 1009


@EVERY
async def test_the_other_dialects_are_served_too(server: str, tmp_path: Path) -> None:
    with served(server, "hypercorn_app:app", tmp_path) as running:
        bearer = [(b"Authorization", f"Bearer {TOKEN}".encode())]
        async with web_socket(running.port, "/acp", extra_headers=bearer) as client:
            named = {name.lower() for name, _ in client.handshake_headers}
            assert b"acp-connection-id" in named
            params = {"protocolVersion": 1, "clientCapabilities": {}}
            request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            await client.send_message(json.dumps(request))
            answer = json.loads(await client.get_message())
            assert answer["result"]["protocolVersion"] == 1
        async with web_socket(running.port, "/ai", extra_headers=bearer) as client:
            await client.send_message("no JSON")
            with pytest.raises(ConnectionClosed):
                await client.get_message()
            assert client.closed.code == 4400


@EVERY
def test_metrics_are_for_who_has_their_token(server: str, tmp_path: Path) -> None:
    with served(server, "asgi.apps:measured", tmp_path) as running:
        assert ask(running.port, "/metrics")[0].status == 401
        assert ask(running.port, "/metrics", authorization=f"Bearer {TOKEN}")[0].status == 401
        answer, body = ask(running.port, "/metrics", authorization=f"Bearer {METRICS}")
        assert answer.status == 200
        assert b"agentrt_sessions" in body


@EVERY
async def test_a_viewer_that_does_not_read_is_dropped_and_holds_up_nobody(
    server: str, tmp_path: Path
) -> None:
    with served(server, "asgi.apps:measured", tmp_path) as running:
        async with greeted(running.port) as wire:
            opened = await wire.command("session", op="new", agent="demo", cwd=str(tmp_path))
            session = opened["session"]
            await wire.command("attach", session=session)
            with socket.socket() as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.connect(("127.0.0.1", running.port))
                hello = {"type": "hello", "id": "h", "client": "deaf"}
                attach = {"type": "attach", "id": "a", "session": session}
                deaf.sendall(handshake(running.port))
                assert b"101" in deaf.recv(1024)
                deaf.sendall(frame(json.dumps(hello)) + frame(json.dumps(attach)))
                while await trio.to_thread.run_sync(dropped, running.port) < 1:
                    await wire.prompt(session, "/none " + LONG)
                    ended = await wire.until(kind="turn.ended")
                    assert ended["outcome"] == "completed", ended


def dropped(port: int) -> float:
    """Clients that the server has dropped, by its own count."""
    _, body = ask(port, "/metrics", authorization=f"Bearer {METRICS}")
    line = rb"^agentrt_connections_total\{[^}]*dropped[^}]*\} ([0-9.]+)$"
    found = re.search(line, body, re.MULTILINE)
    assert found, body.decode()
    return float(found[1])


@EVERY
@pytest.mark.door("asgi", "resume", "fork", "tools")
async def test_a_client_comes_back_forks_and_runs_its_tools(server: str, tmp_path: Path) -> None:
    offer = {"name": "pick", "description": "Pick.", "input_schema": {"type": "object"}}
    with served(server, "hypercorn_app:app", tmp_path) as running:
        async with native(running.port) as wire:
            await wire.say("hello", client="somebody", sessions=[], tools=[offer])
            await wire.until(type="ready")
            about = {"agent": "demo", "cwd": str(tmp_path), "mode": "auto"}
            session = (await wire.command("session", op="new", **about))["session"]
            await wire.command("attach", session=session)
            await wire.prompt(session, "/tool pick {}")
            while True:
                item = (await wire.until(kind="item.opened"))["item"]
                if item.get("tool", {}).get("owner") == "client":
                    break
            said = [{"type": "text", "text": "picked"}]
            await wire.command("tool_result", session=session, item=item["id"], content=said)
            ended = await wire.until(kind="turn.ended")
            assert ended["outcome"] == "completed"
            forked = await wire.command("session", op="fork", session=session, at=ended["turn"])
            assert forked["session"] != session
        async with greeted(running.port) as wire:
            for id in (session, forked["session"]):
                await wire.command("attach", session=id)
                shown = await wire.until(type="snapshot")
                assert shown["session"] == id
                assert shown["items"][0]["content"][0]["text"] == "/tool pick {}"
