"""`files`: what there is to name in a session's folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from hub_kit import stage_with
from test_browser_shapes import alone
from trio.testing import MockClock

from agentrt._serve import files
from agentrt._serve.files import FileFinder
from runtime.fakes import echo


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("src/main.py", "README.md", "main.log", ".gitignore"):
        (tmp_path / name).write_text("*.log\n")
    return tmp_path


async def test_the_files_of_a_sessions_folder_are_found(folder: Path) -> None:
    async with stage_with(echo) as stage:
        tab = stage.connect()
        new = await tab.ok("session", op="new", agent="fake", cwd=str(folder))
        found = await tab.ok("files", session=new["session"], query="MAIN")
        assert (found["files"], found["complete"]) == (["src/main.py"], True)
        every = await tab.ok("files", session=new["session"])
        assert every["files"] == [".gitignore", "README.md", "src/main.py"]


async def test_a_listing_holds_for_a_moment(folder: Path, autojump_clock: MockClock) -> None:
    known = FileFinder()
    assert (await known.find(str(folder), "new"))[0] == []
    (folder / "new.py").touch()
    assert (await known.find(str(folder), "new"))[0] == []
    await trio.sleep(files.LISTING_REUSE_S)
    assert (await known.find(str(folder), "new"))[0] == ["new.py"]


async def test_no_more_than_a_few_listings_are_kept(tmp_path: Path) -> None:
    known = FileFinder()
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        await known.find(str(tmp_path / str(number)), "")
    assert len(known._known) == files.MAX_CACHED_LISTINGS


async def test_a_listing_that_takes_too_long_is_what_was_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LISTING_TIMEOUT_S", -1.0)
    assert await FileFinder().find(str(folder), "") == ([], False)


async def test_a_listing_ends_with_who_asked(folder: Path) -> None:
    known = FileFinder()
    with trio.move_on_after(0) as scope:
        await known.find(str(folder), "")
    assert scope.cancelled_caught
    assert not known._known


async def test_of_a_folder_that_is_gone_nothing_is_found(tmp_path: Path) -> None:
    assert await FileFinder().find(str(tmp_path / "gone"), "") == ([], True)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session": "nobody"}, "unknown_session"),
        ({"session": "ID", "query": 5}, "bad_request"),
        ({"session": "ID", "path": "/etc"}, "bad_request"),
        ({"session": "ID", "query": "x" * 2_000}, "bad_request"),
    ],
)
async def test_nobody_chooses_another_folder(
    fields: dict[str, object], code: str, autojump_clock: MockClock
) -> None:
    async with stage_with(echo) as stage:
        id, tab = await alone(stage)
        given = {name: id if value == "ID" else value for name, value in fields.items()}
        assert await tab.refused("files", **given) == code
