"""What is found in a store by words that somebody typed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrt.storage import address_of, backend_of, excerpt, reader_of, words_of
from agentrt.store import open_store
from faults.quick import mostly_slow
from runtime.fakes import Incarnations, echo

from .disk import killed_at_the_end, limit_stores, occupy, version_without_search
from .kit import kept


async def fill(path: Path, *prompts: str) -> None:
    """A session for each prompt, with the prompt as its id; `echo` says it again."""
    async with open_store(path) as store:
        for prompt in prompts:
            async with kept(store, Incarnations(echo), id=prompt) as session:
                await session.run(prompt)


def found(path: Path, words: str, limit: int = 20) -> list[str]:
    reader = reader_of(address_of(path))
    try:
        return [hit.entry.session for hit in reader.search(words, limit)]
    finally:
        reader.close()


@pytest.mark.every_store
async def test_a_session_is_found_by_words_in_any_order_case_and_accent(path: Path) -> None:
    await fill(path, "mend the blue door", "mend the Café window", "close the door")
    assert found(path, "door MEND") == ["mend the blue door"]
    assert found(path, "cafe") == ["mend the Café window"]
    assert found(path, "door") == ["close the door", "mend the blue door"]
    assert found(path, "the", limit=1) == ["close the door"]
    assert found(path, "door window") == []
    assert found(path, " ") == []


@pytest.mark.every_store
async def test_a_word_is_found_by_its_beginning_and_a_name_by_its_parts(path: Path) -> None:
    await fill(path, "why does parse_lines() fail", "in C++ and C")
    assert found(path, "p") == []
    assert found(path, "pars") == ["why does parse_lines() fail"]
    assert found(path, "parse_lines()") == ["why does parse_lines() fail"]
    assert found(path, "lines_parse") == []
    assert found(path, "c++") == ["in C++ and C"]


@pytest.mark.every_store
async def test_scripts_without_spaces_are_looked_through_letter_by_letter(path: Path) -> None:
    await fill(path, "请修理蓝色的门", "done 🎉 100%", "done")
    assert found(path, "蓝色") == ["请修理蓝色的门"]
    assert found(path, "🎉") == ["done 🎉 100%"]
    assert found(path, "%") == ["done 🎉 100%"]


@pytest.mark.every_store
async def test_words_may_stand_in_different_turns_and_in_the_title(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("the first question")
            session.rename("Household")
            await session.run("and a second")
        [hit] = await store.search("first second household")
        assert hit.entry.title == "Household"
        assert hit.snippet.startswith("the first question")
        [hit] = await store.search("household")
        assert hit.snippet == ""


@pytest.mark.parametrize(
    "words",
    mostly_slow(
        [
            '"',
            "door OR",
            "text: door",
            "(",
            "'",
            '"door',
            "NOT door",
            "AND",
            "door*",
            "^door",
            "-",
            "",
        ],
        one_in=3,
    ),
)
@pytest.mark.every_store
async def test_what_is_typed_is_never_taken_for_syntax(path: Path, words: str) -> None:
    await fill(path, "mend the door")
    assert set(found(path, words)) <= {"mend the door"}


@pytest.mark.slow
@given(words=st.text())
def test_any_words_can_be_looked_for(tmp_path_factory: pytest.TempPathFactory, words: str) -> None:
    path = tmp_path_factory.getbasetemp() / "search.db"
    backend = backend_of(path)
    backend.open()
    backend.close()
    assert found(path, words) == []


@pytest.mark.every_store
async def test_what_was_deleted_is_not_found(path: Path) -> None:
    await fill(path, "one door", "two doors")
    async with open_store(path) as store:
        await store.delete("one door")
        assert [hit.entry.session for hit in await store.search("door")] == ["two doors"]


@pytest.mark.every_store
async def test_halves_of_characters_and_zeros_do_not_matter(path: Path) -> None:
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo)) as session:
            await session.run("a\0 door")
        [hit] = await store.search("a door")
        assert hit.snippet == "a door a door"
        assert await store.search("door \ud83d") == []


async def test_sessions_of_a_file_that_had_no_index_are_found(path: Path) -> None:
    with version_without_search():
        await fill(path, "mend the door")
    async with open_store(path) as store:
        assert [hit.snippet for hit in await store.search("door")] == [
            "mend the door mend the door"
        ]


async def test_what_a_killed_server_stored_last_is_found(path: Path) -> None:
    with killed_at_the_end():
        await fill(path, "mend the door")
    assert found(path, "door") == []
    await fill(path, "mend the window")
    assert found(path, "mend") == ["mend the window", "mend the door"]


async def test_another_process_finds_a_turn_when_the_store_has_rested(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_stores(monkeypatch, idle_s=0.001)
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo), id="one") as session:
            await session.run("mend the door")
            with trio.fail_after(30):
                while not found(path, "door"):  # noqa: ASYNC110 - a file wakes nobody
                    await trio.sleep(0.01)


@pytest.mark.slow
async def test_a_search_does_not_wait_for_a_disk_that_does_not_answer(path: Path) -> None:
    answers = threading.Event()
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo), id="one") as session:
            await session.run("mend the door")
        assert len(await store.search("door")) == 1
        occupy(store, answers.wait)
        try:
            assert len(await store.search("door")) == 1
        finally:
            answers.set()


async def test_many_turns_without_a_rest_are_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_stores(monkeypatch, unindexed_records=2, idle_s=1000)
    async with open_store(path) as store:
        async with kept(store, Incarnations(echo), id="one") as session:
            for _ in range(3):
                await session.run("mend the door")
            assert found(path, "door") == ["one"]


def test_an_excerpt_is_a_line_around_the_first_word() -> None:
    text = "so\n" * 100 + "Ünder the bridge\n" + "and on " * 100
    line = excerpt(text, words_of("under"))
    assert line.startswith("… so so")
    assert "so Ünder the bridge and on" in line
    assert line.endswith(" …")
    assert len(line) < 260


@given(text=st.text(), words=st.text())
def test_an_excerpt_is_one_line_of_any_text(text: str, words: str) -> None:
    line = excerpt(text, words_of(words))
    assert line.strip() == line
    assert len(line.splitlines()) <= 1
