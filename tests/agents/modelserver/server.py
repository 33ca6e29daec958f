"""The server: routes each request to its dialect and answers it with the turn that is due."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import h11
import msgspec
import trio

from . import anthropic, gemini, openai_chat, openai_responses
from .asks import Ask, Dialect, Json
from .http import Connection, Request
from .perform import perform
from .scripts import Status, Text, Turn, turn_of

_DIALECTS: Final[dict[str, Dialect]] = {
    "/messages": anthropic,
    "/chat/completions": openai_chat,
    "/responses": openai_responses,
}
_GEMINI = re.compile(r"/models/(?P<model>[^/:]+):(?P<stream>stream)?[gG]enerateContent$")

_MODEL: Final[Json] = {
    "id": "scripted",
    "object": "model",
    "type": "model",
    "display_name": "scripted",
    "owned_by": "local",
}
_ERRORS: Final[dict[int, tuple[str, str]]] = {  # code: (error type, Google's name of it)
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    404: ("not_found_error", "NOT_FOUND"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    529: ("overloaded_error", "UNAVAILABLE"),
}


async def serve(*, port: int, log: Path | None, bodies: Path | None) -> None:
    """Serve on loopback until standard input ends; print the URL as soon as it can be used."""
    server = Server(log, bodies)
    listen = partial(trio.serve_tcp, server.connection, port, host="127.0.0.1")
    async with trio.open_nursery() as nursery, trio.lowlevel.FdStream(os.dup(0)) as stdin:
        listeners: list[trio.SocketListener] = await nursery.start(listen)
        print(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}", flush=True)
        while await stdin.receive_some():
            pass
        nursery.cancel_scope.cancel()


@dataclass
class Server:
    log: Path | None = None
    bodies: Path | None = None
    _refused: Counter[tuple[str | None, int]] = field(default_factory=Counter)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def connection(self, stream: trio.SocketStream) -> None:
        connection = Connection(stream)
        async with stream:
            try:
                while request := await connection.next_request():
                    if not await self._respond(connection, request):
                        break
            except (trio.BrokenResourceError, h11.RemoteProtocolError) as error:
                self._note("broken", error=repr(error))

    async def _respond(self, connection: Connection, request: Request) -> bool:
        """Answer one request; whether the connection can carry another."""
        found = _route(request)
        if found is None:
            self._note("other", method=request.method, path=request.path)
            await _small_talk(connection, request)
            return True
        number = next(self._numbers)
        if self.bodies:
            (self.bodies / f"{number:04d}.json").write_bytes(request.body)
        try:
            ask = _read(request, *found)
        except msgspec.MsgspecError as error:
            self._note("unreadable", number=number, path=request.path, error=str(error))
            await connection.send_json(request, _error(400, str(error)), status=400)
            return True
        marker, turn = ask.due()
        self._note(
            "ask",
            number=number,
            path=request.path,
            marker=marker,
            turn=turn,
            history=ask.markers(),
            tools=[tool.name for tool in ask.tools],
        )
        how = await self._answer(connection, request, ask, found[0])
        self._note("end", number=number, how=how)
        return how not in ("cut", "client gone")

    async def _answer(
        self, connection: Connection, request: Request, ask: Ask, dialect: Dialect
    ) -> str:
        steps = _due(ask)
        if steps and isinstance(status := steps[0], Status):
            self._refused[ask.due()] += 1
            if self._refused[ask.due()] <= status.times:
                after = status.retry_after
                headers = {} if after is None else {"retry-after": str(after)}
                body = _error(status.code, f"scripted {status.code}")
                await connection.send_json(request, body, status=status.code, headers=headers)
                return f"status {status.code}"
            steps = steps[1:]
        how = "client gone"
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await connection.until_client_leaves()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                how = await perform(connection, request, ask, dialect.answer(ask), steps)
            except trio.BrokenResourceError:
                pass
            nursery.cancel_scope.cancel()
        return how

    def _note(self, what: str, **fields: object) -> None:
        if self.log:
            with self.log.open("ab") as log:
                log.write(msgspec.json.encode({"what": what, "at": time.time(), **fields}) + b"\n")


def _due(ask: Ask) -> Turn:
    # A request without tools is a side request (a title, a summary), not the conversation.
    return turn_of(*ask.due()) if ask.tools else [Text("ok")]


def _route(request: Request) -> tuple[Dialect, re.Match[str] | None] | None:
    if request.method != "POST":
        return None
    if match := _GEMINI.search(request.path):
        return gemini, match
    ending = (dialect for end, dialect in _DIALECTS.items() if request.path.endswith(end))
    return next(((dialect, None) for dialect in ending), None)


def _read(request: Request, dialect: Dialect, url: re.Match[str] | None) -> Ask:
    ask = dialect.read(request.body)
    if url is None:
        return ask
    return replace(ask, model=url["model"], stream=url["stream"] is not None)


def _error(code: int, message: str) -> Json:
    """An error body that all four APIs' clients understand."""
    kind, status = _ERRORS.get(code, ("api_error", "INTERNAL"))
    error = {"type": kind, "message": message, "code": code, "status": status}
    return {"type": "error", "error": error}


async def _small_talk(connection: Connection, request: Request) -> None:
    """What agents ask beside the conversation: which models there are, how long a text is."""
    path = request.path
    if path.endswith("/count_tokens"):
        await connection.send_json(request, {"input_tokens": 10})
    elif path.endswith(":countTokens"):
        await connection.send_json(request, {"totalTokens": 10})
    elif path.endswith("/models"):
        await connection.send_json(request, {"object": "list", "data": [_MODEL]})
    elif path == "/":
        await connection.send_json(request, {})
    else:
        await connection.send_json(request, _error(404, path), status=404)
