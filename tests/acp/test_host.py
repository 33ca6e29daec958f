"""Files for the agent: what is served, and that nothing outside the roots is."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrt import Limits
from agentrt._core.acp.files import FileService
from agentrt.errors import RequestError
from inside.drivers import NotAllowed, Roots

NOT_FOUND, INVALID, INTERNAL = -32002, -32602, -32603


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file with a secret, which no test may see."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    return outside


async def read(root: Path, path: Path | str, **limits: Any) -> str:
    host = FileService(Roots([str(root)]), limits=Limits(file_bytes=limits.pop("file_bytes", 1000)))
    params = {"sessionId": "s", "path": str(path), **limits}
    result = await host.handle("fs/read_text_file", params)
    assert set(result) == {"content"}
    content = result["content"]
    assert isinstance(content, str)
    return content


async def write(root: Path, path: Path | str, content: str = "new", file: int = 1000) -> None:
    host = FileService(Roots([str(root)]), limits=Limits(file_bytes=file))
    params = {"sessionId": "s", "path": str(path), "content": content}
    assert await host.handle("fs/write_text_file", params) == {}


async def unread(root: Path, path: Path | str) -> RequestError:
    """Why it cannot be read."""
    with pytest.raises(RequestError) as reading:
        await read(root, path)
    return reading.value


async def refused(root: Path, path: Path | str) -> RequestError:
    """Why it can neither be read nor written. Only for paths that lead nowhere but into the
    temporary folder: where the host errs, this writes."""
    with pytest.raises(RequestError) as reading:
        await read(root, path)
    with pytest.raises(RequestError) as writing:
        await write(root, path)
    assert (reading.value.code, reading.value.message) == (
        writing.value.code,
        writing.value.message,
    )
    return reading.value


# --- reading


@pytest.mark.parametrize(
    ("line", "limit", "content"),
    [
        (None, None, "one\ntwo\r\nthree"),
        (1, 1, "one\n"),
        (2, 1, "two\r\n"),
        (2, None, "two\r\nthree"),
        (3, 9, "three"),
        (4, None, ""),
        (None, 2, "one\ntwo\r\n"),
        (1, 0, ""),
        (0, 1, "one\n"),
        (2**70, 2**70, ""),
        (1, 2**70, "one\ntwo\r\nthree"),
        (-5, -5, ""),
    ],
)
async def test_a_range_of_lines_is_read(
    root: Path, line: int | None, limit: int | None, content: str
) -> None:
    (root / "file").write_bytes(b"one\ntwo\r\nthree")
    assert await read(root, root / "file", line=line, limit=limit) == content


async def test_text_is_read_as_it_is(root: Path) -> None:
    (root / "file").write_bytes("\ufeffé\r\n\0\u2028x\n".encode())
    assert await read(root, root / "file") == "\ufeffé\r\n\0\u2028x\n"


async def test_a_missing_file_is_not_found(root: Path) -> None:
    for path in ("file", "folder/file"):
        with pytest.raises(RequestError, match="no such file") as error:
            await read(root, root / path)
        assert error.value.code == NOT_FOUND


async def test_what_is_no_text_is_refused(root: Path) -> None:
    (root / "file").write_bytes(b"\x89PNG\xff")
    with pytest.raises(RequestError, match="not UTF-8 text") as error:
        await read(root, root / "file")
    assert error.value.code == INVALID


async def test_a_file_that_is_too_large_is_refused_whatever_the_range(root: Path) -> None:
    (root / "file").write_text("x" * 11)
    for line in (None, 1):
        with pytest.raises(RequestError, match="larger than 10 bytes"):
            await read(root, root / "file", file_bytes=10, line=line, limit=line)


async def test_a_sparse_file_of_a_terabyte_costs_no_memory(root: Path) -> None:
    (root / "file").touch()
    os.truncate(root / "file", 2**40)
    with pytest.raises(RequestError, match="larger than"):
        await read(root, root / "file", line=1, limit=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything: run as another user")
async def test_a_file_without_the_right_to_read_it_is_an_error_with_its_reason(root: Path) -> None:
    (root / "file").touch(mode=0)
    with pytest.raises(RequestError, match="Permission denied") as error:
        await read(root, root / "file")
    assert error.value.code == INTERNAL


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sessionId": "s"},
        {"sessionId": "s", "path": 7},
        {"sessionId": "s", "path": "/x", "line": "a"},
    ],
)
async def test_parameters_of_a_wrong_shape_are_refused(root: Path, params: Any) -> None:
    with pytest.raises(RequestError, match="Invalid parameters") as error:
        await FileService(Roots([str(root)])).handle("fs/read_text_file", params)
    assert error.value.code == INVALID


async def test_another_method_is_not_found(root: Path) -> None:
    with pytest.raises(RequestError) as error:
        await FileService(Roots([str(root)])).handle("fs/delete", {})
    assert error.value.code == -32601


async def test_no_more_is_read_than_the_agent_takes(root: Path) -> None:
    (root / "file").write_text("x")
    held: list[int] = []
    holding = 0

    async def ready() -> None:
        nonlocal holding
        holding += 1
        held.append(holding)
        await trio.sleep(0.01)
        holding -= 1

    host = FileService(Roots([str(root)]), ready=ready)
    params = {"sessionId": "s", "path": str(root / "file")}
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(host.handle, "fs/read_text_file", params)
    assert (len(held), max(held)) == (20, 4)


# --- writing


async def test_a_missing_file_is_made_with_the_folders_on_its_way(root: Path) -> None:
    await write(root, root / "a" / "b" / "file", "é\r\n")
    assert (root / "a" / "b" / "file").read_bytes() == "é\r\n".encode()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((root / "a" / "b" / "file").stat().st_mode) == 0o666 & ~umask


async def test_a_file_is_replaced_at_once_and_keeps_its_mode(root: Path) -> None:
    (root / "file").write_text("old")
    (root / "file").chmod(0o750)
    old = os.open(root / "file", os.O_RDONLY)
    await write(root, root / "file", "new")
    assert os.read(old, 9) == b"old"  # who reads it now still reads a whole file
    os.close(old)
    assert (root / "file").read_text() == "new"
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o750
    assert os.listdir(root) == ["file"]


async def test_another_name_of_the_same_file_keeps_the_old_content(
    root: Path, outside: Path
) -> None:
    os.link(outside / "secret", root / "file")
    await write(root, root / "file", "new")
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("call", ["replace", "fchown", "setxattr"])
@pytest.mark.parametrize(
    "reason",
    [errno.EBUSY, errno.EPERM, errno.EACCES, errno.EXDEV, errno.EINVAL, errno.EOVERFLOW],
)
async def test_a_file_that_cannot_be_replaced_is_overwritten(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str, reason: int
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(reason, os.strerror(reason))

    (root / "file").write_text("a longer old content")
    (root / "file").chmod(0o640)
    os.setxattr(root / "file", "user.kept", b"value")
    before = (root / "file").stat().st_ino
    monkeypatch.setattr(os, call, fail)
    await write(root, root / "file", "new")
    assert (root / "file").read_text() == "new"
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o640
    assert (root / "file").stat().st_ino == before
    assert os.listdir(root) == ["file"]


async def test_a_file_that_cannot_be_replaced_and_has_another_name_is_not_written(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    os.link(outside / "secret", root / "file")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RequestError, match="Permission denied"):
        await write(root, root / "file", "new")
    assert (outside / "secret").read_text() == "secret"


async def test_a_file_in_a_folder_that_takes_no_files_is_overwritten(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("old")
    opened = os.open

    def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_)
    await write(root, root / "file", "new")
    with pytest.raises(RequestError, match="Permission denied"):
        await write(root, root / "missing", "new")
    assert (root / "file").read_text() == "new"


async def test_a_replaced_file_keeps_its_attributes(root: Path) -> None:
    (root / "file").write_text("old")
    os.setxattr(root / "file", "user.kept", b"value")
    await write(root, root / "file", "new")
    assert os.getxattr(root / "file", "user.kept") == b"value"


WRITE = """
import sys, trio
from agentrt._core.acp.files import FileService, Roots
params = {"sessionId": "s", "path": sys.argv[1] + "/file", "content": "new"}
trio.run(FileService(Roots([sys.argv[1]])).handle, "fs/write_text_file", params)
"""
"""A program that writes a file."""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a file")
def test_a_file_that_is_a_mount_point_is_overwritten(root: Path, outside: Path) -> None:
    (root / "file").write_text("")
    script = 'mount --bind "$1/secret" "$2/file" && exec "$3" -c "$4" "$2"'
    words = ["sh", "-c", script, "sh", str(outside), str(root), sys.executable, WRITE]
    subprocess.run(["unshare", "-m", *words], check=True)
    assert (outside / "secret").read_text() == "new"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_a_file_of_a_user_that_does_not_exist_in_a_container_is_overwritten(root: Path) -> None:
    (root / "file").write_text("a longer old content")
    (root / "file").chmod(0o666)
    os.chown(root / "file", 4242, 4242)
    words = [sys.executable, "-c", WRITE, str(root)]
    subprocess.run(["unshare", "--user", "--map-root-user", *words], check=True)
    assert (root / "file").read_text() == "new"
    assert (root / "file").stat().st_uid == 4242


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    (root / "file").write_text("old")
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(RequestError, match="No space left") as error:
        await write(root, root / "file")
    assert error.value.code == INTERNAL
    assert (root / "file").read_text() == "old"
    assert os.listdir(root) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything: run as another user")
async def test_a_file_that_may_not_be_written_is_not_replaced(root: Path) -> None:
    (root / "file").touch(mode=0o444)
    with pytest.raises(RequestError, match="Permission denied"):
        await write(root, root / "file")


async def test_content_that_is_too_large_is_refused(root: Path) -> None:
    with pytest.raises(RequestError, match="larger than 10 bytes"):
        await write(root, root / "file", "é" * 6, file=10)
    assert not (root / "file").exists()


async def test_a_refused_write_leaves_no_folder_behind(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "there").mkdir()
    (root / "link").symlink_to(outside)
    for path in ("new/deep/.git/config", "there/new/../../link/x", "there/a/b/" + "x" * 300):
        with pytest.raises(RequestError):
            await write(root, root / path)

    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RequestError, match="No space left"):
        await write(root, root / "another/one/file")
    assert sorted(os.listdir(root)) == ["link", "there"]
    assert os.listdir(root / "there") == []


async def test_a_folder_that_somebody_uses_by_now_is_not_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        (root / "new" / "somebody's").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RequestError, match="No space left"):
        await write(root, root / "new" / "deep" / "file")
    assert os.listdir(root / "new") == ["somebody's"]


async def test_half_a_character_is_refused(root: Path) -> None:
    with pytest.raises(RequestError, match="surrogates") as error:
        await write(root, root / "file", "\ud83d")
    assert error.value.code == INVALID
    assert not (root / "file").exists()


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/new/x",
        ".GIT/config",
        ".git",
        ".claude/settings.json",
        "sub/.claude/settings.local.json",
        ".claude/hooks/x.sh",
        ".husky/pre-commit",
        "sub/.husky/_/x",
        ".mcp.json",
        ".gemini/settings.json",
        ".qwen/settings.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".vscode/tasks.json",
        "opencode.json",
        ".opencode/plugin/x.js",
        ".agentrt.toml",
        "link/config",
    ],
)
async def test_what_starts_programs_unasked_is_not_written(root: Path, path: str) -> None:
    (root / ".git").mkdir()
    (root / "link").symlink_to(".git")
    with pytest.raises(RequestError, match="agents may not write") as error:
        await write(root, root / path)
    assert error.value.code == INVALID
    assert not list((root / ".git").iterdir())


@pytest.mark.parametrize("path", [".gitignore", ".github/x.yml", ".claude/notes.md", "a.git/x"])
async def test_what_only_looks_like_it_is_written(root: Path, path: str) -> None:
    await write(root, root / path)
    assert (root / path).read_text() == "new"


async def test_what_starts_programs_unasked_may_be_read(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]")
    assert await read(root, root / ".git" / "config") == "[core]"


# --- staying inside


@pytest.mark.parametrize(
    "path",
    [
        "{root}/..",
        "{root}/../outside/secret",
        "{root}/sub/../../outside/secret",
        "{root}/sub/.././../outside/secret",
        "{root}-evil/secret",
        "{outside}/secret",
        "{outside}/../root/../outside/secret",
        "/..{root}/../outside/secret",
        "{root}/link/secret",
        "{root}/file-link",
        "{root}/absolute-link/secret",
        "{root}/sub/up/outside/secret",
        "{root}/chain/secret",
    ],
)
async def test_what_leads_outside_is_refused(root: Path, outside: Path, path: str) -> None:
    (root / "sub").mkdir()
    evil = root.with_name("root-evil")
    evil.mkdir()
    (evil / "secret").write_text("secret")
    (root / "link").symlink_to("../outside")
    (root / "file-link").symlink_to("../outside/secret")
    (root / "absolute-link").symlink_to(outside)
    (root / "sub" / "up").symlink_to("../..")
    (root / "chain").symlink_to("sub/up/root/link")
    error = await refused(root, path.format(root=root, outside=outside))
    assert error.code == INVALID
    assert "folders of this session" in error.message
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["/etc/passwd", "/", "/proc/self/environ", "/dev/null"])
async def test_the_rest_of_the_machine_is_refused(root: Path, path: str) -> None:
    assert "outside the folders of this session" in (await unread(root, path)).message


@pytest.mark.parametrize(
    "path", ["file", "./file", "file//", "", "sub/../root/file", "~/file", "\\file"]
)
async def test_a_path_must_be_absolute(
    root: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    assert "not absolute" in (await refused(root, path)).message


@pytest.mark.parametrize(
    "path",
    [
        "file",
        "/file",
        "./file",
        "sub/../file",
        "sub//./../file",
        "link",
        "sub/up/file",
        "absolute",
        "sub/absolute/file",
        "sub/back/root/file",
    ],
)
async def test_links_and_dots_that_stay_inside_are_followed(root: Path, path: str) -> None:
    (root / "file").write_text("mine")
    (root / "sub").mkdir()
    (root / "link").symlink_to("file")
    (root / "sub" / "up").symlink_to("..")
    (root / "absolute").symlink_to(root / "file")
    (root / "sub" / "absolute").symlink_to(root)
    # Out and in again is outside for a moment, as for the kernel; but this one never leaves.
    (root / "sub" / "back").symlink_to("../sub/here")
    (root / "sub" / "here").mkdir()
    (root / "sub" / "here" / "root").symlink_to("../..")
    assert await read(root, f"{root}/{path}") == "mine"
    await write(root, f"{root}/{path}", "new")
    assert (root / "file").read_text() == "new"
    assert (root / "link").is_symlink()


async def test_a_root_is_known_by_the_way_it_was_given_and_by_where_it_leads(
    root: Path, outside: Path
) -> None:
    alias = root.with_name("alias")
    alias.symlink_to(root)
    (root / "file").write_text("mine")
    roots = Roots([str(alias)])
    for path in (alias / "file", root / "file"):
        result = await FileService(roots).handle(
            "fs/read_text_file", {"sessionId": "", "path": str(path)}
        )
        assert result == {"content": "mine"}
    alias.unlink()
    alias.symlink_to(outside)  # an alias that leads elsewhere later still means the same root
    with pytest.raises(RequestError) as error:
        await FileService(roots).handle(
            "fs/read_text_file", {"sessionId": "", "path": str(alias / "secret")}
        )
    assert error.value.code == NOT_FOUND


async def test_a_session_may_have_several_roots_also_one_in_the_other(root: Path) -> None:
    inner, other = root / "inner", root.with_name("other")
    for folder in (inner, other):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    (inner / "link").symlink_to(other / "file")
    host = FileService(Roots([str(root), str(inner), str(other)]))
    for path, content in ((inner / "file", "inner"), (other / "file", "other")):
        result = await host.handle("fs/read_text_file", {"sessionId": "", "path": str(path)})
        assert result == {"content": content}
    link = {"sessionId": "", "path": str(inner / "link")}
    assert await host.handle("fs/read_text_file", link) == {"content": "other"}


async def test_the_folder_of_all_folders_is_a_root_like_any_other(root: Path) -> None:
    (root / "file").write_text("mine")
    assert await read(Path("/"), root / "file") == "mine"
    for path in ("/proc/self/environ", "/proc/1/../self/environ", "/sys/kernel/profiling"):
        assert "view into the kernel" in (await unread(Path("/"), path)).message


async def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert "more than 40 links" in (await refused(root, root / "a")).message


async def test_links_that_grow_the_path_end(root: Path) -> None:
    (root / "a").symlink_to("a/a/a/a/a/a/a/a")
    assert "more than" in (await refused(root, root / "a")).message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("fi\0le", "null byte"),
        ("x" * 256, "name too long"),
        ("x/" * 2048 + "x", "more than 200 parts"),
        ("\ud83d", "surrogates"),
    ],
)
async def test_a_path_that_cannot_be_is_refused(root: Path, path: str, message: str) -> None:
    error = await refused(root, f"{root}/{path}")
    assert error.code == INVALID
    assert message in error.message
    assert len(error.message) < 1000


async def test_a_file_on_the_way_is_no_folder(root: Path) -> None:
    (root / "file").touch()
    assert "Not a directory" in (await refused(root, root / "file" / "x")).message


# --- only regular files


async def test_a_folder_is_refused(root: Path) -> None:
    (root / "sub").mkdir()
    for path in (root, root / "sub", f"{root}/sub/", f"{root}/sub/..", f"{root}/sub/."):
        assert "it is a folder" in (await refused(root, path)).message


async def test_a_fifo_is_refused_and_nobody_who_waits_at_it_is_woken(root: Path) -> None:
    os.mkfifo(root / "fifo")
    woken = threading.Event()

    def wait_for_a_reader() -> None:
        os.close(os.open(root / "fifo", os.O_WRONLY))
        woken.set()

    waiter = threading.Thread(target=wait_for_a_reader)
    waiter.start()
    try:
        with trio.fail_after(30):
            assert "not a regular file" in (await refused(root, root / "fifo")).message
        assert not woken.is_set()
    finally:
        os.close(os.open(root / "fifo", os.O_RDONLY | os.O_NONBLOCK))
        waiter.join()


async def test_a_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert "not a regular file" in (await refused(root, root / "socket")).message


async def test_a_device_is_refused() -> None:
    for device in ("/dev/null", "/dev/zero", "/dev/tty"):
        assert "not a regular file" in (await unread(Path("/dev"), device)).message


# --- races


@pytest.mark.slow
async def test_a_link_that_is_swapped_all_the_time_never_leads_outside(
    root: Path, outside: Path
) -> None:
    inside = root / "inside"
    inside.mkdir()
    (inside / "secret").write_text("mine")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("inside", "../outside"):
                (root / "next").symlink_to(target)
                os.replace(root / "next", root / "link")

    async def attack() -> None:
        seen: set[str | int] = set()
        for _ in range(300):
            try:
                seen.add(await read(root, root / "link" / "secret"))
                await write(root, root / "link" / "secret", "mine")
            except RequestError as error:
                seen.add(error.code)
        assert seen <= {"mine", INVALID, NOT_FOUND}
        stop.set()

    (root / "link").symlink_to("inside")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, swap)
        nursery.start_soon(attack)
    assert (outside / "secret").read_text() == "secret"


async def test_a_folder_that_becomes_a_link_on_the_way_is_not_followed(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "secret").write_text("mine")
    readlink = os.readlink

    def swap_then_say_no_link(name: str, *, dir_fd: int) -> str:
        try:
            return readlink(name, dir_fd=dir_fd)
        finally:
            if name == "sub":
                (root / "sub").rename(root / "moved")
                (root / "sub").symlink_to(outside)
                monkeypatch.undo()

    monkeypatch.setattr(os, "readlink", swap_then_say_no_link)
    with pytest.raises(RequestError, match="Not a directory"):
        await read(root, root / "sub" / "secret")


async def test_a_file_that_becomes_a_link_before_it_is_opened_is_not_followed(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("mine")
    real_stat = os.stat

    def stat_then_swap(path: Any, **kwargs: Any) -> os.stat_result:
        status = real_stat(path, **kwargs)
        if path == "file":
            (root / "file").unlink()
            (root / "file").symlink_to(outside / "secret")
            monkeypatch.undo()
        return status

    monkeypatch.setattr(os, "stat", stat_then_swap)
    with pytest.raises(RequestError, match="symbolic links"):
        await read(root, root / "file")


async def test_a_link_put_in_place_of_a_file_being_written_is_replaced_not_followed(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("mine")
    replace = os.replace

    def swap_then_replace(*args: Any, **kwargs: Any) -> None:
        (root / "file").unlink()
        (root / "file").symlink_to(outside / "secret")
        replace(*args, **kwargs)

    monkeypatch.setattr(os, "replace", swap_then_replace)
    await write(root, root / "file", "new")
    assert (root / "file").read_text() == "new"
    assert not (root / "file").is_symlink()
    assert (outside / "secret").read_text() == "secret"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root full of links, beside a secret."""
    world = tmp_path_factory.mktemp("world")
    (world / "root" / "sub").mkdir(parents=True)
    (world / "secret").write_text("secret")
    (world / "root" / "secret").write_text("mine")
    (world / "root" / "sub" / "secret").write_text("mine")
    (world / "root" / "link").symlink_to("..")
    (world / "root" / "sub" / "up").symlink_to("../..")
    (world / "root" / "in").symlink_to("sub/..")
    return world


@given(
    st.lists(st.sampled_from(["..", ".", "", "sub", "link", "up", "in", "root", "secret"])),
)
def test_what_is_read_is_what_the_kernel_reads_and_never_outside(
    world: Path, parts: list[str]
) -> None:
    path = "/".join([str(world / "root"), *parts])
    try:
        content = trio.run(read, world / "root", path)
    except RequestError:
        return
    assert content == "mine" == Path(path).read_text()


@pytest.mark.parametrize(
    ("path", "writing"),
    [
        ("/etc/hosts", False),
        ("{root}/out/hosts", False),
        ("{root}/../x", False),
        ("{root}/missing/../../x", False),
        ("{root}/missing/../.git/config", True),
        ("{root}/.git/hooks/pre-commit", True),
        ("{root}/.vscode/tasks.json", True),
        ("relative", False),
    ],
)
def test_a_path_that_the_agent_may_not_take_is_refused(
    path: str, writing: bool, tmp_path: Path
) -> None:
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(NotAllowed):
        Roots([str(tmp_path)]).check(path.format(root=tmp_path), writing=writing)


@pytest.mark.parametrize("path", ["a.txt", "new/deep/a.txt", ".git/config", "in/a.txt", "."])
def test_a_path_below_the_roots_is_allowed_and_nothing_is_made(path: str, tmp_path: Path) -> None:
    (tmp_path / "in").symlink_to(tmp_path)
    writing = not path.startswith(".git")
    Roots([str(tmp_path)]).check(str(tmp_path / path), writing=writing)
    assert [each.name for each in tmp_path.iterdir()] == ["in"]
