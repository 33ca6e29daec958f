"""Sessions that rest, hang or wait too long, as their viewers see them."""

from __future__ import annotations

import pytest
import trio
from hub_kit import stage_with
from test_browser_shapes import alone, outcomes
from trio.testing import MockClock

import agentrt
from agentrt.testing import FakeAcpAgent
from runtime.fakes import asking, echo, obedient, unresponsive

RESUMES = {"capabilities": {"loadSession": True}}
MODES = {
    "currentModeId": "write",
    "availableModes": [{"id": mode, "name": mode} for mode in ("write", "plan")],
}


async def test_a_session_that_rests_is_suspended_and_resumed_by_the_next_prompt(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo, fake=RESUMES) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await trio.sleep(1100)
        assert tab.view(id).phase == "dead"
        assert not tab.view(id).shown["state"].get("error")
        assert [e["code"] for e in tab.view(id).events if e["kind"] == "notice"] == ["suspended"]
        assert (await tab.prompt(id, "two"))["ok"]
        await trio.sleep(10)
        assert tab.view(id).texts() == ["one", "two"]
        assert outcomes(tab, id) == ["completed", "completed"]
        assert len(stage.agents.sent("session/load")) == 1


@pytest.mark.slow
async def test_a_mode_that_is_set_on_a_suspended_session_holds_when_it_is_resumed(
    autojump_clock: MockClock,
) -> None:
    async def strict(agent: FakeAcpAgent) -> None:
        mode = "write"
        async with trio.open_nursery() as nursery:

            async def obey() -> None:
                nonlocal mode
                while True:
                    for message in agent.received:
                        if message.get("method") == "session/set_mode":
                            mode = message["params"]["modeId"]
                            agent.result(message["id"], {})
                    agent.received.clear()
                    await trio.sleep(0.1)

            nursery.start_soon(obey)
            async for prompt in agent.prompts:
                agent.say(f"in mode {mode}")
                prompt.end()
            nursery.cancel_scope.cancel()

    async with stage_with(strict, fake=RESUMES | {"new_session": {"modes": MODES}}) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await trio.sleep(2000)
        assert tab.view(id).phase == "dead"
        await tab.ok("session", op="set_mode", session=id, mode="plan")
        await trio.sleep(1)
        assert tab.view(id).phase == "dead"
        assert tab.view(id).shown["modes"]["mode"] == "plan"
        refused = await tab.refused("session", op="set_mode", session=id, mode="yolo")
        assert refused == "bad_request"
        await tab.prompt(id, "two")
        await trio.sleep(10)
        assert tab.view(id).texts() == ["in mode write", "in mode plan"]
        assert tab.view(id).shown["modes"]["mode"] == "plan"
        await trio.sleep(2000)  # and it is kept over the next suspension
        await tab.prompt(id, "three")
        await trio.sleep(10)
        assert tab.view(id).texts()[-1] == "in mode plan"


async def test_a_question_that_nobody_answers_expires_for_everybody(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(asking, limits=agentrt.Limits(permission_timeout_s=60.0)) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(1)
        [(request, asked)] = tab.view(id).shown["permissions"].items()
        assert asked["expires"]
        second = stage.connect(id)
        await trio.sleep(100)
        closed = [e for e in tab.view(id).events if e["kind"] == "permission.closed"]
        assert [(e["request"], e["outcome"]) for e in closed] == [(request, "expired")]
        for each in (tab, second):
            assert each.view(id).shown["permissions"] == {}
            assert each.view(id).phase == "idle"
            answer = {"session": id, "request": request, "option": "yes"}
            assert await each.refused("permission", **answer) == "already_resolved"
        assert tab.view(id).texts() == ["no"]  # what the agent was told


async def test_a_session_that_hangs_is_recycled_and_delays_no_other(
    autojump_clock: MockClock,
) -> None:
    limits = agentrt.Limits(turn_timeout_s=None, busy_silence_timeout_s=600.0)
    async with stage_with(unresponsive, echo, limits=limits, fake=RESUMES) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "work")
        other = (await tab.ok("session", op="new", agent="fake"))["session"]
        await tab.answer(tab.wire.attach(other))
        await tab.prompt(other, "hello")
        await trio.sleep(1)
        assert tab.view(other).texts() == ["hello"]
        assert tab.view(id).phase == "running"
        await trio.sleep(1000)
        assert outcomes(tab, id) == ["timed_out"]
        await tab.prompt(id, "again")
        await trio.sleep(10)
        assert tab.view(id).texts()[-1] == "again"


async def test_closing_is_bounded_however_deaf_the_agent_is(autojump_clock: MockClock) -> None:
    fake = {"ignores": {"eof", "terminate"}}
    async with stage_with(unresponsive, obedient, fake=fake) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "work")
        start = trio.current_time()
        await tab.ok("session", op="close", session=id)
        limits = stage.hub.limits
        ladder = (
            limits.stdin_close_grace_s
            + limits.terminate_grace_s
            + limits.kill_wait_s
            + limits.stdout_drain_s
        )
        assert trio.current_time() - start <= ladder + 1
        assert outcomes(tab, id) == ["cancelled"]
        assert tab.view(id).phase == "closed"
