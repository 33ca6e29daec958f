"""Tools that a client runs, through `agentrt.v1`; and whose a tool is."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hub_kit import Stage, Tab, stage_with
from tool_calls import Calls
from trio.testing import MockClock
from wire_client import WireClient

import agentrt
from agentrt.testing import FakeAcpAgent
from runtime.fakes import obedient

PICK = {"name": "pick", "description": "Let the user pick.", "input_schema": {"type": "object"}}


async def picking(stage: Stage, **hello: Any) -> tuple[Tab, str, Calls]:
    """A client with a tool of its own, its session in a running turn, and the agent's calls."""
    tab = stage.connect(client=WireClient("a-random-name", tools=[PICK], **hello))
    id = (await tab.ok("session", op="new", agent="fake"))["session"]
    await tab.answer(tab.wire.attach(id))
    await tab.prompt(id, "work")
    await trio.sleep(1)
    return tab, id, Calls(stage.runtime.get(id))


def waiting(tab: Tab, session: str) -> dict[str, Any]:
    [item] = [
        item
        for item in tab.view(session).shown["items"].values()
        if item["type"] == "tool" and item["status"] == "waiting"
    ]
    return item


RESULT = [{"type": "text", "text": "the red one"}]


@pytest.mark.door("page", "tools")
async def test_a_client_s_tool_waits_for_its_result(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        call = calls.call("pick", colour="any")
        await trio.sleep(1)
        item = waiting(tab, id)
        assert item["tool"]["owner"] == "client"
        assert (item["tool"]["name"], item["tool"]["input"]) == ("pick", {"colour": "any"})
        assert tab.view(id).phase == "waiting"
        await tab.ok("tool_result", session=id, item=item["id"], content=RESULT)
        await trio.sleep(1)
        assert calls.text(call) == "the red one"
        assert tab.view(id).tools() == [("completed", "client")]
        assert tab.view(id).phase == "running"
        again = await tab.refused("tool_result", session=id, item=item["id"], content=RESULT)
        assert again == "already_resolved"


async def test_a_client_s_tool_may_fail(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        call = calls.call("pick")
        await trio.sleep(1)
        item = waiting(tab, id)["id"]
        await tab.ok("tool_result", session=id, item=item, content=RESULT, error=True)
        await trio.sleep(1)
        assert calls.answers[call]["result"]["isError"]
        assert tab.view(id).tools() == [("failed", "client")]


async def test_a_stop_ends_the_call_and_the_next_prompt_works(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        calls.call("pick")
        await trio.sleep(1)
        item = waiting(tab, id)["id"]
        await tab.ok("cancel", session=id)
        await trio.sleep(1)
        later = stage.connect(id)
        await trio.sleep(1)
        for viewer in (tab, later):
            assert viewer.view(id).phase == "idle"
            assert viewer.view(id).tools() == [("cancelled", "client")]
        late = await tab.refused("tool_result", session=id, item=item, content=RESULT)
        assert late == "already_resolved"
        await tab.prompt(id, "more")
        await trio.sleep(1)
        assert later.view(id).texts()[-1] == "working on more"


async def test_an_agent_s_tool_that_is_stopped_is_never_the_client_s(
    autojump_clock: MockClock,
) -> None:
    """The client declares a tool of its own; the agent's is stopped in the middle."""

    async def works(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.update("tool_call", toolCallId="c1", title="make", status="in_progress")
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    async with stage_with(works) as stage:
        tab, id, _ = await picking(stage)
        second = stage.connect(id, client=WireClient("another-name", tools=[PICK]))
        await trio.sleep(1)
        view = tab.view(id)
        assert (view.phase, view.tools()) == ("running", [("running", "agent")])
        [item] = [i["id"] for i in view.shown["items"].values() if i["type"] == "tool"]
        result = {"session": id, "item": item, "content": RESULT}
        assert await tab.refused("tool_result", **result) == "forbidden"
        await tab.ok("cancel", session=id)
        await trio.sleep(1)
        third = stage.connect(id)
        await trio.sleep(1)
        for viewer in (tab, second, third):
            assert viewer.view(id).phase == "idle"
            assert not viewer.view(id).busy
            assert viewer.view(id).tools() == [("cancelled", "agent")]
        assert (await second.prompt(id, "next"))["turn"] == "t2"


async def test_only_the_client_that_declared_a_tool_answers_its_calls(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        other = stage.connect(id, client=WireClient("another-name", tools=[PICK]))
        calls.call("pick")
        await trio.sleep(1)
        item = waiting(tab, id)["id"]
        result = {"session": id, "item": item, "content": RESULT}
        assert await other.refused("tool_result", **result) == "forbidden"
        assert await tab.refused("tool_result", **result | {"item": "i99"}) == "unknown_request"
        await tab.ok("tool_result", **result)


async def test_a_call_ends_when_its_client_does_not_come_back_and_the_turn_goes_on(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        watcher = stage.connect(id)
        call = calls.call("pick")
        await trio.sleep(1)
        tab.cut()
        await trio.sleep(stage.hub.limits.client_return_timeout_s - 1)
        assert watcher.view(id).tools() == [("waiting", "client")]
        await trio.sleep(2)
        assert "disconnected" in calls.text(call)
        assert watcher.view(id).tools() == [("failed", "client")]
        assert watcher.view(id).phase == "running"
        gone = calls.call("pick")
        await trio.sleep(1)
        assert "not connected" in calls.text(gone)


async def test_a_client_that_comes_back_at_once_takes_its_calls_over(
    autojump_clock: MockClock,
) -> None:
    """Also one that was made while it was away."""
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        first = calls.call("pick", n=1)
        await trio.sleep(1)
        tab.cut()
        await trio.sleep(5)
        second = calls.call("pick", n=2)
        await trio.sleep(5)
        again = stage.connect(id, client=tab.client)
        await trio.sleep(stage.hub.limits.client_return_timeout_s + 1)
        items = again.view(id).shown["items"].values()
        waits = {
            item["tool"]["input"]["n"]: item["id"] for item in items if item["status"] == "waiting"
        }
        for n in (1, 2):
            await again.ok("tool_result", session=id, item=waits[n], content=RESULT)
        await trio.sleep(1)
        assert calls.text(first) == calls.text(second) == "the red one"


async def test_a_client_that_connects_again_before_its_old_connection_is_gone_keeps_its_calls(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        call = calls.call("pick")
        await trio.sleep(1)
        again = stage.connect(id, client=tab.client)
        await trio.sleep(stage.hub.limits.client_return_timeout_s + 1)
        assert tab.ended is not None
        item = waiting(again, id)["id"]
        await again.ok("tool_result", session=id, item=item, content=RESULT)
        await trio.sleep(1)
        assert calls.text(call) == "the red one"


async def test_calls_of_a_tool_that_a_client_comes_back_without_end_at_once(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        call = calls.call("pick")
        await trio.sleep(1)
        tab.cut()
        stage.connect(id, client=WireClient("a-random-name"))
        await trio.sleep(1)
        assert "no longer runs" in calls.text(call)


async def test_the_calls_of_a_client_without_a_name_end_with_its_connection(
    autojump_clock: MockClock,
) -> None:
    """Nobody can come back as it."""
    async with stage_with(obedient) as stage:
        tab = stage.connect(client=WireClient(None, tools=[PICK]))
        id = (await tab.ok("session", op="new", agent="fake"))["session"]
        await tab.prompt(id, "work")
        await trio.sleep(1)
        calls = Calls(stage.runtime.get(id))
        call = calls.call("pick")
        await trio.sleep(1)
        tab.cut()
        await trio.sleep(1)
        assert "disconnected" in calls.text(call)


async def test_a_call_s_own_deadline_stands_while_its_client_is_away(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient, limits=agentrt.Limits(client_tool_timeout_s=10)) as stage:
        tab, _, calls = await picking(stage)
        call = calls.call("pick")
        await trio.sleep(5)
        tab.cut()
        await trio.sleep(6)
        assert "within 10 s" in calls.text(call)


async def test_a_client_that_comes_back_runs_its_tools_again(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        tab.cut()
        again = stage.connect(client=tab.client)
        await trio.sleep(1)
        call = calls.call("pick")
        await trio.sleep(1)
        item = waiting(again, id)["id"]
        await again.ok("tool_result", session=id, item=item, content=RESULT)
        await trio.sleep(1)
        assert calls.text(call) == "the red one"


async def test_a_call_that_nobody_answers_ends_at_its_deadline(autojump_clock: MockClock) -> None:
    limits = agentrt.Limits(client_tool_timeout_s=60)
    async with stage_with(obedient, limits=limits) as stage:
        tab, id, calls = await picking(stage)
        call = calls.call("pick")
        await trio.sleep(61)
        assert "within 60 s" in calls.text(call)
        assert tab.view(id).tools() == [("failed", "client")]
        assert tab.view(id).phase == "running"


async def test_a_call_that_the_agent_takes_back_is_cancelled(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        calls.withdraw(calls.call("pick"))
        await trio.sleep(1)
        assert tab.view(id).phase == "running"
        assert all(status == "cancelled" for status, _ in tab.view(id).tools())
        call = calls.call("pick")
        await trio.sleep(1)
        calls.withdraw(call)
        await trio.sleep(1)
        assert tab.view(id).tools()[-1] == ("cancelled", "client")
        assert tab.view(id).phase == "running"


async def test_a_call_outside_turns_is_a_turn_of_the_agent_s_own(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        await tab.ok("cancel", session=id)
        await trio.sleep(1)
        call = calls.call("pick")
        await trio.sleep(100)
        assert tab.view(id).phase == "waiting"
        assert tab.view(id).shown["state"]["turn"]["origin"] == "agent"
        item = waiting(tab, id)["id"]
        await tab.ok("tool_result", session=id, item=item, content=RESULT)
        await trio.sleep(10)
        assert calls.text(call) == "the red one"
        assert tab.view(id).phase == "idle"
        assert tab.view(id).shown["turns"]["t2"]["outcome"] == "completed"


async def test_two_calls_at_once_are_told_apart(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        first, second = calls.call("pick", n=1), calls.call("pick", n=2)
        await trio.sleep(1)
        tools = [i for i in tab.view(id).shown["items"].values() if i["type"] == "tool"]
        by_input = {item["tool"]["input"]["n"]: item["id"] for item in tools}
        answer = [{"type": "text", "text": "two"}]
        await tab.ok("tool_result", session=id, item=by_input[2], content=answer)
        await trio.sleep(1)
        assert calls.text(second) == "two"
        assert first not in calls.answers
        assert tab.view(id).phase == "waiting"


async def test_an_agent_that_names_its_call_gets_no_second_item(autojump_clock: MockClock) -> None:
    async def calls_a_tool(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.update("tool_call", toolCallId="c1", title="mcp pick", status="in_progress")
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    async with stage_with(calls_a_tool) as stage:
        tab, id, calls = await picking(stage)
        call = calls.call("pick", call="c1")
        await trio.sleep(1)
        item = waiting(tab, id)
        assert item["tool"]["owner"] == "client"
        await tab.ok("tool_result", session=id, item=item["id"], content=RESULT)
        await trio.sleep(1)
        assert calls.text(call) == "the red one"
        assert tab.view(id).tools() == [("running", "client")]  # the agent says when it is over
        stage.agents.agents[0].update("tool_call_update", toolCallId="c1", status="completed")
        await trio.sleep(1)
        assert tab.view(id).tools() == [("completed", "client")]


async def test_a_tool_that_is_named_like_one_of_the_host_s_is_refused(
    autojump_clock: MockClock,
) -> None:
    @agentrt.tool
    async def pick() -> str:
        """The host's own."""
        return "mine"

    async with stage_with(obedient, tools=[pick]) as stage:
        tab = stage.connect(client=WireClient("a-random-name", tools=[PICK]))
        assert await tab.refused("session", op="new", agent="fake") == "bad_request"
        assert stage.runtime.list() == []
        other = stage.connect()
        assert (await other.ok("session", op="new", agent="fake"))["session"]
