"""Real agents as browsers have them: over a WebSocket, with nothing but its protocol known.

The client declares a tool of its own all the while: what the agent runs is never taken for it, a
stop leaves nothing open, and the agent can call it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

import agentrt
from agentrt import open_runtime
from agentrt.config import Config
from agentrt.web import Security, Site, serve
from web.socket_tab import Tab, opened, outcomes, tab, text
from web.sockets import TOKEN, WATCH
from web.wire_client import WireClient

from .expectations import EXPECTATIONS
from .lab import Lab
from .story import agent_of, running
from .test_scenarios import HELLO, PATIENCE, SLEEP, UNDER_WAY, offered

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", EXPECTATIONS)]

RECORD = {
    "name": "record_result",
    "description": "Persist the final outcome of a job.",
    "input_schema": {
        "type": "object",
        "properties": {"summary": {"type": "string"}},
        "required": ["summary"],
    },
}


@asynccontextmanager
async def served(lab: Lab) -> AsyncIterator[Site]:
    """A site whose one new agent is the lab's; whatever it asks is left to the clients."""
    config = Config(agents={lab.agent: agent_of(lab)})
    security = Security(token=TOKEN, viewer_token=WATCH)
    with trio.fail_after(2 * PATIENCE):
        async with (
            open_runtime(
                config=config, permissions=agentrt.ask, env=lab.env, trust="yes"
            ) as runtime,
            trio.open_nursery() as nursery,
        ):
            yield await nursery.start(partial(serve, runtime, security=security))
            nursery.cancel_scope.cancel()


async def allow(page: Tab, session: str) -> None:
    """Allow what the agent asks, as far as it is known by now."""
    for request, asked in list(page.view(session).shown["permissions"].items()):
        option = next(o["id"] for o in asked["options"] if o["kind"] == "allow_once")
        await page.ask("permission", session=session, request=request, option=option)


async def finish(page: Tab, session: str) -> None:
    """Answer whatever is asked until the session rests."""
    view = page.view(session)
    while view.busy:
        await allow(page, session)
        seq = view.seq
        await page.until(lambda seq=seq: not view.busy or view.seq > seq)


async def test_a_tool_that_is_stopped_is_never_the_client_s_and_leaves_nothing_open(
    lab: Lab,
) -> None:
    first = WireClient("the-first", tools=[RECORD])
    async with served(lab) as site, AsyncExitStack() as later, tab(site, first) as page:
        session = await opened(page, lab.agent, cwd=str(lab.work))
        view = page.view(session)
        await page.prompt(session, "Please [[sleep]]")
        while not running(lab, SLEEP):
            await allow(page, session)
            with trio.move_on_after(0.1):
                await page.until(lambda: False)
        await trio.sleep(UNDER_WAY)
        await page.ok("cancel", session=session)
        await page.until(lambda: view.phase == "idle")
        assert outcomes(page, session) == ["cancelled"]
        assert view.tools() == [("cancelled", "agent")]

        pages = [page]
        for name in ("the-second", "the-third"):
            client = WireClient(name, tools=[RECORD])
            pages.append(await later.enter_async_context(tab(site, client, session)))
        for each in pages:
            shown = each.view(session)
            assert (shown.phase, shown.busy) == ("idle", False)
            assert shown.tools() == [("cancelled", "agent")]

        await pages[1].prompt(session, "Please [[text]]")
        for each in pages:
            await each.until(lambda each=each: len(outcomes(each, session)) == 2)
            assert outcomes(each, session) == ["cancelled", "completed"]
            assert HELLO in each.view(session).texts()[-1]
            assert each.view(session).tools() == [("cancelled", "agent")]
            assert not each.view(session).busy


async def test_an_agent_calls_a_tool_that_the_client_runs(lab: Lab) -> None:
    expected = EXPECTATIONS[lab.agent]
    async with served(lab) as site, tab(site, WireClient("one", tools=[RECORD])) as page:
        session = await opened(page, lab.agent, cwd=str(lab.work))
        view = page.view(session)
        while expected.finds_tools_late and not offered(lab, RECORD["name"]):
            await page.prompt(session, "Please [[text]]")
            await finish(page, session)
        before = len(outcomes(page, session))
        await page.prompt(session, "Please [[record]]")
        while not (calls := waiting(page, session)):
            await allow(page, session)
            seq = view.seq
            await page.until(lambda seq=seq: view.seq > seq)
        [call] = calls
        assert view.phase == "waiting"
        assert call["tool"]["input"] == {"summary": "done"}
        async with tab(site, WireClient("two", tools=[RECORD]), session) as other:
            answer = {"session": session, "item": call["id"], "content": text("by another")}
            assert await other.code("tool_result", **answer) == "forbidden"
        answer = {"session": session, "item": call["id"], "content": text("recorded: done")}
        await page.ok("tool_result", **answer)
        await finish(page, session)
        assert outcomes(page, session)[before:] == ["completed"]
        assert "Recorded." in view.texts()[-1]
        assert {status for status, _ in view.tools()} == {"completed"}


def waiting(page: Tab, session: str) -> list[dict[str, Any]]:
    """The calls that wait for this client."""
    items = page.view(session).shown["items"].values()
    tools = [item for item in items if item["type"] == "tool" and item["status"] == "waiting"]
    return [item for item in tools if item["tool"].get("owner") == "client"]
