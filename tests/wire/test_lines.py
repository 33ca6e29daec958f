"""Newline framing: any cut gives the same lines, and no line is too long for us."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.jsonrpc import Lines


def collect(framer: Lines, pieces: list[bytes]) -> list[bytes]:
    """The lines that come out, without their newlines, the unfinished last one included."""
    out = b"".join(bytes(framer.feed(piece)) for piece in pieces)
    lines = out.split(b"\n")[:-1]
    last = bytes(framer.end())
    return [*lines, last] if last else lines


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


soup = st.lists(st.sampled_from([b"{}", b"\n", b"\r\n", b"abc", b"\xff", b"\r", b"x" * 30])).map(
    b"".join
)


@given(soup, st.lists(st.integers(0, 1000)))
def test_a_line_cut_at_any_byte_comes_out_the_same(data: bytes, places: list[int]) -> None:
    expected = data.split(b"\n")
    expected = expected if expected[-1] else expected[:-1]
    assert collect(Lines(), cut(data, places)) == expected


@given(soup, st.lists(st.integers(0, 1000)), st.integers(1, 40))
def test_lines_within_the_limit_pass_and_longer_ones_are_reported_once(
    data: bytes, places: list[int], limit: int
) -> None:
    lines = data.split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    framer = Lines(limit)
    assert collect(framer, cut(data, places)) == [line for line in lines if len(line) <= limit]
    assert framer.oversized == [len(line) for line in lines if len(line) > limit]


def test_whole_lines_of_a_read_are_handed_over_without_a_copy() -> None:
    read = b'{"a":1}\n{"b":2}\n'
    assert Lines().feed(read) is read


@pytest.mark.parametrize("piece", [4096, pytest.param(1, marks=pytest.mark.slow), 4095, 65536])
def test_a_line_in_pieces_of_any_size_takes_little_more_than_its_bytes(piece: int) -> None:
    framer, size = Lines(), 4 * 65536
    tracemalloc.start()
    for _ in range(size // piece):
        assert framer.feed(bytes(piece)) == b""
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < size * 1.2
    assert framer.feed(b"y\nz") == bytes(size // piece * piece) + b"y\n"
    assert framer.end() == b"z"


def test_what_was_kept_of_an_oversized_line_is_freed_at_once() -> None:
    framer = Lines(limit=1000)
    framer.feed(b"x" * 900)
    framer.feed(b"x" * 900)
    assert not framer._pieces
    assert framer.oversized == []  # its end, and so its size, is not known yet
    assert framer.feed(b"x\n{}\n") == b"{}\n"
    assert framer.oversized == [1801]


def test_an_oversized_line_without_a_newline_is_reported_at_end_of_file() -> None:
    framer = Lines(limit=4)
    assert framer.feed(b"12345") == b""
    assert framer.end() == b""
    assert framer.oversized == [5]
    assert framer.end() == b""
    assert framer.oversized == [5]
