"""Long values of an agent or a client, which must lock nobody out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hub_kit import Stage, Tab, stage_with
from sockets import Client, frame, site, websocket
from trio.testing import MockClock

import agentrt
from agentrt.effects import Started
from agentrt.testing import FakeAcpAgent
from agentrt.web import Site
from runtime.fakes import echo

LONG = 2 * 1024 * 1024


async def titled(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        agent.update("session_info_update", title="\x01" * LONG)
        prompt.end()


async def get_in(stage: Stage) -> Tab:
    """A tab of somebody new, who must be let in."""
    tab = stage.connect()
    await trio.sleep(0.1)
    assert tab.ended is None
    assert tab.client.ready is not None
    return tab


@pytest.mark.slow
async def test_a_title_of_any_length_locks_nobody_out(autojump_clock: MockClock) -> None:
    async with stage_with(titled) as stage:
        id = await stage.session()
        await stage.runtime.get(id).run("go")
        tab = await get_in(stage)
        assert len(stage.runtime.get(id).title or "") == 256
        assert (await tab.ok("session", op="list"))["sessions"][0]["title"].endswith("…")
        await tab.ok("session", op="close", session=id)


@pytest.mark.parametrize("way", ["rename", "new"])
async def test_a_client_s_title_of_any_length_locks_nobody_out(
    way: str, autojump_clock: MockClock
) -> None:
    async with stage_with(echo) as stage:
        if way == "rename":
            stage.runtime.rename(await stage.session(), "x" * LONG)
        else:
            tab = await get_in(stage)
            await tab.ok("session", op="new", agent="fake", title="x" * (255 * 1024))
        await get_in(stage)
        [info] = stage.runtime.list()
        assert len(info.title or "") == 256


async def test_a_command_that_is_too_long_for_what_it_says_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        tab = await get_in(stage)
        long = "x" * LONG
        assert await tab.refused("session", op="new", agent="fake", title=long) == "bad_request"
        await get_in(stage)
        assert stage.runtime.list() == []


async def test_an_answer_of_any_size_ends_no_connection(autojump_clock: MockClock) -> None:
    limits = agentrt.Limits(viewer_outbox_bytes=100)
    async with stage_with(echo, limits=limits) as stage:
        await stage.session()
        tab = await get_in(stage)
        assert (await tab.ok("session", op="list"))["sessions"]


def test_the_version_that_an_agent_names_is_cut() -> None:
    assert len(Started(session="s", agent_version="9" * LONG).agent_version or "") == 256


async def test_lists_that_an_agent_makes_up_are_cut(autojump_clock: MockClock) -> None:
    async def listing(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            commands = [{"name": f"c{n}", "description": "d" * LONG} for n in range(2)]
            commands += [{"name": "n" * LONG, "description": ""}]
            commands += [{"name": f"more{n}", "description": ""} for n in range(5000)]
            agent.update("available_commands_update", availableCommands=commands)
            prompt.end()

    modes = [{"id": str(n), "name": "m" * LONG} for n in range(2)] + [
        {"id": "i" * LONG, "name": "x"}
    ]
    given = {"new_session": {"modes": {"currentModeId": "0", "availableModes": modes}}}
    async with stage_with(listing, fake=given) as stage:
        id = await stage.session()
        await stage.runtime.get(id).run("go")
        snapshot = stage.runtime.get(id).snapshot()
        assert [len(c.description) for c in snapshot.commands[:3]] == [2048, 2048, 0]
        assert len(snapshot.commands) == 2047
        assert snapshot.modes is not None
        assert [(m.id, len(m.name)) for m in snapshot.modes.modes] == [("0", 256), ("1", 256)]


async def test_what_an_agent_refuses_a_wish_with_is_cut(autojump_clock: MockClock) -> None:
    async def refusing(agent: FakeAcpAgent) -> None:
        while True:
            for message in agent.received:
                if message.get("method") == "session/set_mode":
                    agent.error(message["id"], -32603, "e" * LONG, {"d": "d" * LONG})
            agent.received.clear()
            await trio.sleep(0.1)

    modes = {"currentModeId": "a", "availableModes": [{"id": m, "name": m} for m in "ab"]}
    async with stage_with(refusing, fake={"new_session": {"modes": modes}}) as stage:
        id = await stage.session()
        tab = await get_in(stage)
        error = (await tab.ask("session", op="set_mode", session=id, mode="b"))["error"]
        assert (error["code"], len(error["message"])) == ("agent_failed", 4096)
        assert "data" not in error


async def test_lists_are_not_remembered_with_the_answers(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        tab = await get_in(stage)
        for _ in range(600):
            tab.wire.send("session", op="list")
        await tab.ok("stop_all")
        client = stage.hub.viewers[tab.viewer]
        assert client is not None
        assert len(client._answers) == 1


# --- who leaves answers unread


async def ask_much(socket: Client, count: int) -> None:
    with contextlib.suppress(trio.BrokenResourceError):  # cut off
        await socket.send(frame(json.dumps({"type": "hello", "id": "hello"})))
        for n in range(count):
            await socket.send(frame(json.dumps({"type": "session", "op": "list", "id": str(n)})))


@asynccontextmanager
async def long_list(**more: Any) -> AsyncIterator[tuple[Stage, Site]]:
    """A site whose list of sessions takes 40 KB each time it is asked for."""
    limits = agentrt.Limits(ws_frames_per_s=10_000, open_sessions=200, **more)
    with trio.fail_after(60):
        async with (
            stage_with(echo, limits=limits) as stage,
            site(stage.hub, limits=limits) as served,
        ):
            for _ in range(100):
                stage.runtime.rename(await stage.session(), "x" * 256)
            yield stage, served


@pytest.mark.slow
async def test_w8_who_reads_no_answers_is_asked_nothing_more_and_cut_off() -> None:
    async with (
        long_list(ws_write_timeout_s=0.5) as (stage, site),
        trio.open_nursery() as nursery,
        websocket(site.port) as unread,
    ):
        # answers of 200 MB
        nursery.start_soon(ask_much, unread, 5000)  # noqa: ASYNC111 - is cancelled below
        most = 0
        while not site.statistics().dropped:  # noqa: ASYNC110 - a statistic has no event
            unsent = [viewer._unsent for viewer in stage.hub.viewers]
            most = max(most, *unsent) if unsent else most
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert 0 < most < 2 * agentrt.Limits().viewer_outbox_bytes


@pytest.mark.slow
async def test_who_reads_its_answers_late_gets_all_of_them() -> None:
    async with (
        long_list() as (_, site),
        trio.open_nursery() as nursery,
        websocket(site.port) as late,
    ):
        # answers of 12 MB
        nursery.start_soon(ask_much, late, 300)  # noqa: ASYNC111 - is over below
        await trio.sleep(0.5)
        seen = set()
        while len(seen) < 301:
            message = await late.message()
            if message["type"] == "ack":
                seen.add(message["id"])
        assert site.statistics().dropped == 0
