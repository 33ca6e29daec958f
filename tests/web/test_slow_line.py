"""A viewer on a slow line, over a real socket: what it receives is counted in bytes and events."""

from __future__ import annotations

from typing import Any

from hub_kit import stage_with
from slow_line import SlowStream, slow_line
from socket_tab import Tab
from sockets import site
from wire_client import WireClient

from agentrt.testing import FakeAcpAgent

MB = 1_000_000

ROUND_BYTES = 25_000
"""What the line carries while the agent makes one output."""


def output(id: str, text: str) -> dict[str, Any]:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    return {
        "toolCallId": id,
        "status": "completed",
        "title": id,
        "kind": "read",
        "content": content,
    }


async def outputs(agent: FakeAcpAgent) -> None:
    """Twenty outputs of 1 MB and thirty short ones; then one of 0.125 MB for each prompt."""
    count = 0
    async for prompt in agent.prompts:
        if prompt.text == "fill":
            for n in range(20):
                agent.update("tool_call", **output(f"large {n}", f"{n:03}" + "x" * MB))
            for n in range(30):
                agent.update("tool_call", **output(f"short {n}", f"line {n}"))
            agent.say("the last words")
        else:
            count += 1
            agent.update("tool_call", **output(f"later {count}", "y" * (MB // 8)))
        prompt.end()


async def test_a_slow_line_carries_600_kb_until_20_mb_of_output_are_usable() -> None:
    async with stage_with(outputs) as stage, site(stage.hub) as running:
        id = await stage.session()
        await stage.runtime.get(id).run("fill")
        async with slow_line(running.port) as (socket, stream):
            tab = Tab(WireClient(None), socket)
            tab.wire.hello(id)
            await tab.until(lambda: tab.view(id).shown)
            assert stream.received_bytes < 0.6 * MB
            view = tab.view(id)
            assert view.phase == "idle"
            assert len(view.tools()) == 50
            assert view.texts() == ["the last words"]


async def test_a_slow_line_gets_one_snapshot_and_then_the_events_of_an_agent_at_work() -> None:
    async with stage_with(outputs) as stage, site(stage.hub) as running:
        id = await stage.session()
        session = stage.runtime.get(id)
        await session.run("fill")
        async with slow_line(running.port) as (socket, stream):
            tab = Tab(WireClient(None), socket)
            tab.wire.hello(id)
            await tab.until(lambda: tab.view(id).shown)
            before = session.log.seq
            for _ in range(20):
                await session.run("on")
                await _carry(tab, stream, id, session.log.seq)
            view = tab.view(id)
            assert view.snapshots == 1
            assert view.seq == session.log.seq
            assert len(view.events) == session.log.seq - before


async def _carry(tab: Tab, stream: SlowStream, session: str, seq: int) -> None:
    """Take what comes up to an event; it must fit into one round of the line."""
    start = stream.received_bytes
    await tab.until(lambda: tab.view(session).seq >= seq)
    assert stream.received_bytes - start <= ROUND_BYTES
