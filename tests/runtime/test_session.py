"""What a session tells about itself to whoever looks at it."""

from __future__ import annotations

import msgspec
import pytest
import trio
from fakes import asking, session_with

import agentrt
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_session


async def test_the_open_questions_are_known_by_their_request(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with (
        session_with(asking, permissions=agentrt.ask) as (session, _),
        trio.open_nursery() as nursery,
    ):
        assert session.pending_permissions == {}
        nursery.start_soon(session.run, "go")
        await trio.sleep(1)
        [(key, request)] = session.pending_permissions.items()
        assert (key, request.title) == (request.request, "Run ls")
        session.answer(key, "allow_once")
        assert session.pending_permissions == {}


async def test_the_agent_s_capabilities_are_reported(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(asking, fake={"capabilities": {"loadSession": True}}) as (session, _):
        assert session.capabilities["resume"] is True
        assert session.capabilities["agent"] == {"loadSession": True}


async def test_a_session_is_drained_when_nothing_runs_or_waits(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(20)
            prompt.end()

    async with session_with(slow) as (session, _), trio.open_nursery() as nursery:
        await session.wait_idle()
        nursery.start_soon(session.run, "one")
        nursery.start_soon(session.run, "two")
        await trio.sleep(1)
        await session.wait_idle()
        assert trio.current_time() >= 40
        assert session.state.phase == "idle"


async def test_an_agent_that_wants_a_login_is_reported_with_its_ways_to_log_in(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def locked(process: MemoryAgent) -> None:
        while (line := await process.receive_line()) is not None:
            request = msgspec.json.decode(line)
            answer: dict[str, object] = {"error": {"code": -32000, "message": "Log in"}}
            if request["method"] == "initialize":
                methods = [
                    {"id": "tty", "name": "In a terminal", "type": "terminal", "args": ["-l"]},
                    {"id": "key", "name": "By key"},
                ]
                answer = {"result": {"protocolVersion": 1, "authMethods": methods}}
            message = {"jsonrpc": "2.0", "id": request["id"], **answer}
            process.send(msgspec.json.encode(message) + b"\n")

    with pytest.raises(agentrt.AgentStartError) as failed:
        async with open_fake_session(lambda: MemoryAgent(locked)):
            pass
    assert str(failed.value) == (
        "fake requires a login first: Log in; it offers: In a terminal (tty: -l), By key (key)."
        " Log in with its own program, or choose a login method that works unattended:"
        ' [agents.fake] quirks = { auth_method = "..." }'
    )


@pytest.mark.slow
async def test_a_long_history_does_not_keep_anybody_from_following(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def remembering(process: MemoryAgent) -> None:
        while (line := await process.receive_line()) is not None:
            request = msgspec.json.decode(line)
            answer: dict[str, object] = {}
            if request["method"] == "initialize":
                answer = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
            elif request["method"] == "session/load":
                for number in range(6000):
                    content = {"type": "text", "text": f"word {number}"}
                    update = {"sessionUpdate": "agent_message_chunk", "content": content}
                    params = {"sessionId": "old", "update": update}
                    told = {"jsonrpc": "2.0", "method": "session/update", "params": params}
                    process.send(msgspec.json.encode(told) + b"\n")
                    if number % 500 == 0:
                        await trio.sleep(0.01)
            message = {"jsonrpc": "2.0", "id": request["id"], "result": answer}
            process.send(msgspec.json.encode(message) + b"\n")

    async with open_fake_session(lambda: MemoryAgent(remembering), resume="old") as session:
        with pytest.raises(agentrt.errors.EventsExpired):
            session.subscribe(after=0)
        with session.subscribe_all() as events:
            seen = events.seq
            async for event in events:
                assert events.seq == seen + 1
                seen = events.seq
                if isinstance(event, agentrt.events.StateChanged) and event.state.phase == "idle":
                    break
