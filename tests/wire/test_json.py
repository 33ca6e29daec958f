"""Decoding what agents really write: repaired where that is possible, one error where not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import errors as _errors
from agentrt.jsonrpc import decode, encode_line


class Chunk(msgspec.Struct):
    text: str
    size: int = 0


chunks: msgspec.json.Decoder[Chunk] = msgspec.json.Decoder(Chunk)


def test_a_good_line_decodes_into_its_type() -> None:
    assert decode(b'{"text":"hi"}', chunks) == Chunk("hi")


def test_invalid_utf8_becomes_the_replacement_character() -> None:
    assert decode(b'{"text":"a\xffb"}', chunks) == Chunk("a\ufffdb")


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert decode(rb'{"text":"cut \ud83d"}', chunks) == Chunk("cut \ufffd")
    assert decode(rb'{"\udc00":"\ude00 \ud83d\ude00"}') == {"\ufffd": "\ufffd \N{GRINNING FACE}"}


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode(b'\xef\xbb\xbf{"text":"hi"}', chunks) == Chunk("hi")


def test_not_a_number_becomes_null() -> None:
    assert decode(b'{"cost":NaN}') == {"cost": None}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Loaded cached credentials.",
        b'{"text":"hi"',
        b'{"text":1}',
        b"[]",
        b"42",
        b"[" * 100_000,
        b'{"text":"hi","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"9" * 5000,
        b'{"text":"\xff"',
        b'{"text":"\\ud83d","size":"big"}',
    ],
)
def test_whatever_is_wrong_is_one_error_that_quotes_the_line(line: bytes) -> None:
    with pytest.raises(_errors.RemoteProtocolError) as caught:
        decode(line, chunks)
    assert caught.value.line == line[:200]


@given(st.binary())
def test_any_bytes_decode_or_raise_that_one_error(line: bytes) -> None:
    try:
        decode(line)
    except _errors.RemoteProtocolError:
        pass


text = st.text()  # Hypothesis makes no surrogates
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
)


@given(values)
@pytest.mark.slow
def test_an_encoded_line_is_one_line_of_the_same_json(value: Any) -> None:
    line = encode_line(value)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line) == value


def test_a_lone_surrogate_of_ours_is_replaced_rather_than_refused() -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    assert encode_line(Chunk(name)) == '{"text":"caf\ufffd.txt","size":0}\n'.encode()
    assert encode_line({name: [name]}) == '{"caf\ufffd.txt":["caf\ufffd.txt"]}\n'.encode()


def test_a_number_out_of_range_costs_itself_and_not_its_message() -> None:
    assert decode(b'{"a":1e999,"b":[-1e999,1]}') == {"a": None, "b": [None, 1]}
