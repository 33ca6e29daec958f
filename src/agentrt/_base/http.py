"""HTTP/1.1 requests on a stream, as a server reads them."""

from __future__ import annotations

from typing import Final

import h11
import trio

MAX_HEAD_BYTES: Final = 16 * 1024
"""Maximum bytes of a request's head; browsers send 1 to 2 KiB."""


class BodyTooLarge(Exception):
    """A request has a longer body than the server accepts."""


class HttpConnection:
    """The requests of one client, one after another.

    Reading raises `h11.RemoteProtocolError` if the client does not send valid HTTP, and
    `trio.BrokenResourceError` if the connection breaks. Cancelling it leaves the stream in the
    middle of a request. `http` also makes the responses.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream: trio.abc.Stream = stream
        self.http: h11.Connection = h11.Connection(
            h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES
        )

    async def request(self) -> h11.Request | None:
        """Read the head of a request. Returns None if the client has disconnected."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            await self._receive()
        return event if isinstance(event, h11.Request) else None

    async def body(self, max_bytes: int) -> bytes:
        """Read the body of the last request. Raises `BodyTooLarge`.

        If `max_bytes` is 0, it raises at once for a request that has a body.
        """
        if max_bytes and self.http.they_are_waiting_for_100_continue:
            proceed = h11.InformationalResponse(status_code=100, headers=[])
            await self.stream.send_all(self.http.send(proceed) or b"")
        body = bytearray()
        while not isinstance(event := self.http.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += event.data
            if len(body) > max_bytes or max_bytes == 0:
                raise BodyTooLarge(f"the body of a request has more than {max_bytes} bytes")
            if event is h11.NEED_DATA:
                await self._receive()
        return bytes(body)

    async def _receive(self) -> None:
        self.http.receive_data(bytes(await self.stream.receive_some(MAX_HEAD_BYTES)))
