"""Ways in which other web frontends got stuck, each on `agentrt.v1`: those of
`docs/project/browser-shapes.md` that no other test shows. Every event of a client is checked by
`View` and `Wire`: no gap, no double, nothing open behind a turn's end.
"""

from __future__ import annotations

from typing import Any

import trio
from hub_kit import Stage, Tab, stage_with
from test_native_tools import PICK, RESULT, picking, waiting
from trio.testing import MockClock
from wire_client import WireClient

import agentrt
from agentrt.testing import FakeAcpAgent
from runtime.fakes import asking, echo, obedient, unresponsive

RESUMES = {"capabilities": {"loadSession": True}}


async def alone(stage: Stage) -> tuple[str, Tab]:
    id = await stage.session()
    tab = stage.connect(id)
    await trio.sleep(1)
    return id, tab


def outcomes(tab: Tab, session: str) -> list[str]:
    return [turn.get("outcome", "open") for turn in tab.view(session).shown["turns"].values()]


def watch_busy(tab: Tab, session: str) -> list[tuple[str, bool]]:
    """What a client's only flag was behind each event."""
    seen: list[tuple[str, bool]] = []
    view = tab.view(session)
    apply = view.apply

    def look(event: dict[str, Any]) -> None:
        apply(event)
        seen.append((event["kind"], view.busy))

    view.apply = look  # type: ignore[method-assign]
    return seen


async def test_03_a_turn_is_one_stretch_of_work_whatever_happens_in_it(
    autojump_clock: MockClock,
) -> None:
    """The flag neither drops while a tool runs or somebody is asked, nor comes back behind the
    end."""

    async def busy(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.say("first ")
            agent.update("tool_call", toolCallId="c1", title="make", status="in_progress")
            await trio.sleep(60)
            agent.update("tool_call_update", toolCallId="c1", status="completed")
            await trio.sleep(60)
            await agent.ask("c2")
            agent.say("last")
            prompt.end()

    async with stage_with(busy) as stage:
        id, tab = await alone(stage)
        seen = watch_busy(tab, id)
        await tab.prompt(id, "go")
        await trio.sleep(200)
        [request] = tab.view(id).shown["permissions"]
        await tab.ok("permission", session=id, request=request, option="yes")
        await trio.sleep(10)
    flags = [flag for _, flag in seen]
    first, behind = flags.index(True), len(flags) - flags[::-1].index(True)
    assert all(flags[first:behind])
    assert seen[first][0] in ("state", "turn.started")
    kinds = [kind for kind, _ in seen]
    assert kinds.count("turn.started") == kinds.count("turn.ended") == 1
    assert "item.closed" not in kinds[kinds.index("turn.ended") :]


async def test_04_a_turn_that_goes_on_behind_a_client_s_result_is_stopped_like_any_other(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        calls.call("pick")
        await trio.sleep(1)
        [turn] = tab.view(id).shown["turns"]
        item = waiting(tab, id)["id"]
        await tab.ok("tool_result", session=id, item=item, content=RESULT)
        await trio.sleep(1)
        assert list(tab.view(id).shown["turns"]) == [turn]
        await tab.ok("cancel", session=id)
        await trio.sleep(1)
        assert (outcomes(tab, id), tab.view(id).phase) == (["cancelled"], "idle")


async def test_05_what_a_new_process_does_never_leaves_the_old_one_s_turn_open(
    autojump_clock: MockClock,
) -> None:
    async def dies(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.say("half of it")
            agent.process.exit(3)

    async with stage_with(dies, echo, fake=RESUMES) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await trio.sleep(10)
        assert (outcomes(tab, id), tab.view(id).phase) == (["agent_died"], "dead")
        await tab.prompt(id, "two")
        await trio.sleep(10)
        assert (outcomes(tab, id), tab.view(id).phase) == (["agent_died", "completed"], "idle")


async def test_06_who_comes_back_before_the_first_word_sees_the_turn(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(deaf_at_first) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        tab.cut()
        again = stage.connect(client=tab.client)
        await trio.sleep(1)
        assert again.view(id).phase == "running"
        assert again.view(id).snapshots == 1
        await trio.sleep(100)
        assert (outcomes(again, id), again.view(id).phase) == (["completed"], "idle")


async def deaf_at_first(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        await trio.sleep(50)
        agent.say("at last")
        prompt.end()


async def test_10_and_17_an_end_that_was_missed_is_known_to_who_comes_back_and_who_comes_late(
    autojump_clock: MockClock,
) -> None:
    async def fails(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(10)
            prompt.fail()

    async with stage_with(fails) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        tab.cut()
        await trio.sleep(60)
        for each in (stage.connect(client=tab.client), stage.connect(id)):
            await trio.sleep(1)
            assert each.view(id).phase == "idle"
            [turn] = each.view(id).shown["turns"].values()
            assert turn["outcome"] == "failed"
            assert turn["error"]["message"]


async def test_12_two_that_come_back_at_once_do_not_disturb_each_other(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(deaf_at_first) as stage:
        id, first = await alone(stage)
        second = stage.connect(id)
        await first.prompt(id, "go")
        for tab in (first, second):
            tab.cut()
        back = [stage.connect(client=tab.client) for tab in (first, second)]
        await trio.sleep(1)
        await back[1].ok("detach", session=id)
        await trio.sleep(100)
        assert (outcomes(back[0], id), back[0].view(id).phase) == (["completed"], "idle")
        back[1].wire.attach(id)
        await trio.sleep(1)
        assert back[1].view(id).comparable() == back[0].view(id).comparable()


async def test_18_a_refused_attach_keeps_nobody_from_what_comes_later(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        tab = stage.connect("not yet there")
        assert await tab.refused("attach", session="nor this") == "unknown_session"
        id = await stage.session()
        tab.wire.attach(id)
        await stage.runtime.get(id).run("hello")
        await trio.sleep(1)
        assert tab.view(id).texts() == ["hello"]
        assert tab.client.sessions[0]["session"] == id


async def test_23_a_stop_by_who_has_come_back_ends_the_turn_and_its_text(
    autojump_clock: MockClock,
) -> None:
    async def talks(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            while not prompt.cancelled.is_set():
                agent.say("and ")
                await trio.sleep(0.1)
            agent.say("TOO LATE")
            prompt.end("cancelled")

    async with stage_with(talks) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(5)
        tab.cut()
        again = stage.connect(client=tab.client)
        await trio.sleep(1)
        await again.ok("cancel", session=id)
        await trio.sleep(20)
        assert (outcomes(again, id), again.view(id).phase) == (["cancelled"], "idle")
        assert "TOO LATE" not in again.view(id).texts()[0]


async def test_29_and_38_a_question_that_its_turn_has_left_behind_takes_no_answer(
    autojump_clock: MockClock,
) -> None:
    """The agent ends the turn as a success although somebody is still being asked."""

    async def asks_and_leaves(agent: FakeAcpAgent) -> None:
        async with trio.open_nursery() as nursery:
            async for prompt in agent.prompts:
                nursery.start_soon(agent.ask, "c1")
                await trio.sleep(1)
                prompt.end()

    async with stage_with(asks_and_leaves) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(0.5)
        [request] = tab.view(id).shown["permissions"]
        await trio.sleep(10)
        assert (outcomes(tab, id), tab.view(id).phase) == (["completed"], "idle")
        assert tab.view(id).shown["permissions"] == {}
        answer = {"session": id, "request": request, "option": "yes"}
        assert await tab.refused("permission", **answer) == "already_resolved"


async def test_35_numbers_go_on_over_turns_however_short_the_next_one_is(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(wordy) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "500")
        await trio.sleep(5)
        known = tab.view(id).seq
        assert known > 500
        tab.cut()
        await stage.runtime.get(id).run("1")
        again = stage.connect(client=tab.client)
        await trio.sleep(1)
        assert again.view(id).snapshots == 1
        assert known < again.view(id).seq < known + 50
        assert again.view(id).texts()[-1] == "word "


async def wordy(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        for _ in range(int(prompt.text)):
            agent.say("word ")
        prompt.end()


async def test_37_something_comes_also_while_nothing_happens(autojump_clock: MockClock) -> None:
    async with stage_with(unresponsive) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(10 * stage.hub.limits.position_interval_s)
        assert len(tab.client.beats) >= 9
        assert tab.client.beats[-1]["sessions"][id]["phase"] == "running"


async def test_40_a_question_is_everybody_s_and_the_list_says_who_waits(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(asking) as stage:
        id, tab = await alone(stage)
        viewer, elsewhere = stage.connect(id, role="viewer"), stage.connect()
        await tab.prompt(id, "go")
        await trio.sleep(1)
        for each in (tab, viewer, stage.connect(id)):
            await trio.sleep(1)
            assert len(each.view(id).shown["permissions"]) == 1
            assert each.view(id).phase == "waiting"
        assert [info["phase"] for info in elsewhere.client.sessions] == ["waiting"]


async def test_41_an_answer_goes_to_the_question_that_it_names(autojump_clock: MockClock) -> None:
    chosen: dict[str, str | None] = {}

    async def asks_twice(agent: FakeAcpAgent) -> None:
        async def ask(call: str) -> None:
            chosen[call] = await agent.ask(call, title=call)

        async for prompt in agent.prompts:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, "older")
                await trio.sleep(1)
                nursery.start_soon(ask, "newer")
            prompt.end()

    async with stage_with(asks_twice) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(10)
        first, second = tab.view(id).shown["permissions"]  # in the order in which they came
        await tab.ok("permission", session=id, request=first, option="no")
        await trio.sleep(1)
        assert chosen == {"older": "no"}
        assert list(tab.view(id).shown["permissions"]) == [second]
        await tab.ok("permission", session=id, request=second, option="yes")
        await trio.sleep(1)
        assert chosen == {"older": "no", "newer": "yes"}


async def test_46_a_session_whose_process_is_gone_can_be_stopped_prompted_and_closed(
    autojump_clock: MockClock,
) -> None:
    async def leaves(agent: FakeAcpAgent) -> None:
        await trio.sleep(5)
        agent.process.exit(1)

    async with stage_with(leaves, echo, leaves, fake=RESUMES) as stage:
        id, tab = await alone(stage)
        await trio.sleep(10)
        assert tab.view(id).phase == "dead"
        assert tab.client.sessions[0]["phase"] == "dead"
        await tab.ok("cancel", session=id)
        assert (await tab.ok("stop_all"))["cancelled"] == 0
        await tab.prompt(id, "hello")
        await trio.sleep(5)
        assert tab.view(id).phase == "idle"
        assert tab.view(id).texts() == ["hello"]
        stage.agents.processes[-1].exit(1)
        await trio.sleep(5)
        assert tab.view(id).phase == "dead"
        await tab.ok("session", op="close", session=id)
        await trio.sleep(1)
        assert tab.client.sessions == []


async def test_49_a_conversation_that_is_lost_costs_no_later_prompt(
    autojump_clock: MockClock,
) -> None:
    """The agent does not take the stop and is killed; what it wrote down of the session is gone."""

    async with stage_with(unresponsive, echo) as stage:  # an agent that can resume nothing
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await tab.ok("cancel", session=id)
        await trio.sleep(60)
        assert outcomes(tab, id) == ["cancelled"]
        for words in ("two", "three"):
            await tab.prompt(id, words)
            await trio.sleep(30)
            assert tab.view(id).texts()[-1] == words
        assert outcomes(tab, id) == ["cancelled", "completed", "completed"]
        notices = [e for e in tab.view(id).events if e["kind"] == "notice"]
        [restarted] = [e for e in notices if e["code"] == "agent_restarted"]
        assert restarted["data"]["resumed"] is False


async def test_54_a_tool_that_hangs_ends_with_its_turn_and_its_process_serves_nobody_else(
    autojump_clock: MockClock,
) -> None:
    async def hangs(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.update("tool_call", toolCallId="c1", title="make", status="in_progress")

    limits = agentrt.Limits(turn_timeout_s=60)
    async with stage_with(hangs, echo, limits=limits, fake=RESUMES) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await trio.sleep(100)
        assert outcomes(tab, id) == ["timed_out"]
        assert tab.view(id).tools() == [("cancelled", "agent")]
        await tab.prompt(id, "two")
        await trio.sleep(10)
        assert tab.view(id).texts() == ["two"]
        assert len(stage.agents.processes) == 2
        other = (await tab.ok("session", op="new", agent="fake"))["session"]
        assert other != id
        assert len(stage.agents.processes) == 3


async def test_55_a_session_rests_only_behind_the_end_of_all_that_was_in_its_turn(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(1)
        kinds = [
            (e["kind"], e["state"]["phase"] if e["kind"] == "state" else None)
            for e in tab.view(id).events
        ]
        ended = kinds.index(("turn.ended", None))
        idle = [at for at, kind in enumerate(kinds) if kind == ("state", "idle")]
        assert [at > ended for at in idle] == [True]
        assert all(kind != "item.closed" for kind, _ in kinds[ended:])


async def test_a_second_client_that_declares_the_same_tool_takes_no_call_of_the_first(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        tab, id, calls = await picking(stage)
        second = stage.connect(client=WireClient("second", tools=[PICK]))
        other = (await second.ok("session", op="new", agent="fake"))["session"]
        call = calls.call("pick")
        await trio.sleep(1)
        item = waiting(tab, id)["id"]
        second.cut()  # and its going ends nothing of the first one's
        await trio.sleep(1)
        assert waiting(tab, id)["id"] == item
        await tab.ok("tool_result", session=id, item=item, content=RESULT)
        await trio.sleep(1)
        assert calls.text(call) == "the red one"
        assert other in [info.session for info in stage.runtime.list()]
