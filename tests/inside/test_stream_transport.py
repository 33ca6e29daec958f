"""Streams as the transport of an agent.

The peer stops reading at a chosen byte, which the loop of a session does not show.
"""

from __future__ import annotations

import trio
import trio.testing

from agentrt._core.process.streams import StreamTransport


async def test_a_peer_that_does_not_read_holds_up_the_writer_and_nobody_else() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    transport = StreamTransport(ours, ours)
    async with trio.open_nursery() as nursery:
        assert transport.write_nowait(b"x" * 100_000) == 65536
        assert transport.write_nowait(b"x") == 0
        nursery.start_soon(transport.write)
        await transport.wait_writable()
        assert transport.write_nowait(b"y") == 1
        transport.close_stdin()
        heard = b""
        while data := await theirs.receive_some():
            heard += data
        assert heard == b"x" * 65536 + b"y"
        transport.terminate()
        assert await transport.wait() == -9
        nursery.cancel_scope.cancel()
