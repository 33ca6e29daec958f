"""One HTTP/1.1 connection of the model server: requests in, whole or streamed answers out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import h11
import trio

from .asks import Event, Json

_READ = 64 * 1024


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes


class Connection:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)

    async def next_request(self) -> Request | None:
        """The next request, or `None` once the client sends no more."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        body: list[bytes] = []
        head: h11.Request | None = None
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                    self._http.receive_data(bytes(await self._stream.receive_some(_READ)))
                case h11.Request() as head:
                    pass
                case h11.Data(data=data):
                    body.append(bytes(data))
                case h11.EndOfMessage() if head is not None:
                    path = head.target.decode("latin-1").partition("?")[0]
                    return Request(head.method.decode("latin-1"), path, b"".join(body))
                case _:
                    return None

    async def until_client_leaves(self) -> None:
        """Return when the client closes; keep what it sends in advance for later."""
        try:
            while data := await self._stream.receive_some(_READ):
                self._http.receive_data(bytes(data))
        except trio.BrokenResourceError:
            return

    async def send_json(
        self,
        request: Request,
        body: Json,
        *,
        status: int = 200,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        data = json.dumps(body).encode()
        length = {"content-type": "application/json", "content-length": str(len(data))}
        head = h11.Response(status_code=status, headers=list({**headers, **length}.items()))
        await self._send(head)
        if request.method != "HEAD":
            await self._send(h11.Data(data=data))
        await self._send(h11.EndOfMessage())

    async def start_stream(self) -> None:
        headers = [("content-type", "text/event-stream"), ("cache-control", "no-cache")]
        await self._send(h11.Response(status_code=200, headers=headers))

    async def send_event(self, event: Event) -> None:
        data = event.data if isinstance(event.data, str) else json.dumps(event.data)
        name = f"event: {event.name}\n" if event.name else ""
        await self._send(h11.Data(data=f"{name}data: {data}\n\n".encode()))

    async def send_comment(self) -> None:
        await self._send(h11.Data(data=b": keep-alive\n\n"))

    async def end_stream(self) -> None:
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        await self._stream.send_all(self._http.send(event) or b"")
