"""What a tool reports on its way is in the log."""

from __future__ import annotations

import trio
from fakes import session_with, unresponsive

import agentrt
from agentrt.effects import ToolCalled
from web.tool_calls import Calls


@agentrt.tool
async def build(context: agentrt.ToolContext) -> str:
    """Takes its time."""
    context.report_progress(1, 3, "compiling")
    await trio.sleep(1)
    context.report_progress(2)
    await trio.sleep(1)
    return "built"


async def test_it_is_a_notice_where_nobody_knows_which_call_it_is(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(unresponsive, tools=[build]) as (session, _):
        session.submit("go")
        Calls(session).call("build")
        await trio.sleep(5)
        said = [e for e in session.log.since(0) if getattr(e, "code", "") == "tool_progress"]
        assert [notice.message for notice in said] == [  # type: ignore[union-attr]
            "build: compiling (1 of 3)",
            "build: 2",
        ]


async def test_it_is_shown_in_the_call_that_the_agent_names(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(unresponsive, tools=[build]) as (session, _):
        session.submit("go")
        core = session._host.core
        with core.step():
            core.conversation.items.tool_called(ToolCalled(id="c1", opens=True, name="build"))
        Calls(session).call("build", call="c1")
        await trio.sleep(5)
        [item] = [item for item in session.snapshot().items if item.type == "tool"]
        assert item.text == "compiling (1 of 3)\n2\n"
