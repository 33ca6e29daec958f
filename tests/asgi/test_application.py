"""What `agentrt.asgi.Application` does without a server: in memory, with messages of ours."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import agentrt
from agentrt.asgi import Application
from agentrt.testing import open_fake_runtime
from asgi.kit import TOKEN, Wire, ask, native, offers, served

SECURITY = agentrt.web.Security(token=TOKEN)


def fake(**limits: Any) -> Any:
    return partial(open_fake_runtime, {}, limits=agentrt.Limits(**limits))


class Requests:
    """What a server would send of one request, and what it got."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.said: list[Any] = []
        self._messages = list(messages)

    async def receive(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        if not self._messages:
            await trio.sleep_forever()
        return self._messages.pop(0)

    async def send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.said.append(message)


def page(path: str, host: str = "127.0.0.1:8000", **scope: Any) -> dict[str, Any]:
    headers = [(b"host", host.encode())]
    return {"type": "http", "method": "GET", "path": path, "headers": headers, **scope}


async def test_a_request_without_a_lifespan_says_what_is_missing() -> None:
    app = Application(fake(), security=SECURITY)
    got = Requests()
    with pytest.raises(agentrt.LocalProtocolError, match="lifespan"):
        await app(page("/healthz"), got.receive, got.send)
    with pytest.raises(agentrt.LocalProtocolError, match="lifespan"):
        _ = app.site.url


async def test_it_runs_while_its_block_does() -> None:
    app = Application(fake(), security=SECURITY)
    async with app.running() as site:
        assert site.link().startswith("http://127.0.0.1:8000/?t=")
        got = Requests({"type": "http.request"})
        await app(page("/healthz"), got.receive, got.send)
        assert [got.said[0]["status"], got.said[1]["body"]] == [200, b"ok\n"]
        with pytest.raises(agentrt.LocalProtocolError, match="running already"):
            async with app.running():
                pass
    with pytest.raises(agentrt.LocalProtocolError):
        await app(page("/healthz"), got.receive, got.send)
    async with app.running():  # once more
        pass


@pytest.mark.parametrize(
    ("scope", "path"),
    [("", "/agents/healthz"), ("/agents", "/agents/healthz"), ("/agents", "/healthz")],
)
async def test_below_a_path_it_is_found_however_the_server_says_it(scope: str, path: str) -> None:
    app = Application(fake(), security=SECURITY, url="http://127.0.0.1:8000/agents")
    async with app.running() as site:
        assert site.url == "http://127.0.0.1:8000/agents/"
        got = Requests({"type": "http.request"})
        await app(page(path, root_path=scope), got.receive, got.send)
        assert got.said[1]["body"] == b"ok\n"


async def test_its_own_url_without_the_slash_leads_to_the_page() -> None:
    app = Application(fake(), security=SECURITY, url="http://127.0.0.1:8000/agents/")
    async with app.running():
        got = Requests({"type": "http.request"})
        await app(page("/agents", root_path="/agents"), got.receive, got.send)
        assert got.said[0]["status"] == 308
        assert (b"location", b"/agents/") in got.said[0]["headers"]


async def test_a_lifespan_that_cannot_begin_says_why() -> None:
    app = Application(partial(agentrt.open_runtime, store="/dev/null/none"), security=SECURITY)
    got = Requests({"type": "lifespan.startup"})
    await app({"type": "lifespan"}, got.receive, got.send)
    assert got.said[0]["type"] == "lifespan.startup.failed"
    assert "/dev/null/none" in got.said[0]["message"]


async def test_a_lifespan_opens_and_closes_the_runtime() -> None:
    opened: list[str] = []

    @contextlib.asynccontextmanager
    async def runtime() -> Any:
        async with open_fake_runtime({}) as inner:
            opened.append("open")
            yield inner
        opened.append("closed")

    app = Application(runtime, security=SECURITY)
    got = Requests({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
    await app({"type": "lifespan"}, got.receive, got.send)
    assert [message["type"] for message in got.said] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert opened == ["open", "closed"]


async def test_a_client_that_does_not_read_is_dropped_though_the_server_shields_its_sending(
    autojump_clock: trio.testing.MockClock,
) -> None:
    reads = trio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            with trio.CancelScope(shield=True):
                await reads.wait()

    app = Application(fake(ws_write_timeout_s=5), security=SECURITY)
    hello = '{"type": "hello", "id": "h", "client": "deaf"}'
    got = Requests({"type": "websocket.connect"}, {"type": "websocket.receive", "text": hello})
    scope = {
        "type": "websocket",
        "path": "/ws",
        "headers": [(b"host", b"127.0.0.1:8000")],
        "subprotocols": offers(),
    }
    async with app.running() as site, trio.open_nursery() as nursery:
        nursery.start_soon(app, scope, got.receive, send)
        await trio.sleep(1)
        assert site.statistics().clients == 1
        await trio.sleep(10)
        assert (site.statistics().clients, site.statistics().dropped) == (0, 1)
        reads.set()  # as when the kernel gives the connection up


async def test_it_closes_its_connections_when_it_ends() -> None:
    app = Application(fake(), security=SECURITY)
    got = Requests({"type": "websocket.connect"})
    scope = {
        "type": "websocket",
        "path": "/ws",
        "headers": [(b"host", b"127.0.0.1:8000")],
        "subprotocols": offers(),
    }
    async with trio.open_nursery() as nursery, app.running() as site:
        nursery.start_soon(app, scope, got.receive, got.send)
        while not site.statistics().clients:  # noqa: ASYNC110 - nothing says it
            await trio.lowlevel.checkpoint()
    assert got.said[0]["subprotocol"] == "agentrt.v1"
    assert got.said[-1] == {"type": "websocket.close", "code": 4410, "reason": "the server ends"}


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"open_runtime": None}, TypeError, "a function that returns a runtime"),
        ({"open_runtime": trio.sleep}, TypeError, "a function that returns a runtime"),
        ({"security": "token"}, TypeError, r"security must be Security\(token=…\), not str"),
        ({"url": 5}, TypeError, "url must be a string, not int"),
        ({"roots": "/tmp"}, ValueError, r"roots must be a list of folders: roots=\['/tmp'\]"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        Application(**{"open_runtime": agentrt.open_runtime, "security": SECURITY, **given})


def test_what_would_be_no_protection_is_refused() -> None:
    with pytest.raises(ValueError, match="an explicit token"):
        Application(fake(), security=agentrt.web.Security())
    with pytest.raises(ValueError, match="metrics need a separate token"):
        Application(fake(), security=SECURITY, metrics=agentrt.telemetry.Metrics())
    with pytest.raises(ValueError, match="not a site URL"):
        Application(fake(), security=SECURITY, url="example.org")


@pytest.mark.slow
async def test_it_is_mounted_into_another_application(tmp_path: Path) -> None:
    with served("uvicorn", "asgi.apps:mounted", tmp_path) as running:
        assert ask(running.port, "/agents/healthz")[1] == b"ok\n"
        assert ask(running.port, "/openapi.json")[0].status == 200
        answer, body = ask(running.port, "/agents/")
        assert answer.status == 401
        assert b'action="/agents/"' in body
        answer, _ = ask(running.port, "/agents/", form={"token": TOKEN})
        assert answer.status == 303
        assert answer.headers["location"].startswith("/agents/#key=")
        assert "Path=/agents/;" in answer.headers["set-cookie"]
        async with native(running.port, "/agents/ws") as wire:
            await greet(wire)
    with served("uvicorn", "asgi.apps:forgotten", tmp_path) as running:
        assert ask(running.port, "/agents/healthz")[0].status == 500
    assert "if it is mounted into another application" in running.errors


async def greet(wire: Wire) -> None:
    await wire.say("hello", client="somebody", sessions=[])
    await wire.until(type="ready")


@pytest.mark.slow
async def test_under_asyncio_its_handlers_are_asyncios(tmp_path: Path) -> None:
    with served("uvicorn", "asgi.apps:own_handlers", tmp_path) as running:
        async with native(running.port) as wire:
            await greet(wire)
            new = {"op": "new", "agent": "demo", "cwd": str(tmp_path)}
            session = (await wire.command("session", **new))["session"]
            await wire.command("attach", session=session)
            await wire.prompt(session, "/ask")
            closed = await wire.until(kind="permission.closed")
            assert closed["outcome"] == "selected"
            assert (await wire.until(kind="turn.ended"))["outcome"] == "completed"
