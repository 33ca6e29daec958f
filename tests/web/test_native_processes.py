"""A client's own tool and an agent that is a real process: calls, stops, and the next prompt."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from hub_kit import Stage, Tab, stage_of, viewer_of
from wire_client import WireClient

import agentrt
from agentrt import open_runtime
from agentrt.config import Config

FAKE = str(Path(__file__).parents[1] / "claude" / "fakecli.py")
RECORD = {"name": "record", "description": "Record it.", "input_schema": {"type": "object"}}


@asynccontextmanager
async def tab_of(scenario: str) -> AsyncIterator[tuple[Tab, str, Stage]]:
    """A client with a tool of its own, and its session with a scripted CLI."""
    agent = agentrt.agents.claude([sys.executable, FAKE, scenario], name="fake")
    with trio.fail_after(60):
        async with (
            open_runtime(config=Config(agents={"fake": agent})) as runtime,
            stage_of(runtime) as stage,
        ):
            tab = stage.connect(client=WireClient("a-random-name", tools=[RECORD]))
            session = (await tab.ok("session", op="new", agent="fake"))["session"]
            await tab.answer(tab.wire.attach(session))
            yield tab, session, stage


async def client_call(tab: Tab, session: str) -> dict[str, Any]:
    """The call that waits for the client, as soon as it sees one."""
    while True:
        for item in tab.view(session).shown.get("items", {}).values():
            if item["type"] == "tool" and item["status"] == "waiting":
                return dict(item)
        await tab.news()


async def rests(tab: Tab, session: str) -> None:
    while tab.view(session).phase != "idle":
        await tab.news()


async def test_a_real_agent_calls_a_client_s_tool() -> None:
    async with tab_of("tool") as (tab, session, _):
        await tab.prompt(session, "record it")
        item = await client_call(tab, session)
        assert (item["tool"]["owner"], item["tool"]["input"]) == ("client", {"summary": "x"})
        assert tab.view(session).phase == "waiting"
        content = [{"type": "text", "text": "recorded by hand"}]
        await tab.ok("tool_result", session=session, item=item["id"], content=content)
        await rests(tab, session)
        tools = [i["tool"] for i in tab.view(session).shown["items"].values() if "tool" in i]
        assert any("recorded by hand" in str(tool) for tool in tools)
        assert tab.view(session).texts() == ["Called."]


async def test_a_stop_in_the_middle_of_a_call_leaves_nothing_open_and_the_next_prompt_works() -> (
    None
):
    async with tab_of("tool") as (tab, session, stage):
        await tab.prompt(session, "record it")
        item = await client_call(tab, session)
        await tab.ok("cancel", session=session)
        await rests(tab, session)
        late = viewer_of(stage.hub, role="viewer")
        latecomer = Tab(WireClient(None), late)
        latecomer.wire.hello(session)
        latecomer.wire.take(await late.next_frame())
        for view in (tab.view(session), latecomer.view(session)):
            assert not view.busy
            assert {status for status, _ in view.tools()} == {"cancelled"}
            assert view.shown["turns"]["t1"]["outcome"] == "cancelled"
        late.close()
        result = {"session": session, "item": item["id"], "content": []}
        assert await tab.refused("tool_result", **result) == "already_resolved"

        await tab.prompt(session, "once more")
        item = await client_call(tab, session)
        await tab.ok("tool_result", session=session, item=item["id"], content=[])
        await rests(tab, session)
        assert tab.view(session).shown["turns"]["t2"]["outcome"] == "completed"
