"""What is saved of a file that was damaged: `dd` into a page, and worse."""

from __future__ import annotations

import os
import random
import resource
import sqlite3
from pathlib import Path

import pytest

from agentrt.errors import StoreDamaged, StoreError, StoreInUse
from agentrt.storage import reader_of, repair
from agentrt.store import CommandAnswer, open_store
from runtime.fakes import Incarnations, echo

from .kit import again, checked, kept

PAGE = 4096
SESSIONS = [f"s{number}" for number in range(6)]


_some = random.Random(1)
ASKED = {
    id: [f"{id} turn {turn} {_some.randbytes(700).hex()}" for turn in range(5)] for id in SESSIONS
}
MANY = 1000
"""Answers: more than are read together."""
MOST = 8
"""Turns that one page can hold."""
_files: list[bytes] = []


async def fill(path: Path) -> dict[str, list[str]]:
    """Some sessions of some turns; returns what was asked in each."""
    if not _files:
        async with open_store(path) as store:
            for id in SESSIONS:
                async with kept(store, Incarnations(echo), id=id) as session:
                    for prompt in ASKED[id]:
                        await session.run(prompt)
        _files.append(path.read_bytes())
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(_files[0])
    return ASKED


def pages_of(path: Path, table: str) -> list[int]:
    """The pages that hold nothing but rows of a table, by the names that SQLite gives them."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        [[root]] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name=?", (table,))
    finally:
        connection.close()
    data = path.read_bytes()

    def below(page: int) -> list[int]:
        start = (page - 1) * PAGE
        if data[start] != 5:  # not an interior page of a table
            return [page]
        cells = int.from_bytes(data[start + 3 : start + 5])
        places = [start + 12 + 2 * cell for cell in range(cells)]
        children = [start + int.from_bytes(data[place : place + 2]) for place in places]
        found = [int.from_bytes(data[child : child + 4]) for child in children]
        return [
            leaf
            for child in (*found, int.from_bytes(data[start + 8 : start + 12]))
            for leaf in below(child)
        ]

    return below(root)


def leaves_with(path: Path, words: bytes) -> list[int]:
    """The pages in which something is, without those that only lead to it."""
    data = path.read_bytes()
    pages = [data[start : start + PAGE] for start in range(0, len(data), PAGE)]
    return [number for number, page in enumerate(pages, 1) if words in page and page[0] == 10]


def overwrite(path: Path, page: int) -> None:
    with open(path, "r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(os.urandom(PAGE))


async def prompts(path: Path) -> dict[str, list[str]]:
    """What was asked in each session, as a snapshot shows it."""
    async with open_store(path) as store:
        return {
            entry.session: [
                item.content[0].text  # type: ignore[union-attr]
                for item in (await store.snapshot(entry.session)).items
                if item.type == "user"
            ]
            for entry in await store.sessions()
        }


async def test_a_sound_file_is_left_as_it_is(path: Path) -> None:
    await fill(path)
    before = path.read_bytes()
    assert repair(path).aside is None
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["frame", "record"])
@pytest.mark.parametrize("which", [0, 1, -1])
async def test_what_is_not_on_a_damaged_page_is_saved(path: Path, table: str, which: int) -> None:
    asked = await fill(path)
    overwrite(path, pages_of(path, table)[which])
    damaged = path.read_bytes()
    done = repair(path)
    assert done.aside is not None
    assert done.aside.read_bytes() == damaged
    assert done.sessions == len(SESSIONS)
    checked(path)
    saved = await prompts(path)
    for id in SESSIONS:
        assert set(saved[id]) <= set(asked[id])
        assert saved[id] == sorted(saved[id])
    assert sum(len(asked[id]) - len(saved[id]) for id in SESSIONS) <= MOST


async def test_a_session_of_which_a_part_was_lost_can_be_gone_on_with(path: Path) -> None:
    await fill(path)
    overwrite(path, pages_of(path, "record")[1])
    done = repair(path)
    assert done.parts
    async with open_store(path) as store:
        for id in SESSIONS:
            async with again(store, Incarnations(echo), id=id) as session:
                before = session.snapshot()
                assert (await session.run("again")).outcome == "completed"
                after = session.snapshot()
            assert after.items[: len(before.items)] == before.items
            assert (await store.snapshot(id)).items == after.items
        assert len(await store.search("again")) == len(SESSIONS)


async def test_a_damaged_index_is_made_again(path: Path) -> None:
    asked = await fill(path)
    for page in pages_of(path, "said_data"):
        overwrite(path, page)
    done = repair(path)
    assert (done.sessions, done.parts) == (len(SESSIONS), 0)
    assert await prompts(path) == asked
    async with open_store(path) as store:
        assert len(await store.search("turn")) == len(SESSIONS)


@pytest.mark.slow
async def test_answers_to_commands_and_the_names_of_chats_are_saved(path: Path) -> None:
    await fill(path)
    async with open_store(path) as store:
        for number in range(MANY):
            await store.keep_answer(
                CommandAnswer("page", f"command {number:04}", b"digest", b"x" * 90)
            )
        for id in (*SESSIONS, "of yesterday"):
            store.name_chat(f"chat {id}", id)
        given = {answer.id: answer for answer in await store.answers()}
    assert len(given) == MANY
    overwrite(path, pages_of(path, "record")[0])
    overwrite(path, leaves_with(path, b"command 0400")[0])
    repair(path)
    async with open_store(path) as store:
        saved = {answer.id: answer for answer in await store.answers()}
        assert await store.chats() == {f"chat {id}": id for id in SESSIONS}
    assert saved == {id: given[id] for id in saved}
    assert MANY - 100 < len(saved) < MANY
    assert {"command 0000", f"command {MANY - 1:04}"} <= saved.keys()


async def test_a_damaged_file_of_an_older_version_is_repaired(path: Path) -> None:
    asked = await fill(path)
    connection = sqlite3.connect(path)
    connection.executescript("DROP TABLE answer; DROP TABLE chat; PRAGMA user_version=2")
    connection.close()
    for page in pages_of(path, "said_data"):
        overwrite(path, page)
    assert repair(path).sessions == len(SESSIONS)
    assert await prompts(path) == asked


async def test_where_there_is_no_room_for_a_new_file_the_damaged_one_stays(path: Path) -> None:
    await fill(path)
    overwrite(path, pages_of(path, "record")[0])
    damaged = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StoreError):
            repair(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == damaged
    assert [file.name for file in path.parent.glob("*.corrupt-*")] == []
    assert repair(path).sessions == len(SESSIONS)


async def test_viewers_of_a_repaired_session_begin_anew(path: Path) -> None:
    await fill(path)
    async with open_store(path) as store:
        before = (await store.snapshot("s0")).epoch
    overwrite(path, pages_of(path, "record")[-1])
    repair(path)
    async with open_store(path) as store:
        assert (await store.snapshot("s0")).epoch != before


@pytest.mark.parametrize("seed", range(4))
async def test_a_file_is_repaired_wherever_its_pages_were_damaged(path: Path, seed: int) -> None:
    asked = await fill(path)
    chosen = random.Random(seed)
    for page in chosen.sample(range(2, path.stat().st_size // PAGE + 1), 4):
        overwrite(path, page)
    repair(path)
    checked(path)
    saved = await prompts(path)
    for id, said in saved.items():
        assert set(said) <= set(asked[id])


async def test_a_damaged_file_that_is_read_is_said_to_be_one(path: Path) -> None:
    await fill(path)
    for page in pages_of(path, "session"):
        overwrite(path, page)
    reader = reader_of(path)
    try:
        with pytest.raises(StoreDamaged, match="agentrt sessions repair"):
            reader.search("turn", 5)
    finally:
        reader.close()


async def test_a_file_that_is_written_is_not_repaired(path: Path) -> None:
    async with open_store(path):
        with pytest.raises(StoreInUse):
            repair(path)


@pytest.mark.parametrize("content", [b"a letter", b""])
def test_what_is_no_database_is_not_touched(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not an SQLite database"):
        repair(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_another_programs_database_is_not_touched(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs(x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a store of agentrt"):
        repair(path)
    assert path.read_bytes() == before
