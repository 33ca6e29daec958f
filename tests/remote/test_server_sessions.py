"""The session of a server that somebody means by the beginning of its id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import AgentrtError, SessionNotFound
from agentrt.store import open_store

from .cutting import stage


@pytest.fixture
def pages_of_two(monkeypatch: Any) -> None:
    monkeypatch.setattr("agentrt._serve.hub.LISTED_SESSIONS", 1)
    monkeypatch.setattr("agentrt._cli.servers.PAGE_SESSIONS", 2)


async def stored_sessions(path: Path) -> list[str]:
    async with open_store(path) as store, stage(store=store) as it:
        sessions = [await it.runtime.create("echo", cwd="/") for _ in range(6)]
        for session in sessions:
            await session.run("hello")
        return [session.id for session in sessions]


@pytest.mark.usefixtures("pages_of_two")
async def test_any_session_is_found_however_long_the_list_is(tmp_path: Path) -> None:
    ids = await stored_sessions(tmp_path / "store")
    async with open_store(tmp_path / "store") as store, stage(store=store) as it:
        open_now = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        assert await line.newest() == [open_now.id, ids[-1]]
        for id in [*ids, open_now.id]:
            assert await line.find(id) == id
            beginning = next(id[:n] for n in range(1, 99) if only(id[:n], [*ids, open_now.id]))
            assert await line.find(beginning) == id


@pytest.mark.usefixtures("pages_of_two")
async def test_a_beginning_of_none_or_of_several_is_refused(tmp_path: Path) -> None:
    ids = await stored_sessions(tmp_path / "store")
    async with open_store(tmp_path / "store") as store, stage(store=store) as it:
        line = await it.line()
        with pytest.raises(SessionNotFound, match="the server has no session 'nothing'"):
            await line.find("nothing")
        with pytest.raises(AgentrtError, match="several sessions begin with ''") as refused:
            await line.find("")
        assert ids[0] not in str(refused.value)  # five are named, the newest
        assert ids[-1] in str(refused.value)


def only(beginning: str, ids: list[str]) -> bool:
    return sum(id.startswith(beginning) for id in ids) == 1
