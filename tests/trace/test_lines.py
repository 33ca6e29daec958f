"""Pieces of a pipe become records of lines."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agentrt.tracing import REDACTED
from redacted import Seen, records


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_no_byte_is_lost_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces: list[Seen] = [
        (1.0, "s", 1, "received", data[a:b]) for a, b in itertools.pairwise(places)
    ]
    found = records(*pieces)
    assert b"".join(r.data + (b"" if r.cut else b"\n") for r in found) == data
    assert all(record.cut for record in found if record.t == 9.0)


def test_a_line_has_the_time_at_which_it_ended() -> None:
    found = records((1.0, "s", 1, "received", b"a"), (2.0, "s", 1, "received", b"b\n"))
    assert [(r.t, r.line) for r in found] == [(2.0, "ab")]


def test_the_pipes_of_two_sessions_and_of_two_processes_are_kept_apart() -> None:
    found = records(
        (1.0, "s", 1, "received", b"a"),
        (1.0, "z", 1, "received", b"b"),
        (1.0, "s", 2, "received", b"c"),
        (1.0, "s", 1, "sent", b"d\n"),
        (1.0, "s", 1, "received", b"e\n"),
    )
    lines = [(r.session, r.process, r.line) for r in found]
    assert lines == [("s", 1, "d"), ("s", 1, "ae"), ("z", 1, "b"), ("s", 2, "c")]


def test_of_a_line_without_end_the_beginning_is_kept_and_the_rest_counted() -> None:
    most = 8 * 1024 * 1024
    [found] = records((1.0, "s", 1, "received", b"x" * most), (2.0, "s", 1, "received", b"yz\n"))
    assert (len(found.data), found.left_out, found.cut) == (most, 2, True)


def test_a_half_line_is_recorded_when_the_output_ends() -> None:
    found = records((1.0, "s", 1, "received", b'{"half'), (2.0, "s", 1, "stdout_closed", b""))
    assert [(r.kind, r.line, r.cut) for r in found] == [
        ("received", '{"half', True),
        ("stdout_closed", None, False),
    ]


KEY = b"""a key:
-----BEGIN RSA PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED

MIIEowIBAAKCAQEA7bq+/x==
Q0ZHSElKS0xNTk9QUVJTVFVW
-----END RSA PRIVATE KEY-----
and more
"""


@given(st.lists(st.integers(0, len(KEY)), max_size=6))
def test_of_a_key_of_several_lines_no_line_is_kept_however_it_is_cut(cuts: list[int]) -> None:
    places = sorted({0, len(KEY), *cuts})
    pieces: list[Seen] = [(1.0, "s", 1, "stderr", KEY[a:b]) for a, b in itertools.pairwise(places)]
    found = [record.text for record in records(*pieces)]
    assert found == ["a key:", *[REDACTED] * 6, "and more"]


def test_what_is_no_line_of_a_key_ends_it() -> None:
    begun = b"-----BEGIN PRIVATE KEY-----\nMIIE\n"
    found = records((1.0, "s", 1, "stderr", begun + b'{"x": 1}\nMIIE\n'))
    assert [record.text for record in found][1:] == [REDACTED, '{"x": 1}', "MIIE"]
    quoted = b'{"text": "-----BEGIN PRIVATE KEY-----"}\nMIIE\n'
    assert records((1.0, "s", 1, "received", quoted))[1].text == "MIIE"
