"""The folders that ACP clients name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hub_kit import stage_of
from test_acp_fork import Client, client_of, echo
from trio.testing import MockClock

from agentrt import Runtime
from agentrt.events import Notice
from agentrt.store import Store, open_store
from agentrt.testing import open_fake_runtime
from runtime.fakes import Incarnations

NAMING = ("session/new", "session/load", "session/resume", "session/fork")


class Editor(Client):
    """One that has greeted. `offered`: what it was answered."""

    offered: dict[str, Any]

    async def new(self, **about: Any) -> str:
        new = await self.ask("session/new", cwd="/", mcpServers=[], **about)
        return str(new["result"]["sessionId"])

    async def say(self, session: str, text: str) -> None:
        said = [{"type": "text", "text": text}]
        ended = await self.ask("session/prompt", sessionId=session, prompt=said)
        assert ended["result"]["stopReason"] == "end_turn"


@asynccontextmanager
async def talking(
    agents: Incarnations, store: Store | None = None, roots: Sequence[Path] = ()
) -> AsyncIterator[tuple[Editor, Runtime]]:
    async with (
        open_fake_runtime({"fake": agents.start}, store=store) as runtime,
        stage_of(runtime, roots=roots) as stage,
    ):
        editor = Editor(stage)
        greeted = await editor.ask("initialize", protocolVersion=1)
        editor.offered = greeted["result"]["agentCapabilities"]
        yield editor, runtime


def refusal(message: str) -> dict[str, Any]:
    return {"code": -32602, "message": message, "data": {"code": "bad_request", "data": None}}


@pytest.mark.parametrize("method", NAMING)
@pytest.mark.parametrize("folder", ["work", ".", "", "~/work"])
async def test_a_folder_that_is_not_said_in_full_is_refused(
    method: str, folder: str, autojump_clock: MockClock
) -> None:
    async with client_of(echo) as (client, runtime):
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        session = new["result"]["sessionId"]
        refused = await client.ask(method, sessionId=session, cwd=folder, mcpServers=[])
        why = f"{method}: cwd must be an absolute path, not {folder!r}"
        assert refused["error"] == refusal(why)
        assert len(runtime.list()) == 1


@pytest.mark.parametrize("method", NAMING)
@pytest.mark.parametrize(
    ("folders", "wrong"),
    [
        (
            ["/lib", "docs"],
            "{}: additionalDirectories must be an absolute path, not 'docs'",
        ),
        (["/lib", 5], "{}: wrong: additionalDirectories[1]"),
        ("/lib", "{}: wrong: additionalDirectories"),
    ],
    ids=["a relative one", "a number", "no list"],
)
async def test_further_folders_that_cannot_be_meant_are_refused(
    method: str, folders: object, wrong: str, autojump_clock: MockClock
) -> None:
    async with client_of(echo) as (client, runtime):
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        session = new["result"]["sessionId"]
        about = {"sessionId": session, "cwd": "/", "mcpServers": []}
        refused = await client.ask(method, **about, additionalDirectories=folders)
        assert refused["error"] == refusal(wrong.format(method))
        assert len(runtime.list()) == 1


def agents_that_take_folders() -> Incarnations:
    can = {"additionalDirectories": {}, "fork": {}, "resume": {}}
    return Incarnations(echo, capabilities={"sessionCapabilities": can})


def given(agents: Incarnations, method: str) -> list[str] | None:
    """The folders that an agent was given with its last session."""
    [*_, asked] = [
        each for agent in agents.agents for each in agent.received if each.get("method") == method
    ]
    folders: list[str] | None = asked["params"].get("additionalDirectories")
    return folders


async def left_with_a_folder(agents: Incarnations, store: Store) -> str:
    """A stored session with a further folder, which is not open any more."""
    async with talking(agents, store=store) as (client, _):
        session = await client.new(additionalDirectories=["/lib"])
        await client.say(session, "hello")
    return str(session)


async def test_an_agent_gets_the_further_folders_of_its_client(autojump_clock: MockClock) -> None:
    agents = agents_that_take_folders()
    async with talking(agents) as (client, _):
        assert client.offered["sessionCapabilities"]["additionalDirectories"] == {}
        folders = ["/lib", "/docs"]
        first = await client.new(additionalDirectories=folders)
        assert given(agents, "session/new") == folders
        await client.say(first, "hello")
        listed = (await client.ask("session/list"))["result"]["sessions"]
        assert [each.get("additionalDirectories") for each in listed] == [folders]
        for said, wanted in ({"additionalDirectories": ["/other"]}, ["/other"]), ({}, None):
            await client.ask("session/fork", sessionId=first, cwd="/", mcpServers=[], **said)
            assert given(agents, "session/fork") == wanted


@pytest.mark.slow
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"additionalDirectories": ["/other"]}, ["/other"]),
        ({"additionalDirectories": []}, None),
        ({"additionalDirectories": None}, None),
        ({}, None),
    ],
    ids=["others", "an empty list", "null", "nothing"],
)
async def test_a_stored_session_is_opened_with_the_folders_that_its_client_says_then(
    method: str, said: dict[str, Any], wanted: list[str] | None, tmp_path: Path
) -> None:
    agents = agents_that_take_folders()
    async with open_store(tmp_path / "sessions.db") as store:
        session = await left_with_a_folder(agents, store)
        async with talking(agents, store=store) as (client, _):
            [listed] = (await client.ask("session/list"))["result"]["sessions"]
            assert listed["additionalDirectories"] == ["/lib"]
            await client.ask(method, sessionId=session, cwd="/", mcpServers=[], **said)
            await client.say(session, "again")
            assert given(agents, "session/resume") == wanted
            [listed] = (await client.ask("session/list"))["result"]["sessions"]
            assert listed.get("additionalDirectories") == wanted


async def test_a_session_that_is_taken_in_the_place_of_a_new_one_keeps_its_folders(
    tmp_path: Path,
) -> None:
    agents = agents_that_take_folders()
    async with open_store(tmp_path / "sessions.db") as store:
        session = await left_with_a_folder(agents, store)
        async with talking(agents, store=store) as (client, _):
            assert await client.new(_meta={"agentrt": {"session": session}}) == session
            await client.say(session, "again")
            assert given(agents, "session/resume") == ["/lib"]


async def test_further_folders_are_where_sessions_may_be(tmp_path: Path) -> None:
    agents = agents_that_take_folders()
    async with talking(agents, roots=[tmp_path]) as (client, runtime):
        about = {"cwd": str(tmp_path), "mcpServers": []}
        for folders in (["/etc"], [str(tmp_path), "/etc"]):
            refused = await client.ask("session/new", **about, additionalDirectories=folders)
            assert "sessions are opened in" in refused["error"]["message"]
        assert not runtime.list()
        new = await client.ask("session/new", **about)
        await client.say(new["result"]["sessionId"], "hello")
        for method in ("session/load", "session/resume", "session/fork"):
            about["sessionId"] = new["result"]["sessionId"]
            refused = await client.ask(method, **about, additionalDirectories=["/etc"])
            assert "sessions are opened in" in refused["error"]["message"], method


async def test_an_agent_that_takes_no_further_folders_is_given_none_and_that_is_said(
    autojump_clock: MockClock,
) -> None:
    agents = Incarnations(echo)
    async with talking(agents) as (client, runtime):
        session = await client.new(additionalDirectories=["/lib"])
        assert given(agents, "session/new") is None
        notices = [each for each in runtime.get(session).log.since(0) if isinstance(each, Notice)]
        assert [notice.code for notice in notices] == ["roots_unsupported"]
