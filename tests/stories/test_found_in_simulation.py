"""What the simulation found, one story each: mistakes that nobody had thought of."""

from __future__ import annotations

import trio

import agentrt
from agentrt import Allow, PermissionRequest, RequestError
from agentrt.testing import FakeAcpAgent
from runtime.fakes import asking, log_of, session_with


async def test_a_stop_holds_the_queue_back_also_when_the_turn_is_being_cancelled_already(
    autojump_clock: object,
) -> None:
    async def slow_to_stop(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            await trio.sleep(1)
            prompt.end("cancelled")

    async with session_with(slow_to_stop) as (session, fakes):
        first = session.submit("first")
        session.submit("second")
        first.cancel()  # by its caller: what waits goes on
        session.cancel()  # a person's Stop: it does not
        await trio.sleep(5)
        assert first.ended
        assert [entry.content[0].text for entry in session.queue] == ["second"]
        assert len(fakes.sent("session/prompt")) == 1


async def test_a_policy_that_raises_a_request_error_has_denied_and_leaves_nothing_open(
    autojump_clock: object,
) -> None:
    async def policy(request: PermissionRequest) -> Allow:
        raise RequestError(-32001, "the place that decides is gone")

    async with session_with(asking, permissions=policy) as (session, _):
        result = await session.run("go")
        assert result.text == "no"
        closed = [e for e in log_of(session) if isinstance(e, agentrt.PermissionClosed)]
        assert [(e.outcome, e.by) for e in closed] == [("selected", "policy")]
