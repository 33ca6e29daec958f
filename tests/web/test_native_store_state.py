"""What clients of `agentrt.v1` are told while the server cannot store what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hub_kit import Tab, stage_with
from test_native_stored import stored_stage

from agentrt import Limits
from agentrt.store import open_store
from journal.disks import Disk, Lock, disk_of, locks_of
from runtime.fakes import asking, echo, obedient


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def disk(path: Path) -> Iterator[Disk]:
    yield from disk_of(path)


@pytest.fixture
def locked(path: Path) -> Iterator[Callable[[], Lock]]:
    yield from locks_of(path)


async def store_says(tab: Tab, state: str) -> dict[str, Any]:
    """Wait until it is the last thing that was said of the store."""
    while not (said := tab.messages("store")) or said[-1]["state"] != state:
        await tab.news()
    return said[-1]


@pytest.mark.slow
async def test_all_are_told_that_the_disk_is_slow_and_when_that_is_over(disk: Disk) -> None:
    async with stored_stage(disk.backend, asking) as stage:
        id = await stage.session()
        tabs = [stage.connect(id), stage.connect(role="viewer")]
        for tab in tabs:
            await tab.answer(tab.wire.hello_id)
        disk.hang()
        stage.runtime.rename(id, "something to store")
        slow = [await store_says(tab, "slow") for tab in tabs]
        assert slow[0] == slow[1]
        assert slow[0].keys() == {"type", "state", "since"}
        disk.answer()
        for tab in tabs:
            await store_says(tab, "ok")
            assert [said["state"] for said in tab.messages("store")][-2:] == ["slow", "ok"]


@pytest.mark.slow
async def test_who_connects_meanwhile_is_told_behind_ready(disk: Disk) -> None:
    async with stored_stage(disk.backend, echo) as stage:
        first = stage.connect()
        await first.answer(first.wire.hello_id)
        id = await stage.session()
        disk.hang()
        stage.runtime.rename(id, "something to store")
        await store_says(first, "slow")
        second = stage.connect()
        await second.answer(second.wire.hello_id)
        said = [message["type"] for frame in second.frames for message in frame]
        assert said[:2] == ["ready", "store"]
        assert second.messages("store")[0] == first.messages("store")[-1]
        disk.answer()


@pytest.mark.slow
async def test_a_stop_reaches_the_agent_while_the_disk_is_slow(disk: Disk) -> None:
    async with stored_stage(disk.backend, asking) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        await tab.prompt(id, "hello")
        while tab.view(id).phase != "waiting":
            await tab.news()
        disk.hang()
        tab.wire.send("cancel", session=id)
        await store_says(tab, "slow")
        assert stage.agents.sent("session/cancel")
        disk.answer()
        while tab.view(id).busy:
            await tab.news()


async def test_an_error_is_said_in_words_until_the_store_works_again(
    path: Path, locked: Callable[[], Lock]
) -> None:
    async with stored_stage(path, echo) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        await tab.answer(tab.wire.hello_id)
        lock = await trio.to_thread.run_sync(locked)
        stage.runtime.rename(id, "something to store")
        failing = await store_says(tab, "failing")
        assert "locked" in failing["message"]
        content = [{"type": "text", "text": "hello"}]
        assert not (await tab.ask("prompt", session=id, content=content))["ok"]
        await trio.to_thread.run_sync(lock.release)
        assert "message" not in await store_says(tab, "ok")
        await tab.prompt(id, "hello")


@pytest.mark.slow
async def test_a_command_that_was_unavailable_and_is_sent_again_is_carried_out_once(
    disk: Disk, locked: Callable[[], Lock]
) -> None:
    """It was carried out, and could not be stored in time."""
    async with (
        open_store(disk.backend, limits=Limits(store_failure_timeout_s=0.3)) as store,
        stage_with(obedient, store=store) as stage,
    ):
        id = await stage.session()
        tab = stage.connect(id)
        assert (await tab.ask("prompt", session=id, content=[{"type": "text", "text": "running"}]))[
            "ok"
        ]
        text = [{"type": "text", "text": "once"}]
        disk.hang()
        sent = {"session": id, "content": text}
        prompt = tab.wire.send("prompt", **sent)
        await trio.testing.wait_all_tasks_blocked()
        lock = await trio.to_thread.run_sync(locked)
        disk.answer()
        answer = await tab.answer(prompt)
        assert answer["error"]["code"] == "unavailable"
        await trio.to_thread.run_sync(lock.release)
        await store_says(tab, "ok")
        for _ in range(2):
            tab.wire.send("prompt", again=prompt, **sent)
            answer = await tab.answer(prompt)
            assert answer["ok"]
            assert answer["entry"] == "q1"
        other = [{"type": "text", "text": "another"}]
        tab.wire.send("prompt", again=prompt, session=id, content=other)
        assert (await tab.answer(prompt))["error"]["code"] == "bad_request"
        shown = stage.runtime.get(id).snapshot()
        begun = [item.content for item in shown.items if item.type == "user"]
        waiting = [entry.content for entry in shown.queue]
        texts = [content[0].text for content in (*begun, *waiting)]
        assert texts == ["running", "once"]
