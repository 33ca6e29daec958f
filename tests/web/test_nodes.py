"""Servers that share a store: what one of them runs is seen and steered at each."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
import trio
from hub_kit import Stage, Tab, hold_the_next_forwarded
from hub_kit import command as command_of
from nodes_kit import LEASE_S, PATIENCE, looking, node, until
from tool_calls import Calls
from wire_client import WireClient

from agentrt import Limits
from agentrt.errors import StoreUnavailable
from agentrt.lowlevel import CommandRefused
from postgres.kit import rows
from postgres.parts import Tails, hear_nothing, hide_owners
from postgres.server import Server
from runtime.fakes import asking, echo, obedient


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.url(f"t_{secrets.token_hex(6)}")


def done(tab: Any, session: str, turns: int = 1) -> bool:
    ended = [t for t in tab.view(session).shown["turns"].values() if t.get("outcome")]
    return len(ended) == turns


async def test_what_one_runs_is_followed_at_another(url: str) -> None:
    async with node(url, "a") as a, node(url, "b") as b:
        session = await a.runtime.create("fake")
        tab = await looking(b, session.id)
        await session.run("hello")
        await until(lambda: done(tab, session.id))
        assert tab.view(session.id).texts() == ["hello"]
        assert b.agents.processes == []
        assert tab.view(session.id).epoch == session.log.epoch
        await until(lambda: tab.view(session.id).seq == session.log.seq)


async def test_a_prompt_at_a_gateway_is_run_by_who_has_the_session(url: str) -> None:
    async with node(url, "w", role="worker") as w, node(url, "g", role="gateway") as g:
        session = await w.runtime.create("fake")
        tab = await looking(g, session.id)
        answer = await tab.prompt(session.id, "through the gateway")
        assert answer["turn"]
        assert tab.view(session.id).seq >= answer["seq"]
        await until(lambda: done(tab, session.id))
        assert tab.view(session.id).texts() == ["through the gateway"]
        assert g.agents.processes == []
        assert rows(url, "SELECT count(*) FROM command") in ([(0,)], [(1,)])


@pytest.mark.slow
async def test_a_session_is_opened_by_the_least_loaded_worker_with_room(url: str) -> None:
    async with (
        node(url, "w1", obedient, role="worker") as w1,
        node(url, "w2", obedient, role="worker") as w2,
        node(url, "g", role="gateway") as g,
    ):
        room = "SELECT count(*) FROM node WHERE convert_from(load, 'UTF8') ~ '\"room\":[1-9]'"
        await until(lambda: rows(url, room) == [(2,)])
        tab = g.connect(client=WireClient("somebody"))
        opened = []
        for _ in range(4):
            id = (await tab.ok("session", op="new", agent="fake"))["session"]
            await tab.prompt(id, "work")
            opened.append(id)
        assert [len(w.agents.processes) for w in (w1, w2)] != [4, 0]
        assert sorted(len(w.runtime.list_open()) for w in (w1, w2)) != [0, 4]
        assert g.runtime.list_open() == []
        await until(lambda: {i.session for i in g.runtime.list()} == set(opened))


async def test_a_session_that_rests_is_opened_by_a_worker_for_a_prompt(url: str) -> None:
    async with node(url, "g", role="gateway") as g:
        async with node(url, "w1", role="worker") as w1:
            session = await w1.runtime.create("fake")
            await session.run("hello")
        async with node(url, "w2", role="worker") as w2:
            tab = await looking(g, session.id)
            await tab.prompt(session.id, "again")
            await until(lambda: done(tab, session.id, turns=2))
            assert [info.session for info in w2.runtime.list_open()] == [session.id]


async def test_a_cancel_at_another_ends_the_turn(url: str) -> None:
    async with node(url, "a", obedient) as a, node(url, "b") as b:
        session = await a.runtime.create("fake")
        tab = await looking(b, session.id)
        turn = (await tab.prompt(session.id, "work"))["turn"]
        assert (await tab.ok("cancel", session=session.id, turn=turn))["turn"] == turn
        await until(lambda: done(tab, session.id))
        assert tab.view(session.id).shown["turns"][turn]["outcome"] == "cancelled"


async def test_a_cancel_that_comes_again_elsewhere_is_not_the_next_turn_s(url: str) -> None:
    async with node(url, "a", obedient) as a, node(url, "b") as b, node(url, "c") as c:
        session = await a.runtime.create("fake")
        client = WireClient("one")
        tab = await looking(b, session.id, client)
        await tab.prompt(session.id, "work")
        id = tab.wire.send("cancel", session=session.id)
        [text] = client.unanswered.values()
        said = await tab.answer(id)
        await until(lambda: done(tab, session.id))
        tab.cut()
        tab = await looking(c, session.id, client)
        later = (await tab.prompt(session.id, "more"))["turn"]
        for stage in (c, a):
            tab = await looking(stage, session.id, client)
            del client.acks[id]
            client.unanswered[id] = text
            tab.cut()
            tab = await looking(stage, session.id, client)
            assert await tab.answer(id) == said
            tab.cut()
        await trio.sleep(0.2)
        assert session.state.turn is not None
        assert session.state.turn.id == later


async def prompted_and_cut(stage: Stage, session: str, client: WireClient) -> tuple[str, Any]:
    """A prompt whose answer, which is returned with its id, the client has not got: it sends it
    again."""
    tab = await looking(stage, session, client)
    id = tab.wire.send("prompt", session=session, content=[{"type": "text", "text": "x"}])
    [text] = client.unanswered.values()
    said = await tab.answer(id)
    assert said["ok"], said
    await until(lambda: done(tab, session))
    tab.cut()
    del client.acks[id]
    client.unanswered[id] = text
    return id, said


async def test_a_prompt_that_was_carried_out_is_not_refused_because_its_server_is_silent_by_now(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client would say it once more."""

    async def silent(*args: object, **options: object) -> bytes:
        await trio.lowlevel.checkpoint()
        raise StoreUnavailable("the server that has this session does not answer")

    async with (
        node(url, "a") as a,
        node(url, "g", role="gateway") as g,
        node(url, "h", role="gateway") as h,
    ):
        session = await a.runtime.create("fake")
        client = WireClient("one")
        id, said = await prompted_and_cut(g, session.id, client)
        assert h.runtime.store is not None
        assert h.runtime.store.cluster is not None
        monkeypatch.setattr(h.runtime.store.cluster, "owner", silent)
        tab = await looking(h, session.id, client)
        again = await tab.answer(id)
        assert again == said
        assert len(session.snapshot().turns) == 1


async def test_nor_because_who_has_it_now_cannot_write(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: object, **options: object) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreUnavailable("the store cannot be written")

    async with node(url, "a") as a, node(url, "b") as b:
        session = await a.runtime.create("fake")
        client = WireClient("one")
        id, said = await prompted_and_cut(a, session.id, client)
        await a.runtime.close(session.id)
        monkeypatch.setattr(b.hub, "reopen", fail)
        tab = await looking(b, session.id, client)
        assert await tab.answer(id) == said


async def test_a_question_is_answered_once_at_one_of_two(url: str) -> None:
    async with node(url, "a", asking) as a, node(url, "b") as b, node(url, "c") as c:
        session = await a.runtime.create("fake")
        tabs = [await looking(stage, session.id) for stage in (b, c)]
        await tabs[0].prompt(session.id, "work")
        for tab in tabs:
            await until(lambda tab=tab: tab.view(session.id).shown["permissions"])
        [request] = tabs[0].view(session.id).shown["permissions"]
        answers: list[dict[str, Any]] = []

        async def answer(tab: Any) -> None:
            said = {"session": session.id, "request": request, "option": "yes"}
            answers.append(await tab.ask("permission", **said))

        async with trio.open_nursery() as nursery:
            for tab in tabs:
                nursery.start_soon(answer, tab)
        assert sorted(each["ok"] for each in answers) == [False, True]
        [refused] = [each for each in answers if not each["ok"]]
        assert refused["error"]["code"] == "already_resolved"
        await until(lambda: done(tabs[1], session.id))


async def test_a_session_without_a_turn_is_gone_on_with_where_its_server_left(url: str) -> None:
    async with node(url, "g", role="gateway") as g:
        tab = g.connect()
        async with node(url, "w", role="worker"):
            id = (await tab.ok("session", op="new", agent="fake"))["session"]
        async with node(url, "v", role="worker"):
            await tab.prompt(id, "hello")


async def test_what_a_client_knows_already_is_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events came by another server, and this one cannot read them yet."""
    tails = Tails(monkeypatch)
    async with node(url, "a") as a, node(url, "b") as b:
        session = await a.runtime.create("fake")
        client = WireClient("mine")
        tab = await looking(a, session.id, client)
        await looking(b, session.id)
        tails.away = True
        hear_nothing(monkeypatch)
        await until(lambda: not tails.reading)
        await session.run("hello")
        await until(lambda: done(tab, session.id))
        tab.cut()
        tab = b.connect(client=client)
        await trio.sleep(0.2)
        assert tab.wire.hello_id not in client.acks
        tails.away = False
        assert (await tab.answer(tab.wire.hello_id))["sessions"] == {session.id: "replay"}
        assert b.hub.feeds[session.id].log.seq == session.log.seq


async def test_whoever_waits_for_a_command_that_is_another_s_hears_of_it(url: str) -> None:
    async with node(url, "w", role="worker") as w:
        command = command_of("cancel", id="c1", session="s")
        client = w.hub.client("controller", "mine")
        far: list[bytes] = []
        here: list[bytes] = []
        assert not client.seen(command, far.append, elsewhere=True)
        assert client.seen(command, here.append)
        client.forget(command.id)
        assert far == [b""]
        [answer] = [json.loads(each) for each in here]
        assert answer["error"]["code"] == "unavailable"
        assert not client.seen(command, here.append)


async def test_who_was_away_hears_that_it_was_unavailable_ahead_of_its_being_done(url: str) -> None:
    async with node(url, "w", role="worker") as w:
        command = command_of("prompt", id="c1", session="s", content=[])
        client = w.hub.client("controller", "mine")
        answers: list[bytes] = []
        assert not client.seen(command, answers.append)
        client.refuse("c1", CommandRefused("unavailable", "the database is away"))
        assert client.seen(command, answers.append)
        assert not client.seen(command, answers.append)
        assert answers[0] == answers[1]


async def test_what_was_unavailable_is_carried_out_when_it_is_sent_again_under_its_id(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(url, "w", role="worker") as w, node(url, "g", role="gateway") as g:
        session = await w.runtime.create("fake")
        tab = await looking(g, session.id)
        words = {"session": session.id, "content": [{"type": "text", "text": "hello"}]}
        hide_owners(monkeypatch)
        id = tab.wire.send("prompt", **words)
        answer = await tab.answer(id)
        assert answer["error"]["code"] == "unavailable"
        monkeypatch.undo()
        for _ in range(2):
            tab.wire.send("prompt", again=id, **words)
            assert (await tab.answer(id))["turn"] == "t1"
        await until(lambda: done(tab, session.id))
        assert [turn.id for turn in session.snapshot().turns] == ["t1"]


@pytest.mark.slow
async def test_a_session_of_which_events_are_missing_is_followed_no_more(url: str) -> None:
    async with node(url, "a") as a, node(url, "b") as b:
        session = await a.runtime.create("fake")
        tab = await looking(b, session.id)
        await session.run("hello")
        await until(lambda: done(tab, session.id))
        rows(url, "UPDATE session SET next=next+10, owner=owner+1")  # as if they had been dropped
        await until(lambda: session.id not in b.hub.feeds)


async def test_all_that_runs_is_stopped_at_all_workers(url: str) -> None:
    async with (
        node(url, "w1", obedient, role="worker"),
        node(url, "w2", obedient, role="worker"),
        node(url, "g", role="gateway") as g,
    ):
        tab = g.connect(client=WireClient("somebody"))
        for _ in range(2):
            id = (await tab.ok("session", op="new", agent="fake"))["session"]
            await tab.prompt(id, "work")
        assert (await tab.ok("stop_all"))["cancelled"] == 2


@pytest.mark.slow
async def test_a_session_that_there_is_not_is_said_to_be_none(url: str) -> None:
    async with node(url, "g", role="gateway") as g, node(url, "w", role="worker"):
        tab = g.connect(client=WireClient("somebody"))
        answer = await tab.answer(tab.wire.attach("nothing"))
        assert answer["error"]["code"] == "unknown_session"
        content = [{"type": "text", "text": "x"}]
        assert await tab.refused("prompt", session="nothing", content=content) == "unknown_session"


async def test_where_no_worker_has_room_it_is_said(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrt._serve.command_machine.OWNER_PATIENCE_S", 0.5)
    async with node(url, "g", role="gateway") as g:
        tab = g.connect(client=WireClient("somebody"))
        assert await tab.refused("session", op="new", agent="fake") == "limit"


@pytest.mark.slow
async def test_a_title_and_the_end_of_a_session_go_through_a_gateway(url: str) -> None:
    async with node(url, "w", role="worker") as w, node(url, "g", role="gateway") as g:
        session = await w.runtime.create("fake")
        await session.run("hello")
        tab = await looking(g, session.id)
        await tab.ok("session", op="rename", session=session.id, title="Mine")
        await until(lambda: tab.view(session.id).shown["title"] == "Mine")
        await tab.ok("session", op="close", session=session.id)
        assert w.runtime.list_open() == []
        await tab.ok("session", op="delete", session=session.id)
        assert rows(url, "SELECT count(*) FROM session") == [(0,)]


# --- servers that die


async def prompted_at_one_that_dies(
    url: str, patch: pytest.MonkeyPatch, *, stored: bool
) -> tuple[list[str], int]:
    """A prompt through a gateway, whose taker's lease ends before it has answered; what became of
    it, by the texts that a viewer sees, and how often it reached an agent. `stored`: it had been
    carried out by then."""
    async with (
        node(url, "w1", echo) as w1,
        node(url, "w2", echo) as w2,
        node(url, "g", role="gateway") as g,
    ):
        session = await w1.runtime.create("fake")
        await session.run("before")
        tab = await looking(g, session.id)
        held = hold_the_next_forwarded(patch, carried_out=stored)
        content = [{"type": "text", "text": "hello"}]
        id = tab.wire.send("prompt", session=session.id, content=content)
        with trio.fail_after(PATIENCE):
            await held.wait()
        if stored:
            await until(lambda: done(tab, session.id, turns=2))
        rows(url, "UPDATE node SET until=now() WHERE name='w1'")
        answer = await tab.answer(id)
        assert answer["ok"], answer
        await until(lambda: done(tab, session.id, turns=2))
        await trio.sleep(0.5)
        sent = [
            prompt
            for w in (w1, w2)
            for number in range(len(w.agents.processes))
            for prompt in w.agents.sent("session/prompt", number)
        ]
        return tab.view(session.id).texts(), len(sent)


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True])
async def test_a_command_whose_owner_dies_is_carried_out_once(
    url: str, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    texts, sent = await prompted_at_one_that_dies(url, monkeypatch, stored=stored)
    assert texts == ["before", "hello"]
    assert sent == 2


# --- tools of clients

PICK = {"name": "pick", "description": "Let the user pick.", "input_schema": {"type": "object"}}
RESULT = [{"type": "text", "text": "the red one"}]


async def picking(w: Stage, g: Stage, client: WireClient) -> tuple[Tab, str, Calls]:
    """A client of a gateway in whose session a turn runs on a worker, and its agent's calls."""
    tab = g.connect(client=client)
    id = (await tab.ok("session", op="new", agent="fake"))["session"]
    tab.cut()
    tab = await looking(g, id, client)
    await tab.prompt(id, "work")
    return tab, id, Calls(w.runtime.get(id))


def waiting(tab: Tab, session: str) -> list[str]:
    items = tab.view(session).shown["items"].values()
    return [i["id"] for i in items if i["type"] == "tool" and i["status"] == "waiting"]


@pytest.mark.slow
async def test_a_client_of_a_gateway_runs_its_tools(url: str) -> None:
    limits = Limits(store_lease_s=LEASE_S, client_return_timeout_s=1.0)
    async with (
        node(url, "w", obedient, role="worker", limits=limits) as w,
        node(url, "g", role="gateway") as g,
        node(url, "h", role="gateway") as h,
    ):
        client = WireClient("mine", tools=[PICK])
        tab, id, calls = await picking(w, g, client)
        call = calls.call("pick")
        await until(lambda: waiting(tab, id))
        other = await looking(h, id)
        [item] = waiting(tab, id)
        said = {"session": id, "item": item, "content": RESULT}
        assert await other.refused("tool_result", **said) == "forbidden"
        await tab.ok("tool_result", **said)
        await until(lambda: call in calls.answers)
        assert calls.text(call) == "the red one"

        call = calls.call("pick")
        await until(lambda: waiting(tab, id))
        tab.cut()  # and comes to another one
        tab = await looking(h, id, client)
        await trio.sleep(1.5)
        [item] = waiting(tab, id)
        await tab.ok("tool_result", session=id, item=item, content=RESULT)
        await until(lambda: call in calls.answers)
        assert calls.text(call) == "the red one"

        call = calls.call("pick")
        await until(lambda: waiting(tab, id))
        tab.cut()
        await until(lambda: call in calls.answers)
        assert "disconnected" in calls.text(call)


@pytest.mark.slow
async def test_the_clients_of_a_gateway_that_dies_are_gone(url: str) -> None:
    limits = Limits(store_lease_s=LEASE_S, client_return_timeout_s=0.1)
    async with (
        node(url, "w", obedient, role="worker", limits=limits) as w,
        node(url, "g", role="gateway") as g,
    ):
        tab, id, calls = await picking(w, g, WireClient("mine", tools=[PICK]))
        call = calls.call("pick")
        await until(lambda: waiting(tab, id))
        rows(url, "DELETE FROM node WHERE name='g'")
        await until(lambda: call in calls.answers)
        assert "disconnected" in calls.text(call)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "there", "resting"])
async def test_the_prompts_of_one_client_run_in_their_order(url: str, where: str) -> None:
    async with node(url, "a", echo) as a, node(url, "g", role="gateway") as g:
        session = await a.runtime.create("fake")
        await session.run("before")
        if where == "resting":
            await a.runtime.close(session.id)
        tab = await looking(a if where == "here" else g, session.id)
        texts = [str(number) for number in range(8)]
        for text in texts:
            content = [{"type": "text", "text": text}]
            tab.wire.send("prompt", session=session.id, content=content)
        await until(lambda: done(tab, session.id, turns=9))
        assert tab.view(session.id).texts() == ["before", *texts]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "there"])
async def test_a_cancel_right_behind_a_prompt_is_of_that(url: str, where: str) -> None:
    async with node(url, "a", obedient) as a, node(url, "g", role="gateway") as g:
        session = await a.runtime.create("fake")
        tab = await looking(a if where == "here" else g, session.id)
        for _ in range(5):
            content = [{"type": "text", "text": "work"}]
            prompt = tab.wire.send("prompt", session=session.id, content=content)
            tab.wire.send("cancel", session=session.id)
            turn = (await tab.answer(prompt))["turn"]
            await until(lambda turn=turn: "outcome" in tab.view(session.id).shown["turns"][turn])
