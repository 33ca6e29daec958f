"""A session is taken from one file to another: whole, and never back to an earlier state."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.errors import SessionNotFound
from agentrt.storage import writing
from agentrt.store import open_store
from runtime.fakes import Incarnations, echo

from .kit import again, checked, kept, whole


async def test_a_moved_session_is_what_it_was(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("mend the door")
        before, events = await store.snapshot("one"), await store.events("one")
    with writing(path) as source:
        packed = source.pack("one")
    assert packed is not None
    async with open_store(tmp_path / "other.db") as store:
        await store.put(packed)
        assert whole(await store.snapshot("one")) == whole(before)
        assert await store.events("one") == events
        assert [hit.entry.session for hit in await store.search("door")] == ["one"]
        async with again(store, Incarnations(echo)) as session:
            await session.run("again")
        with pytest.raises(SessionNotFound):
            await store.snapshot("two")
    assert checked(tmp_path / "other.db") == {"one": session.log.seq}


async def test_an_earlier_state_does_not_replace_a_later_one(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("first")
    with writing(path) as source:
        packed = source.pack("one")
    assert packed is not None
    async with open_store(path) as store:
        async with again(store, Incarnations(echo)) as session:
            await session.run("second")
        await store.put(packed)
        assert len((await store.snapshot("one")).turns) == 2
