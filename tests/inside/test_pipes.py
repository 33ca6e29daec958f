"""The writer's order, wholeness and end; the reader's rhythm.

Writers and readers get pipes that take single bytes or break, which the kernel decides otherwise,
and a stream whose peer stops to read at a chosen byte.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.process.pipes import (
    FIRST_PIECE_BYTES,
    MIN_PIECE_BYTES,
    PIECE_S,
    READ_BYTES,
    ReadEnd,
)
from agentrt._core.process.streams import StreamTransport
from agentrt.agents import Transport
from agentrt.errors import LocalProtocolError
from agentrt.process import LineWriter, read_loop
from inside.process import pipes
from runtime.child_programs import PATIENT, Lines, python, started


class Pipe(Transport):
    """A pipe in memory that takes as many bytes as it is told to."""

    pid = returncode = None

    def __init__(self, room: int = 0) -> None:
        self.taken = b""
        self.closed = False
        self.broken = False
        self._room = room
        self._changed = trio.lowlevel.ParkingLot()

    def drain(self, room: int) -> None:
        self._room += room
        self._changed.unpark_all()

    def write_nowait(self, data: bytes | memoryview) -> int:
        if self.closed or self.broken:
            raise trio.BrokenResourceError
        taken = bytes(data[: self._room])
        self._room -= len(taken)
        self.taken += taken
        return len(taken)

    async def wait_writable(self) -> None:
        if self._room or self.closed or self.broken:
            await trio.lowlevel.checkpoint()
        else:
            await self._changed.park()

    def close_stdin(self) -> None:
        self.closed = True
        self._changed.unpark_all()


def a_writer(
    pipe: Transport, *, outbox: int = 1000, on_broken: Callable[[str], None] | None = None
) -> LineWriter:
    return LineWriter(pipe, outbox=outbox, write_timeout=10, on_broken=on_broken)


# --- the writer


def test_a_line_is_written_at_once_if_the_pipe_takes_it() -> None:
    pipe = Pipe(room=100)
    a_writer(pipe).write(b"hello\n")
    assert pipe.taken == b"hello\n"


async def test_a_task_is_started_once_and_only_if_the_pipe_does_not_take_a_line(
    nursery: trio.Nursery,
) -> None:
    started: list[Callable[[], Awaitable[None]]] = []

    def start(run: Callable[[], Awaitable[None]]) -> None:
        started.append(run)
        nursery.start_soon(run)

    pipe = Pipe(room=8)
    writer = LineWriter(pipe, outbox=1000, write_timeout=10, start=start)
    writer.write(b"hello\n")
    assert not started
    writer.write(b"prompt\n")
    writer.write(b"cancel\n", urgent=True)
    assert len(started) == 1
    pipe.drain(1000)
    await trio.testing.wait_all_tasks_blocked()
    writer.close()
    await trio.testing.wait_all_tasks_blocked()
    assert pipe.taken == b"hello\nprompt\ncancel\n"
    assert pipe.closed
    assert len(started) == 1


@pytest.mark.parametrize("end", ["close", "break"])
async def test_a_writer_that_never_waited_still_ends_its_pipe(
    nursery: trio.Nursery, end: str
) -> None:
    told: list[str] = []
    pipe = Pipe(room=100)
    writer = LineWriter(
        pipe, outbox=1000, write_timeout=10, on_broken=told.append, start=nursery.start_soon
    )
    writer.write(b"hello\n")
    pipe.broken = end == "break"
    if end == "close":
        writer.close()
    else:
        writer.write(b"again\n")
    await trio.testing.wait_all_tasks_blocked()
    assert pipe.closed
    assert told == (["the agent closed its standard input"] if end == "break" else [])


def test_an_abandoned_writer_starts_no_task_and_drops_lines() -> None:
    pipe = Pipe()
    started: list[object] = []
    writer = LineWriter(pipe, outbox=1000, write_timeout=10, start=started.append)
    writer.abandon()
    writer.write(b"late\n", urgent=True)
    writer.close()
    assert writer.statistics().lines_dropped == 1
    assert not started


async def test_urgent_lines_go_ahead_of_prompts_but_never_inside_a_line(
    nursery: trio.Nursery,
) -> None:
    pipe = Pipe(room=3)
    writer = a_writer(pipe)
    nursery.start_soon(writer.run)
    writer.write(b"first prompt\n")
    writer.write(b"second prompt\n")
    writer.write(b"cancel\n", urgent=True)
    writer.write(b"reply\n", urgent=True)
    await trio.testing.wait_all_tasks_blocked()
    assert pipe.taken == b"fir"
    pipe.drain(1000)
    await trio.testing.wait_all_tasks_blocked()
    assert pipe.taken == b"first prompt\ncancel\nreply\nsecond prompt\n"


@given(
    lines=st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1),
    rooms=st.lists(st.integers(1, 40), min_size=1),
)
def test_whatever_the_pipe_takes_lines_stay_whole_and_each_lane_in_order(
    lines: list[tuple[int, bool]], rooms: list[int]
) -> None:
    async def scenario() -> list[bytes]:
        pipe = Pipe()
        writer = a_writer(pipe, outbox=10_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            for number, (size, urgent) in enumerate(lines):
                lane = b"u" if urgent else b"p"
                writer.write(lane + b"%d:" % number + b"x" * size + b"\n", urgent=urgent)
                pipe.drain(rooms[number % len(rooms)])
                await trio.lowlevel.checkpoint()
            pipe.drain(1_000_000)
            await trio.testing.wait_all_tasks_blocked()
            writer.close()
        assert writer.statistics().bytes_written == len(pipe.taken)
        assert writer.statistics().lines_written == len(lines)
        return pipe.taken.splitlines()

    written = trio.run(scenario)
    for lane, is_urgent in ((b"u", True), (b"p", False)):
        expected = [
            lane + b"%d:" % number + b"x" * size
            for number, (size, urgent) in enumerate(lines)
            if urgent is is_urgent
        ]
        assert [line for line in written if line.startswith(lane)] == expected


async def test_a_pipe_that_nobody_reads_is_broken_after_the_write_timeout(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    told: list[str] = []
    pipe = Pipe(room=2)
    writer = a_writer(pipe, on_broken=told.append)
    nursery.start_soon(writer.run)
    writer.write(b"prompt\n")
    writer.write(b"cancel\n", urgent=True)
    await trio.sleep(9)
    assert writer.broken is None
    await trio.sleep(2)
    assert told == [writer.broken] == ["the agent has not read its input for 10 s"]
    assert pipe.closed
    writer.write(b"more\n")
    assert pipe.taken == b"pr"
    assert writer.statistics().lines_dropped == 3
    assert writer.statistics().bytes_waiting == 0


async def test_an_agent_that_reads_slowly_is_given_time(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    pipe = Pipe()
    writer = a_writer(pipe)
    nursery.start_soon(writer.run)
    writer.write(b"123456789\n")
    for _ in range(10):
        await trio.sleep(9)
        pipe.drain(1)
    await trio.testing.wait_all_tasks_blocked()
    assert pipe.taken == b"123456789\n"
    await trio.sleep(100)  # nothing waits, so no clock runs
    assert writer.broken is None


async def test_a_broken_pipe_is_reported_by_the_task_and_not_from_inside_write(
    nursery: trio.Nursery,
) -> None:
    told: list[str] = []
    pipe = Pipe(room=100)
    writer = a_writer(pipe, on_broken=told.append)
    nursery.start_soon(writer.run)
    await trio.testing.wait_all_tasks_blocked()
    pipe.broken = True
    writer.write(b"prompt\n")
    assert writer.broken == "the agent closed its standard input"
    assert told == []
    await trio.testing.wait_all_tasks_blocked()
    assert told == [writer.broken]


async def test_cancelling_the_task_in_the_middle_of_a_line_breaks_the_pipe() -> None:
    told: list[str] = []
    pipe = Pipe(room=3)
    writer = a_writer(pipe, on_broken=told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.write(b"prompt\n")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert told == ["writing was cancelled in the middle of a line"]
    pipe.drain(100)
    writer.write(b"cancel\n", urgent=True)
    assert pipe.taken == b"pro"


@pytest.mark.parametrize("begun", [b"", b"whole\n"])
async def test_cancelling_the_task_between_two_lines_breaks_nothing(begun: bytes) -> None:
    told: list[str] = []
    pipe = Pipe(room=len(begun))
    writer = a_writer(pipe, on_broken=told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.write(b"whole\n")
        writer.write(b"whole\n")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert writer.broken is None
    assert told == []
    assert pipe.taken == begun
    assert pipe.closed


async def test_a_prompt_beyond_the_outbox_is_taken_and_keeps_no_answer_out(
    nursery: trio.Nursery,
) -> None:
    pipe = Pipe()
    writer = a_writer(pipe, outbox=10)
    nursery.start_soon(writer.run)
    writer.write(b"a prompt of more than ten bytes\n")
    for _ in range(3):
        writer.write(b"an answer\n", urgent=True)
        pipe.drain(10)
        await trio.testing.wait_all_tasks_blocked()
    pipe.drain(100)
    await trio.testing.wait_all_tasks_blocked()
    assert pipe.taken == b"an answer\n" * 3 + b"a prompt of more than ten bytes\n"
    assert writer.statistics().lines_waiting == 0


async def test_replies_without_end_to_an_agent_that_reads_nothing_break_the_pipe(
    nursery: trio.Nursery,
) -> None:
    told: list[str] = []
    writer = a_writer(Pipe(), outbox=10, on_broken=told.append)
    nursery.start_soon(writer.run)
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(5):
        writer.write(b"reply\n", urgent=True)
    await trio.testing.wait_all_tasks_blocked()
    assert told == ["it left 12 bytes of answers unread (limits.agent_outbox_bytes)"]
    assert writer.statistics().lines_dropped == 5


async def test_one_answer_may_be_larger_than_the_outbox(nursery: trio.Nursery) -> None:
    pipe = Pipe(room=100)
    writer = a_writer(pipe, outbox=10)
    nursery.start_soon(writer.run)
    writer.write(b"an answer of more than ten bytes\n", urgent=True)
    await trio.testing.wait_all_tasks_blocked()
    assert writer.broken is None
    assert pipe.taken.endswith(b"bytes\n")


async def test_large_answers_wait_until_the_agent_has_read_and_go_one_after_the_other(
    nursery: trio.Nursery,
) -> None:
    pipe = Pipe()
    writer = a_writer(pipe, outbox=20)
    nursery.start_soon(writer.run)

    async def answer() -> None:
        await writer.wait_read()
        writer.write(b"fifteen bytes.\n", urgent=True)

    for _ in range(5):
        nursery.start_soon(answer)
    waiting = []
    for _ in range(6):
        await trio.testing.wait_all_tasks_blocked()
        waiting.append(writer.statistics().lines_waiting)
        pipe.drain(15)
    await trio.testing.wait_all_tasks_blocked()
    assert writer.broken is None
    assert pipe.taken == b"fifteen bytes.\n" * 5
    assert waiting == [1, 1, 1, 1, 1, 0]


async def test_who_waits_to_answer_an_agent_that_is_given_up_on_is_woken(
    nursery: trio.Nursery,
) -> None:
    writer = a_writer(Pipe(), outbox=10)
    nursery.start_soon(writer.run)
    for _ in range(2):
        writer.write(b"reply\n", urgent=True)
    nursery.start_soon(writer.wait_read)
    await trio.testing.wait_all_tasks_blocked()
    writer.write(b"reply\n", urgent=True)
    await trio.testing.wait_all_tasks_blocked()
    assert len(nursery.child_tasks) == 0


async def test_closing_ends_the_input_behind_urgent_lines_and_drops_prompts() -> None:
    pipe = Pipe(room=3)
    writer = a_writer(pipe)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            writer.write(b"begun\n")
            writer.write(b"too late\n")
            writer.write(b"goodbye\n", urgent=True)
            writer.close()
            writer.close()
            writer.write(b"after the end\n", urgent=True)
            await trio.testing.wait_all_tasks_blocked()
            assert not pipe.closed
            pipe.drain(100)
    assert pipe.taken == b"begun\ngoodbye\n"
    assert pipe.closed
    assert writer.broken is None
    assert writer.statistics().lines_dropped == 2


def test_a_message_without_its_newline_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        a_writer(Pipe(room=10)).write(b"half a line")


# --- the writer and a real process

READS_WHEN_TOLD = python("""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
for line in sys.stdin.buffer:
    print(len(line), line[:1].decode(), flush=True)
""")


async def test_a_write_cut_off_by_its_callers_scope_leaves_every_line_whole() -> None:
    with trio.fail_after(30):
        async with (
            started(READS_WHEN_TOLD, limits=PATIENT) as agent,
            trio.open_nursery() as nursery,
        ):
            lines = Lines(agent)
            assert await lines.next() == "ready"
            writer = LineWriter(agent, outbox=2**20, write_timeout=5)
            nursery.start_soon(writer.run)
            with trio.CancelScope() as turn:
                writer.write(b"p" * 300_000 + b"\n")
                assert 0 < writer.statistics().bytes_waiting < 300_000
                turn.cancel()
                await trio.sleep_forever()
            writer.write(b"cancel\n", urgent=True)
            os.kill(agent.pid, signal.SIGUSR1)
            assert await lines.next() == "300001 p"
            assert await lines.next() == "7 c"
            writer.close()


async def test_an_agent_that_reads_nothing_breaks_the_pipe() -> None:
    told: list[str] = []
    with trio.fail_after(30):
        async with started(["sleep", "60"]) as agent:
            writer = LineWriter(agent, outbox=2**20, write_timeout=0.1, on_broken=told.append)
            writer.write(b"p" * 300_000 + b"\n")
            await writer.run()
    assert told == ["the agent has not read its input for 0.1 s"]


async def test_an_agent_that_dies_breaks_the_pipe() -> None:
    told: list[str] = []
    with trio.fail_after(30):
        async with started(READS_WHEN_TOLD) as agent:
            writer = LineWriter(agent, outbox=2**20, write_timeout=5, on_broken=told.append)
            writer.write(b"p" * 300_000 + b"\n")
            os.kill(agent.pid, signal.SIGKILL)
            await writer.run()
    assert told == ["the agent closed its standard input"]


# --- the reader


class Chunks:
    """Reads as told; says what the loop did."""

    def __init__(self, *chunks: bytes | None) -> None:
        self._chunks = list(chunks)
        self.waits = 0

    def read_nowait(self) -> bytes | None:
        return self._chunks.pop(0)

    async def wait_readable(self) -> None:
        self.waits += 1
        await trio.lowlevel.checkpoint()


async def test_a_short_read_is_followed_by_a_wait_and_a_full_one_by_a_checkpoint() -> None:
    full, short, seen = b"x" * READ_BYTES, b"y", []
    source = Chunks(full, full, full, short, None, short, b"")
    await read_loop(source, seen.append, lambda: seen.append(b""))
    assert [len(data) for data in seen[:4]] == [
        FIRST_PIECE_BYTES,
        2 * FIRST_PIECE_BYTES,
        4 * FIRST_PIECE_BYTES,
        FIRST_PIECE_BYTES,
    ]
    assert seen[-5:] == [full, full, short, short, b""]
    assert source.waits == 3


async def test_behind_a_reply_more_is_looked_for_before_it_is_waited_for() -> None:
    seen: list[bytes] = []
    source = Chunks(b"asks", b"asks", None, b"says", b"")
    await read_loop(
        source, seen.append, lambda: seen.append(b""), replied=lambda: seen[-1] == b"asks"
    )
    assert seen == [b"asks", b"asks", b"says", b""]
    assert source.waits == 2


async def test_a_dialogue_without_end_leaves_other_tasks_their_turn(
    mock_clock: trio.testing.MockClock,
) -> None:
    """Here a reply costs a millisecond."""
    replies: list[bytes] = []

    def on_data(data: bytes) -> None:
        replies.append(data)
        mock_clock.jump(0.001)

    others: list[int] = []

    async def other() -> None:
        while True:
            others.append(len(replies))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await read_loop(Chunks(*[b"asks"] * 50, b""), on_data, lambda: None, replied=lambda: True)
        nursery.cancel_scope.cancel()
    assert len(replies) == 50
    assert max(now - before for before, now in pairwise(others)) <= 2 * (PIECE_S * 1000 + 1)


async def test_a_flood_leaves_other_tasks_their_turn() -> None:
    source = Chunks(*[b"x" * READ_BYTES] * 100, b"")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_loop, source, lambda data: None, lambda: None)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert len(source._chunks) > 90


async def test_what_is_slow_to_take_is_taken_in_small_pieces_between_which_others_run(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a kibibyte costs a millisecond."""
    monkeypatch.setattr(pipes, "thread_time", mock_clock.current_time)
    pieces: list[int] = []

    def on_data(data: bytes) -> None:
        pieces.append(len(data))
        mock_clock.jump(len(data) / 1024 / 1000)

    others: list[int] = []

    async def other() -> None:
        while True:
            others.append(len(pieces))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await read_loop(Chunks(*[b"x" * READ_BYTES] * 3, b""), on_data, lambda: None)
        nursery.cancel_scope.cancel()
    assert sum(pieces) == 3 * READ_BYTES
    assert max(pieces[1:]) <= PIECE_S * 1000 * 1024
    # Trio runs what is ready in any order: last in one round, first in the next.
    assert max(now - before for before, now in pairwise(others)) <= 2


async def test_what_is_quick_to_take_again_is_taken_in_whole_reads_again(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "thread_time", mock_clock.current_time)
    pieces: list[int] = []

    def on_data(data: bytes) -> None:
        pieces.append(len(data))
        if len(pieces) == 1:
            mock_clock.jump(60)  # something else kept the program busy

    await read_loop(Chunks(*[b"x" * READ_BYTES] * 4, b""), on_data, lambda: None)
    assert pieces[1] == MIN_PIECE_BYTES
    assert pieces[-1] == READ_BYTES
    assert sum(pieces) == 4 * READ_BYTES


async def test_a_cut_pipe_ends_behind_what_is_in_it_although_somebody_writes_on() -> None:
    there, here = os.pipe()
    end = ReadEnd(trio.lowlevel.FdStream(there))
    seen: list[bytes] = []
    try:
        assert end.read_nowait() is None
        os.write(here, b"last words")
        end.cut()
        os.write(here, b"of somebody else")
        await read_loop(end, seen.append, lambda: seen.append(b""))
        assert seen == [b"last words", b""]
    finally:
        end.close()
        os.close(here)


@pytest.mark.parametrize("stop", [ReadEnd.cut, ReadEnd.close])
async def test_the_one_who_waits_for_a_pipe_is_woken_by_its_end(
    stop: Callable[[ReadEnd], None],
) -> None:
    there, here = os.pipe()
    end = ReadEnd(trio.lowlevel.FdStream(there))
    seen: list[str] = []
    try:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read_loop, end, lambda data: None, lambda: seen.append("end"))
                await trio.testing.wait_all_tasks_blocked()
                stop(end)
        assert seen == ["end"]
        assert end.read_nowait() == b""
        await end.wait_readable()
    finally:
        end.close()
        os.close(here)


async def test_a_peer_that_does_not_read_holds_up_the_writer_and_nobody_else() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    transport = StreamTransport(ours, ours)
    async with trio.open_nursery() as nursery:
        assert transport.write_nowait(b"x" * 100_000) == 65536
        assert transport.write_nowait(b"x") == 0
        nursery.start_soon(transport.write)
        await transport.wait_writable()
        assert transport.write_nowait(b"y") == 1
        transport.close_stdin()
        heard = b""
        while data := await theirs.receive_some():
            heard += data
        assert heard == b"x" * 65536 + b"y"
        transport.terminate()
        assert await transport.wait() == -9
        nursery.cancel_scope.cancel()
