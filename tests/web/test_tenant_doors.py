"""Every way into a server, tried by one tenant at what is another's: none of them says anything of
it, or does anything to it.

What can be said is taken from the tables of the server itself. A command, a method or a path that
is new there fails these tests until somebody has thought about it here.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import Struct, structs
from sockets import TOKEN, get, offer, status, websocket
from tenants_kit import ACME, ACME_WATCHES, BOLT, Line, Servers, line, servers

from agentrt._serve.acp import _METHODS
from agentrt._serve.aisdk import Abort, Resume, Send
from agentrt._serve.dialects import BUILT_IN
from agentrt.testing import FakeAcpAgent
from inside.server import commands as c

KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])

SECRET = "the-word-of-acme"


async def asking_twice(agent: FakeAcpAgent) -> None:
    """Says what it was told, and then asks."""
    async for prompt in agent.prompts:
        agent.say(prompt.text)
        chosen = await agent.ask()
        prompt.end("cancelled" if chosen is None else "end_turn")


class Scene:
    """A session of acme's, in which a question is open and a prompt waits; and what an intruder may
    have heard of it."""

    def __init__(self, there: Servers, acme: Line, session: str) -> None:
        self.there = there
        self.acme = acme
        self.session = session
        self.known: dict[str, Any] = {}
        self.seq = 0

    @property
    def intruder(self) -> int:
        """The port where the other tenant comes in: of another gateway, if there is one."""
        return self.there.port(1)

    async def look(self) -> tuple[Any, ...]:
        """What there is of the session, as the operator sees it."""
        async with line(self.there.port(0), TOKEN) as operator:
            shown = await operator.attach(self.session)
            return (
                shown["seq"],
                [each["request"] for each in shown["permissions"]],
                [each["id"] for each in shown["queue"]],
                shown["state"]["phase"],
                shown.get("title"),
            )

    def check_silence(self, heard: str) -> None:
        """Nothing that was said to the intruder is of the session, but the id, which it knows."""
        for word in (SECRET, *(each for each in self.known.values() if len(each) > 12)):
            assert word not in heard, heard


@asynccontextmanager
async def scene(store: str | None) -> AsyncIterator[Scene]:
    async with servers(store, asking_twice) as there:
        hello = {"client": "the-client-of-acme", "tools": [TOOL]}
        async with line(there.port(0), ACME, **hello) as acme:
            session = await acme.new()
            found = Scene(there, acme, session)
            answer = await acme.prompt(session, SECRET, id="acme-1")
            asked = await acme.event(session, "permission.opened")
            queued = await acme.prompt(session, f"{SECRET} again")
            found.known = {
                "turn": answer["turn"],
                "request": asked["request"],
                "entry": queued["entry"],
                "item": next(
                    m["event"]["item"]["id"]
                    for m in acme.messages
                    if m["type"] == "event" and m["event"]["kind"] == "item.opened"
                ),
            }
            before = await found.look()
            yield found
            assert await found.look() == before


TOOL = {"name": "wipe", "description": "", "input_schema": {"type": "object"}}

# --- agentrt.v1


def attack(kind: type[Struct], scene: Scene) -> dict[str, Any]:
    """A command of that kind to the session."""
    known = scene.known
    every: dict[str, Any] = {
        "session": scene.session,
        "content": [{"type": "text", "text": "mine"}],
        "before": known["item"],
        "item": known["item"],
        "request": known["request"],
        "entry": known["entry"],
        "option": "yes",
        "title": "mine",
        "mode": "mine",
        "model": "mine",
        "value": "mine",
        "task": "mine",
        "at": f"/items/{known['item']}/text",
        "old": 1,
        "checkpoint": 1,
        "path": "secret.txt",
        "target": "example.org:443",
    }
    wanted = {field.name for field in structs.fields(kind) if field.required} - {"id"}
    if kind is c.Permission:
        wanted |= {"option"}
    fields = {name: every[name] for name in wanted}
    op = next((field.default for field in structs.fields(kind) if field.name == "op"), None)
    return {"type": kind.__struct_config__.tag, **fields, **({} if op is None else {"op": op})}


def to_sessions() -> list[type[Struct]]:
    return [kind for kind in c._leaves(c.ViewerCommand) if issubclass(kind, c.ForSession)]


@pytest.mark.slow
@KINDS
async def test_no_command_reaches_a_session_of_another_tenant(store: str | None) -> None:
    async with scene(store) as there, line(there.intruder, BOLT) as bolt:
        for kind in to_sessions():
            for _ in range(2):  # also when it was tried before
                code, message = await bolt.refused(**attack(kind, there))
                assert code == "unknown_session", (kind, code, message)
        there.check_silence(bolt.heard)


@pytest.mark.slow
@KINDS
async def test_no_command_without_a_session_does(store: str | None) -> None:
    async with scene(store) as there, line(there.intruder, BOLT) as bolt:
        others = {kind for kind in c._leaves(c.ViewerCommand) if kind not in to_sessions()}
        sessions = {c.NewSession, c.ListSessions, c.LoadSession}
        assert others == {c.Hello, c.ListFolders, c.StopAll, *sessions}
        # hello: above, and below
        answer = await bolt.ok("session", op="new", agent="fake", cwd="/")
        assert answer["session"] != there.session
        forged = {"op": "new", "agent": "fake", "tenant": "acme"}
        assert (await bolt.refused("session", **forged))[0] == "bad_request"
        answer = await bolt.ok("session", op="list")
        assert there.session not in json.dumps(answer)
        code, _ = await bolt.refused("session", op="list", before=there.session)
        assert code == "unknown_session"
        found = await bolt.ask("session", op="list", query=SECRET)
        assert found.get("found", []) == []
        code, _ = await bolt.refused("session", op="load", session=there.session)
        assert code == "unknown_session"
        load = {"op": "load", "agent": "fake", "agent_session": "sess-1"}
        assert (await bolt.refused("session", **load))[0] == "forbidden"
        assert (await bolt.ok("stop_all"))["cancelled"] == 0
        there.check_silence(bolt.heard)
    async with (
        servers(store, asking_twice) as there_too,
        line(there_too.port(0), ACME) as acme,
        line(there_too.port(1), ACME) as other,
    ):
        session = await acme.new()
        await acme.prompt(session, "work")
        assert (await other.ok("stop_all"))["cancelled"] == 1


@KINDS
async def test_no_greeting_shows_a_session_of_another_tenant(store: str | None) -> None:
    async with scene(store) as there:
        known = [{"session": there.session}, {"session": there.session, "epoch": "e", "seq": 1}]
        for each in known:
            async with line(there.intruder, BOLT, sessions=[each]) as bolt:
                answer = next(m for m in bolt.messages if m["type"] == "ack")
                assert answer["sessions"] == {there.session: "unknown_session"}
                await bolt.ok("session", op="list")
                there.check_silence(bolt.heard)
                assert not [m for m in bolt.messages if m["type"] in ("event", "snapshot")]


@KINDS
async def test_a_client_s_name_is_its_tenant_s(store: str | None) -> None:
    """Who says the name of another tenant's client gets no answer of that one's, none of its tools'
    calls, and does not send it away."""
    async with scene(store) as there:
        hello = {"client": "the-client-of-acme", "tools": [TOOL]}
        async with line(there.intruder, BOLT, **hello) as bolt:
            content = [{"type": "text", "text": SECRET}]
            prompt = {"session": there.session, "content": content}
            assert (await bolt.refused("prompt", **prompt))[0] == "unknown_session"
            mine = await bolt.new()
            await bolt.prompt(mine, "hello", id="acme-1")
            await there.acme.ok("session", op="list")
            assert there.acme.socket.stream is not None
        for name in ("@acme/the-client-of-acme", "acme/the-client-of-acme", "~the-client-of-acme"):
            async with line(there.intruder, BOLT, client=name) as bolt:
                assert (await bolt.refused("prompt", id="acme-1", **prompt))[0] == "unknown_session"
                there.check_silence(bolt.heard.replace(SECRET, "", 1))
        await there.acme.ok("session", op="list")


async def test_who_watches_for_a_tenant_only_watches() -> None:
    async with scene(None) as there, line(there.intruder, ACME_WATCHES) as watcher:
        await watcher.ok("attach", session=there.session)
        for kind in to_sessions():
            if kind not in c.LOOKS:
                code, _ = await watcher.refused(**attack(kind, there))
                assert code == "forbidden", kind


# --- the other dialects


def test_there_are_no_other_dialects() -> None:
    assert set(BUILT_IN) == {"/ws", "/ai", "/acp"}


@KINDS
async def test_no_method_of_acp_reaches_a_session_of_another_tenant(store: str | None) -> None:
    async with scene(store) as there, line(there.intruder, BOLT, "/acp") as bolt:
        session, known = there.session, there.known
        text = [{"type": "text", "text": "mine"}]
        folder: dict[str, Any] = {"cwd": "/", "mcpServers": []}
        calls: dict[str, dict[str, Any]] = {
            "session/new": {**folder, "_meta": {"agentrt": {"session": session}}},
            "session/load": {**folder, "sessionId": session},
            "session/resume": {**folder, "sessionId": session},
            "session/fork": {**folder, "sessionId": session},
            "session/prompt": {"sessionId": session, "prompt": text},
            "_session/steering": {"sessionId": session, "prompt": text},
            "_session/async_task/stop": {"sessionId": session, "asyncTaskId": "mine"},
            "session/set_mode": {"sessionId": session, "modeId": "mine"},
            "session/set_model": {"sessionId": session, "modelId": "mine"},
            "session/set_config_option": {"sessionId": session, "configId": "x", "value": "y"},
            "session/close": {"sessionId": session},
        }
        others = {"initialize", "authenticate", "session/list", "session/delete"}
        assert calls.keys() | others == _METHODS.keys()
        for method, params in calls.items():
            answer = await bolt.rpc(method, **params)
            assert answer["error"]["code"] == -32002, (method, answer)
        assert (await bolt.rpc("session/list"))["result"] == {"sessions": []}
        # As with one that there is not; that it is there still, is seen at the end.
        assert (await bolt.rpc("session/delete", sessionId=session))["result"] == {}
        for method, params in (
            ("session/cancel", {"sessionId": session}),
            ("$/cancel_request", {"requestId": known["request"]}),
        ):
            await bolt.say(jsonrpc="2.0", method=method, params=params)
        await bolt.rpc("session/list")
        there.check_silence(bolt.heard)


@pytest.mark.slow
@KINDS
async def test_no_request_of_the_ai_sdk_reaches_a_session_of_another_tenant(
    store: str | None,
) -> None:
    assert {Send, Resume, Abort} == {*_requests_of_the_ai_sdk()}
    async with scene(store) as there:
        async with line(there.there.port(0), ACME, "/ai") as chat:
            message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": SECRET}]}
            body = {"agent": "fake", "cwd": "/"}
            await chat.say(type="send", requestId="r1", id="a-chat", messages=[message], body=body)
            await chat.until(type="chunk", requestId="r1")
        async with line(there.intruder, BOLT, "/ai") as bolt:
            for chat_id in (there.session, "a-chat", "@acme/a-chat"):
                await bolt.say(type="resume", requestId="r2", id=chat_id)
                await bolt.until(type="no-active", requestId="r2")
                await bolt.say(type="resume", requestId="r3", id=chat_id, body={"stop": True})
                await bolt.until(type="no-active", requestId="r3")
                fork = {"agent": "fake", "fork": chat_id, "client": "the-client-of-acme"}
                mine = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "mine"}]}
                await bolt.say(
                    type="send", requestId="r4", id=f"f-{chat_id}", messages=[mine], body=fork
                )
                error = await bolt.until(type="error", requestId="r4")
                assert "unknown_session" in error["errorText"]
                told = {"id": there.known["turn"], "role": "assistant", "parts": []}
                await bolt.say(type="send", requestId="r5", id=chat_id, messages=[told], body=body)
                error = await bolt.until(type="error", requestId="r5")
                assert "unknown_session" in error["errorText"]
                # The same name is another chat of its own.
                await bolt.say(
                    type="send", requestId=f"r6-{chat_id}", id=chat_id, messages=[mine], body=body
                )
                await bolt.until(type="chunk", requestId=f"r6-{chat_id}")
            await bolt.say(type="abort", requestId="r1")
            there.check_silence(bolt.heard)
        async with line(there.intruder, ACME, "/ai") as chat:  # which is where it was
            await chat.say(type="resume", requestId="r7", id="a-chat")
            await chat.until(type="chunk", requestId="r7")


def _requests_of_the_ai_sdk() -> tuple[type[Struct], ...]:
    from agentrt._serve import aisdk

    union = msgspec.inspect.type_info(aisdk._requests.type)
    assert isinstance(union, msgspec.inspect.UnionType)
    return tuple(each.cls for each in union.types if isinstance(each, msgspec.inspect.StructType))


# --- plain requests


PLAIN = ("/", "/login", "/healthz", "/readyz", "/metrics", "/page/index.html", "/sessions")


@pytest.mark.parametrize("path", PLAIN)
async def test_no_page_says_anything_of_a_session(path: str) -> None:
    async with scene(None) as there:
        for token in (BOLT, ACME, ACME_WATCHES):
            answer = await get(there.intruder, path, authorization=f"Bearer {token}")
            assert there.session.encode() not in answer.head
            assert SECRET.encode() not in answer.head
            if path == "/metrics":
                assert status(answer) in (401, 404)


@pytest.mark.parametrize("target", [*BUILT_IN])
async def test_a_token_in_the_url_is_none(target: str) -> None:
    async with servers(None, asking_twice) as there:
        wrong = {"sec_websocket_protocol": offer("a-token-that-nobody-has")}
        async with websocket(there.port(), target=f"{target}?token={ACME}", **wrong) as socket:
            assert (await socket.until_closed())[1] in (4400, 4401)
