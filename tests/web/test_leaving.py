"""A server that is being drained: whoever is connected to it, or to another one, sees his commands
carried out all the same."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from hub_kit import after_the_check, let_short_orders_wait
from nodes_kit import looking, node, until

from postgres.server import Server
from runtime.fakes import asking


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.url(f"t_{secrets.token_hex(6)}")


@pytest.mark.slow
@pytest.mark.parametrize("at", ["the one that leaves", "another one"])
async def test_a_prompt_to_a_session_that_is_being_left_is_carried_out_elsewhere(
    url: str, at: str
) -> None:
    async with node(url, "a") as a, node(url, "b") as b, trio.open_nursery() as nursery:
        session = await a.runtime.create("fake")
        await session.run("hello")
        tab = await looking(a if at == "the one that leaves" else b, session.id)
        nursery.start_soon(a.runtime.drain)
        with trio.fail_after(20):
            for number in range(5):
                answer = await tab.ask(
                    "prompt", session=session.id, content=[{"type": "text", "text": f"{number}"}]
                )
                assert answer["ok"], answer
        assert [info.session for info in b.runtime.list_open()] == [session.id]


@pytest.mark.parametrize(
    ("type", "fields"),
    [
        ("prompt", {"content": [{"type": "text", "text": "again"}]}),
        pytest.param("retell", {}, marks=pytest.mark.slow),
        pytest.param("queue", {"op": "resume"}, marks=pytest.mark.slow),
        pytest.param("session", {"op": "rename", "title": "mine"}, marks=pytest.mark.slow),
        pytest.param("session", {"op": "delete"}, marks=pytest.mark.slow),
    ],
)
async def test_a_command_whose_session_leaves_after_it_was_checked_is_carried_out(
    url: str, monkeypatch: pytest.MonkeyPatch, type: str, fields: dict[str, Any]
) -> None:
    async with node(url, "a") as a, node(url, "b") as b:
        session = await a.runtime.create("fake")
        await session.run("hello")
        tab = await looking(a, session.id)
        left = after_the_check(monkeypatch, a.runtime.drain)
        await tab.ok(type, session=session.id, **fields)
        assert left.is_set()
        if type == "prompt":
            assert [info.session for info in b.runtime.list_open()] == [session.id]


async def test_a_cancel_is_answered_if_the_session_is_closed_after_it_was_checked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(url, "a", asking) as a:
        session = await a.runtime.create("fake")
        turn = session.submit("hello")
        tab = await looking(a, session.id)
        await until(lambda: session.state.phase == "waiting")
        left = after_the_check(monkeypatch, partial(a.runtime.close, session.id))
        assert (await tab.ok("cancel", session=session.id))["turn"] == turn.id
        assert left.is_set()


async def test_a_session_that_leaves_while_its_close_waits_for_a_prompt_is_closed_elsewhere(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_short_orders_wait(monkeypatch, 20.0)
    async with node(url, "a") as a, node(url, "b") as b, trio.open_nursery() as nursery:
        session = await a.runtime.create("fake")
        await session.run("hello")
        tab = await looking(a, session.id)
        after_the_check(monkeypatch, a.runtime.drain)
        content = [{"type": "text", "text": "again"}]
        nursery.start_soon(partial(tab.ok, "prompt", session=session.id, content=content))
        await trio.testing.wait_all_tasks_blocked()
        await tab.ok("session", session=session.id, op="close")
        assert b.agents.processes, "the prompt was carried out there"
        assert b.runtime.list_open() == []


@pytest.mark.slow
async def test_a_session_that_is_opened_at_one_that_leaves_is_opened_elsewhere(url: str) -> None:
    async with node(url, "a") as a, node(url, "b") as b:
        session = await b.runtime.create("fake")
        await session.run("hello")
        await b.runtime.close(session.id)
        await a.runtime.drain()
        tab = await looking(a, session.id)
        await tab.prompt(session.id, "again")
        assert [info.session for info in b.runtime.list_open()] == [session.id]


async def test_who_looks_at_a_session_that_leaves_looks_on(url: str) -> None:
    """Without being detached: nothing has to be said for what comes next to be shown."""
    async with node(url, "a") as a, node(url, "b") as b:
        session = await a.runtime.create("fake")
        await session.run("hello")
        tab = await looking(a, session.id)
        view = tab.view(session.id)
        feed = a.hub.feeds[session.id]
        [viewer] = feed.viewers
        await a.runtime.drain()
        assert a.runtime.list_open() == []
        assert viewer in feed.viewers
        await (await looking(b, session.id)).prompt(session.id, "again")
        assert [info.session for info in b.runtime.list_open()] == [session.id]
        await until(lambda: view.texts() == ["hello", "again"])
        await until(lambda: view.seq == b.runtime.get(session.id).log.seq)
        assert a.hub.feeds[session.id] is feed
        assert viewer in feed.viewers


@pytest.mark.slow
async def test_and_of_one_that_comes_back_too(url: str) -> None:
    async with node(url, "a") as a:
        session = await a.runtime.create("fake")
        await session.run("hello")
        tab = await looking(a, session.id)
        view = tab.view(session.id)
        assert view.texts() == ["hello"]
        for number in range(3):
            await a.runtime.close(session.id)
            await tab.prompt(session.id, f"{number}")
            await until(lambda number=number: view.texts()[-1] == f"{number}")


async def test_one_that_is_deleted_is_looked_at_no_more(url: str) -> None:
    async with node(url, "a") as a:
        session = await a.runtime.create("fake")
        await session.run("hello")
        await looking(a, session.id)
        await a.runtime.delete(session.id)
        await until(lambda: session.id not in a.hub.feeds)


async def test_what_comes_behind_the_end_of_its_page_is_left_to_another_server(url: str) -> None:
    """The servers that share a store still ask it for what it owned a moment ago."""
    async with node(url, "a") as a:
        session = await a.runtime.create("fake")
        await session.run("hello")
        assert a.hub.is_open(session.id)
        a.hub.close()
        await a.runtime.drain()
        assert not a.hub.is_open(session.id)


async def test_a_session_can_be_read_once_more_when_all_viewers_were_sent_away(url: str) -> None:
    """What somebody has asked for is still carried out then, and nobody is told of an error."""
    async with node(url, "a") as a, node(url, "b") as b:
        first, second = [await a.runtime.create("fake") for _ in range(2)]
        for session in (first, second):
            await session.run("hello")
        await b.hub.read(first.id)  # which nobody looks at
        b.hub.close()
        await b.hub.read(second.id)
        assert list(b.hub.feeds) == [second.id]
