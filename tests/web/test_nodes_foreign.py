"""Clients of ACP and of the AI SDK at a gateway, whose sessions run on workers."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from nodes_kit import node, until
from test_foreign_stored import Talk, call

from postgres.server import Server
from runtime.fakes import asking, echo, obedient


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.url(f"t_{secrets.token_hex(6)}")


def answer_to(id: int) -> Any:
    return lambda message: message.get("id") == id and "method" not in message


async def opened(talk: Talk) -> str:
    talk.say(**call(1, "initialize", protocolVersion=1))
    about = {"agentrt": {"agent": "fake"}}
    talk.say(**call(2, "session/new", cwd="/", mcpServers=[], _meta=about))
    return str((await talk.until(answer_to(2)))["result"]["sessionId"])


def prompt(id: int, session: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return call(id, "session/prompt", sessionId=session, prompt=content)


def texts(talk: Talk) -> str:
    updates = [m["params"]["update"] for m in talk.heard if m.get("method") == "session/update"]
    return "".join(
        u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"
    )


async def test_an_acp_client_of_a_gateway_talks_with_a_worker_s_agent(url: str) -> None:
    async with node(url, "w", echo, role="worker") as w, node(url, "g", role="gateway") as g:
        talk = Talk(g, "/acp")
        session = await opened(talk)
        assert [info.session for info in w.runtime.list_open()] == [session]
        talk.say(**prompt(3, session, "hello"))
        ended = await talk.until(answer_to(3))
        assert ended["result"]["stopReason"] == "end_turn"
        assert texts(talk) == "hello"
        talk.say(**prompt(4, session, "again"))
        assert (await talk.until(answer_to(4)))["result"]["stopReason"] == "end_turn"


async def test_an_acp_client_of_a_gateway_is_asked_and_may_cancel(url: str) -> None:
    async with node(url, "w", asking, role="worker"), node(url, "g", role="gateway") as g:
        talk = Talk(g, "/acp")
        session = await opened(talk)
        talk.say(**prompt(3, session, "hello"))
        asked = await talk.until(lambda m: m.get("method") == "session/request_permission")
        outcome = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        talk.say(jsonrpc="2.0", id=asked["id"], result=outcome)
        await talk.until(answer_to(3))
        assert texts(talk) == "yes"
        talk.say(**prompt(4, session, "more"))
        await talk.until(lambda m: m.get("method") == "session/request_permission")
        talk.say(jsonrpc="2.0", method="session/cancel", params={"sessionId": session})
        assert (await talk.until(answer_to(4)))["result"]["stopReason"] == "cancelled"


@pytest.mark.slow
async def test_an_answer_that_fits_no_option_is_no_yes_at_a_gateway_either(url: str) -> None:
    async with node(url, "w", asking, role="worker"), node(url, "g", role="gateway") as g:
        talk = Talk(g, "/acp")
        session = await opened(talk)
        talk.say(**prompt(3, session, "hello"))
        asked = await talk.until(lambda m: m.get("method") == "session/request_permission")
        outcome = {"outcome": {"outcome": "selected", "optionId": "whatever"}}
        talk.say(jsonrpc="2.0", id=asked["id"], result=outcome)
        await talk.until(answer_to(3))
        assert "yes" not in texts(talk)


@pytest.mark.slow
async def test_a_prompt_that_waits_at_a_worker_is_answered_when_its_own_turn_ends(url: str) -> None:
    async with node(url, "w", obedient, role="worker") as w, node(url, "g", role="gateway") as g:
        talk = Talk(g, "/acp")
        session = await opened(talk)
        talk.say(**prompt(3, session, "one"))
        await talk.until(lambda _: texts(talk) == "working on one")
        talk.say(**prompt(4, session, "two"))
        await until(lambda: w.runtime.get(session).queue)
        talk.say(jsonrpc="2.0", method="$/cancel_request", params={"requestId": 3})
        assert (await talk.until(answer_to(3)))["result"]["stopReason"] == "cancelled"
        await talk.until(lambda _: texts(talk) == "working on oneworking on two")
        talk.say(jsonrpc="2.0", method="session/cancel", params={"sessionId": session})
        assert (await talk.until(answer_to(4)))["result"]["stopReason"] == "cancelled"


async def test_mcp_servers_are_not_carried_to_a_worker(url: str) -> None:
    async with node(url, "w", role="worker"), node(url, "g", role="gateway") as g:
        talk = Talk(g, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        server = {"name": "mine", "command": "/bin/true", "args": [], "env": []}
        about = {"agentrt": {"agent": "fake"}}
        talk.say(**call(2, "session/new", cwd="/", mcpServers=[server], _meta=about))
        refused = await talk.until(answer_to(2))
        assert refused["error"]["data"]["code"] == "unsupported"


@pytest.mark.slow
async def test_further_folders_are_carried_to_a_worker(url: str) -> None:
    can = {"sessionCapabilities": {"additionalDirectories": {}, "fork": {}}}
    fake = {"capabilities": can}
    async with (
        node(url, "w", echo, role="worker", fake=fake) as w,
        node(url, "g", role="gateway") as g,
    ):
        talk = Talk(g, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        about = {"cwd": "/", "mcpServers": [], "_meta": {"agentrt": {"agent": "fake"}}}
        talk.say(**call(2, "session/new", **about, additionalDirectories=["/lib"]))
        session = str((await talk.until(answer_to(2)))["result"]["sessionId"])
        [asked] = w.agents.sent("session/new")
        assert asked["params"]["additionalDirectories"] == ["/lib"]
        talk.say(**prompt(3, session, "hello"))
        await talk.until(answer_to(3))
        about = {"sessionId": session, "cwd": "/", "mcpServers": []}
        talk.say(**call(4, "session/fork", **about, additionalDirectories=["/docs"]))
        assert "result" in await talk.until(answer_to(4))
        [asked] = w.agents.sent("session/fork")
        assert asked["params"]["additionalDirectories"] == ["/docs"]


def message(text: str) -> dict[str, Any]:
    return {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}


def chunks(talk: Talk, kind: str) -> list[dict[str, Any]]:
    found = [m["chunk"] for m in talk.heard if m["type"] == "chunk"]
    return [chunk for chunk in found if chunk["type"] == kind]


@pytest.mark.slow
async def test_a_chat_of_one_gateway_goes_on_at_another(url: str) -> None:
    async with (
        node(url, "w", echo, role="worker"),
        node(url, "g1", role="gateway") as g1,
        node(url, "g2", role="gateway") as g2,
    ):
        talk = Talk(g1, "/ai")
        body = {"agent": "fake", "cwd": "/"}
        said = {"type": "send", "id": "chat-1", "messages": [message("hello")], "body": body}
        talk.say(requestId="r1", **said)
        await talk.until(lambda m: m["type"] == "end")
        assert "".join(c["delta"] for c in chunks(talk, "text-delta")) == "hello"
        later = Talk(g2, "/ai")
        later.say(requestId="r1", **{**said, "messages": [message("again")]})
        await later.until(lambda m: m["type"] in ("end", "error"))
        assert "".join(c["delta"] for c in chunks(later, "text-delta")) == "again"
        assert len(g1.runtime.list()) == 1
