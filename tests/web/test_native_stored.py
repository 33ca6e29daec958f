"""Stored sessions as clients of `agentrt.v1` see them: listed, read, opened by a prompt."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hub_kit import Stage, stage_of, stage_with
from wire_client import WireClient

from agentrt import Limits
from agentrt.errors import StoreUnavailable
from agentrt.lowlevel import Backend
from agentrt.store import LoadedSession, open_store
from agentrt.testing import open_fake_runtime
from journal.kit import RESUMES, abandoned
from runtime.fakes import Script, asking, echo

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from json_lines import JsonLines, JsonLinesReader


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@asynccontextmanager
async def stored_stage(
    path: Path | Backend, *scripts: Script, **options: Any
) -> AsyncIterator[Stage]:
    async with open_store(path) as store, stage_with(*scripts, store=store, **options) as stage:
        yield stage


async def left(path: Path | JsonLines, *prompts: str) -> str:
    """A session of an earlier server, with these turns."""
    async with stored_stage(path, echo) as stage:
        session = await stage.runtime.create("fake")
        for prompt in prompts:
            await session.run(prompt)
        return session.id


async def test_a_stored_session_is_listed_and_shown_without_an_agent(path: Path) -> None:
    id = await left(path, "hello")
    async with stored_stage(path, echo) as stage:
        tab = stage.connect()
        answer = await tab.answer(tab.wire.attach(id))
        assert answer["answer"] == "snapshot"
        while id not in tab.client.views or tab.view(id).epoch is None:
            await tab.news()
        assert tab.view(id).texts("user") + tab.view(id).texts() == ["", "hello"]
        assert tab.view(id).phase == "dead"
        [listed] = tab.client.sessions
        assert (listed["phase"], listed["prompt"]) == ("stored", "hello")
        assert stage.agents.processes == []
        assert stage.runtime.list_open() == []


async def test_a_prompt_opens_it_and_everybody_who_looks_sees_each_event_once(path: Path) -> None:
    id = await left(path, "hello")
    async with stored_stage(path, echo) as stage:
        tabs = [stage.connect(id), stage.connect(id)]
        for tab in tabs:
            await tab.answer(tab.wire.hello_id)
        await tabs[0].prompt(id, "again")
        for tab in tabs:
            while tab.view(id).epoch is None or tab.view(id).texts() != ["hello", "again"]:
                await tab.news()
            assert tab.view(id).snapshots == 1
        assert len(stage.agents.processes) == 1
        while [listed["phase"] for listed in tabs[0].client.sessions] == ["stored"]:
            await tabs[0].news()


class SlowReader(JsonLinesReader):
    """Reads sessions when it is let; `loaded` are those that it was asked for."""

    def __init__(self, backend: JsonLines) -> None:
        super().__init__(backend)
        self.loaded: list[str] = []
        self.begun, self.free = trio.Event(), threading.Event()

    def load(self, session: str, last: int | None = None) -> LoadedSession | None:
        self.loaded.append(session)
        trio.from_thread.run_sync(self.begun.set)
        assert self.free.wait(60)
        return super().load(session, last)


async def test_nothing_more_is_read_for_a_client_that_has_left(tmp_path: Path) -> None:
    lines = tmp_path / "sessions.jsonl"
    ids = [await left(JsonLines(lines), f"n{number}") for number in range(4)]
    slow = JsonLines(lines)
    reader = SlowReader(slow)
    slow.reader = lambda: reader  # type: ignore[method-assign]
    async with stored_stage(slow, echo) as stage:
        tabs = [stage.connect(ids[0]), stage.connect(), stage.connect()]
        for tab, id in zip(tabs[1:], ids[1:], strict=False):
            await tab.answer(tab.wire.hello_id)
            tab.wire.attach(id)
        await reader.begun.wait()
        for tab in tabs:
            tab.cut()
        reader.free.set()
        stays = stage.connect()
        await stays.answer(stays.wire.attach(ids[-1]))
        assert set(reader.loaded) == {reader.loaded[0], ids[-1]}


async def test_the_turns_before_those_of_the_snapshot_are_read_without_an_agent(
    path: Path,
) -> None:
    id = await left(path, "one", "two", "three", "four")
    async with stored_stage(path, echo, limits=Limits(snapshot_turns=1)) as stage:
        tab = stage.connect(id)
        await tab.answer(tab.wire.hello_id)
        while tab.view(id).epoch is None:
            await tab.news()
        before = tab.view(id).earlier
        answer = await tab.ok("history", session=id, before=before)
        assert [item.get("text") for item in answer["items"]] == [None, "three"]
        await tab.prompt(id, "five")
        while tab.view(id).texts()[-1] != "five":
            await tab.news()
        while tab.view(id).earlier is not None:
            await tab.ok("history", session=id, before=tab.view(id).earlier)
        assert tab.view(id).texts() == ["one", "two", "three", "four", "five"]


async def test_of_a_long_session_that_was_killed_only_the_last_turns_are_read(
    path: Path, tmp_path: Path
) -> None:
    copy, few = tmp_path / "copy.db", Limits(snapshot_turns=2)
    async with stored_stage(path, echo) as stage:
        session = await stage.runtime.create("fake")
        for number in range(8):
            await session.run(f"n{number}")
        abandoned(path, copy)
    async with stored_stage(copy, echo, limits=few) as stage:
        state = (await stage.runtime.read(session.id, whole=False)).state
        assert list(state.turns) == ["t6", "t7", "t8"]
        assert len((await stage.runtime.read(session.id)).state.turns) == 8
    async with open_store(copy) as store:
        [entry] = await store.sessions()
        assert (entry.prompt, entry.turns) == ("n0", 8)
        reopened = await store.load(session.id)
        assert [turn.id for record in reopened.records for turn in record.turns] == [
            f"t{number}" for number in range(1, 9)
        ]


async def test_whoever_asks_for_the_same_earlier_turns_at_once_gets_them_once(path: Path) -> None:
    id = await left(path, *(f"n{number}" for number in range(6)))
    async with stored_stage(path, echo, limits=Limits(snapshot_turns=1)) as stage:
        tabs = [stage.connect(id), stage.connect(id)]
        for tab in tabs:
            await tab.answer(tab.wire.hello_id)
            while tab.view(id).epoch is None:
                await tab.news()
        while any(tab.view(id).earlier for tab in tabs):
            sent = [
                tab.wire.send("history", session=id, before=tab.view(id).earlier) for tab in tabs
            ]
            for tab, command in zip(tabs, sent, strict=True):
                assert (await tab.answer(command))["ok"]
        for tab in tabs:
            assert tab.view(id).texts() == [f"n{number}" for number in range(6)]


async def test_history_of_a_session_that_nobody_looks_at_reads_it(path: Path) -> None:
    id = await left(path, "one", "two")
    async with stored_stage(path, echo) as stage:
        tab = stage.connect()
        answer = await tab.ok("history", session=id, before="i3")
        assert [item.get("text") for item in answer["items"]] == [None, "one"]
        assert stage.agents.processes == []
        assert await tab.refused("history", session=id, before="i99") == "unknown_request"


async def test_two_clients_that_prompt_at_once_open_it_once(path: Path) -> None:
    id = await left(path, "hello")
    async with stored_stage(path, echo) as stage:
        tabs = [stage.connect(id), stage.connect(id)]
        content = [{"type": "text", "text": "again"}]
        sent = [tab.wire.send("prompt", session=id, content=content) for tab in tabs]
        for tab, command in zip(tabs, sent, strict=True):
            assert (await tab.answer(command))["ok"]
        while tabs[0].view(id).texts() != ["hello", "again", "again"]:
            await tabs[0].news()
        assert len(stage.agents.processes) == 1


@pytest.mark.slow
async def test_clients_that_come_back_together_are_each_shown_all_that_they_want(
    path: Path,
) -> None:
    ids = [await left(path, f"number {number}") for number in range(4)]
    async with stored_stage(path, echo) as stage:
        tabs = [stage.connect(*wanted) for wanted in (ids, ids[::-1], ids[2:])]
        for tab, count in zip(tabs, (4, 4, 2), strict=True):
            answer = await tab.answer(tab.wire.hello_id)
            assert list(answer["sessions"].values()) == ["snapshot"] * count
            while any(view.epoch is None for view in tab.client.views.values()):
                await tab.news()


async def test_a_client_of_the_killed_server_goes_on_where_it_was(
    path: Path, tmp_path: Path
) -> None:
    copy, client = tmp_path / "copy.db", WireClient(None)
    async with stored_stage(path, asking) as stage:
        id = await stage.session()
        tab = stage.connect(id, client=client)
        await tab.prompt(id, "hello")
        while tab.view(id).phase != "waiting":
            await tab.news()
        abandoned(path, copy)
        tab.cut()
    events = len(client.views[id].events)
    async with stored_stage(copy, echo) as stage:
        tab = stage.connect(client=client)
        answer = await tab.answer(tab.wire.hello_id)
        assert answer["sessions"] == {id: "replay"}
        while tab.view(id).phase != "dead":
            await tab.news()
        assert tab.view(id).snapshots == 1
        assert len(tab.view(id).events) > events
        [turn] = tab.view(id).shown["turns"].values()
        assert turn["outcome"] == "agent_died"
        await tab.prompt(id, "again")
        while tab.view(id).texts()[-1:] != ["again"]:
            await tab.news()


async def test_a_closed_session_is_listed_until_it_is_deleted(path: Path) -> None:
    async with stored_stage(path, echo) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        await tab.prompt(id, "hello")
        while tab.view(id).busy or not tab.view(id).texts():
            await tab.news()
        await tab.ok("session", op="close", session=id)
        await tab.ok("session", op="close", session=id)
        [listed] = (await tab.ok("session", op="list"))["sessions"]
        assert listed["phase"] == "stored"
        assert (await tab.ok("cancel", session=id))["turn"] is None
        await tab.ok("session", op="delete", session=id)
        assert (await tab.ok("session", op="list"))["sessions"] == []
        assert await tab.refused("prompt", session=id, content=[{"type": "text", "text": "x"}]) == (
            "unknown_session"
        )


async def test_one_whose_agent_is_gone_can_be_read_and_says_so_at_a_prompt(path: Path) -> None:
    id = await left(path, "hello")
    async with (
        open_store(path) as store,
        open_fake_runtime({}, store=store) as runtime,
        stage_of(runtime) as stage,
    ):
        tab = stage.connect(id)
        await tab.answer(tab.wire.hello_id)
        content = [{"type": "text", "text": "again"}]
        assert await tab.refused("prompt", session=id, content=content) == "agent_failed"
        assert tab.view(id).texts() == ["hello"]


async def test_a_session_that_cannot_be_read_now_is_not_said_to_be_unknown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await left(path, "hello")
    failures = [StoreUnavailable("the database is away")]
    async with stored_stage(path, echo) as stage:
        read = stage.hub.read

        async def failing(session: str) -> Any:
            if failures:
                raise failures.pop()
            return await read(session)

        monkeypatch.setattr(stage.hub, "read", failing)
        tab = stage.connect(id)
        assert (await tab.answer(tab.wire.hello_id))["sessions"] == {id: "unavailable"}
        assert (await tab.ok("attach", session=id))["answer"] == "snapshot"


async def test_words_find_the_sessions_in_which_they_were_said(path: Path) -> None:
    id = await left(path, "the green door")
    await left(path, "another matter")
    async with stored_stage(path, echo) as stage:
        tab = stage.connect()
        [found] = (await tab.ok("session", op="list", query="green"))["found"]
        assert found["session"]["session"] == id
        assert "door" in found["snippet"]


async def test_an_old_session_is_in_the_list_while_somebody_reads_it(
    path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("agentrt._serve.hub.LISTED_SESSIONS", 1)
    ids = [await left(path, f"number {number}") for number in range(3)]
    async with stored_stage(path, echo) as stage:
        tab = stage.connect()
        await tab.answer(tab.wire.hello_id)
        assert [info["session"] for info in tab.client.sessions] == ids[2:]
        await tab.answer(tab.wire.attach(ids[0]))
        while [info["session"] for info in tab.client.sessions] != [ids[0], ids[2]]:
            await tab.news()


async def test_a_long_list_is_given_page_by_page(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("agentrt._serve.hub.LISTED_SESSIONS", 2)
    ids = [await left(path, f"number {number}") for number in range(5)]
    async with stored_stage(path, echo) as stage:
        tab = stage.connect()
        first = await tab.ok("session", op="list")
        assert [info["session"] for info in first["sessions"]] == ids[3:]
        assert first["more"]
        second = await tab.ok("session", op="list", before=ids[3], limit=2)
        assert [info["session"] for info in second["sessions"]] == ids[1:3]
        assert second["more"]
        third = await tab.ok("session", op="list", before=ids[1], limit=2)
        assert ([info["session"] for info in third["sessions"]], third["more"]) == (ids[:1], False)


@pytest.mark.slow
async def test_a_session_that_rests_is_closed_to_its_row_when_nobody_follows_it_any_more(
    path: Path,
) -> None:
    limits = Limits(suspend_after_s=0.2, unload_after_s=0.4)
    async with stored_stage(path, echo, limits=limits, fake=RESUMES) as stage:
        id = await stage.session()
        client = WireClient("comes-back")
        tab, other = stage.connect(id, client=client), stage.connect()
        await tab.prompt(id, "hello")
        while [listed["phase"] for listed in other.client.sessions] != ["dead"]:
            await other.news()
        await trio.sleep(1)
        assert [info.session for info in stage.runtime.list_open()] == [id]
        tab.cut()
        while [listed["phase"] for listed in other.client.sessions] != ["stored"]:
            await other.news()
        assert stage.runtime.list_open() == []
        tab = stage.connect(client=client)
        answer = await tab.answer(tab.wire.hello_id)
        assert answer["sessions"] == {id: "replay"}
        assert stage.runtime.list_open() == []
        await tab.prompt(id, "again")
        while tab.view(id).texts() != ["hello", "again"]:
            await tab.news()
        assert tab.view(id).snapshots == 1


async def test_a_prompt_that_is_sent_again_to_the_next_server_is_not_carried_out_again(
    path: Path, tmp_path: Path
) -> None:
    copy, client = tmp_path / "copy.db", WireClient("the-same")
    content = [{"type": "text", "text": "hello"}]
    async with stored_stage(path, echo) as stage:
        id = await stage.session()
        tab = stage.connect(id, client=client)
        sent = tab.wire.send("prompt", session=id, content=content)
        text = client.unanswered[sent]
        first = await tab.answer(sent)
        abandoned(path, copy)
        tab.cut()
    client.unanswered[sent] = text  # the answer was lost on its way
    del client.acks[sent]
    async with stored_stage(copy, echo) as stage:
        tab = stage.connect(client=client)
        assert await tab.answer(sent) == first
        assert stage.agents.processes == []
        [turn] = (await stage.runtime.read(id)).state.turns.values()
        assert turn.outcome in ("completed", "agent_died")


async def test_a_prompt_is_answered_when_it_is_stored(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    async with stored_stage(path, asking) as stage:
        id = await stage.session()
        tab = stage.connect(id)
        answer = await tab.prompt(id, "hello")
        abandoned(path, copy)
        assert answer["turn"] == "t1"
        assert stage.hub.feed(id).log.seq >= answer["seq"]
    async with open_store(copy) as store:
        assert [turn.id for turn in (await store.snapshot(id)).turns] == ["t1"]


async def test_an_agent_that_does_not_remember_is_told_what_was_said(path: Path) -> None:
    id = await left(path, "the first word")
    async with stored_stage(path, echo) as stage:
        tab = stage.connect(id)
        await tab.prompt(id, "again")
        while tab.view(id).texts() != ["the first word", "again"]:
            await tab.news()
        events = tab.view(id).events
        restarted = [event["data"] for event in events if event.get("code") == "agent_restarted"]
        assert restarted == [{"resumed": False}]
        assert (await tab.ok("retell", session=id))["seq"]
        while len(texts := tab.view(id).texts()) < 3:
            await tab.news()
        assert texts[2].startswith("[agentrt] You do not remember this conversation")
        assert "The user: the first word" in texts[2]
        other = stage.connect(role="viewer")
        assert await other.refused("retell", session=id) == "forbidden"


async def test_there_is_nothing_to_tell_in_a_new_session(path: Path) -> None:
    async with stored_stage(path, echo) as stage:
        id = await stage.session()
        assert await stage.connect(id).refused("retell", session=id) == "bad_request"


async def test_who_follows_a_session_that_is_closed_elsewhere_attaches_again_to_go_on_with_it(
    path: Path,
) -> None:
    async with stored_stage(path, echo) as stage:
        id = await stage.session()
        tabs = [stage.connect(id), stage.connect(id)]
        await tabs[0].prompt(id, "hello")
        while tabs[0].view(id).busy or not tabs[0].view(id).texts():
            await tabs[0].news()
        await tabs[0].ok("session", op="close", session=id)
        for tab in tabs:
            while tab.view(id).phase != "closed":
                await tab.news()
        while [listed["phase"] for listed in tabs[1].client.sessions] != ["stored"]:
            await tabs[1].news()
        view = tabs[1].view(id)
        await tabs[1].answer(
            tabs[1].wire.send("attach", session=id, epoch=view.epoch, seq=view.seq)
        )
        while view.phase != "dead":
            await tabs[1].news()
        await tabs[0].prompt(id, "again")
        while view.texts() != ["hello", "again"]:
            await tabs[1].news()
        assert view.snapshots == 1
        assert tabs[0].view(id).phase == "closed"


async def test_the_files_of_a_stored_session_are_shown_without_opening_it(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes").write_text("hello")
    async with stored_stage(path, echo) as stage:
        tab = stage.connect()
        new = await tab.ok("session", op="new", agent="fake", cwd=str(tmp_path / "work"))
        await tab.prompt(new["session"], "hello")
        await tab.ok("session", op="close", session=new["session"])
        found = await tab.ok("file", session=new["session"], path="notes")
        assert found["content"] == "hello"
        listed = await tab.ok("folder", session=new["session"])
        assert [each["name"] for each in listed["entries"]] == ["notes"]
        [info] = (await tab.ok("session", op="list"))["sessions"]
        assert info["phase"] == "stored"
