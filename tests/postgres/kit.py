"""What is done to a server, and to the way to it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import psycopg

from agentrt.errors import StoreInUse
from agentrt.events import TextDelta
from agentrt.lowlevel import Backend, Flush, FlushPart, SessionClaim
from agentrt.store import SessionDescription

ABOUT = SessionDescription(agent="fake", protocol="acp", cwd="/")


def events(count: int, size: int = 1) -> list[Any]:
    return [TextDelta("i1", f"{number} ".ljust(size)) for number in range(count)]


def flush(*parts: tuple[SessionClaim, int, int], size: int = 1) -> Flush:
    """Of places: so many events from number so-and-so on."""
    return Flush([FlushPart(place, first, events(count, size)) for place, first, count in parts])


def schema_of(url: str) -> str:
    return dict(parse_qsl(urlsplit(url).query))["schema"]


def connected(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A plain connection, to the schema of a store."""
    parts = urlsplit(url)
    query = "&".join(each for each in parts.query.split("&") if not each.startswith("schema="))
    options = f"-c search_path={schema_of(url)}"
    return psycopg.connect(
        urlunsplit(parts._replace(query=query)), options=options, autocommit=True
    )


def rows(url: str, sql: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Execute a statement in the schema of a store, and return its rows."""
    with connected(url) as connection:
        cursor = connection.execute(sql.encode(), args or None)
        return cursor.fetchall() if cursor.description is not None else []


def open_soon(backend: Backend, patience_s: float = 20) -> None:
    """Open a store that another process may write a moment longer."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return backend.open()
        except StoreInUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def frames(url: str) -> list[tuple[Any, ...]]:
    return rows(url, "SELECT session, first, last, owner FROM frame ORDER BY session, first")


class Proxy:
    """What stands between a program and the server, and may cut them off from each other."""

    def __init__(self, listener: socket.socket, target: Callable[[], socket.socket]) -> None:
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        self._target = target
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.cut_query: int | None = None
        """Cut the connection instead of bringing the server what is sent next; behind so many."""
        self.cut_answer: int | None = None
        """The same, instead of bringing the program what is answered."""
        self.silent = False
        """Whether new connections are let in, and nothing is said."""

    def accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            if self.silent:
                continue
            server = self._target()
            self._sockets.append(server)
            for pump in (self._questions, self._answers):
                thread = threading.Thread(target=pump, args=(client, server))
                self._threads.append(thread)
                thread.start()

    def _questions(self, client: socket.socket, server: socket.socket) -> None:
        for data in received(client):
            if self._cuts("cut_query"):
                break
            if not sent(server, data):
                break
        for each in (client, server):
            shut(each)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        for data in received(server):
            if self._cuts("cut_answer"):
                break
            if not sent(client, data):
                break
        for each in (client, server):
            shut(each)

    def _cuts(self, what: str) -> bool:
        left = getattr(self, what)
        if left is None:
            return False
        setattr(self, what, left - 1 if left else None)
        return not left

    def close(self) -> None:
        shut(self._listener)
        self._listener.close()
        for each in self._sockets:
            shut(each)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()


def received(source: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = source.recv(65536)
        except OSError:
            return
        if not data:
            return
        yield data


def sent(target: socket.socket, data: bytes) -> bool:
    try:
        target.sendall(data)
    except OSError:
        return False
    return True


def shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other end was first


@contextmanager
def proxy(socket_path: str) -> Iterator[Proxy]:
    """On a port of its own, to a server's socket."""

    def target() -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(socket_path)
        return server

    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = Proxy(listener, target)
        thread = threading.Thread(target=one.accept)
        thread.start()
        try:
            yield one
        finally:
            one.close()
            thread.join()
