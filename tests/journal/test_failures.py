"""What a store promises when its disk, its file or its process fails: tried on the real things."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import agentrt
from agentrt import Limits
from agentrt.errors import StoreDamaged, StoreUnavailable
from agentrt.store import open_store
from runtime.fakes import Incarnations, echo, obedient

from .disk import index_fails_once, limit_stores
from .disks import Lock, locks_of
from .kit import abandoned, checked, done_by_another, kept

TESTS = Path(__file__).parents[1]
ROUNDS = 100 if os.environ.get("AGENTRT_FULL") else 4


async def lengthy(agent: Any) -> None:
    """Answers each prompt with a quarter of a megabyte."""
    async for prompt in agent.prompts:
        for _ in range(16):
            agent.say(os.urandom(8192).hex())
        prompt.end()


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)


def damage(path: Path) -> None:
    """All of a file but its head."""
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


async def until_trouble(store: Any) -> None:
    while store.trouble is None:
        await store._changed.wait()


async def until_well(store: Any) -> None:
    while store.trouble is not None:
        await store._changed.wait()


async def until_stored(session: agentrt.Session) -> None:
    """All that the agent says before it is spoken to again."""
    await trio.testing.wait_all_tasks_blocked()
    assert session._host.keeper is not None
    await session._host.keeper.wait_until_stored()


async def fill(session: agentrt.Session) -> None:
    """Prompt until the store refuses."""
    with pytest.raises(StoreUnavailable):
        while True:
            await session.run("more")


# --- a file that somebody else has locked


@pytest.fixture
def locked(path: Path) -> Iterator[Callable[[], Lock]]:
    yield from locks_of(path)


async def test_while_nothing_can_be_stored_a_cancel_reaches_the_agent_and_a_prompt_is_refused(
    path: Path, locked: Any
) -> None:
    agents = Incarnations(obedient)
    async with open_store(path) as store:
        async with kept(store, agents) as session:
            session.submit("hello")
            async for event in session.subscribe(after=0):
                if isinstance(event, agentrt.events.ItemDelta):
                    break
            await until_stored(session)
            holder = locked()
            shown = session.log.seq
            session.cancel()
            while session.state.turn is not None:
                await trio.testing.wait_all_tasks_blocked()
            assert agents.sent("session/cancel")
            await until_trouble(store)
            assert session.log.seq == shown
            with pytest.raises(StoreUnavailable, match="locked"):
                session.submit("another")
            holder.release()
            async for event in session.subscribe(after=shown):
                if isinstance(event, agentrt.TurnEnded):
                    break
            assert [turn.outcome for turn in session.snapshot().turns] == ["cancelled"]
            assert (await store.snapshot("one")).turns == session.snapshot().turns
    assert checked(path) == {"one": session.log.seq}


async def test_a_turn_that_cannot_be_stored_for_long_is_cancelled_and_said_to_have_failed(
    path: Path, locked: Any
) -> None:
    limits = Limits(store_failure_timeout_s=0.3)
    async with open_store(path, limits=limits) as store:
        async with kept(store, Incarnations(obedient)) as session:
            holder = None
            with pytest.raises(StoreUnavailable, match="could not be stored"):
                async with session.prompt("hello") as turn:
                    async for _ in turn:
                        if holder is None:
                            holder = locked()
                            session.rename("something to store")
            assert holder is not None
            assert turn.result.outcome == "failed"
            assert turn.result.error is not None
            assert turn.result.error.code == "store_unavailable"
            holder.release()
            await until_well(store)
        [stored] = (await store.snapshot("one")).turns
    assert stored.outcome == "failed"


async def test_a_store_that_stays_locked_is_left_in_bounded_time_and_says_so(
    path: Path, locked: Any
) -> None:
    with pytest.raises(StoreUnavailable):
        async with open_store(path, limits=Limits(store_failure_timeout_s=0.3)) as store:
            async with kept(store, Incarnations(echo)) as session:
                await session.run("hello")
                await until_stored(session)
                shown = session.log.seq
                locked()
                session.rename("mine")
    assert checked(path) == {"one": shown}


# --- a disk that is full


async def test_a_file_at_its_size_limit_takes_more_once_the_limit_is_raised(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with open_store(path, limits=Limits(store_failure_timeout_s=0.2)) as store:
        async with kept(store, Incarnations(lengthy)) as session:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
            try:
                await fill(session)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            await until_well(store)
            assert (await session.run("again")).outcome == "completed"
            shown = session.snapshot()
        assert (await store.snapshot("one")).items == shown.items
    assert checked(path) == {"one": session.log.seq}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs the right to mount a small file system (tmpfs): {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_takes_more_once_there_is_room(small_disk: Path) -> None:
    path = small_disk / "sessions.db"
    async with open_store(path, limits=Limits(store_failure_timeout_s=0.2)) as store:
        async with kept(store, Incarnations(lengthy)) as session:
            await fill(session)
            enlarge(small_disk)
            await until_well(store)
            assert (await session.run("again")).outcome == "completed"
            shown = session.snapshot()
        assert (await store.snapshot("one")).items == shown.items
    assert checked(path) == {"one": session.log.seq}


async def test_what_cannot_be_deleted_from_a_full_disk_can_be_once_there_is_room(
    small_disk: Path,
) -> None:
    path = small_disk / "sessions.db"
    async with open_store(path, limits=Limits(store_failure_timeout_s=0.2)) as store:
        async with kept(store, Incarnations(echo), id="old") as session:
            await session.run("hello")
        async with kept(store, Incarnations(lengthy)) as session:
            await fill(session)
            with pytest.raises(StoreUnavailable):
                await store.delete("old")
            enlarge(small_disk)
            await until_well(store)
            await store.delete("old")
            assert [entry.session for entry in await store.sessions()] == ["one"]


# --- a file that is gone, or damaged


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_gone_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    limit_stores(monkeypatch, file_check_interval_s=0)
    with pytest.raises(StoreUnavailable, match="was replaced" if replaced else "was deleted"):
        async with open_store(path) as store:
            async with kept(store, Incarnations(echo)) as session:
                await session.run("hello")
                path.unlink()
                if replaced:
                    path.write_bytes(b"")
                with pytest.raises(StoreUnavailable):
                    await session.run("again")
                with pytest.raises(StoreUnavailable):
                    await session.run("and again")


@pytest.mark.parametrize("end", ["-wal", "-shm", ".lock"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_beside_it_that_is_gone_is_noticed_and_what_was_stored_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch, end: str, how: str
) -> None:
    limit_stores(monkeypatch, file_check_interval_s=0)
    with pytest.raises(StoreUnavailable, match=f"{end} was {how}"):
        async with open_store(path) as store:
            async with kept(store, Incarnations(echo)) as session:
                await session.run("hello")
                file = path.with_name(path.name + end)
                file.unlink()
                if how == "replaced":
                    file.write_bytes(b"")
                with pytest.raises(StoreUnavailable):
                    await session.run("again")
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    async with open_store(path) as store:
        texts = [item.text for item in (await store.snapshot("one")).items if item.type == "text"]
    assert texts == ["hello"]


async def test_a_write_ahead_log_that_was_cut_off_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_stores(monkeypatch, file_check_interval_s=0)
    with pytest.raises(StoreUnavailable, match="was overwritten or cut off"):
        async with open_store(path) as store:
            async with kept(store, Incarnations(echo)) as session:
                await session.run("hello")
                os.truncate(f"{path}-wal", 0)
                with pytest.raises(StoreUnavailable):
                    await session.run("again")


@pytest.mark.parametrize(
    "how",
    [
        "deleted",
        "replaced",
        "left alone",
    ],
)
async def test_without_its_write_ahead_log_a_store_of_a_killed_process_has_a_new_epoch(
    path: Path, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy.db"
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("hello")
            # As after some thousand pages: the file has all that came until now.
            await store._call(lambda backend: backend.database.execute("PRAGMA wal_checkpoint"))
            await session.run("seen and lost")
            abandoned(path, copy)
    log = copy.with_name(f"{copy.name}-wal")
    if how != "left alone":
        log.rename(tmp_path / "elsewhere")  # so that its inode is not used again
    if how == "replaced":
        log.write_bytes(b"")
    async with open_store(copy) as store:
        epoch = (await store.snapshot("one")).epoch
    assert (epoch == session.log.epoch) == (how == "left alone")
    assert ("have a new epoch" in caplog.text) == (how != "left alone")


async def test_a_damaged_file_is_not_opened(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(lengthy)) as session:
            await session.run("hello")
    damage(path)
    damaged = path.read_bytes()
    with pytest.raises(StoreDamaged, match="agentrt sessions repair"):
        async with open_store(path):
            pass
    assert path.read_bytes() == damaged


async def test_a_file_damaged_under_the_store_is_not_written_any_more(path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        async with open_store(path, limits=Limits(store_failure_timeout_s=0.3)) as store:
            async with kept(store, Incarnations(lengthy)) as session:
                await session.run("hello")
                await done_by_another(path, "PRAGMA wal_checkpoint(TRUNCATE)")
                damage(path)
                await fill(session)


# --- a process that is killed


@pytest.mark.slow
@pytest.mark.parametrize(
    "round", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, ROUNDS))]
)
def test_what_was_shown_before_a_kill_is_stored_without_a_gap(path: Path, round: int) -> None:
    """Two lives of one host, each killed at a random moment."""
    after = random.Random(round)
    shown: dict[str, int] = {}
    for _ in range(2):
        host = subprocess.Popen(
            [sys.executable, "-m", "journal.killed", str(path)],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        with host:  # waits for its end
            assert host.stdout is not None
            try:
                lines = [host.stdout.readline() for _ in range(after.randrange(1, 400))]
            finally:
                host.kill()
            lines += host.stdout.readlines()
        assert host.returncode == -signal.SIGKILL
        for line in lines:
            if line.endswith(b"\n"):
                id, seq = line.split()
                shown[id.decode()] = int(seq)
        stored = checked(path)
        assert {id: stored[id] >= seq for id, seq in shown.items()} == dict.fromkeys(shown, True)


async def test_a_file_whose_beginning_was_interrupted_is_begun_again(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.close()
    assert path.stat().st_size
    async with open_store(path) as store:
        assert await store.sessions() == []


async def test_what_a_failed_commit_took_into_the_index_is_taken_by_the_next_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_stores(monkeypatch, unindexed_records=1)
    with index_fails_once() as failed:
        async with open_store(path) as store:
            async with kept(store, Incarnations(echo)) as session:
                await session.run("mend the door")
                await session.run("mend the window")
    assert failed
    async with open_store(path) as store:
        for word in ("door", "window"):
            assert [hit.entry.session for hit in await store.search(word)] == ["one"]
