"""Commands that a client sends again to the next server, because it got no answer."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hub_kit import Stage, Tab, stage_of, stage_with
from test_native_stored import stored_stage
from wire_client import WireClient

import agentrt
from agentrt import Limits, Runtime
from agentrt.config import Config
from agentrt.events import plain_text
from agentrt.store import open_store
from journal.kit import abandoned
from postgres.server import Server
from runtime.fakes import SETTABLE, asking, echo, obedient, settable

TEXT = [{"type": "text", "text": "again"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


class Sender:
    """A client that gets no answer to what it sends, but for the last part of each test."""

    def __init__(self) -> None:
        self.client = WireClient("the-same")
        self.answers: dict[str, dict[str, Any]] = {}
        self._sent: dict[str, str] = {}

    async def ok(self, tab: Tab, type: str, **fields: Any) -> dict[str, Any]:
        """Send a command that is answered, to be sent again."""
        id = tab.wire.send(type, **fields)
        self._sent[id] = self.client.unanswered[id]
        answer = self.answers[id] = await tab.answer(id)
        assert answer["ok"], answer
        return answer

    def forget(self) -> None:
        """The answers were lost on their way: the next connection sends all once more."""
        self.client.unanswered |= self._sent
        for id in self._sent:
            del self.client.acks[id]


@pytest.mark.parametrize(
    ("type", "fields"),
    [
        ("permission", {"request": "r1", "option": "allow_once"}),
        pytest.param("permission", {"request": "r1", "cancel": True}, marks=pytest.mark.slow),
        ("cancel", {}),
        ("queue", {"op": "remove", "entry": "q1"}),
        pytest.param(
            "queue", {"op": "edit", "entry": "q1", "content": TEXT}, marks=pytest.mark.slow
        ),
        pytest.param("queue", {"op": "promote", "entry": "q1"}, marks=pytest.mark.slow),
        pytest.param("queue", {"op": "resume"}, marks=pytest.mark.slow),
        pytest.param("session", {"op": "rename", "title": "mine"}, marks=pytest.mark.slow),
        ("session", {"op": "close"}),
        ("prompt", {"content": TEXT}),
        pytest.param("stop_all", None, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value or {})),
)
async def test_what_was_answered_is_answered_the_same_and_not_done_again(
    path: Path, tmp_path: Path, type: str, fields: dict[str, Any] | None
) -> None:
    """The agent asks, and a prompt waits behind it."""
    copy, sender = tmp_path / "copy.db", Sender()
    async with stored_stage(path, asking) as stage:
        id = await stage.session()
        tab = stage.connect(id, client=sender.client)
        await tab.prompt(id, "hello")
        await tab.prompt(id, "later")
        while tab.view(id).phase != "waiting":
            await tab.news()
        await sender.ok(tab, type, **({} if fields is None else {"session": id, **fields}))
        abandoned(path, copy)
        tab.cut()
    sender.forget()
    async with stored_stage(copy, echo) as stage:
        before = (await stage.runtime.read(id)).seq
        tab = stage.connect(client=sender.client)
        for sent, answer in sender.answers.items():
            assert await tab.answer(sent) == answer
        assert stage.agents.processes == []
        assert stage.runtime.list_open() == []
        assert (await stage.runtime.read(id)).seq == before


async def test_a_cancel_that_is_sent_again_does_not_end_a_later_turn(
    path: Path, tmp_path: Path
) -> None:
    copy, sender = tmp_path / "copy.db", Sender()
    async with stored_stage(path, obedient) as stage:
        id = await stage.session()
        tab = stage.connect(id, client=sender.client)
        await tab.prompt(id, "hello")
        await sender.ok(tab, "cancel", session=id)
        while tab.view(id).busy:
            await tab.news()
        await sender.ok(tab, "cancel", session=id)  # nothing comes of it
        await sender.ok(tab, "stop_all")
        abandoned(path, copy)
        tab.cut()
    sender.forget()
    async with stored_stage(copy, obedient) as stage:
        other = stage.connect(id)
        await other.answer(other.wire.hello_id)
        await other.prompt(id, "again")
        while other.view(id).phase != "running":
            await other.news()
        tab = stage.connect(client=sender.client)
        for sent, answer in sender.answers.items():
            assert await tab.answer(sent) == answer
        assert other.view(id).shown["state"]["turn"]["id"] == "t2"
        assert stage.runtime.get(id).state.phase == "running"


async def test_a_setting_that_is_sent_again_does_not_undo_a_later_one(
    path: Path, tmp_path: Path
) -> None:
    copy, sender = tmp_path / "copy.db", Sender()
    async with stored_stage(path, settable, fake=SETTABLE) as stage:
        id = await stage.session()
        tab = stage.connect(id, client=sender.client)
        await tab.prompt(id, "hello")
        modes = stage.runtime.get(id).modes
        assert modes is not None
        first, second = (mode.id for mode in modes.modes[:2])
        await sender.ok(tab, "session", op="set_mode", session=id, mode=second)
        await tab.ok("session", op="set_mode", session=id, mode=first)
        abandoned(path, copy)
        tab.cut()
    sender.forget()
    async with stored_stage(copy, settable) as stage:
        tab = stage.connect(client=sender.client)
        for sent, answer in sender.answers.items():
            assert await tab.answer(sent) == answer
        modes = (await stage.runtime.read(id)).state.modes
        assert modes is not None
        assert modes.mode == first


async def test_a_session_that_was_opened_is_not_opened_again(path: Path, tmp_path: Path) -> None:
    copy, sender = tmp_path / "copy.db", Sender()
    async with stored_stage(path, echo) as stage:
        tab = stage.connect(client=sender.client)
        opened = (await sender.ok(tab, "session", op="new", agent="fake"))["session"]
        await tab.prompt(opened, "hello")
        await sender.ok(tab, "session", op="load", session=opened)
        abandoned(path, copy)
        tab.cut()
    sender.forget()
    async with stored_stage(copy, echo) as stage:
        tab = stage.connect(client=sender.client)
        for sent, answer in sender.answers.items():
            assert await tab.answer(sent) == answer
        assert stage.runtime.list_open() == []


async def test_one_that_had_no_turn_has_gone_with_its_server_and_is_opened_again(
    path: Path, tmp_path: Path
) -> None:
    copy, sender = tmp_path / "copy.db", Sender()
    async with stored_stage(path, echo) as stage:
        tab = stage.connect(client=sender.client)
        await sender.ok(tab, "session", op="new", agent="fake")
        abandoned(path, copy)
        tab.cut()
    sender.forget()
    async with stored_stage(copy, echo) as stage:
        tab = stage.connect(client=sender.client)
        for sent in sender.answers:
            again = await tab.answer(sent)
            assert [info.session for info in stage.runtime.list_open()] == [again["session"]]


async def test_an_id_that_is_used_for_another_command_is_refused_by_the_next_server_too(
    path: Path, tmp_path: Path
) -> None:
    copy, client = tmp_path / "copy.db", WireClient("the-same")
    async with stored_stage(path, echo) as stage:
        id = await stage.session()
        tab = stage.connect(id, client=client)
        await tab.prompt(id, "hello")
        await tab.ok("session", op="rename", session=id, title="mine")
        used = f"c{int(client.new_id()[1:]) - 1}"
        abandoned(path, copy)
        tab.cut()
    del client.acks[used]
    client.unanswered[used] = f'{{"type": "stop_all", "id": "{used}"}}'
    async with stored_stage(copy, echo) as stage:
        tab = stage.connect(client=client)
        assert (await tab.answer(used))["error"]["code"] == "bad_request"


async def test_a_stop_is_answered_also_while_as_many_commands_wait_as_may(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrt._serve.client.MAX_JOBS", 0)
    async with stored_stage(path, obedient, limits=Limits()) as stage:
        id = await stage.session()
        stage.runtime.get(id).submit("hello")
        tab = stage.connect(id)
        assert await tab.refused("session", op="rename", session=id, title="mine") == "limit"
        assert stage.runtime.get(id).title is None
        assert (await tab.ok("cancel", session=id))["turn"] == "t1"


FAKE = str(Path(__file__).parents[1] / "claude" / "fakecli.py")


@asynccontextmanager
async def claude_stage(path: Path) -> AsyncIterator[Stage]:
    """With a scripted CLI, which takes prompts into a running turn."""
    agent = agentrt.agents.claude([sys.executable, FAKE, "fold_in"], name="fake")
    async with (
        agentrt.store.open_store(path) as store,
        agentrt.open_runtime(config=Config(agents={"fake": agent}), store=store) as runtime,
        stage_of(runtime) as stage,
    ):
        yield stage


@pytest.mark.slow
async def test_a_steered_prompt_is_answered_the_same_and_not_sent_again(
    path: Path, tmp_path: Path
) -> None:
    copy, sender = tmp_path / "copy.db", Sender()
    async with claude_stage(path) as stage:
        id = (await stage.runtime.create("fake", cwd=tmp_path)).id
        tab = stage.connect(id, client=sender.client)
        await tab.prompt(id, "hello")
        while not tab.view(id).tools():
            await tab.news()
        await sender.ok(tab, "prompt", session=id, content=TEXT, when="steer")
        while tab.view(id).texts() != ["both answered"]:
            await tab.news()
        abandoned(path, copy)
        tab.cut()
    sender.forget()
    async with claude_stage(copy) as stage:
        before = (await stage.runtime.read(id)).seq
        tab = stage.connect(client=sender.client)
        for sent, answer in sender.answers.items():
            assert await tab.answer(sent) == answer
        assert stage.runtime.list_open() == []
        assert (await stage.runtime.read(id)).seq == before


async def test_a_prompt_that_another_server_of_the_store_took_is_not_taken_again(
    postgres: Server,
) -> None:
    """It was answered while the server that gets it again ran already."""
    url, sender = postgres.url(f"t_{secrets.token_hex(6)}"), Sender()
    async with (
        open_store(url, node="a") as a,
        open_store(url, node="b") as b,
        stage_with(echo, store=b) as later,
    ):
        async with stage_with(echo, store=a) as stage:
            id = await stage.session()
            tab = stage.connect(id, client=sender.client)
            await sender.ok(tab, "prompt", session=id, content=TEXT)
            while tab.view(id).busy:
                await tab.news()
            tab.cut()
        sender.forget()
        with trio.fail_after(30):
            while later.runtime.stored(id) is None:  # noqa: ASYNC110 - within a second
                await trio.sleep(0.05)
        tab = later.connect(client=sender.client)
        for sent, answer in sender.answers.items():
            assert await tab.answer(sent) == answer
        await later.runtime.get(id).run("another")
        items = later.runtime.get(id).log.state.items.values()
        said = [plain_text(item.content) for item in items if item.type == "user"]
        assert said == ["again", "another"]


async def test_an_answer_comes_once_and_only_to_a_connection_that_has_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create, goes_on = Runtime.create, trio.Event()

    async def slow(*arguments: Any, **options: Any) -> agentrt.Session:
        await goes_on.wait()
        return await create(*arguments, **options)

    monkeypatch.setattr(Runtime, "create", slow)
    async with stage_with(echo) as stage:
        client = WireClient("mine")
        tab = stage.connect(client=client)
        id = tab.wire.send("session", op="new", agent="fake")
        [text] = client.unanswered.values()
        tab.cut()
        client.unanswered.clear()
        tab = stage.connect(client=client)  # which sends it again a little later
        goes_on.set()
        while not stage.runtime.list_open():
            await tab.news()
        await trio.testing.wait_all_tasks_blocked()
        assert id not in client.acks
        client.unanswered[id] = text
        tab.wire.send_again(id)
        assert (await tab.answer(id))["session"] == stage.runtime.list_open()[0].session
