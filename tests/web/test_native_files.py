"""`files`: what there is to name in a session's folder."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio
from hub_kit import Stage, Tab, stage_with
from hypothesis import given
from hypothesis import strategies as st
from test_browser_shapes import alone
from trio.testing import MockClock

from agentrt.hosting import FolderView
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


async def found(stage: Stage, session: str, query: str = "") -> tuple[list[str], bool]:
    """The files that a client finds, and whether these are all."""
    answer = await stage.connect().ok("files", session=session, query=query)
    return answer["files"], answer["complete"]


async def test_a_listing_holds_for_a_moment(folder: Path, mock_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session(cwd=str(folder))
        assert await found(stage, id, "new") == ([], True)
        (folder / "new.py").touch()
        assert await found(stage, id, "new") == ([], True)
        mock_clock.jump(5)
        assert await found(stage, id, "new") == (["new.py"], True)


async def test_no_more_than_a_few_listings_are_kept(tmp_path: Path, mock_clock: MockClock) -> None:
    folders = [tmp_path / str(number) for number in range(6)]
    async with stage_with(echo) as stage:
        sessions = []
        for folder in folders:
            folder.mkdir()
            sessions.append(await stage.session(cwd=str(folder)))
            assert await found(stage, sessions[-1]) == ([], True)
            (folder / "new.py").touch()
        known = [not (await found(stage, session))[0] for session in reversed(sessions)]
    assert known == [True] * 4 + [False] * 2


async def test_a_listing_that_takes_too_long_is_what_was_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = count()
    async with stage_with(echo) as stage:
        id = await stage.session(cwd=str(folder))
        monkeypatch.setattr(time, "monotonic", lambda: 3600.0 * next(hours))
        assert await found(stage, id) == ([], False)


async def test_a_listing_ends_with_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = trio.Event(), list[object]()

    def endless(path: object) -> Iterator[os.DirEntry[str]]:
        trio.from_thread.run_sync(begun.set)
        for _ in range(2000):
            time.sleep(0.01)
            try:
                trio.from_thread.check_cancelled()
            except trio.Cancelled:
                ended.append(path)
                raise
        return iter(())

    async with stage_with(echo) as stage:
        id = await stage.session(cwd=str(folder))
        tab = stage.connect()
        monkeypatch.setattr(os, "scandir", endless)
        tab.wire.send("files", session=id)
        await begun.wait()
    assert len(ended) == 1


async def test_of_a_folder_that_is_gone_nothing_is_found(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    async with stage_with(echo) as stage:
        id = await stage.session(cwd=str(gone))
        gone.rmdir()
        assert await found(stage, id) == ([], True)


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


# --- folders and files


@asynccontextmanager
async def viewing(cwd: Path, **fields: object) -> AsyncIterator[tuple[Tab, str]]:
    """A client, and a session in the folder."""
    async with stage_with(echo) as stage:
        tab = stage.connect()
        new = await tab.ok("session", op="new", agent="fake", cwd=str(cwd), **fields)
        yield tab, str(new["session"])


async def test_the_difference_to_the_last_commit_is_shown(folder: Path) -> None:
    async with viewing(folder) as (tab, id):
        assert await tab.refused("uncommitted", session=id) == "unsupported"
        await trio.run_process(["git", "init", "--quiet", str(folder)])
        found = await tab.ok("uncommitted", session=id)
        assert (found["commit"], found["left_out"]) == ("", [])
        [readme] = [each for each in found["files"] if each["path"] == f"{folder}/README.md"]
        assert readme["patch"].startswith("diff --git a/README.md b/README.md\nnew file mode")


async def test_a_folder_is_listed_without_its_ignored_files(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/topic/one\n")
    (folder / "link").symlink_to("src")
    async with viewing(folder) as (tab, id):
        found = await tab.ok("folder", session=id)
        names = [(each["name"], each["kind"]) for each in found["entries"]]
        assert names[0] == ("src", "folder")
        assert names[1:] == [(".gitignore", "file"), ("link", "link"), ("README.md", "file")]
        assert (found["path"], found["branch"]) == (str(folder), "topic/one")
        inner = await tab.ok("folder", session=id, path="link")
        assert [each["name"] for each in inner["entries"]] == ["main.py"]
        assert inner["path"] == f"{folder}/link"


async def test_a_file_is_read_in_pieces_that_end_at_whole_characters(folder: Path) -> None:
    text = "aä€🦊\n" * 50
    (folder / "text").write_text(text)
    async with viewing(folder) as (tab, id):
        pieces, start, size = [], 0, None
        while start != size:
            piece = await tab.ok("file", session=id, path="text", start=start, count=7)
            pieces.append(piece["content"])
            assert piece["start"] == start
            start, size = piece["end"], piece["size_bytes"]
        assert "".join(pieces) == text
        assert "�" not in "".join(pieces)


async def test_a_binary_file_is_said_to_be_one_and_read_as_base64(folder: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    (folder / "a.png").write_bytes(data)
    async with viewing(folder) as (tab, id):
        found = await tab.ok("file", session=id, path=str(folder / "a.png"))
        assert (found["kind"], found["media_type"]) == ("binary", "image/png")
        assert (found["content"], found["size_bytes"]) == ("", len(data))
        found = await tab.ok("file", session=id, path="a.png", encoding="base64", start=8)
        assert base64.b64decode(found["content"]) == data[8:]


async def test_a_further_root_of_the_session_is_shown(folder: Path, tmp_path_factory: Any) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "notes").write_text("there")
    async with viewing(folder, roots=[str(other)]) as (tab, id):
        assert (await tab.ok("file", session=id, path=f"{other}/notes"))["content"] == "there"
        assert (await tab.ok("folder", session=id, path=str(other)))["entries"]


@pytest.fixture
def traps(folder: Path, tmp_path_factory: Any) -> Path:
    """A folder with ways out of it, and with files that nobody should see."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("SECRET")
    (folder / "out").symlink_to(outside)
    (folder / "secret").symlink_to(outside / "secret")
    (folder / "loop").symlink_to("loop")
    (folder / "kernel").symlink_to("/proc/self/environ")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("SECRET")
    (folder / "hidden.txt").symlink_to("main.log")
    (folder / "build").mkdir()
    (folder / "build" / "out.txt").write_text("SECRET")
    (folder / ".ignore").write_text("build/\n")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside0/secret",
        "src/../../x",
        "out/secret",
        "secret",
        "kernel",
        "main.log",
        "hidden.txt",
        ".git/config",
        "src/../.git/config",
        "build/out.txt",
        "loop",
        "pipe",
        "src",
        "/",
        "a" * 300,
        "gone",
        "README.md/x",
    ],
)
async def test_what_is_outside_or_ignored_or_no_file_is_not_read(traps: Path, path: str) -> None:
    async with viewing(traps) as (tab, id):
        assert await tab.refused("file", session=id, path=path) in ("forbidden", "unknown_file")


@pytest.mark.parametrize("path", ["/", "..", "out", ".git", "build", "README.md", "gone", "loop"])
async def test_no_folder_outside_or_ignored_is_listed(traps: Path, path: str) -> None:
    async with viewing(traps) as (tab, id):
        assert await tab.refused("folder", session=id, path=path) in ("forbidden", "unknown_file")


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("file", {"path": ""}),
        ("file", {"path": "a\0b"}),
        ("file", {"path": "README.md", "count": 10_000_000}),
        ("file", {"path": "README.md", "start": -1}),
        ("file", {"path": "README.md", "encoding": "hex"}),
        ("folder", {"path": "a\0b"}),
        ("folder", {"path": "x" * 5_000}),
    ],
)
async def test_a_malformed_request_for_a_file_is_refused(
    folder: Path, command: str, fields: dict[str, object]
) -> None:
    async with viewing(folder) as (tab, id):
        assert await tab.refused(command, session=id, **fields) == "bad_request"


async def test_the_folders_for_a_new_session_are_within_the_servers_roots(tmp_path: Path) -> None:
    for name in ("top/b", "top/A/inside", "top/.hidden", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "top" / "file").touch()
    (tmp_path / "top" / "out").symlink_to(tmp_path / "outside")
    async with stage_with(echo, roots=[tmp_path / "top"]) as stage:
        tab = stage.connect()
        found = await tab.ok("folders")
        assert (found["path"], found["parent"]) == (str(tmp_path / "top"), None)
        assert found["folders"] == ["A", "b", "out"]
        found = await tab.ok("folders", path="A")
        assert (found["parent"], found["folders"]) == (str(tmp_path / "top"), ["inside"])
        assert await tab.refused("folders", path="out") == "forbidden"
        assert await tab.refused("folders", path="..") == "forbidden"
        assert await tab.refused("folders", path="gone") == "unknown_file"
        assert await stage.connect(role="viewer").refused("folders") == "forbidden"


PARTS = st.sampled_from(["..", ".", "src", "out", "deep", "up", "secret", "x.log", "", "gone"])


@pytest.mark.slow
@given(path=st.lists(PARTS, min_size=1, max_size=8).map("/".join), absolute=st.booleans())
def test_no_path_leads_out_of_the_folders(path: str, absolute: bool, tmp_path_factory: Any) -> None:
    """Whatever is asked for, only the text of files within the folders is returned."""
    top = tmp_path_factory.mktemp("top", numbered=True)
    (top / "secret").write_text("SECRET")
    root = top / "root"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "deep" / "secret").write_text("inside")
    (root / "x.log").write_text("SECRET")
    (root / ".gitignore").write_text("*.log\n")
    (root / "out").symlink_to("..")
    (root / "src" / "up").symlink_to("../..")
    (root / "src" / "secret").symlink_to("../../secret")
    view = FolderView(str(root))
    asked = f"{root}/{path}" if absolute else path
    try:
        assert view.file(asked, 0, 100, encoded=False).content == "inside"
    except OSError:
        pass
    try:
        names = {each.name for each in view.folder(asked).entries}
    except OSError:
        return
    assert "root" not in names
    assert "x.log" not in names
