"""The output of a program before its first message.

Output is cut at every byte, and the time that remains is compared without waiting for it.
"""

from __future__ import annotations

import math

import pytest
import trio

import agentrt
from agentrt._core.session.link import MAX_LINES, FirstOutput

PATIENT = agentrt.Limits(startup_timeout_s=60, stdin_close_grace_s=0.3, terminate_grace_s=1)


REQUEST = b'{"jsonrpc":"2.0","id":0,"method":"x"}\n'


def after(*written: bytes) -> float:
    """How long a program that wrote this, piece by piece, may then be silent."""
    output = FirstOutput()
    for piece in written:
        output.feed(piece)
    return output.max_silence_s(60)


async def failure(script: str, limits: agentrt.Limits = PATIENT) -> str:
    agent = agentrt.agents.acp(["sh", "-c", script], name="tool")
    with trio.fail_after(30), pytest.raises(agentrt.AgentStartError) as error:
        async with agentrt.open_session(agent, limits=limits):
            pass
    return str(error.value)


def test_silence_says_nothing() -> None:
    assert after() == after(b"\n\n  \n") == math.inf


def test_after_a_message_the_handshake_has_its_whole_time() -> None:
    assert after(REQUEST) == math.inf
    assert after(b"Usage: x\n", REQUEST[:20], REQUEST[20:], b"more\n" * 1000) == math.inf
    assert after(b'{"type":"system"}\n') == math.inf


def test_a_message_that_has_only_begun_is_waited_for() -> None:
    assert after(b"starting\n", b'{"jsonrpc":"2.0","id":0,"result":{') == math.inf


@pytest.mark.parametrize(
    "text",
    [
        "usage: tool [-h]",
        "error: unknown option '--acp'",
        "tool: unrecognized arguments: --acp",
        "Try 'tool --help' for more information.",
        "error: unexpected argument '--experimental-acp' found",
        "> ",
    ],
)
def test_some_words_make_it_clear_at_once(text: str) -> None:
    newline = "" if text.endswith(" ") else "\n"
    assert after(f"{text}{newline}".encode()) <= 2


def test_other_words_leave_it_a_part_of_the_time() -> None:
    assert 2 < after(b"Installing...\n") < 60
    assert 2 < after(b'{"level":"info","text":"a log"}\n') < 60


def test_many_lines_make_it_clear() -> None:
    assert after(b"x\n" * MAX_LINES) == 0


def test_what_is_quoted_is_short_and_plain() -> None:
    output = FirstOutput()
    output.feed(b"\x1b[31mred\x1b[0m \x07bell\xff\t" + b"x" * 100_000 + b"\n" + b"line\n" * 50)
    words = output.excerpt
    assert "red bell" in words
    assert len(words) < 2500
    assert words.isprintable()
    assert words.endswith(" …")


def test_an_endless_line_costs_nothing() -> None:
    output = FirstOutput()
    for _ in range(100):
        output.feed(b"x" * 65536)
    assert len(output._begun) < 65536
