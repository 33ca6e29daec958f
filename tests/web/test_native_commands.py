"""What the commands of `agentrt.v1` do, and how they are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from hub_kit import Stage, Tab, stage_with, viewer_of
from trio.testing import MockClock
from wire_client import WireClient

import agentrt
from agentrt.testing import FakeAcpAgent
from runtime.fakes import asking, echo, obedient, unresponsive
from web import published

TEXT = [{"type": "text", "text": "hello"}]


def ended(tab: Tab, session: str) -> list[str]:
    """The outcomes of the turns that ended, in order."""
    return [e["outcome"] for e in tab.view(session).events if e["kind"] == "turn.ended"]


async def alone(stage: Stage) -> tuple[str, Tab]:
    """A session and a tab that looks at it."""
    id = await stage.session()
    return id, stage.connect(id)


# --- prompts


async def test_a_prompt_s_ack_names_its_turn(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id, tab = await alone(stage)
        assert (await tab.prompt(id, "hello"))["turn"] == "t1"
        await trio.sleep(1)
        assert tab.view(id).texts() == ["hello"]
        assert ended(tab, id) == ["completed"]


async def test_a_prompt_behind_a_running_turn_is_queued(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        answer = await tab.prompt(id, "two")
        assert (answer["queued"], answer["entry"]) == (1, "q1")
        assert (await tab.prompt(id, "three"))["queued"] == 2
        assert [e["content"][0]["text"] for e in tab.view(id).shown["queue"]] == ["two", "three"]


async def test_a_prompt_that_may_not_wait_is_busy(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        assert await tab.refused("prompt", session=id, content=TEXT, when="reject") == "busy"


async def test_an_interrupting_prompt_ends_the_running_turn_and_goes_first(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await tab.prompt(id, "two")
        assert (await tab.prompt(id, "three", when="interrupt"))["queued"] == 1
        await trio.sleep(1)
        assert ended(tab, id) == ["cancelled"]
        assert tab.view(id).texts()[-1] == "working on three"


async def test_an_agent_that_cannot_be_steered_says_so(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        steer = {"session": id, "content": TEXT, "when": "steer"}
        assert await tab.refused("prompt", **steer) == "unsupported"
        await tab.prompt(id, "one")
        assert await tab.refused("prompt", **steer) == "unsupported"


async def test_a_prompt_that_the_agent_cannot_take_is_a_bad_request(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        id, tab = await alone(stage)
        image = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
        assert await tab.refused("prompt", session=id, content=image) == "bad_request"


async def test_a_full_queue_is_a_limit(autojump_clock: MockClock) -> None:
    async with stage_with(obedient, limits=agentrt.Limits(queued_prompts=1)) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await tab.prompt(id, "two")
        assert await tab.refused("prompt", session=id, content=TEXT) == "limit"


# --- cancel and queue


async def test_w6_a_cancel_pauses_the_queue_until_somebody_resumes_it(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await tab.prompt(id, "two")
        assert (await tab.ok("cancel", session=id))["turn"] == "t1"
        await trio.sleep(100)
        view = tab.view(id)
        assert (ended(tab, id), view.busy, view.shown["paused"]) == (["cancelled"], False, True)
        await tab.ok("queue", session=id, op="resume")
        await trio.sleep(1)
        assert view.texts()[-1] == "working on two"


async def test_w5_a_cancel_names_its_turn_and_touches_no_other(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await tab.ok("cancel", session=id, turn="t1")
        await trio.sleep(1)
        await tab.prompt(id, "two")
        assert (await tab.ok("cancel", session=id, turn="t1"))["turn"] == "t1"
        assert await tab.refused("cancel", session=id, turn="t9") == "unknown_turn"
        await trio.sleep(1)
        assert tab.view(id).shown["state"]["turn"]["id"] == "t2"
        assert tab.view(id).phase == "running"


async def test_the_end_of_a_cancelled_turn_names_its_origin(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "one")
        await tab.ok("cancel", session=id)
        await trio.sleep(1)
        await tab.prompt(id, "two")
        await tab.prompt(id, "no, three", when="interrupt")
        await trio.sleep(1)
        stage.runtime.get(id).cancel()
        await trio.sleep(1)
        ends = [each for each in tab.view(id).events if each["kind"] == "turn.ended"]
        assert [(end["by"], end.get("who", ""), end["via"]) for end in ends] == [
            ("user", "the server's token", "agentrt.v1"),
            ("caller", "the server's token", "agentrt.v1"),
            ("user", "", "program"),
        ]


async def test_a_cancel_without_a_turn_is_harmless(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id, tab = await alone(stage)
        assert (await tab.ok("cancel", session=id))["turn"] is None


async def test_waiting_prompts_are_removed_edited_and_promoted(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        for text in ("one", "two", "three", "four"):
            await tab.prompt(id, text)
        await tab.ok("queue", session=id, op="remove", entry="q1")
        edited = [{"type": "text", "text": "drei"}]
        await tab.ok("queue", session=id, op="edit", entry="q2", content=edited)
        await tab.ok("queue", session=id, op="promote", entry="q3")
        queue = tab.view(id).shown["queue"]
        assert [e["content"][0]["text"] for e in queue] == ["four", "drei"]
        code = await tab.refused("queue", session=id, op="remove", entry="q1")
        assert code == "unknown_request"


async def test_stop_all_cancels_every_running_turn(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        ids = [await stage.session() for _ in range(3)]
        tab = stage.connect(*ids)
        for id in ids[:2]:
            await tab.prompt(id, "work")
        assert (await tab.ok("stop_all"))["cancelled"] == 2
        await trio.sleep(1)
        assert [ended(tab, id) for id in ids] == [["cancelled"], ["cancelled"], []]


# --- W2: one end on every path


async def dies(agent: FakeAcpAgent) -> None:
    async for _ in agent.prompts:
        agent.process.exit(7)


async def closes_its_output(agent: FakeAcpAgent) -> None:
    async for _ in agent.prompts:
        agent.process.close_stdout()


async def killed(agent: FakeAcpAgent) -> None:
    async for _ in agent.prompts:
        agent.process.exit(-9)


async def answers_with_an_error(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        prompt.fail()


async def answers_garbage(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        agent.result(prompt.id, 17)


@pytest.mark.parametrize(
    ("script", "limits", "act", "outcome"),
    [
        (echo, {}, None, "completed"),
        (obedient, {}, "cancel", "cancelled"),
        (unresponsive, {}, "cancel", "cancelled"),
        (unresponsive, {"turn_timeout_s": 60.0}, None, "timed_out"),
        (unresponsive, {"idle_timeout_s": 30.0}, None, "timed_out"),
        (dies, {}, None, "agent_died"),
        (killed, {}, None, "agent_died"),
        (closes_its_output, {}, None, "agent_died"),
        (answers_with_an_error, {}, None, "failed"),
        (answers_garbage, {}, None, "completed"),
        (obedient, {}, "close", "cancelled"),
        (unresponsive, {}, "shutdown", "cancelled"),
    ],
)
async def test_w2_a_turn_ends_once_on_every_path_for_every_viewer(
    script: Any, limits: dict[str, Any], act: str | None, outcome: str, autojump_clock: MockClock
) -> None:
    async with stage_with(script, limits=agentrt.Limits(**limits)) as stage:
        id, tab = await alone(stage)
        second = stage.connect(id, role="viewer")
        await tab.prompt(id, "work")
        late = stage.connect(id)
        if act == "cancel":
            await tab.ok("cancel", session=id)
        elif act == "close":
            await tab.ok("session", op="close", session=id)
        elif act == "shutdown":
            await stage.runtime.get(id).aclose()
        await trio.sleep(100)
        for viewer in (tab, second):
            assert ended(viewer, id) == [outcome]
        turns = late.view(id).shown["turns"]
        assert [turn["outcome"] for turn in turns.values()] == [outcome]
        assert late.view(id).shown["state"]["turn"] is None
        assert late.view(id).open_of("t1") == []


async def test_w3_what_comes_after_a_turn_s_end_reopens_nothing(autojump_clock: MockClock) -> None:
    async def late(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.update("tool_call", toolCallId="c1", title="ls", status="in_progress")
            prompt.end()
            agent.update("tool_call_update", toolCallId="c1", status="in_progress")

    async with stage_with(late) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "work")
        await trio.sleep(10)
        assert tab.view(id).tools() == [("completed", "agent")]
        notices = [e["code"] for e in tab.view(id).events if e["kind"] == "notice"]
        assert notices == ["late"]


# --- permissions


async def test_w7_the_first_answer_to_a_question_wins(autojump_clock: MockClock) -> None:
    async with stage_with(asking) as stage:
        id, tab = await alone(stage)
        other = stage.connect(id)
        await tab.prompt(id, "go")
        await trio.sleep(1)
        [request] = tab.view(id).shown["permissions"]
        assert tab.view(id).phase == "waiting"
        answer = {"session": id, "request": request}
        assert await tab.refused("permission", **answer, option="nonsense") == "bad_request"
        await tab.ok("permission", **answer, option="yes", note="fine")
        assert await other.refused("permission", **answer, option="no") == "already_resolved"
        assert await other.refused("permission", **answer, cancel=True) == "already_resolved"
        answer["request"] = "r99"
        assert await other.refused("permission", **answer, option="no") == "unknown_request"
        await trio.sleep(1)
        assert other.view(id).texts() == ["yes"]
        [closed] = [e for e in other.view(id).events if e["kind"] == "permission.closed"]
        assert (closed["outcome"], closed["option"], closed["by"]) == ("selected", "yes", "user")


async def test_a_question_may_be_dismissed(autojump_clock: MockClock) -> None:
    async with stage_with(asking) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(1)
        [request] = tab.view(id).shown["permissions"]
        await tab.ok("permission", session=id, request=request, cancel=True)
        await trio.sleep(1)
        assert tab.view(id).texts() == ["None"]


async def test_a_form_is_filled_in(autojump_clock: MockClock) -> None:
    async def elicits(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            answer = await agent.request(
                "elicitation/create",
                {"mode": "form", "message": "Who?", "requestedSchema": schema},
            )
            agent.say(json.dumps(answer["result"]))
            prompt.end()

    async with stage_with(elicits) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(1)
        [(request, asked)] = tab.view(id).shown["permissions"].items()
        assert asked["form"]["properties"] == {"name": {"type": "string"}}
        await tab.ok("permission", session=id, request=request, content={"name": "Ada"})
        await trio.sleep(1)
        told = json.loads(tab.view(id).texts()[0])
        assert (told["action"], told["content"]) == ("accept", {"name": "Ada"})


async def test_a_question_survives_its_viewers(autojump_clock: MockClock) -> None:
    async with stage_with(asking) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "go")
        await trio.sleep(1)
        tab.cut()
        await trio.sleep(1)
        later = stage.connect(id)
        await trio.sleep(1)
        [request] = later.view(id).shown["permissions"]
        await later.ok("permission", session=id, request=request, option="allow_once")


# --- sessions


async def test_sessions_are_opened_listed_renamed_loaded_and_closed(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo, fake={"capabilities": {"loadSession": True}}) as stage:
        tab = stage.connect()
        answer = await tab.ok("session", op="new", agent="fake", cwd="/tmp", title="first")
        id = answer["session"]
        await tab.ok("session", op="rename", session=id, title="renamed")
        [listed] = (await tab.ok("session", op="list"))["sessions"]
        assert (listed["session"], listed["title"], listed["cwd"]) == (id, "renamed", "/tmp")
        assert (await tab.ok("session", op="load", session=id))["session"] == id
        loaded = await tab.ok("session", op="load", agent="fake", agent_session="old")
        assert loaded["session"] != id
        await tab.ok("session", op="close", session=id)
        assert await tab.refused("prompt", session=id, content=TEXT) == "unknown_session"
        assert await tab.refused("session", op="close", session=id) == "unknown_session"
        assert await tab.refused("session", op="new", agent="nobody") == "agent_failed"
        assert await tab.refused("session", op="load", session=id) == "unknown_session"


async def test_one_session_too_many_is_a_limit(autojump_clock: MockClock) -> None:
    async with stage_with(echo, limits=agentrt.Limits(open_sessions=1)) as stage:
        _, tab = await alone(stage)
        assert await tab.refused("session", op="new", agent="fake") == "limit"


async def test_an_agent_that_does_not_start_has_failed(autojump_clock: MockClock) -> None:
    async def refuses(agent: FakeAcpAgent) -> None:
        agent.process.complain("no licence")
        agent.process.exit(3)

    async with stage_with(refuses) as stage:
        tab = stage.connect()
        answer = await tab.ask("session", op="new", agent="fake")
        assert answer["error"]["code"] == "agent_failed"
        assert "no licence" in answer["error"]["message"]


async def test_settings_are_changed_by_the_agent_or_refused(autojump_clock: MockClock) -> None:
    async def settings(agent: FakeAcpAgent) -> None:
        while True:
            await trio.sleep(1)
            for message in agent.received:
                if message.get("method") == "session/set_mode":
                    agent.result(message["id"], {})
            agent.received.clear()

    modes = {"currentModeId": "a", "availableModes": [{"id": m, "name": m} for m in "ab"]}
    fake = {"new_session": {"modes": modes}}
    async with stage_with(settings, fake=fake) as stage:
        id, tab = await alone(stage)
        await tab.ok("session", op="set_mode", session=id, mode="b")
        await trio.sleep(1)
        assert tab.view(id).shown["modes"]["mode"] == "b"
        refused = await tab.refused("task", op="stop", session=id, task="b1")
        assert refused == "unsupported"


async def test_an_agent_that_does_not_answer_a_setting_has_failed(
    autojump_clock: MockClock,
) -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "b", "name": "b"}]}
    async with stage_with(unresponsive, fake={"new_session": {"modes": modes}}) as stage:
        id, tab = await alone(stage)
        start = trio.current_time()
        assert await tab.refused("session", op="set_mode", session=id, mode="b") == "agent_failed"
        assert trio.current_time() - start <= agentrt.Limits().request_timeout_s + 1
        assert (await tab.ok("session", op="list"))["ok"]


# --- W7: once


async def test_w7_a_command_that_is_sent_again_is_carried_out_once(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session()
        client = WireClient("a-random-name")
        tab = stage.connect(id, client=client)
        text = json.dumps({"type": "prompt", "id": "x1", "session": id, "content": TEXT})
        for _ in range(3):
            tab.wire._here.add("x1")
            tab.viewer.receive(text)
            await trio.sleep(0.1)
        first = client.acks.pop("x1")
        tab.cut()
        again = stage.connect(client=client)
        again.wire._here.add("x1")
        again.viewer.receive(text)
        assert await again.answer("x1") == first
        await trio.sleep(1)
        assert again.view(id).texts() == ["hello"]


async def test_w7_an_answer_that_was_under_way_reaches_who_comes_back(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        client = WireClient("a-random-name")
        tab = stage.connect(client=client)
        id = tab.wire.send("session", op="new", agent="fake")
        tab.cut()
        await trio.sleep(5)
        assert client.acks == {}
        again = stage.connect(client=client)  # which sends it again
        assert (await again.answer(id))["ok"]
        assert len(stage.runtime.list()) == 1


async def test_w7_an_id_means_one_command(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        viewer = viewer_of(stage.hub)
        viewer.receive('{"type":"hello","id":"1"}')
        await viewer.next_frame()
        viewer.receive('{"type":"stop_all","id":"x"}')
        viewer.receive('{"type":"session","op":"new","agent":"fake","id":"x"}')
        first, second = json.loads(await viewer.next_frame())
        assert first["ok"]
        assert second["error"]["code"] == "bad_request"
        assert stage.runtime.list() == []


async def test_clients_without_a_name_have_ids_of_their_own(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session()
        one, two = stage.connect(id), stage.connect(id)
        await one.prompt(id, "one")
        await two.prompt(id, "two")  # under the same id
        await trio.sleep(1)
        assert one.view(id).texts() == ["one", "two"]


async def test_the_newest_connection_of_a_client_is_the_one_that_counts(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        client = WireClient("a-random-name")
        old = stage.connect(client=client)
        await trio.sleep(0.1)
        new = stage.connect(client=client)
        await trio.sleep(0.1)
        assert old.ended is not None
        assert old.ended.code == 4409
        await new.ok("stop_all")


async def test_clients_that_have_gone_are_forgotten_the_oldest_first(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        for n in range(400):
            viewer = viewer_of(stage.hub)
            viewer.receive(json.dumps({"type": "hello", "id": "1", "client": f"client {n}"}))
            viewer.close()
        assert len(stage.hub._clients) <= 257
        assert not stage.hub.viewers


# --- W9


async def test_w9_a_lost_connection_cancels_no_turn(autojump_clock: MockClock) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(10)
            agent.say("done")
            prompt.end()

    async with stage_with(slow) as stage:
        id, tab = await alone(stage)
        await tab.prompt(id, "work")
        tab.cut()
        await trio.sleep(20)
        later = stage.connect(id)
        await trio.sleep(1)
        assert later.view(id).texts() == ["done"]
        assert later.view(id).shown["turns"]["t1"]["outcome"] == "completed"


async def test_w9_a_cancelled_turn_closes_no_connection(autojump_clock: MockClock) -> None:
    async with stage_with(obedient) as stage:
        id, tab = await alone(stage)
        for _ in range(5):
            await tab.prompt(id, "work")
            await tab.ok("cancel", session=id)
            await trio.sleep(1)
        assert tab.ended is None
        assert ended(tab, id) == ["cancelled"] * 5


# --- roles


async def test_a_mere_viewer_sees_everything_and_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(asking) as stage:
        id, tab = await alone(stage)
        viewer = stage.connect(id, role="viewer")
        await tab.prompt(id, "go")
        await trio.sleep(1)
        [request] = viewer.view(id).shown["permissions"]
        for type, fields in {
            "prompt": {"session": id, "content": TEXT},
            "cancel": {"session": id},
            "permission": {"session": id, "request": request, "option": "yes"},
            "tool_result": {"session": id, "item": "i1", "content": []},
            "queue": {"session": id, "op": "resume"},
            "session": {"op": "new", "agent": "fake"},
            "task": {"op": "stop", "session": id, "task": "b"},
            "files": {"session": id},
            "folder": {"session": id},
            "file": {"session": id, "path": "x"},
            "folders": {},
            "uncommitted": {"session": id},
            "wire": {"session": id},
            "stop_all": {},
        }.items():
            assert await viewer.refused(type, **fields) == "forbidden"
        assert (await viewer.ok("session", op="list"))["sessions"]
        await viewer.ok("detach", session=id)
        assert tab.view(id).phase == "waiting"


async def test_a_mere_viewer_offers_no_tools_and_takes_no_controller_s_place(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        client = WireClient("a-random-name")
        tab = stage.connect(client=client)
        await trio.sleep(0.1)
        stage.connect(client=WireClient("a-random-name"), role="viewer")
        await trio.sleep(0.1)
        assert tab.ended is None
        viewer = viewer_of(stage.hub, role="viewer")
        tools = [{"name": "pick", "input_schema": {}}]
        viewer.receive(json.dumps({"type": "hello", "id": "1", "tools": tools}))
        assert json.loads(await viewer.next_frame())["error"]["code"] == "forbidden"


# --- W11


@pytest.mark.parametrize(
    ("frame", "id", "code"),
    [
        ("", None, "bad_request"),
        ("{", None, "bad_request"),
        ("[]", None, "bad_request"),
        ("17", None, "bad_request"),
        ("[" * 100_000, None, "bad_request"),
        ('{"id":"x"}', "x", "unknown_command"),
        ('{"type":"dance","id":"x"}', "x", "unknown_command"),
        ('{"type":"queue","op":"dance","id":"x"}', "x", "unknown_command"),
        ('{"type":["prompt"],"id":"x"}', "x", "unknown_command"),
        ('{"type":"stop_all"}', None, "bad_request"),
        ('{"type":"stop_all","id":7}', None, "bad_request"),
        ('{"type":"stop_all","id":"x","more":1}', "x", "bad_request"),
        ('{"type":"prompt","id":"x","session":"s","content":[]}', "x", "bad_request"),
        ('{"type":"prompt","id":"x","session":"s","content":"hello"}', "x", "bad_request"),
        ('{"type":"permission","id":"x","session":"s","request":"r"}', "x", "bad_request"),
        ('{"type":"session","op":"load","id":"x"}', "x", "bad_request"),
        ('{"type":"hello","id":"x"}', "x", "bad_request"),
        ('{"type":"cancel","id":"x","session":"nobody"}', "x", "unknown_session"),
    ],
)
async def test_w11_garbage_is_answered_and_hurts_nobody(
    frame: str, id: str | None, code: str, autojump_clock: MockClock
) -> None:
    async with stage_with(echo) as stage:
        viewer = viewer_of(stage.hub)
        viewer.receive('{"type":"hello","id":"1"}')
        await viewer.next_frame()
        viewer.receive(frame)
        answer = json.loads(await viewer.next_frame())
        assert (answer["type"], answer["id"], answer["ok"]) == ("ack", id, False)
        assert answer["error"]["code"] == code
        assert answer["error"]["message"]
        viewer.receive('{"type":"stop_all","id":"2"}')
        assert json.loads(await viewer.next_frame())["ok"]


async def test_w11_nothing_is_done_before_hello(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        viewer = viewer_of(stage.hub)
        viewer.receive('{"type":"session","op":"new","id":"1","agent":"fake"}')
        assert json.loads(await viewer.next_frame())["error"]["code"] == "bad_request"
        assert stage.runtime.list() == []


async def test_w11_what_fails_inside_is_internal_and_logged(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> int:
        raise KeyError("a bug")

    async with stage_with(echo) as stage:
        tab = stage.connect()
        monkeypatch.setattr(stage.runtime, "cancel_all", broken)
        assert await tab.refused("stop_all") == "internal"
        assert "a bug" in caplog.text


def test_no_number_in_a_command_is_too_large_for_a_system_call() -> None:
    found = [
        (name, number)
        for name in published.COMMANDS.values()
        for number in published.numbers_in(published.DEFINITIONS[name])
    ]
    assert len(found) > 10
    assert [name for name, number in found if "maximum" not in number] == []


async def test_a_place_behind_the_end_of_every_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    async with stage_with(echo) as stage:
        id = await stage.session(cwd=str(tmp_path))
        tab = stage.connect(id)
        for start in (2**53, 2**63, 10**400):
            assert await tab.refused("file", session=id, path="a.txt", start=start) == "bad_request"
        last = await tab.ok("file", session=id, path="a.txt", start=2**53 - 1)
        assert last["size_bytes"] == 5
