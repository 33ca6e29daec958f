"""The file of a trace: bounded, private, shared, and never in a session's way."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import trio.testing

import agentrt
from agentrt._core.trace.file import TraceFile
from agentrt._core.trace.trace import MAX_UNWRITTEN_BYTES
from agentrt.tracing import read_trace, trace_files
from inside.trace import Piece
from runtime.fakes import echo, session_with


def line(text: str) -> Piece:
    return Piece(1.0, "s", 1, "received", text.encode() + b"\n")


def lines(file: Path) -> list[str]:
    return [record.text for record in read_trace(file) if record.kind == "received"]


async def test_the_first_line_names_the_format_and_only_the_owner_may_read_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "t"
    file.touch(mode=0o644)
    async with agentrt.tracing.open_trace(file):
        pass
    [first] = read_trace(file)
    assert (first.kind, first.version, first.pid) == ("trace", 3, os.getpid())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_what_is_being_written_at_its_end_is_written_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, begun, goes_on = TraceFile.append, threading.Event(), threading.Event()

    def slow(self: TraceFile, data: bytes) -> None:
        monkeypatch.setattr(TraceFile, "append", append)
        begun.set()
        goes_on.wait()
        append(self, data)

    monkeypatch.setattr(TraceFile, "append", slow)

    async def later() -> None:
        await trio.sleep(0.3)
        goes_on.set()

    async with trio.open_nursery() as nursery, agentrt.tracing.open_trace(tmp_path / "t") as trace:
        trace._writer.put(line("a"))
        await trio.to_thread.run_sync(begun.wait)
        trace._writer.put(line("b"))
        nursery.start_soon(later)
    found = [record.kind for record in read_trace(tmp_path / "t")]
    assert found == ["trace", "received", "received"]
    assert lines(tmp_path / "t") == ["a", "b"]


async def test_it_is_continued_by_the_next_program(tmp_path: Path) -> None:
    for text in ("a", "b"):
        async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
            trace._writer.put(line(text))
    assert lines(tmp_path / "t") == ["a", "b"]


async def test_it_rotates_and_never_has_more_than_it_may(tmp_path: Path) -> None:
    file = tmp_path / "t"
    async with agentrt.tracing.open_trace(file, max_bytes=4096, files=3) as trace:
        for number in range(300):
            trace._writer.put(line(f"{number:03} {'x' * 60}"))
            if number % 100 == 0:
                await trace.flush()
    assert [part.name for part in trace_files(file)] == ["t.2", "t.1", "t"]
    assert all(part.stat().st_size <= 4096 for part in trace_files(file))
    assert all(stat.S_IMODE(part.stat().st_mode) == 0o600 for part in trace_files(file))
    kept = [int(text[:3]) for text in lines(file)]
    assert kept == list(range(kept[0], 300))


async def test_two_programs_write_one_file_and_both_follow_its_rotation(tmp_path: Path) -> None:
    file = tmp_path / "t"
    async with (
        agentrt.tracing.open_trace(file, max_bytes=4096, files=9) as one,
        agentrt.tracing.open_trace(file, max_bytes=4096, files=9) as other,
    ):
        for number in range(40):
            for trace in (one, other):
                trace._writer.put(line(f"{number} {'x' * 200}"))
                await trace.flush()
    assert len(trace_files(file)) > 3
    found = [int(text.split()[0]) for text in lines(file)]
    assert found == [number for number in range(40) for _ in range(2)]


async def test_a_flush_waits_for_a_write_that_began_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, write, begun, go = tmp_path / "t", os.write, trio.Event(), threading.Event()

    def slow(fd: int, data: Any) -> int:
        if b"said before" in bytes(data):
            trio.from_thread.run_sync(begun.set)
            go.wait(30)
        return write(fd, data)

    async with agentrt.tracing.open_trace(file) as trace, trio.open_nursery() as nursery:
        monkeypatch.setattr(os, "write", slow)
        trace._writer.put(line("said before"))
        await begun.wait()
        nursery.start_soon(trace.flush)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert nursery.child_tasks
        go.set()
    assert lines(file) == ["said before"]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path / "none" / "t", "no such folder"),
        (lambda path: path, "directory"),
        (lambda path: Path("/dev/null"), "it is not a file"),
        (lambda path: (path / "mine").write_text("dear diary") and path / "mine", "is not a trace"),
    ],
)
async def test_a_file_that_cannot_be_one_is_an_error_that_says_why(
    make: Any, why: str, tmp_path: Path
) -> None:
    file = make(tmp_path)
    with pytest.raises(agentrt.errors.TraceError, match=why):
        async with agentrt.tracing.open_trace(file):
            pass
    assert not (tmp_path / "mine").exists() or (tmp_path / "mine").read_text() == "dear diary"


async def test_a_full_disk_costs_records_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file, write, full = tmp_path / "t", os.write, True

    def failing(fd: int, data: Any) -> int:
        if full and bytes(data).startswith((b"{", b"\n{")):
            write(fd, bytes(data)[:10])  # as a disk does that gets full in the middle
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    async with agentrt.tracing.open_trace(file) as trace, session_with(echo) as (session, _):
        monkeypatch.setattr(os, "write", failing)
        trace._writer.put(line("lost"))
        await trace.flush()
        trace._writer.put(line("lost, too"))
        await trace.flush()
        assert (await session.run("hello")).outcome == "completed"
        full = False
        trace._writer.put(line("kept"))
        await trace.flush()
        assert trace.lost == 2
    found = list(read_trace(file))
    assert [(r.kind, r.text or r.count) for r in found[1:]] == [("lost", 2), ("received", "kept")]
    assert len([r for r in caplog.records if "cannot be written" in r.message]) == 1


async def test_a_disk_that_takes_a_part_of_what_it_is_given_gets_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, taken = os.write, []

    def in_part(fd: int, parts: Any) -> int:
        taken.append(sum(map(len, parts)))
        return write(fd, b"".join(parts)[: taken[-1] // 3])

    monkeypatch.setattr(os, "writev", in_part)
    said = [f"{letter}" * 60_000 for letter in "abcd"]
    async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
        for text in said:
            trace._writer.put(line(text))
        await trace.flush()
    assert lines(tmp_path / "t") == said
    assert len(taken) == 1


@pytest.mark.slow
async def test_what_waits_for_a_slow_disk_is_bounded(tmp_path: Path) -> None:
    async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
        for _ in range(5):
            trace._writer.put(line("x" * (MAX_UNWRITTEN_BYTES // 2)))
        assert trace.lost == 3
        await trace.flush()
    assert [r.count for r in read_trace(tmp_path / "t") if r.kind == "lost"] == [3]


async def test_a_trace_that_is_too_small_is_refused(tmp_path: Path) -> None:
    with pytest.raises(agentrt.LocalProtocolError, match="at least 4096"):
        async with agentrt.tracing.open_trace(tmp_path / "t", max_bytes=10):
            pass


def test_what_is_no_trace_and_what_is_newer_is_refused_by_name(tmp_path: Path) -> None:
    for text, why in (
        ("{}\n", "is not a trace"),
        ("", "it is empty"),
        ('{"t":1,"kind":"trace","version":9,"by":"agentrt 9"}\n', "format 9, written by agentrt 9"),
    ):
        (tmp_path / "t").write_text(text)
        with pytest.raises(agentrt.errors.TraceError, match=why):
            list(read_trace(tmp_path / "t"))


async def test_a_cancelled_block_has_written_what_there_was(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
            trace._writer.put(line("last words"))
            scope.cancel()
            await trio.sleep_forever()
    assert lines(tmp_path / "t") == ["last words"]


async def test_a_clock_that_jumps_leaves_nothing_unwritten_and_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    write = os.write

    def slow(fd: int, data: Any) -> int:
        time.sleep(0.05)
        return write(fd, data)

    async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
        monkeypatch.setattr(os, "write", slow)
        trace._writer.put(line("last words"))
    monkeypatch.undo()
    assert lines(tmp_path / "t") == ["last words"]
    assert str(tmp_path / "t") not in [file.path for file in psutil.Process().open_files()]
