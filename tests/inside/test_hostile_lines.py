"""Lines that were written to keep the redaction busy: twice the line takes twice the work, and no
step of it is long.

The work of redaction is counted in lines of Python that are run, for lines no agent writes.
"""

from __future__ import annotations

import re
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.process.inherited import is_secret
from agentrt._core.trace import secrets
from agentrt._core.trace.redact import begins_key
from agentrt._core.trace.secrets import SIGN_COST_BYTES, WINDOW_BYTES
from agentrt._core.wire import lines as wire_lines
from agentrt._core.wire.lines import PIECE_BYTES
from agentrt.demo.words import understand
from agentrt.jsonrpc import Lines
from inside.trace import Redaction
from linear.matcher import Program

REPEATED = (
    *("echo a ", "echo abcd |", "<<< ", "chpasswd <<E\\n", "kv put a=bbbb ", "kv put 'a="),
    *("secret set --body ", "net use ", "net use \\\\\\\\h ", "net user ab cd "),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "PRIVATE KEY ", "-----END ", "\\", "\\n"),
    *("eyJ", "eyJaaaaaaaa.", "-eyJaaaaaaaa", "sk-", "sk-aaaaaaaaaaaaaaa ", "://@", "://a:", "a@"),
    *("bearer ", "basic ", "token ", "token:", "token=", 'token":"', '\\"token\\":\\"', "token='"),
    *('"name":"token","value":"', "secret=abcdef,", 'credentials"', "set-cookie: a", "api_key"),
    *("--password ", "-u a:", "curl -u ", "mysql -p", "machine a ", "login a ", "<password>", "-a"),
    *("hooks.slack.com/services/", '"', "'", "=", "a", " ", "\u212a", "IDENTIFIED BY '", "SG.aaaa"),
    *(
        "hvs.",
        "AKIA",
        "1//0",
        "123456789:AA",
        "[redacted]",
        '{"a":',
        "ya29.",
        "'\"",
        "\\'",
        '\\\\"',
    ),
)
BEGINNINGS = ("", "{", '"token":"', "token='", "-----BEGIN PRIVATE KEY-----", 'token=\\"', "eyJ")


def work(function: object, *arguments: object) -> int:
    """Lines of Python that are run."""
    count = 0

    def see(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return see

    sys.settrace(see)
    try:
        function(*arguments)  # type: ignore[operator]
    finally:
        sys.settrace(None)
    return count


READERS = {
    "a line of a trace": lambda text: Redaction(["squeamish-value"]).line(text.encode()),
    "a text of several lines": lambda text: Redaction().text(f"{text}\n{text}"),
    "the beginning of a key": lambda text: begins_key(text.encode()),
    "a variable's value": lambda text: is_secret("X", text),
    "a variable's name": lambda text: is_secret(text, "x"),
    "a prompt to the demo agent": understand,
}


def grows(name: str, text: str, size: int) -> tuple[int, int]:
    read = READERS[name]
    short, long = (text * (1 + n // len(text)) for n in (size, 2 * size))
    return work(read, short), work(read, long)


@pytest.mark.parametrize("name", READERS)
def test_twice_the_text_takes_twice_the_work(name: str) -> None:
    for text in REPEATED[::3]:
        first, second = grows(name, text, 300)
        assert second <= 2.4 * first + 100, text


@pytest.mark.slow
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("name", READERS)
def test_it_does_whatever_is_repeated(name: str, beginning: str) -> None:
    for text in REPEATED:
        read = READERS[name]
        short, long = (beginning + text * (1 + n // len(text)) for n in (4_000, 8_000))
        first, second = work(read, short), work(read, long)
        assert second <= 2.4 * first + 2000, text


def steps(line: bytes) -> list[int]:
    """The lines of Python between two moments at which others may run."""
    counts: list[int] = []
    found = Redaction().steps(line)
    ended = object()
    while True:
        got: list[object] = []
        counts.append(work(lambda: got.append(next(found, ended))))  # noqa: B023 - called at once
        if got[0] is ended:
            return counts
        if got[0] is not None:  # a part: more of the same step
            last = counts.pop()
            counts[-1:] = [counts[-1] + last] if counts else [last]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["token=abcdef ", "a", "sk-aaa ", "://u:p@h "])
def test_others_may_run_while_a_long_line_is_looked_through(text: str) -> None:
    line = (text * (1 + 8 * WINDOW_BYTES // len(text))).encode()
    assert len(steps(line)) >= 8
    assert max(steps(line)) < 100 * WINDOW_BYTES // SIGN_COST_BYTES


class Counted:
    """A pattern that adds up the bytes of its matches."""

    def __init__(self, pattern: re.Pattern[bytes], counts: list[int]) -> None:
        self._pattern, self._counts = pattern, counts

    def __getattr__(self, method: str) -> object:
        def call(*arguments: object) -> re.Match[bytes] | None:
            found: re.Match[bytes] | None = getattr(self._pattern, method)(*arguments)
            self._counts.append(0 if found is None else found.end() - found.start())
            return found

        return call


IN_A_LONG_WORD = ("xsk-", "xnpm_", "ask-abcdefghijklmnop", "auth=", "pwd=", "sig:", "token=self.")


@pytest.mark.parametrize("text", IN_A_LONG_WORD)
def test_signs_inside_a_long_word_do_not_each_read_the_rest_of_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    for name, value in list(vars(secrets).items()):
        if isinstance(value, re.Pattern):
            monkeypatch.setattr(secrets, name, Counted(value, counts))
    shape = Counted(secrets._shape(), counts)
    monkeypatch.setattr(secrets, "_shape", lambda: shape)
    lengths = []
    for size in (4_000, 8_000):
        counts.clear()
        list(secrets.without_secrets((text * (size // len(text))).encode()))
        lengths.append(sum(counts))
    assert lengths[1] <= 2.4 * lengths[0] + 500


@given(st.lists(st.sampled_from(REPEATED) | st.text(max_size=3), max_size=12).map("".join))
def test_the_parts_of_a_line_are_the_line(text: str) -> None:
    line = text.encode()
    parts = [part for part in Redaction().steps(line) if part is not None]
    assert b"".join(parts) == Redaction().line(line)
    assert all(a or b for a, b in pairwise([*parts, b"x"]))


def test_no_step_repairs_more_than_it_can_in_a_few_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Repairing a megabyte of broken text takes some hundredths of a second."""
    repaired: list[int] = []
    repair_text = wire_lines.repair

    def repair(data: bytes) -> bytes:
        repaired.append(len(data))
        return repair_text(data)

    monkeypatch.setattr(wire_lines, "repair", repair)
    broken = b'{"text":"' + b"caf\xe9 \\ud83d " * (300 * 1024) + b'"}\n'
    lines = Lines(len(broken), long_apart=True)
    most = 0
    for at in range(0, len(broken), PIECE_BYTES):
        repaired.clear()
        assert lines.feed(broken[at : at + PIECE_BYTES]) == b""
        most = max(most, sum(repaired))
    assert 0 < most <= 640 * 1024
    assert lines.long[0].value()["text"].startswith("caf\ufffd \ufffd")


def test_the_sign_of_a_secret_has_a_limited_length() -> None:
    """RE2 finds the place, and then `re` looks at no more bytes than this there."""
    pattern = secrets._which()
    _, longest = Program(pattern.pattern.decode(), re.ASCII).tree.getwidth()
    assert longest <= secrets._MAX_SIGN_BYTES
