"""Reading and writing the standard streams without holding anything up.

Descriptors are slow, closed or not to be made non-blocking, which a shell does not offer.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from agentrt._cli.console import LineReader
from agentrt._cli.output import BUFFER_BYTES, open_output


async def read_lines(reader: LineReader) -> list[str]:
    lines = []
    while (line := await reader.readline()) is not None:
        lines.append(line)
    return lines


def everything(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


async def test_lines_of_a_pipe_come_as_they_are_written() -> None:
    reading, writing = os.pipe()
    with trio.fail_after(30):
        os.write(writing, b"one\r\ntw")
        reader = LineReader(reading)
        assert await reader.readline() == "one"
        with trio.move_on_after(0.01):
            await reader.readline()
        os.write(writing, b"o\n\n\xff end")
        os.close(writing)
        assert await read_lines(reader) == ["two", "", "\N{REPLACEMENT CHARACTER} end"]
    os.close(reading)


async def test_files_and_the_null_device_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwo")
    for path, lines in ((str(file), ["one", "two"]), (os.devnull, [])):
        fd = os.open(path, os.O_RDONLY)
        with trio.fail_after(30):
            assert await read_lines(LineReader(fd)) == lines
        os.close(fd)
    fd = os.open(file, os.O_RDONLY)
    assert await LineReader(fd).read_all() == b"one\ntwo"
    os.close(fd)


async def test_everything_is_written_in_order_before_the_block_is_left() -> None:
    reading, writing = os.pipe()
    with trio.fail_after(30):
        async with open_output(writing) as out:
            for number in range(1000):
                out.write(f"{number}\n")
                out.say("\x1b")
            assert not out.is_terminal
    os.close(writing)
    assert everything(reading).decode() == "".join(f"{n}\n␛" for n in range(1000))


async def test_a_writer_waits_for_room_when_nobody_reads() -> None:
    reading, writing = os.pipe()
    with trio.fail_after(30):
        async with open_output(writing) as out:
            out.write("x" * (BUFFER_BYTES + 100_000))
            assert out.full
            with trio.move_on_after(0.05) as waited:
                await out.room()
            assert waited.cancelled_caught
            async with trio.open_nursery() as nursery:
                nursery.start_soon(out.room)
                rest = BUFFER_BYTES + 100_000
                while rest:
                    rest -= len(await trio.to_thread.run_sync(os.read, reading, 65536))
            assert not out.full
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("size", [1, 10 * BUFFER_BYTES])
async def test_a_reader_that_goes_away_is_reported_once_and_then_nothing_is_kept(size: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    told: list[OSError] = []
    closed = trio.Event()

    def on_closed(error: OSError) -> None:
        told.append(error)
        closed.set()

    with trio.fail_after(30):
        async with open_output(writing, on_closed=on_closed) as out:
            out.write("x" * size)
            await closed.wait()
            out.write("more")
            await out.room()
    assert [type(error) for error in told] == [BrokenPipeError]
    os.close(writing)
