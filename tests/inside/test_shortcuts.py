"""Most lines are looked through many at a time: nothing is missed by that, and nothing is done for
each of them.

Lines are torn at every byte and compared with the slow way, which no public function offers.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import sys
from trace.test_redact import SECRETS
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt._core.trace.record import Written
from agentrt.tracing import REDACTED, TraceReader, TraceRecord
from inside.trace import Assembler, Piece, Redaction
from tables import for_each

GIVEN = ["squeamish ossifrage", 'quo"ted secret', "a line of it\nand another one"]
VALUE = "abcdefgh1234"
NAMES = (
    *("api_key", "API-Key", "token", "Secret", "passwd", "password", "passphrase", "Credentials"),
    *("Authorization", "set-cookie", "cookie", "bearer"),
    "Basic",
)
SHAPED = (
    *SECRETS.values(),
    *("sk_live_abcdefghijkl", "glpat-abcdefghijklmnopqrs", "hf_abcdefghijklmnopqrstuvwx"),
    *(
        "npm-abcdefghijklmnopqrstuvwx",
        "pypi-abcdefghijklmnopqrstuvwx",
        "tskey-abcdefghijklmnopqrstuv",
    ),
    *(
        "dop_v1_abcdefghijklmnopqrstuvw",
        "gsk_abcdefghijklmnopqrstuvwx",
        "xai-abcdefghijklmnopqrstuvwx",
    ),
    *("pk-abcdefghijklmnopqrs", "rk-abcdefghijklmnopqrs", "ASIAIOSFODNN7EXAMPLE"),
    *("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"),
)
BETWEEN = (
    *(":", "=", ",", '"', "'", "\\", '\\"', '": "', '\\": \\"', " ", "\t", "\u00a0", "://me:pass"),
    *("@host", "[", "{", "}", "\\u0073ecret", "\x85", "\u2028", "\udcff", "é", "word", "hunter22"),
    '"name": "Authorization", "value": "abc"',
)
fragment = st.sampled_from(NAMES + SHAPED + BETWEEN) | st.text(max_size=5)
cased = st.builds(
    lambda text, case: case(text), fragment, st.sampled_from([str, str, str, str.upper, str.lower])
)
secret_line = st.lists(cased | st.sampled_from(GIVEN), max_size=8).map("".join)
line = st.one_of(
    secret_line, secret_line, secret_line.map(lambda text: json.dumps({"text": text}))
).map(lambda text: text.replace("\n", " "))
plain_line = st.text("abc {}:_-", max_size=20)


RULES = Redaction(GIVEN)


def plainly(text: str) -> str:
    """One line by itself."""
    return wired(RULES.line(text.encode(errors="surrogateescape")))


def wired(line: bytes) -> str:
    return line.decode(errors="surrogateescape")


def all_plainly(lines: list[str]) -> list[str]:
    """The same for one line after another, of which some may be a key's."""
    shown, in_key = [], False
    for text in lines:
        if in_key and re.fullmatch(r"[\w+/=:,. -]*\r?", text, re.ASCII):
            shown.append(REDACTED)
            in_key = "-----END" not in text
        else:
            begins = re.search(r'-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[^"]*\Z', text)
            in_key = begins is not None and "-----END" not in text
            shown.append(plainly(text))
    return shown


def wire(text: str) -> str:
    """As it comes over a wire, with surrogates for what is not UTF-8."""
    return text.encode(errors="surrogatepass").decode(errors="surrogateescape")


def made(pieces: list[bytes], redaction: Redaction, **options: Any) -> list[Written]:
    assembler = Assembler(redaction, **options)
    given = [Piece(1.0, "s", 1, "received", piece) for piece in pieces]
    found = [*assembler.records(given), *assembler.flush(2.0)]
    return [each for each in found if each is not None]


def singly(written: list[Written]) -> list[TraceRecord]:
    return [record for each in written for record in each.records()]


@given(line)
def test_a_line_that_passes_is_one_in_which_nothing_is_replaced(text: str) -> None:
    data = text.encode(errors="surrogatepass")
    assert not RULES.passes(data) or RULES.line(data) == data


@given(line, st.integers(0, 90_000))
def test_a_long_line_is_redacted_as_a_short_one(text: str, before: int) -> None:
    data = text.encode(errors="surrogatepass")
    long = b"{} " * (before // 3)
    padded = Redaction().line(b"{" + long + data)
    assert padded == b"{" + long + Redaction().line(b"{ " + data)[2:]


@given(st.lists(fragment, max_size=8).map("".join), st.lists(fragment, max_size=4).map("".join))
@example('-----BEGIN RSA PRIVATE KEY-----": "', "")
@example("", "-----BEGIN RSA PRIVATE KEY-----")
@example("token=", "token='")
def test_json_stays_json_whatever_stands_in_its_strings(one: str, other: str) -> None:
    inner = json.dumps({other: one, "password": one})
    value = {one: other, "x": [one, {other: one}], "token": inner, "z": inner}
    for ascii_only in (True, False):
        shown = json.loads(RULES.text(json.dumps(value, ensure_ascii=ascii_only)))
        assert len(shown["x"]) == 2
        assert shown.get("token") == REDACTED


@given(
    st.lists(line | plain_line, min_size=1, max_size=12),
    st.sampled_from(["", '{"method": "x", "text":"', '{"token": "', "sess", "é"]),
    st.lists(st.integers(0, 400), max_size=3),
    st.integers(1, 60) | st.just(10**6),
)
def test_lines_are_redacted_together_as_each_by_itself(
    lines: list[str], begins: str, cuts: list[int], together: int
) -> None:
    lines = [wire(begins + text) for text in lines]
    data = b"".join(text.encode(errors="surrogateescape") + b"\n" for text in lines)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    found = singly(made(pieces, RULES, together=together))
    expected = all_plainly(lines)
    assert [r.data.decode(errors="surrogateescape") for r in found] == expected
    changed = [shown != text for text, shown in zip(lines, expected, strict=True)]
    assert [r.redacted for r in found] == changed


@for_each(
    "secret",
    [*SHAPED[:-1], *(f"{name}={VALUE}" for name in NAMES[:-1]), f"basic {VALUE}", *GIVEN[:2]],
)
def test_each_kind_of_secret_is_found_among_many_lines(secret: str) -> None:
    for text in (secret, secret.upper(), secret.lower()):
        lines = ["as", *"what is said", text[0], text, f"said: {text}", text[:-1]]
        lines = [f'{{"text":"{text}"}}' for text in lines]
        found = singly(made(["\n".join([*lines, ""]).encode()], RULES))
        assert [record.text for record in found] == [plainly(line) for line in lines]
    assert REDACTED in plainly(secret)


def test_a_name_at_the_end_of_what_lines_have_in_common_is_found() -> None:
    lines = ['{"token"}', '{"token":"abcdefgh"}', '{"token" "}', '{"token"']
    found = singly(made(["\n".join([*lines, ""]).encode()], RULES))
    assert [record.text for record in found] == [plainly(line) for line in lines]


@given(st.lists(plain_line, min_size=1, max_size=12), st.sampled_from(["", '{"a": "b', "é"]))
def test_what_a_file_has_is_read_as_it_was_said(lines: list[str], begins: str) -> None:
    data = b"".join(f"{begins}{text}\n".encode() for text in lines)
    reader = TraceReader("t")
    header = Written(t=0.0, kind="trace", fields={"version": 3})
    file = b"".join(
        part for each in [header, *made([data], Redaction())] for part in each.encoded()
    )
    records = [record for n in range(len(file)) for record in reader.feed(file[n : n + 1])]
    assert b"".join(record.data + b"\n" for record in records[1:]) == data
    assert {type(record) for record in records} == {TraceRecord}


def test_lines_of_one_read_are_one_record_as_they_were() -> None:
    data = b'{"method":"update","text":"one"}\n{"method":"update","text":"\xff"}\n'
    [written] = made([data], Redaction())
    assert (bytes(written.data), len(written)) == (data, 2)
    assert written.encoded()[1:] == (b"\n", data)


def test_a_secret_among_many_lines_costs_only_its_neighbours_their_company() -> None:
    lines = [f"line {number}" for number in range(64)]
    lines[10] = "password=hunter22"
    written = made(["\n".join([*lines, ""]).encode()], Redaction())
    assert len(singly(written)) == 64
    assert len(written) < 10
    assert [r.text for r in singly(written) if r.redacted] == [f"password={REDACTED}"]


def calls(count: int, redaction: Redaction) -> int:
    """Functions that are called for so many lines, of which half may have a secret in them."""
    text = '{"method":"session/update","params":{"text":"%s"}}\n'
    words = random.Random(1)
    data = "".join(text % words.choice(["one", "two", "three"]) for _ in range(count)).encode()
    seen = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        [each.encoded() for each in made([data], redaction)]
    finally:
        sys.setprofile(None)
    return seen


def test_nothing_is_called_for_each_of_many_lines() -> None:
    assert calls(1000, RULES) == calls(500, RULES) < 60


@pytest.mark.parametrize("given_value", ["pass\udcffword with bytes", "one line\ntwo lines"])
def test_a_value_of_any_bytes_and_of_several_lines_is_found(given_value: str) -> None:
    data = (given_value + "\n").encode(errors="surrogateescape")
    found = singly(made([b"x\n" + data], Redaction([given_value])))
    assert [r.data for r in found[1:]] == [REDACTED.encode()] * data.count(b"\n")


def test_a_line_stays_one_line_whatever_a_programs_rule_makes_of_it() -> None:
    found = singly(made([b"a\nb\n"], Redaction(more=lambda line: f"{line}\n{line}")))
    assert [record.line for record in found] == ["a a", "b b"]


def test_records_behind_one_that_was_torn_off_are_read() -> None:
    file = b"".join(
        part
        for each in [Written(t=0.0, kind="trace", fields={"version": 3}), *made([b"a\nb\n"], RULES)]
        for part in each.encoded()
    )
    lost = Written(t=1.0, kind="lost", fields={"count": 2})
    for end in range(file.index(b"a\nb"), len(file)):
        for rest in (b"\n" + b"".join(lost.encoded()), b"".join(lost.encoded())):
            reader = TraceReader("t")
            kinds = [record.kind for record in reader.feed(file[:end] + rest)]
            kinds += [record.kind for record in reader.end()]
            assert kinds[0] == "trace"
            assert kinds[-1] == "lost" or not rest.startswith(b"\n")


def test_traces_of_the_formats_before_are_read() -> None:
    reader = TraceReader("t")
    old = b"""{"t":1,"kind":"trace","version":2}
{"t":1,"kind":"received","session":"s","process":1,"line":"one\\ntwo","begins":"> "}
{"t":1,"kind":"received","session":"s","process":1,"raw":"/w=="}
"""
    assert [r.data for r in reader.feed(old)] == [b"", b"> one", b"> two", b"\xff"]
