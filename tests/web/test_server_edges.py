"""The sharp edges: what a client, or a mistake of ours, can do to a connection, and that it costs
nobody else anything."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import AsyncExitStack

import psutil
import pytest
import trio
import trio.testing
from sockets import (
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Client,
    Echoes,
    bucket_of,
    connect,
    frame,
    get,
    handshake,
    metered,
    replaced,
    site,
    status,
    websocket,
)

from agentrt.web import Site

BIG = b"x" * 1_000_000


async def until(condition: Callable[[], bool]) -> None:
    """Real sockets tell of nothing but their data; the caller bounds the wait."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await trio.sleep(0.005)


async def still_works(running: Site) -> None:
    async with websocket(running.port) as other:
        await other.send(frame("hello"))
        assert await other.text() == "hello"


def narrow(client: Client) -> None:
    """Take in little: what the server sends soon has no room."""
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


# --- before the handshake


async def test_a_head_that_drips_is_cut_off() -> None:
    with trio.fail_after(30):
        async with site(ws_handshake_timeout_s=0.2) as running, connect(running.port) as client:

            async def drip() -> None:
                while True:
                    await client.send(b"G")
                    await trio.sleep(0.02)

            with pytest.raises(trio.BrokenResourceError):
                await drip()
            await still_works(running)
            assert running.statistics().broken == 0


async def test_a_silent_connection_is_cut_off() -> None:
    with trio.fail_after(30):
        async with site(ws_handshake_timeout_s=0.1) as running, connect(running.port) as client:
            assert await client.read_rest() == b""
            await until(lambda: running.statistics().pending == 0)
            await trio.testing.wait_all_tasks_blocked()
            assert running.statistics().broken == 0


async def test_a_refused_client_that_does_not_leave_is_cut_off() -> None:
    with trio.fail_after(30):
        async with (
            site(ws_close_timeout_s=0.1) as running,
            websocket(running.port, origin="null") as client,
        ):
            frames, code = await client.until_closed()
            assert (len(frames), code) == (1, 4403)
            assert await client.read_rest() == b""
            await until(lambda: running.statistics().pending == 0)


async def test_a_ping_that_crosses_the_servers_close_breaks_nothing() -> None:
    with trio.fail_after(30):
        async with (
            site() as running,
            websocket(running.port, origin="null") as client,
        ):
            assert (await client.until_closed())[1] == 4403
            await client.send(frame(b"are you there?", PING), frame(b"\x11\x33", CLOSE))
            assert await client.read_rest() == b""
            await until(lambda: running.statistics().pending == 0)
            assert running.statistics().broken == 0


@pytest.mark.slow
async def test_a_thousand_connections_without_a_token_keep_nobody_out() -> None:
    with trio.fail_after(60):
        async with site(ws_unauthenticated=20) as running:
            streams = []
            try:
                for _ in range(50):
                    for _ in range(20):
                        streams.append(await trio.open_tcp_stream("127.0.0.1", running.port))
                    await until(lambda: running.statistics().pending == 20)
                    for stream in streams[:-20]:
                        await trio.aclose_forcefully(stream)
                    del streams[:-20]
                await still_works(running)
                assert status(await get(running.port, "/healthz")) == 200
                assert running.statistics().refused >= 900
                assert running.statistics().broken == 0
            finally:
                for stream in streams:
                    await trio.aclose_forcefully(stream)


async def test_no_more_clients_are_let_in_than_allowed() -> None:
    with trio.fail_after(30):
        async with site(ws_connections=2) as running:
            async with websocket(running.port), websocket(running.port):
                async with websocket(running.port) as third:
                    assert await third.refusal() == (4429, "2 clients are connected")
                assert running.statistics().clients == 2
            await until(lambda: running.statistics().clients == 0)
            await still_works(running)


# --- floods


@pytest.mark.slow
async def test_a_flood_of_messages_is_refused_and_nobody_else_notices() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with (
            site(hub, ws_frames_per_s=100) as running,
            websocket(running.port) as other,
            websocket(running.port) as client,
        ):
            await client.send(*[frame(f"quiet {n}") for n in range(10_000)])
            code, reason = await client.refusal()
            assert (code, reason) == (4429, "too many frames in too little time")
            assert len(hub.last.heard) <= 200
            await other.send(frame("hello"))
            assert await other.text() == "hello"


@pytest.mark.slow
async def test_a_thousand_messages_in_one_piece_all_arrive() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(*[frame(str(n)) for n in range(1000)])
            assert [await client.text() for _ in range(1000)] == [str(n) for n in range(1000)]


@pytest.mark.slow
async def test_fragments_of_one_byte_are_refused_before_they_cost_anything() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            pieces = frame("x", CONTINUATION, fin=False) * 300_000
            with trio.move_on_after(5):
                await client.send(frame("x", fin=False), pieces)
            assert (await client.refusal())[0] == 4429
            await still_works(running)


@pytest.mark.slow
async def test_a_flood_of_pings_from_a_client_that_never_reads_is_refused() -> None:
    with trio.fail_after(30):
        async with site(ws_close_timeout_s=0.2) as running, websocket(running.port) as client:
            narrow(client)

            async def flood() -> None:
                while True:
                    await client.send(frame(b"x" * 125, PING) * 1000)

            with pytest.raises(trio.BrokenResourceError):
                await flood()
            await still_works(running)


@pytest.mark.slow
@pytest.mark.parametrize("fragments", [1, 10])
async def test_a_message_above_the_limit_is_refused(fragments: int) -> None:
    with trio.fail_after(30):
        async with site(client_message_bytes=10_000) as running, websocket(running.port) as client:
            part = "ä" * (5_001 // fragments + 1)  # characters are not bytes
            await client.send(
                frame(part, fin=fragments == 1),
                *[frame(part, CONTINUATION, fin=False) for _ in range(fragments - 1)],
            )
            assert await client.refusal() == (1009, "a message may have at most 10000 bytes")


async def test_a_message_of_just_the_limit_is_heard() -> None:
    with trio.fail_after(30):
        async with site(client_message_bytes=10_000) as running, websocket(running.port) as client:
            for _ in range(3):
                await client.send(frame("x" * 4_000, fin=False), frame("x" * 6_000, CONTINUATION))
                assert await client.text() == "x" * 10_000


@pytest.mark.slow
async def test_a_frame_that_claims_2_to_the_62_bytes_is_refused_at_its_head() -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port) as client:
            await client.send(struct.pack("!BBQ", 0x81, 0xFF, 1 << 62) + b"mask")
            assert (await client.refusal())[0] == 1009


# --- clients that do not read


async def test_a_stop_arrives_though_nothing_is_read_and_the_client_pings() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub) as running, websocket(running.port) as client:
            for _ in range(20):
                hub.last.send.send_nowait(BIG)
            await client.send(frame("quiet: first"))
            await until(lambda: hub.last.heard == ["quiet: first"])
            await client.send(frame(b"are you there?", PING), frame("quiet: stop"))
            await until(lambda: hub.last.heard == ["quiet: first", "quiet: stop"])
            for _ in range(20):
                assert await client.frame() in ((TEXT, BIG), (PONG, b"are you there?"))


@pytest.mark.slow
async def test_what_waits_for_a_slow_client_waits_where_it_can_be_merged() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub) as running, websocket(running.port) as client:
            for _ in range(50):
                hub.last.send.send_nowait(BIG)
            await trio.testing.wait_all_tasks_blocked(0.1)
            assert hub.last.frames.statistics().current_buffer_used >= 40
            for _ in range(50):
                assert await client.frame() == (TEXT, BIG)


@pytest.mark.slow
async def test_many_that_do_not_read_wait_for_the_same_bytes_and_not_for_copies() -> None:
    hub, before = Echoes(), resident()
    message = b"x" * 10_000_000
    with trio.fail_after(30):
        async with site(hub) as running, AsyncExitStack() as clients:
            for _ in range(30):
                narrow(await clients.enter_async_context(websocket(running.port)))
            for viewer in hub.viewers:
                viewer.send.send_nowait(message)
            await trio.testing.wait_all_tasks_blocked(0.1)
            assert len(hub.viewers) == 30
            assert not any(viewer.closed for viewer in hub.viewers)
            assert resident() - before < 100_000_000


def resident() -> int:
    """Bytes of this process in memory."""
    return int(psutil.Process().memory_info().rss)


async def test_a_client_that_never_reads_is_dropped_and_no_other_is() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub, ws_write_timeout_s=0.3) as running, websocket(running.port) as client:
            narrow(client)
            for _ in range(20):
                hub.last.send.send_nowait(BIG)
            await until(lambda: hub.viewers[0].closed)
            await until(lambda: running.statistics().dropped == 1)
            assert running.statistics().clients == 0
            with pytest.raises(trio.BrokenResourceError):
                await client.read_rest()  # aborted: what is left in the kernel is gone
            await still_works(running)


@pytest.mark.slow
async def test_a_client_that_reads_slowly_is_kept() -> None:
    hub = Echoes()
    with trio.fail_after(60):
        async with site(hub, ws_write_timeout_s=0.4) as running, websocket(running.port) as client:
            for _ in range(5):
                hub.last.send.send_nowait(BIG)
            for _ in range(5):
                await trio.sleep(0.2)
                assert await client.frame() == (TEXT, BIG)
            await still_works(running)


# --- clients that are gone


async def test_a_client_that_answers_no_ping_is_dropped() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub, ping_interval_s=0.1) as running, websocket(running.port) as client:
            assert (await client.frame())[0] == PING
            # It is counted when its connection has ended, a moment after the hub has closed it.
            await until(lambda: running.statistics().dropped == 1)
            assert hub.last.closed


async def test_a_client_that_answers_pings_is_kept() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub, ping_interval_s=0.05) as running, websocket(running.port) as client:
            for _ in range(5):
                opcode, payload = await client.frame()
                assert opcode == PING
                await client.send(frame(payload, PONG))
            assert not hub.last.closed


async def test_a_half_closed_connection_ends() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub) as running, websocket(running.port) as client:
            assert isinstance(client.stream, trio.SocketStream)
            await client.stream.send_eof()
            assert await client.read_rest() == b""
            assert hub.last.closed


async def test_a_reset_ends_one_connection() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub) as running:
            async with websocket(running.port) as client:
                assert isinstance(client.stream, trio.SocketStream)
                client.stream.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            await until(lambda: hub.last.closed)
            await still_works(running)
            assert running.statistics().broken == 0


# --- mistakes of ours


async def test_a_mistake_in_a_viewer_ends_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with trio.fail_after(30):
        async with (
            site() as running,
            websocket(running.port) as other,
            websocket(running.port) as client,
        ):
            await client.send(frame("raise"))
            assert await client.refusal() == (4450, "internal server error")
            await other.send(frame("hello"))
            assert await other.text() == "hello"
    assert "a mistake in what serves this client" in caplog.text


async def test_a_mistake_in_a_frame_to_be_sent_ends_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub) as running, websocket(running.port) as client:
            hub.last.send.send_nowait(RuntimeError("no frame"))
            assert (await client.refusal())[0] == 4450
            await still_works(running)
    assert "no frame" in caplog.text


async def test_a_hub_that_takes_no_viewer_ends_one_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Closed(Echoes):
        def attach_viewer(self, dialect: object, *, role: str) -> object:
            raise RuntimeError("the hub is closed")

    with trio.fail_after(30):
        async with site(Closed()) as running:
            async with websocket(running.port) as client:
                assert (await client.refusal())[0] == 4450
            assert status(await get(running.port, "/healthz")) == 200
            await until(lambda: running.statistics().broken == 1)
    assert "the hub is closed" in caplog.text


async def test_what_a_viewer_ends_with_is_told_behind_its_last_frame() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub) as running, websocket(running.port) as client:
            hub.last.send.send_nowait(b'"last"')
            hub.last.send.send_nowait(replaced())
            assert await client.text() == '"last"'
            assert await client.refusal() == (4409, "connected again")


# --- shutdown


async def test_at_the_servers_end_every_client_is_told() -> None:
    told: list[tuple[int | None, str]] = []

    async def listen(client: Client) -> None:
        told.append(await client.refusal())

    with trio.fail_after(30):
        async with (
            AsyncExitStack() as outside,
            trio.open_nursery() as nursery,
            site() as running,
        ):
            for _ in range(3):
                client = await outside.enter_async_context(websocket(running.port))
                nursery.start_soon(listen, client)
            assert running.statistics().clients == 3
    assert told == [(4410, "the server ends")] * 3


@pytest.mark.parametrize("kind", ["silent", "not reading", "sending", "in its handshake"])
async def test_no_client_delays_the_servers_end(kind: str) -> None:
    hub = Echoes()

    async def send(client: Client) -> None:
        try:
            while True:
                await client.send(frame(b"?", PING), frame("quiet"))
                await trio.sleep(0.01)
        except trio.BrokenResourceError:
            pass

    with trio.fail_after(30):  # the bounds below are longer
        async with (
            AsyncExitStack() as outside,
            trio.open_nursery() as nursery,
            site(
                hub, ws_close_timeout_s=0.2, ws_handshake_timeout_s=50, ws_write_timeout_s=50
            ) as running,
        ):
            client = await outside.enter_async_context(connect(running.port))
            half = kind == "in its handshake"
            await client.send(handshake(running.port)[: 20 if half else None])
            if half:
                await until(lambda: running.statistics().pending == 1)
            else:
                assert await client.read_head() == 101
            if kind == "not reading":
                narrow(client)
                for _ in range(20):
                    hub.last.send.send_nowait(BIG)
                await trio.testing.wait_all_tasks_blocked(0.05)
            elif kind == "sending":
                nursery.start_soon(send, client)
    assert running.statistics().clients == running.statistics().pending == 0
    assert running.statistics().broken == 0


async def test_the_end_leaves_no_port_behind() -> None:
    with trio.fail_after(30):
        async with site() as running:
            pass
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", running.port)


# --- the meter alone


@pytest.mark.slow
def test_frames_are_counted_the_same_however_the_bytes_are_cut() -> None:
    stream = frame("x" * 300, fin=False) + frame(b"?", PING) + frame("y" * 70_000, CONTINUATION)
    for step in (1, 2, 3, 7, 1000, len(stream)):
        pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
        assert metered(pieces, 70_300) == (3, [])
        assert metered(pieces, 70_299)[1] == [1009]  # too big


def test_a_bucket_fills_with_time_and_not_above_its_brim() -> None:
    bucket = bucket_of(rate=2, burst=4)
    assert bucket.take(4, 100.0)
    assert not bucket.take(1, 100.0)
    assert bucket.take(1, 100.5)
    assert not bucket.take(5, 1000.0)
    assert bucket.take(4, 1000.0)
