"""Responses to slow clients, and of a server that is busy with other work, are never cut short."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing
from sockets import PIECE_BYTES, Served, get, header, page_files, site

FILES = page_files()
LARGEST = max(FILES, key=lambda path: len(FILES[path]))
HOUR_S = 3600.0


def narrow_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """A connection in which little data fits between the two ends."""
    ends = trio.socket.socketpair()
    for end in ends:
        end.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, 4096)
    return trio.SocketStream(ends[0]), trio.SocketStream(ends[1])


async def read_rest(stream: trio.abc.ReceiveStream) -> bytes:
    return b"".join([bytes(data) async for data in stream])


def body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/page/main.js", LARGEST])
async def test_a_request_that_a_busy_server_reads_late_is_answered_in_full(
    path: str, mock_clock: trio.testing.MockClock
) -> None:
    served = Served()
    client, server = trio.testing.memory_stream_pair()
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(served.handle, server)
        await trio.testing.wait_all_tasks_blocked()
        await client.send_all(served.request(path))
        mock_clock.jump(HOUR_S)  # the request is there, and the server had no time to read it
        assert body(await read_rest(client)) == FILES[path]


async def test_a_wrong_sign_in_that_a_busy_server_reads_late_is_answered(
    mock_clock: trio.testing.MockClock,
) -> None:
    served = Served()
    client, server = trio.testing.memory_stream_pair()
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(served.handle, server)
        await trio.testing.wait_all_tasks_blocked()
        await client.send_all(served.request(LARGEST, signed_in=False))
        mock_clock.jump(HOUR_S)
        assert b"Sign in" in await read_rest(client)


@pytest.mark.slow
@pytest.mark.skipif(
    len(FILES[LARGEST]) < 4 * PIECE_BYTES,
    reason="the page's libraries are not built: install Node 20, then agentrt again",
)
@pytest.mark.parametrize("seed", range(2))
async def test_a_client_that_reads_slowly_gets_the_whole_file(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    served, dice = Served(), random.Random(seed)
    client, server = narrow_pair()
    received = b""
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(served.handle, server)
        await client.send_all(served.request(LARGEST))
        while data := await client.receive_some(PIECE_BYTES // 2):
            received += data
            await trio.sleep(dice.random() * served.limits.ws_write_timeout_s / 5)
    assert body(received) == FILES[LARGEST]
    assert trio.current_time() > served.limits.ws_write_timeout_s
    assert served.site.statistics().dropped == 0


async def test_a_client_that_does_not_read_its_file_is_dropped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    served = Served()
    client, server = narrow_pair()
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(served.handle, server)
        await client.send_all(served.request(LARGEST))
    assert served.site.statistics().dropped == 1


async def test_connections_without_a_token_do_not_cut_a_download_short() -> None:
    served = Served(ws_unauthenticated=1)
    client, server = narrow_pair()
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(served.handle, server)
        await client.send_all(served.request(LARGEST))
        first = await client.receive_some(PIECE_BYTES)
        for _ in range(3):
            _, silent = trio.testing.memory_stream_pair()
            nursery.start_soon(served.handle, silent)
        await trio.testing.wait_all_tasks_blocked()
        assert body(first + await read_rest(client)) == FILES[LARGEST]
        nursery.cancel_scope.cancel()


async def test_a_download_over_a_socket_is_whole_and_its_connection_ends() -> None:
    with trio.fail_after(30):
        async with site(ws_write_timeout_s=5, ws_close_timeout_s=0.1) as running:
            link = running.link().partition(f":{running.port}")[2]
            cookie = str(header(await get(running.port, link), "set-cookie")).partition(";")[0]
            answer = await get(running.port, LARGEST, cookie=cookie)
            assert body(answer.head) == FILES[LARGEST]
