"""What a store keeps of sessions that run, and who may write it."""

from __future__ import annotations

import os
import stat
import sys
import time
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt
from agentrt.errors import StoreError, StoreInUse
from agentrt.events import Item, TurnRecord
from agentrt.storage import decode_record, encode_record
from agentrt.store import CommandAnswer, Record, open_store
from runtime.fakes import Incarnations, asking, echo, every, kinds, obedient

from .disk import later_version
from .kit import again, checked, kept, whole


@pytest.mark.parametrize("size", [1, 10_000, 2_000_000])
def test_a_record_of_any_size_is_read_as_it_was_written(size: int) -> None:
    item = Item(id="i1", type="text", text="word " * (size // 5), status="completed")
    record = Record(3, [TurnRecord(id="t1", origin="user", outcome="completed")], [item])
    assert decode_record(encode_record(record)) == record


@pytest.mark.every_store
async def test_what_a_session_shows_is_read_back_from_the_store(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("first")
            await session.run("second")
        assert whole(await store.snapshot("one")) == whole(session.snapshot())
    assert checked(path) == {"one": session.log.seq}


@pytest.mark.every_store
async def test_a_list_names_the_sessions_that_had_a_turn_the_latest_first(path: Path) -> None:
    async with open_store(path) as store:
        for id in ("one", "two"):
            async with kept(store, Incarnations(echo), id=id) as session:
                await session.run(f"what is {id}?\n\nAnd  why?")
        async with kept(store, Incarnations(echo), id="silent"):
            pass
        async with kept(store, Incarnations(echo), id="three") as session:
            session.rename("mine")
            await session.run("hello")
            found = await store.sessions()
    assert [(each.session, each.title, each.prompt, each.turns) for each in found] == [
        ("three", "mine", "hello", 1),
        ("two", None, "what is two? And why?", 1),
        ("one", None, "what is one? And why?", 1),
    ]
    assert found[0].agent == "fake"
    assert found[0].cwd == "/"
    assert found[0].agent_session == "s1"


@pytest.mark.every_store
async def test_a_list_is_read_page_by_page(path: Path) -> None:
    async with open_store(path) as store:
        for id in ("one", "two", "three"):
            async with kept(store, Incarnations(echo), id=id) as session:
                await session.run("hello")
        page = await store.sessions(limit=2)
        assert [each.session for each in page] == ["three", "two"]
        last = page[-1]
        page = await store.sessions(limit=2, before=(last.updated, last.session))
        assert [each.session for each in page] == ["one"]


@pytest.mark.every_store
async def test_a_list_can_be_of_one_folder(path: Path) -> None:
    async with open_store(path) as store:
        for id, folder in (("one", "/"), ("two", "/tmp"), ("three", "/")):
            async with kept(store, Incarnations(echo), id=id, cwd=folder) as session:
                await session.run("hello")
        assert [each.session for each in await store.sessions(cwd="/", limit=2)] == ["three", "one"]


@pytest.mark.every_store
async def test_a_session_is_found_by_the_beginning_of_its_id(path: Path) -> None:
    async with open_store(path) as store:
        for id in ("ab_c", "abXc", "b"):
            async with kept(store, Incarnations(echo), id=id) as session:
                await session.run("hello")
        assert [each.session for each in await store.find("ab_")] == ["ab_c"]
        assert [each.session for each in await store.find("ab")] == ["abXc", "ab_c"]
        assert await store.find("c") == []


@pytest.mark.slow
async def test_no_id_looks_like_an_option_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = chain(["-like-an-option"], repeat("like-an-id"))
    monkeypatch.setattr("secrets.token_urlsafe", lambda *size: next(drawn))
    async with agentrt.open_session("demo") as session:
        assert session.id == "like-an-id"


@pytest.mark.every_store
async def test_the_turns_of_a_session_are_read_from_the_end(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            for number in range(5):
                await session.run(f"prompt {number}")
        last = await store.records("one", count=2)
        earlier = await store.records("one", before=last[0].number, count=10)
        said = [
            [item.content[0].text for item in record.items if item.type == "user"]  # type: ignore[union-attr]
            for record in (*earlier, *last)
        ]
        assert [text for texts in said for text in texts] == [f"prompt {n}" for n in range(5)]
        assert [turn for record in last for turn in record.turns] == session.snapshot().turns[-2:]
        with pytest.raises(agentrt.errors.SessionNotFound):
            await store.records("two", count=1)


@pytest.mark.every_store
async def test_a_result_is_returned_when_its_turn_is_stored(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            for number in range(20):
                await session.run(str(number))
                events = await store.events("one")
                assert kinds([event for _, event in events]).count("turn.ended") == number + 1


@pytest.mark.every_store
async def test_a_reader_is_given_nothing_before_it_is_stored(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            session.submit("hello")
            async for event in session.subscribe(after=0):
                shown = session.log.seq
                stored = await store.events("one")
                assert shown <= stored[-1][0]
                if type(event) is agentrt.TurnEnded:
                    break


@pytest.mark.every_store
async def test_a_turn_is_iterated_as_without_a_store(path: Path) -> None:
    async with kept(None, Incarnations(asking)) as session, session.prompt("hello") as turn:
        without = [type(event) async for event in turn]
    async with open_store(path) as store:
        async with kept(store, Incarnations(asking)) as session:
            async with session.prompt("hello") as turn:
                assert [type(event) for event in await every(turn)] == without


@pytest.mark.every_store
async def test_a_subscription_ends_behind_the_last_event(path: Path) -> None:
    got = []

    async def follow(session: agentrt.Session) -> None:
        async for event in session.subscribe_all():
            got.append(event)

    async with open_store(path) as store, trio.open_nursery() as nursery:
        async with kept(store, Incarnations(echo)) as session:
            nursery.start_soon(follow, session)  # noqa: ASYNC111 - it ends with the session
            await session.run("hello")
    assert len(got) == session.log.seq
    assert got[-1] == agentrt.events.StateChanged(session.state)


@pytest.mark.every_store
async def test_a_cancelled_turn_is_stored_as_such(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(obedient)) as session:
            with trio.move_on_after(0.2):
                await session.run("hello")
        [turn] = (await store.snapshot("one")).turns
    assert turn.outcome == "cancelled"


@pytest.mark.every_store
async def test_a_deleted_session_is_forgotten(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            with pytest.raises(agentrt.LocalProtocolError, match="is open"):
                await store.delete("one")
        await store.delete("one")
        assert await store.sessions() == []
        for call in (store.delete, store.snapshot, store.events, store.claim):
            with pytest.raises(agentrt.errors.SessionNotFound):
                await call("one")


async def test_events_that_a_record_stands_for_are_dropped_after_their_time(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            shown = session.snapshot()
    async with open_store(path, limits=agentrt.Limits(store_events_lifetime_s=0)) as store:
        async with kept(store, Incarnations(echo), id="two") as session:
            await session.run("hello")
    async with open_store(path) as store:
        assert kinds([event for _, event in await store.events("one")]) == ["state"]
        assert (await store.snapshot("one")).items == shown.items
        async with again(store, Incarnations(echo)) as session:
            await session.run("again")
            assert len(session.snapshot().turns) == 2


async def test_answers_to_commands_are_dropped_after_their_time(path: Path) -> None:
    answer = CommandAnswer("page", "c1", b"digest", b"{}")
    for limits, known in ((None, 1), (agentrt.Limits(store_answers_lifetime_s=0), 0)):
        async with open_store(path, limits=limits) as store:
            await store.keep_answer(answer)
        async with open_store(path) as store:
            assert len(await store.answers()) == known


# --- the file


async def test_only_its_owner_may_read_the_file(path: Path) -> None:
    umask = os.umask(0o022)
    try:
        async with open_store(path) as store:
            async with kept(store, Incarnations(echo)) as session:
                await session.run("hello")
                modes = {
                    file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()
                }
    finally:
        os.umask(umask)
    assert set(modes) == {path.name + end for end in ("", "-wal", "-shm", ".lock")}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_file_that_others_could_read_is_made_the_owners_alone(path: Path) -> None:
    async with open_store(path):
        pass
    path.chmod(0o644)
    async with open_store(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.slow
async def test_a_second_writer_is_refused_with_the_pid_of_the_first(path: Path) -> None:
    other = (
        "import sys, trio, agentrt\n"
        "async def main():\n"
        "    async with agentrt.store.open_store(sys.argv[1]): pass\n"
        "try: trio.run(main)\n"
        "except agentrt.errors.StoreInUse as error: print(error.pid, error)\n"
    )
    async with open_store(path):
        with pytest.raises(StoreInUse) as refused:
            async with open_store(path):
                pass
        done = await trio.run_process([sys.executable, "-c", other, path], capture_stdout=True)
    assert refused.value.pid == os.getpid()
    assert done.stdout.decode().startswith(f"{os.getpid()} {path} is being written by process")
    async with open_store(path):
        pass  # the lock ends with its holder


@pytest.mark.slow
async def test_a_file_that_is_written_under_another_name_is_not_written_twice(
    path: Path, tmp_path: Path
) -> None:
    other = (
        "import sys, trio, agentrt\n"
        "async def main():\n"
        "    async with agentrt.store.open_store(sys.argv[1]): pass\n"
        "try: trio.run(main)\n"
        "except agentrt.errors.StoreInUse as error: print(error)\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "link.db"
    async with open_store(path) as store:
        os.link(path, link)
        with pytest.raises(StoreInUse, match="under another name") as refused:
            async with open_store(link):
                pass
        assert refused.value.pid == os.getpid()
        done = await trio.run_process([sys.executable, "-c", other, link], capture_stdout=True)
        assert "by another process, under another name" in done.stdout.decode()
        assert store.status.state == "ok"
    async with open_store(link):
        pass  # the lock ends with its holder


@pytest.mark.parametrize(
    "content", [b"some text, and no database", b"SQLite format 3\0" + b"\1" * 5000]
)
async def test_a_file_that_is_no_store_is_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError):
        async with open_store(path):
            pass
    assert path.read_bytes() == content


async def test_another_programs_database_is_left_alone(path: Path) -> None:
    import sqlite3

    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs(x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a store of agentrt"):
        async with open_store(path):
            pass
    assert path.read_bytes() == before


async def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    with later_version("ALTER TABLE session ADD COLUMN colour TEXT"):
        async with open_store(path):
            pass
    with pytest.raises(StoreError, match="newer agentrt"):
        async with open_store(path):
            pass


async def test_a_store_of_an_older_version_is_copied_and_brought_up_to_date(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
    newer = "ALTER TABLE session ADD COLUMN colour TEXT; UPDATE session SET colour='red'"
    with later_version(newer) as before:
        async with open_store(path) as store:
            assert [each.session for each in await store.sessions()] == ["one"]
    copy = path.with_name(f"{path.name}.bak-{before}")
    assert checked(copy) == checked(path)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


async def test_what_is_stored_after_the_clock_was_set_back_is_the_latest(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo), id="before") as session:
            await session.run("hello")
    monkeypatch.setattr(time, "time", lambda: real() - 86400)
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo), id="after") as session:
            await session.run("hello")
        assert [each.session for each in await store.sessions()] == ["after", "before"]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3", 2**63, 10**400])
async def test_a_limit_that_makes_no_sense_is_refused(path: Path, limit: Any) -> None:
    async with open_store(path) as store:
        for ask in (store.sessions, partial(store.search, "words")):
            with pytest.raises(ValueError, match="limit must be a whole number above 0"):
                await ask(limit=limit)
