"""Sessions on a server that fails under them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

import agentrt
from agentrt.errors import SessionMoved, StoreUnavailable
from agentrt.storage import address_of, backend_of
from agentrt.store import Store, open_store
from journal.kit import checked, ended, kept
from journal.test_failures import until_well
from runtime.fakes import Incarnations, echo

from .kit import open_soon, rows, schema_of
from .server import Server, serving

PATIENCE = 20


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """One that may be restarted."""
    with serving() as server:
        yield server


async def talkative(agent: Any) -> None:
    async for prompt in agent.prompts:
        for number in range(100):
            agent.say(f"{prompt.text} {number} ")
            if number % 7 == 0:
                await trio.lowlevel.checkpoint()
        prompt.end()


def terminate(postgres: Server, url: str) -> None:
    """End all connections of a store's writer, as an operator may."""
    with postgres.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype='advisory'"
            " AND objid::bigint=hashtext(%s)::bigint & 4294967295",
            [schema_of(url)],
        )


async def test_a_terminated_connection_costs_a_session_nothing(postgres: Server, url: str) -> None:
    async with open_store(url) as store, kept(store, Incarnations(talkative)) as session:
        for _ in range(3):
            await session.run("hello")
            await trio.to_thread.run_sync(terminate, postgres, url)
        assert (await session.run("hello")).outcome == "completed"
        seq = session.log.seq
    assert checked(url)["one"] >= seq


async def test_a_session_that_another_process_took_over_ends_and_the_others_go_on(
    postgres: Server, url: str
) -> None:
    other = backend_of(address_of(url))

    def take_over() -> None:
        terminate(postgres, url)
        open_soon(other, PATIENCE)
        assert other.claim("one") is not None
        other.close()

    async with open_store(url) as store, kept(store, Incarnations(echo), id="two") as two:
        agents = Incarnations(echo)
        async with kept(store, agents) as one:
            await one.run("hello")
            await two.run("hello")
            seq = one.log.seq
            await trio.to_thread.run_sync(take_over)
            with pytest.raises(SessionMoved, match="another process has continued"):
                await one.run("again")
            with trio.fail_after(PATIENCE):
                await ended(one)
            assert one.log.seq == seq
        await until_well(store)
        assert (await two.run("again")).outcome == "completed"
    assert checked(url)["one"] == seq
    assert [turn.outcome for turn in (await stored(url, "two")).turns] == ["completed"] * 2


async def stored(url: str, id: str) -> agentrt.events.Snapshot:
    async with open_store(url) as store:
        return await store.snapshot(id)


async def test_a_store_that_another_process_writes_now_writes_nothing_more(
    postgres: Server, url: str
) -> None:
    other = backend_of(address_of(url))
    try:
        with pytest.raises(StoreUnavailable, match="is being written by process"):  # noqa: PT012
            async with open_store(url) as store, kept(store, Incarnations(echo)) as session:
                await session.run("hello")
                seq = session.log.seq
                await trio.to_thread.run_sync(terminate, postgres, url)
                await trio.to_thread.run_sync(open_soon, other, PATIENCE)
                with pytest.raises(StoreUnavailable):
                    await session.run("again")
        assert checked(url)["one"] == seq
    finally:
        other.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["restarted", "killed"])
async def test_a_server_that_goes_down_under_load_loses_and_doubles_nothing(
    own_server: Server, how: str, tmp_path: Path
) -> None:
    """What was shown is stored; and what was begun goes on when the server is back."""
    chance = random.Random(how)
    url = own_server.url(how)
    shown: dict[str, int] = {}
    rounds, sessions = 5, 4
    ended = 0
    over = False

    async def work(store: Store, id: str) -> None:
        nonlocal ended
        async with kept(store, Incarnations(talkative), id=id) as session:
            log = session.log
            log.listen(lambda: shown.update({id: log.seq}))
            while not over:
                try:
                    ended += (await session.run("on and on")).outcome == "completed"
                except StoreUnavailable:
                    await until_well(store)

    async def further() -> None:
        until = ended + sessions
        with trio.fail_after(2 * PATIENCE):
            while ended < until:  # noqa: ASYNC110 - as somebody who watches it
                await trio.sleep(0.01)

    def fell() -> None:
        if how == "restarted":
            own_server.restart()
        else:
            [(pid,), *_] = rows(
                url,
                "SELECT pid::bigint FROM pg_stat_activity WHERE application_name LIKE 'agentrt %'"
                " AND pid<>pg_backend_pid() ORDER BY random()",
            )
            os.kill(pid, signal.SIGKILL)

    async with open_store(url) as store, trio.open_nursery() as nursery:
        for number in range(sessions):
            nursery.start_soon(work, store, f"s{number}")
        for _ in range(rounds):
            await further()
            await trio.sleep(chance.random() / 5)
            await trio.to_thread.run_sync(fell)
        await further()
        over = True
    found = checked(url)
    assert len(shown) == sessions
    assert {id: found[id] >= seq for id, seq in shown.items()} == dict.fromkeys(shown, True)
