"""How long a program may be silent before its first message, by what it has written.

The program is in memory: its output comes in chosen pieces, and its silence takes no time.
"""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import agentrt
from agentrt.testing import MemoryAgent, open_fake_session

HANDSHAKE_S = 60
PATIENT = agentrt.Limits(
    startup_timeout_s=HANDSHAKE_S, stdin_close_grace_s=0.3, terminate_grace_s=1
)
MANY_LINES = 100
"""A program that writes as many lines and no message is no agent."""
REQUEST = b'{"jsonrpc":"2.0","id":0,"method":"x"}\n'


async def given_up(*written: bytes) -> tuple[float, str]:
    """Open a session with a program that writes this, piece by piece, and is silent then.

    Returns the seconds until it is given up, and the error.
    """

    async def program(process: MemoryAgent) -> None:
        for piece in written:
            process.send(piece)
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep_forever()

    begun_s = trio.current_time()
    with pytest.raises(agentrt.AgentStartError) as error:
        async with open_fake_session(lambda: MemoryAgent(program), limits=PATIENT):
            pass
    return trio.current_time() - begun_s, str(error.value)


async def after(*written: bytes) -> float:
    """How long a program that wrote this may be silent, to the second in which it is ended."""
    silence_s, _ = await given_up(*written)
    return silence_s


async def test_silence_says_nothing(autojump_clock: MockClock) -> None:
    assert await after() >= HANDSHAKE_S
    assert await after(b"\n\n  \n") >= HANDSHAKE_S


async def test_after_a_message_the_handshake_has_its_whole_time(autojump_clock: MockClock) -> None:
    assert await after(REQUEST) >= HANDSHAKE_S
    written = (b"Usage: x\n", REQUEST[:20], REQUEST[20:], b"more\n" * 1000)
    assert await after(*written) >= HANDSHAKE_S
    assert await after(b'{"type":"system"}\n') >= HANDSHAKE_S


async def test_a_message_that_has_only_begun_is_waited_for(autojump_clock: MockClock) -> None:
    assert await after(b"starting\n", b'{"jsonrpc":"2.0","id":0,"result":{') >= HANDSHAKE_S


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
async def test_some_words_make_it_clear_at_once(autojump_clock: MockClock, text: str) -> None:
    newline = "" if text.endswith(" ") else "\n"
    assert await after(f"{text}{newline}".encode()) <= 4


async def test_other_words_leave_it_a_part_of_the_time(autojump_clock: MockClock) -> None:
    assert 4 < await after(b"Installing...\n") < HANDSHAKE_S
    assert 4 < await after(b'{"level":"info","text":"a log"}\n') < HANDSHAKE_S


async def test_many_lines_make_it_clear(autojump_clock: MockClock) -> None:
    assert await after(b"x\n" * MANY_LINES) <= 2


async def test_what_is_quoted_is_short_and_plain(autojump_clock: MockClock) -> None:
    _, words = await given_up(
        b"\x1b[31mred\x1b[0m \x07bell\xff\t" + b"x" * 100_000 + b"\n" + b"line\n" * 50
    )
    assert "red bell" in words
    assert len(words) < 2700
    assert words.isprintable()
    assert words.endswith(" …")


async def test_an_endless_line_costs_no_more_than_after_a_message(
    autojump_clock: MockClock,
) -> None:
    pieces = [b"x" * 65536] * 200

    async def cost_s(first: bytes) -> float:
        begun_s = time.process_time()
        await given_up(first, *pieces)
        return time.process_time() - begun_s

    assert await cost_s(b"x") < 10 * await cost_s(REQUEST) + 1  # or tens of seconds
