"""The web site: who gets in, and what is behind which path.

`/` the page and `/page/…` its files, `/healthz`, and `/ws` for `agentrt.v1`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, Protocol

import trio
from msgspec import Struct

from .._limits import Limits
from .connection import Connection, Viewer
from .frames import Bucket
from .http import BadRequest, Request, Upgrade, load_page, read_request, response
from .refusal import Code, Refusal
from .security import Grant, Role, Security
from .stream import abort

logger = logging.getLogger(__name__)

GUESSES: Final = 10
"""Wrong tokens a second that are answered at once; each further one waits for a second, in one of
the few places for connections that have not shown a token."""

LOCKED: Final = """\
This page belongs to an agentrt server, and your browser has no key to it.

Open the link that `agentrt serve` printed. A link is good for one browser; after a restart of the
server, take its new one.
"""


class Viewers(Protocol):
    """Where viewers come from: the hub."""

    def attach_viewer(self, *, role: Role) -> Viewer: ...


class Statistics(Struct, frozen=True):
    """The server's connections: now (`clients`, `strangers`: those that have not shown a token),
    and since its start (`refused`, `dropped`: those that did not read or answer; `broken`: by a
    mistake of the server's)."""

    clients: int
    strangers: int
    refused: int
    dropped: int
    broken: int


class Site:
    """A web frontend that is running; what `nursery.start(serve, …)` returns."""

    def __init__(
        self, hub: Viewers, security: Security, limits: Limits, host: str, port: int, *, tls: bool
    ) -> None:
        self.port = port
        self._hub = hub
        self._security = security
        self._limits = limits
        self._host = host
        self._tls = tls
        self._names = security.names(host, port, tls=tls)
        self._cookie = f"agentrt-{port}"  # cookies do not tell ports apart
        self._files = load_page()
        self._strangers: dict[trio.CancelScope, None] = {}
        self._clients: set[Connection] = set()
        self._guesses = Bucket(GUESSES, GUESSES)
        self._used = trio.Event()
        self._refused = self._dropped = self._broken = 0

    @property
    def url(self) -> str:
        """Where the page is; it opens for browsers that came by a link."""
        name = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self._host, self._host)
        name = f"[{name}]" if ":" in name and not name.startswith("[") else name
        return f"{'https' if self._tls else 'http'}://{name}:{self.port}/"

    def link(self, role: Role = "controller") -> str:
        """A URL with a new one-time ticket: the first browser that opens it gets in. Raises
        `ValueError` if there is no token of that role."""
        return f"{self.url}?t={self._security.ticket(role)}"

    async def link_used(self) -> None:
        """Wait until the next browser has come in by a link. Cancelling it changes nothing."""
        await self._used.wait()

    def statistics(self) -> Statistics:
        return Statistics(
            clients=len(self._clients),
            strangers=len(self._strangers),
            refused=self._refused,
            dropped=self._dropped,
            broken=self._broken,
        )

    # --- one connection

    async def attend(self, stream: trio.abc.Stream) -> None:
        """Serve one connection. Nothing that happens in it ends another one."""
        try:
            await self._attend(stream)
            with trio.move_on_after(self._limits.ws_close):
                await stream.aclose()  # under TLS there is a goodbye
        except* trio.TooSlowError:
            self._dropped += 1
            await abort(stream)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            await abort(stream)
        except* Exception:
            self._broken += 1
            logger.exception("a connection broke")
        finally:
            await trio.aclose_forcefully(stream)

    async def _attend(self, stream: trio.abc.Stream) -> None:
        with self._stranger() as stranger:
            try:
                request = await read_request(stream)
                if request is None:
                    return
                if not request.is_upgrade:
                    await self._answer(stream, self._page(request), stranger)
                    return
                upgrade = Upgrade.of(request)
            except BadRequest as error:
                self._refused += 1
                await self._answer(stream, response(error.status, f"{error}\n"), stranger)
                return
            connection = Connection(stream, upgrade, self._limits)
            try:
                grant = self._admit(request)
                if len(self._clients) >= self._limits.ws_clients:
                    raise Refusal(Code.TOO_MANY, f"{self._limits.ws_clients} clients are connected")
            except Refusal as refusal:
                self._refused += 1
                if refusal.code is Code.UNAUTHORIZED:
                    await self._slow_down(stranger)
                connection.refuse(refusal)
                await connection.run(_nobody)
                return
        await self._converse(connection, grant)

    async def _converse(self, connection: Connection, grant: Grant) -> None:
        def revoked() -> None:
            connection.refuse(Refusal(Code.UNAUTHORIZED, "the token was revoked"))

        deaf = grant.listen(revoked)
        self._clients.add(connection)
        try:
            await connection.run(lambda: self._hub.attach_viewer(role=grant.role))
        finally:
            self._clients.discard(connection)
            deaf()
            if connection.refusal is not None and connection.refusal.code is Code.BROKEN:
                self._broken += 1

    @contextmanager
    def _stranger(self) -> Iterator[trio.CancelScope]:
        """A place for a connection that has not shown a token. It has it for a short time; where
        all are taken, the newest is the most likely to be an honest one, and the oldest goes."""
        if len(self._strangers) >= self._limits.ws_strangers:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel(reason="too many connections without a token")
            self._refused += 1
        with trio.move_on_after(self._limits.ws_handshake) as scope:
            self._strangers[scope] = None
            try:
                yield scope
            finally:
                self._strangers.pop(scope, None)

    async def _answer(
        self, stream: trio.abc.Stream, answer: bytes, stranger: trio.CancelScope
    ) -> None:
        """Send a response, and read on until the client has closed: what is left unread would reset
        the connection, and the answer could be lost with it."""
        stranger.deadline = trio.current_time() + self._limits.ws_write
        await stream.send_all(answer)
        if isinstance(stream, trio.SocketStream):
            await stream.send_eof()
            stranger.deadline = trio.current_time() + self._limits.ws_close
            while await stream.receive_some():
                pass

    async def _slow_down(self, stranger: trio.CancelScope) -> None:
        if not self._guesses.take(1, trio.current_time()):
            stranger.deadline += 1
            await trio.sleep(1)

    # --- who gets in

    def _admit(self, request: Request) -> Grant:
        """What the one who asks for a WebSocket may do. Raises `Refusal`."""
        if request.path != "/ws":
            raise Refusal(Code.BAD_REQUEST, "the WebSocket is at /ws")
        if not self._names.answers_to(request.host):
            raise Refusal(Code.FORBIDDEN, "this server does not go by that name (--allow-host)")
        origins = request.values("origin")
        if origins and (len(origins) > 1 or origins[0] not in self._names.origins):
            raise Refusal(Code.FORBIDDEN, "pages of that origin may not connect (--allow-origin)")
        if request.query:
            raise Refusal(Code.BAD_REQUEST, "nothing is taken from the URL, least of all a token")
        if (token := request.token) is not None:
            grant = self._security.by_token(token)
        elif origins:
            grant = self._security.by_cookie(request.cookie(self._cookie) or "")
        else:  # whoever sends no origin is no page, and a cookie is a page's
            grant = None
        if grant is None:
            raise Refusal(Code.UNAUTHORIZED, "no valid token")
        return grant

    def _page(self, request: Request) -> bytes:
        """The answer to a plain request."""
        head_only = request.method == "HEAD"
        if not self._names.answers_to(request.host):
            self._refused += 1
            return response(421, "This server does not go by that name (--allow-host).\n")
        if request.method not in ("GET", "HEAD"):
            return response(405, headers=(("Allow", "GET, HEAD"),))
        if request.path == "/healthz":
            return response(200, "ok\n", head_only=head_only)
        if request.method == "GET" and request.path == "/" and (tickets := request.query.get("t")):
            return self._let_in(tickets)
        if self._security.by_cookie(request.cookie(self._cookie) or "") is None:
            self._refused += 1
            return response(401, LOCKED, head_only=head_only)
        file = self._files.get(request.path)
        if file is None:
            return response(404, "There is nothing here.\n", head_only=head_only)
        return response(200, file[1], type=file[0], head_only=head_only)

    def _let_in(self, tickets: list[str]) -> bytes:
        """Exchange the ticket for a cookie, and get it out of the address bar. A used one leads to
        the page as well: it opens if the browser has its cookie already."""
        headers = [("Location", "/")]
        secret = self._security.redeem(tickets[0])
        if secret is not None:
            secure = "; Secure" if self._tls else ""
            cookie = f"{self._cookie}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}"
            headers.append(("Set-Cookie", cookie))
            self._used.set()
            self._used = trio.Event()
        return response(303, headers=tuple(headers))

    # --- the end

    async def part(self) -> None:
        """Say goodbye to everybody, and return when all are gone. Bounded."""
        for stranger in tuple(self._strangers):
            stranger.cancel(reason="shutdown")
        for client in tuple(self._clients):
            client.refuse(Refusal(Code.SHUTDOWN, "the server ends"))
        with trio.move_on_after(3 * self._limits.ws_close):
            for client in tuple(self._clients):
                await client.over.wait()


def _nobody() -> NoReturn:
    raise AssertionError("a refused connection gets no viewer")
