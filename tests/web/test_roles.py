"""What those who only look on may cost, and that they keep nobody out."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from hub_kit import Stage, stage_with, viewer_of
from sockets import WATCH, frame, offer, site, websocket
from trio.testing import MockClock

from agentrt.web import Role
from runtime.fakes import echo

WATCHER = {"sec_websocket_protocol": offer(WATCH)}


@pytest.mark.slow
@pytest.mark.parametrize("size", [70_000, 8_000_000])
async def test_a_viewer_s_message_is_a_small_one(size: int) -> None:
    with trio.fail_after(30):
        async with site() as running:
            async with websocket(running.port, **WATCHER) as viewer:
                await viewer.send(frame("quiet" * 10), frame("x" * size))
                assert (await viewer.refusal())[0] == 1009
            async with websocket(running.port) as controller:
                await controller.send(frame("y" * 70_000))
                assert await controller.text() == "y" * 70_000


@pytest.mark.parametrize("dialect", ["/ws", "/ai", "/acp"])
async def test_the_limit_is_the_same_in_every_dialect(dialect: str) -> None:
    with trio.fail_after(30):
        async with site() as run, websocket(run.port, target=dialect, **WATCHER) as viewer:
            await viewer.send(frame("x" * 70_000))
            assert (await viewer.until_closed())[1] == 1009


async def test_a_viewer_is_told_its_own_limit(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        for role, limit in (("viewer", 65536), ("controller", 8 * 1024 * 1024)):
            tab = stage.connect(role=role)  # type: ignore[arg-type]
            await trio.sleep(0.1)
            assert tab.client.ready is not None
            assert tab.client.ready["limits"] == {"frame": limit}


async def refusal(stage: Stage, text: str, role: Role = "controller") -> dict[str, Any]:
    """The answer to a message that is not carried out."""
    viewer = viewer_of(stage.hub, role=role)
    viewer.receive('{"type":"hello","id":"1"}')
    await viewer.next_frame()
    viewer.receive(text)
    answer: dict[str, Any] = json.loads(await viewer.next_frame())
    viewer.close()
    assert not answer["ok"]
    return answer


async def test_nothing_is_made_of_what_a_viewer_may_not_say() -> None:
    """Else it would be a bad request: a text without its text."""
    prompt = {"type": "prompt", "id": "p", "session": "s", "content": [{"type": "text"}]}
    async with stage_with(echo) as stage:
        for role, code in (("viewer", "forbidden"), ("controller", "bad_request")):
            answer = await refusal(stage, json.dumps(prompt), role)  # type: ignore[arg-type]
            assert (answer["id"], answer["error"]["code"]) == ("p", code)


@pytest.mark.parametrize("kind", ["hello", "permission", "session", "cancel"])
async def test_only_content_may_be_long(kind: str) -> None:
    tools = [{"name": "t", "input_schema": {"x": ["y"] * 100_000}}]
    text = json.dumps({"type": kind, "op": "rename", "id": "h", "tools": tools})
    async with stage_with(echo) as stage:
        error = (await refusal(stage, text))["error"]
    assert error["code"] == "bad_request"
    assert "longer than 262144" in error["message"]


async def test_half_a_surrogate_pair_is_refused_and_not_repaired() -> None:
    async with stage_with(echo) as stage:
        session = await stage.session()
        rename = f'{{"type":"session","op":"rename","id":"r","session":"{session}","title":'
        for half in ("\\ud83d", "\ud83d"):
            answer = await refusal(stage, f'{rename}"{half}"}}')
            assert answer["error"]["code"] == "bad_request"
        assert stage.runtime.get(session).title is None


async def test_viewers_keep_no_controller_out() -> None:
    with trio.fail_after(60):
        async with site(ws_connections=8) as running, AsyncExitStack() as stack:
            for _ in range(6):
                await stack.enter_async_context(websocket(running.port, **WATCHER))
            async with websocket(running.port, **WATCHER) as viewer:
                assert (await viewer.refusal())[0] == 4429
            for _ in range(2):
                controller = await stack.enter_async_context(websocket(running.port))
                await controller.send(frame("hello"))
                assert await controller.text() == "hello"
            async with websocket(running.port) as late:
                assert (await late.refusal())[0] == 4429
