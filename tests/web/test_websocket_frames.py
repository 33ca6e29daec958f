"""Raw frames, in the spirit of Autobahn's server cases.

Autobahn's own suite runs on Python 2.7 only, which a machine with our tests need not have; where
there is one, `nox -s autobahn` runs the suite on the same connections (of version 25.10.1 all 266
cases that apply were passed). Here are the cases where our stream below trio-websocket could have
broken something, and those where that one drops connections without a word.
"""

from __future__ import annotations

import struct

import pytest
import trio
from sockets import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame, site, websocket

from faults.quick import mostly_slow

KAPPA = "κόσμε"


def close(code: int, reason: bytes = b"") -> bytes:
    return frame(struct.pack("!H", code) + reason, CLOSE)


# --- 1: sizes


@pytest.mark.parametrize("size", [0, 125, 126, 127, 128, 65535, 65536, 200_000])
async def test_a_text_of_any_size_arrives_and_comes_back(size: int) -> None:
    text = "x" * size
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(text))
            assert await client.text() == text


# --- 2: pings and pongs


@pytest.mark.parametrize("payload", [b"", b"hello", bytes(range(125)), b"\xff\xfe"])
async def test_a_ping_is_answered_with_its_payload(payload: bytes) -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(payload, PING))
            assert await client.frame() == (PONG, payload)


async def test_pings_are_answered_in_their_order() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(*(frame(str(n), PING) for n in range(10)))
            assert [await client.frame() for _ in range(10)] == [
                (PONG, str(n).encode()) for n in range(10)
            ]


async def test_a_pong_that_nobody_asked_for_is_ignored() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(b"unasked", PONG), frame("still here"))
            assert await client.text() == "still here"


async def test_a_frame_in_pieces_of_one_byte_arrives_whole() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            for byte in frame(KAPPA):
                await client.send(bytes((byte,)))
            assert await client.text() == KAPPA


# --- 3 to 5: reserved bits, opcodes, fragments


BROKEN = {
    "rsv1": [frame("x", rsv=4)],
    "rsv2": [frame("x", rsv=2)],
    "rsv3": [frame("x", rsv=1)],
    "rsv of a ping": [frame(b"x", PING, rsv=1)],
    "rsv of a close": [frame(b"", CLOSE, rsv=4)],
    "unmasked": [frame("x", mask=None)],
    **{f"opcode {code}": [frame(b"x", code)] for code in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "ping too long": [frame(b"x" * 126, PING)],
    "close too long": [close(1000, b"x" * 124)],
    "ping in fragments": [frame(b"x", PING, fin=False), frame(b"x", CONTINUATION)],
    "close in fragments": [frame(b"", CLOSE, fin=False)],
    "continuation of nothing": [frame("x", CONTINUATION)],
    "text inside a text": [frame("x", fin=False), frame("y")],
    "binary inside a text": [frame("x", fin=False), frame("y", BINARY)],
    "size in 2 bytes for 1": [bytes((0x81, 0x80 | 126)) + struct.pack("!H", 5) + bytes(9)],
    "size in 8 bytes for 2": [bytes((0x81, 0x80 | 127)) + struct.pack("!Q", 500) + bytes(504)],
    "close of one byte": [frame(b"\x03", CLOSE)],
    **{
        f"close code {code}": [close(code)]
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    },
}


@pytest.mark.parametrize("name", mostly_slow(BROKEN, one_in=6))
async def test_a_broken_frame_is_answered_with_close_1002(name: str) -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame("before"), *BROKEN[name])
            told, code = await client.until_closed()
            assert (told, code) == ([(TEXT, b"before")], 1002)
            assert await client.read_rest() == b""


async def test_a_message_in_fragments_arrives_whole() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(
                frame("one ", fin=False),
                frame("", CONTINUATION, fin=False),
                frame("two ", CONTINUATION, fin=False),
                frame("three", CONTINUATION),
            )
            assert await client.text() == "one two three"


async def test_a_ping_in_the_middle_of_a_message_is_answered_and_the_message_arrives() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame("one ", fin=False), frame(b"?", PING))
            assert await client.frame() == (PONG, b"?")
            await client.send(frame("two", CONTINUATION))
            assert await client.text() == "one two"


# --- 6: UTF-8


async def test_a_character_may_be_cut_by_a_fragment() -> None:
    data = KAPPA.encode()
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(data[:3], fin=False), frame(data[3:], CONTINUATION))
            assert await client.text() == KAPPA


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"\xc3",  # cut
        b"\xc0\xaf",  # overlong
        b"\xed\xa0\x80",  # a surrogate
        b"\xf4\x90\x80\x80",  # above U+10FFFF
        KAPPA.encode() + b"\xce",
    ],
)
async def test_a_text_that_is_no_utf8_is_answered_with_close_1007(text: bytes) -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(text))
            assert await client.until_closed() == ([], 1007)


async def test_what_is_no_utf8_is_seen_before_the_message_ends() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(b"\xf4\x90", fin=False))
            assert await client.until_closed() == ([], 1007)


# --- 7: the close


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1011, 3000, 3999, 4000, 4999])
async def test_a_close_is_answered_with_its_code_and_the_server_closes(code: int) -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(close(code, b"bye"))
            assert await client.until_closed() == ([], code)
            assert await client.read_rest() == b""


async def test_a_close_without_a_code_is_answered() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(b"", CLOSE))
            assert await client.until_closed() == ([], 1005)


async def test_a_close_whose_reason_is_no_utf8_is_answered_with_1007() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(close(1000, b"\xff\xff"))
            assert await client.until_closed() == ([], 1007)


async def test_what_comes_behind_a_close_is_not_heard() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(close(1000), frame("late"), frame(b"late", PING))
            assert await client.until_closed() == ([], 1000)


async def test_a_binary_message_is_refused() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(frame(b"\0\1", BINARY))
            assert await client.refusal() == (1003, "messages are text, not binary")
