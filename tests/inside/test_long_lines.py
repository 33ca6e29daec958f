"""Long lines: they say the same as if they had been decoded at once, and cost no more at a time.

Lines are cut at every byte, and the cost of each step is counted.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.wire import lines as long_lines
from agentrt._core.wire.lines import LONG_LINE_BYTES, MAX_STRUCTURE_BYTES, PIECE_BYTES
from agentrt.errors import RemoteProtocolError
from agentrt.jsonrpc import Lines, LongLine, decode


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Any:
    """So that Hypothesis finds the places where strings are cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lines, "PIECE_BYTES", 8)
        yield


def fed(line: bytes, cuts: list[int]) -> LongLine:
    long = LongLine()
    edges = [0, *sorted(cut % (len(line) + 1) for cut in cuts), len(line)]
    for start, end in pairwise(edges):
        long.feed(line[start:end])
    assert long.size == len(line)
    assert long.head == line[:200]
    return long


cuts = st.lists(st.integers(0, 10_000), max_size=12)
texts = st.text(st.sampled_from('aé€𝄞\\"\n\x01u0d8'), max_size=60)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab", max_size=3), inner),
)


@pytest.mark.slow
@given(values, cuts, st.booleans())
def test_any_json_cut_anywhere_is_the_same_value(value: Any, cuts: list[int], ascii: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii).encode()
    long = fed(line, cuts)
    assert long.value() == value
    assert not long.repaired


broken = st.lists(
    st.sampled_from(
        [
            *(
                b"a",
                b"\\",
                b"\\\\",
                b'\\"',
                b"\\u00e9",
                b"\\ud834",
                b"\\udd1e",
                b"\\n",
                b"\xc3",
                b"\xa9",
            ),
            *(b"\xf0\x9d", b"\x84\x9e", b"u12", b"\\u", b"aaaaaaaa", b"\xff"),
        ]
    ),
    max_size=20,
)


@given(broken, cuts)
def test_a_broken_string_is_repaired_as_a_short_one_is_or_refused_as_one(
    inside: list[bytes], cuts: list[int]
) -> None:
    line = b'{"text":"' + b"".join(inside) + b'","after":1}'
    long = fed(line, cuts)
    try:
        expected = decode(line)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            long.value()
    else:
        value = long.value()
        # Bytes that are no UTF-8 may become more or fewer U+FFFD where they are cut.
        assert [part for part in value["text"].split("\ufffd") if part] == [
            part for part in expected["text"].split("\ufffd") if part
        ]
        assert value["after"] == 1
        value["text"].encode()  # no half characters are left


@given(st.lists(st.sampled_from([b'"', b"\\", b"{", b"}", b"x" * 9, b",", b":", b"1"])), cuts)
def test_whatever_comes_it_is_a_value_or_a_refusal(parts: list[bytes], cuts: list[int]) -> None:
    line = b"".join(parts)
    try:
        expected = decode(line)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            fed(line, cuts).value()
    else:
        assert fed(line, cuts).value() == expected


@pytest.mark.parametrize(
    "line",
    [
        b'{"' + b"k" * 100 + b'": 1}',  # a name, and no text
        b'{"a": "' + b"x" * 100,
        b'{"a": "' + b"x" * 100 + b'"',
        b'{"a": "' + b"x" * 100 + b'", "b": -Infinity}',
        b'{"a": -Infinity, "b": "' + b"x" * 100 + b'"' + b"]",
        b"[" * 100_000 + b'"' + b"x" * 100 + b'"',
    ],
)
def test_what_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not a message"):
        fed(line, [20, 40, 60]).value()


def test_a_lone_surrogate_beside_a_long_string_is_replaced() -> None:
    long = fed(b'{"a":"' + b"x" * 100 + b'","b":"\\ud83d"}', [50])
    assert long.value() == {"a": "x" * 100, "b": "\ufffd"}
    assert long.repaired


def test_a_character_that_means_that_one_was_replaced_is_no_repair() -> None:
    long = fed('{"a":"\ufffd"}'.encode(), [])
    assert long.value() == {"a": "\ufffd"}
    assert not long.repaired


def test_more_structure_than_anybody_needs_is_refused_and_not_kept() -> None:
    long = LongLine()
    long.feed(b"[")
    for _ in range(MAX_STRUCTURE_BYTES // 40960 + 1):
        long.feed(b"0," * 20480)
    assert not long._rest
    with pytest.raises(RemoteProtocolError, match="not text"):
        long.value()


def test_lines_put_a_long_line_apart_in_front_of_what_comes_behind_it() -> None:
    lines = Lines(long_apart=True)
    assert lines.feed(b'1\n"') == b"1\n"
    for _ in range(LONG_LINE_BYTES // PIECE_BYTES + 1):
        assert lines.feed(b"x" * PIECE_BYTES) == b""
    assert lines.feed(b'"\n2\n3') == b"2\n"
    [long] = lines.long
    assert len(long.value()) == LONG_LINE_BYTES + PIECE_BYTES
    lines.long.clear()
    assert lines.end() == b"3"


@pytest.mark.slow
def test_a_long_line_that_is_too_long_is_skipped_as_any_other() -> None:
    limit = LONG_LINE_BYTES + 3 * PIECE_BYTES
    lines = Lines(limit, long_apart=True)
    for _ in range(LONG_LINE_BYTES // PIECE_BYTES + 5):
        assert lines.feed(b"x" * PIECE_BYTES) == b""
    assert lines.feed(b"y\nz\n") == b"z\n"
    assert lines.oversized == [LONG_LINE_BYTES + 5 * PIECE_BYTES + 1]
    assert lines.long == []


def test_a_long_line_without_its_newline_is_there_at_the_end() -> None:
    lines = Lines(long_apart=True)
    assert lines.feed(b'"' + b"x" * LONG_LINE_BYTES) == b""
    assert lines.feed(b'"') == b""
    assert lines.end() == b""
    assert len(lines.long[0].value()) == LONG_LINE_BYTES


def test_a_long_line_without_anything_in_it_is_none() -> None:
    splitter = Lines(long_apart=True)
    for _ in range(6):
        assert splitter.feed(b" " * 1024 * 1024) == b""
    assert splitter.feed(b'\n{"a": 1}\n') == b'{"a": 1}\n'
    assert splitter.long == []
