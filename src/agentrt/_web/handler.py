"""Every connection from its first byte to its last, and what they may cost together."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

import trio

from .._limits import Limits
from .._logging import get_logger
from .connection import Connection
from .dialects import DIALECTS
from .frames import Bucket
from .http import BadRequest, read_request, response
from .hub import Dialect, Hub
from .native import NATIVE
from .refusal import Code, Refusal
from .security import Grant, Role
from .site import Site
from .stream import abort

logger = get_logger("server")

GUESSES: Final = 10
"""Wrong tokens a second that are answered at once; each further one waits for a second, in one of
the few places for connections that have not shown a token."""


class ConnectionHandler:
    """Lets connections in, sees to them, and in the end sees them out."""

    def __init__(self, site: Site, hub: Hub, limits: Limits) -> None:
        self._site = site
        self._hub = hub
        self._limits = limits
        self._count = site._statistics
        self._pending = site.pending
        self._clients: set[Connection] = set()
        self._by_role: Counter[Role] = Counter()
        self._guesses = Bucket(GUESSES, GUESSES)

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection. Nothing that happens in it ends another one."""
        try:
            await self._handle(stream)
            with trio.move_on_after(self._limits.ws_close):
                await stream.aclose()  # under TLS there is a goodbye
        except* trio.TooSlowError:
            self._count.dropped += 1
            await abort(stream)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            await abort(stream)
        except* Exception:
            self._count.broken += 1
            logger.exception("a connection broke")
        finally:
            await trio.aclose_forcefully(stream)

    async def _handle(self, stream: trio.abc.Stream) -> None:
        admitted = None
        with self._pending.place() as pending:
            try:
                request = await read_request(stream)
                if request is None:
                    return
                if not request.is_upgrade:
                    await self._answer(stream, self._site.page(request), pending)
                    return
                dialect = DIALECTS.get(request.path, NATIVE)
                handshake = request.handshake(dialect.protocol)
            except BadRequest as error:
                self._refused(error)
                if error.status == 401:
                    await self._slow_down(pending)
                await self._answer(stream, response(error.status, f"{error}\n"), pending)
                return
            connect = partial(Connection, stream, handshake, request.rest, dialect, self._limits)
            try:
                if request.path not in DIALECTS:
                    raise Refusal(Code.BAD_REQUEST, f"WebSockets are at {', '.join(DIALECTS)}")
                grant = self._site.admit(request)
                self._check_number(grant.role)
                admitted = connect(grant.role), grant, dialect
            except Refusal as refusal:
                self._refused(refusal)
                if refusal.code is Code.UNAUTHORIZED:
                    await self._slow_down(pending)
                connection = connect(None)
                connection.refuse(refusal)
                await connection.run()
        if admitted is not None:
            await self._serve_client(*admitted)

    def _refused(self, why: BadRequest | Refusal) -> None:
        self._count.refused += 1
        logger.warning("a client was refused: %s", why)

    def _check_number(self, role: Role) -> None:
        """Those who only look on have three quarters of the places. Raises `Refusal`."""
        places = self._limits.ws_clients
        viewers = self._by_role["viewer"]
        if self._count.clients >= places or (role == "viewer" and viewers >= places * 3 // 4):
            raise Refusal(Code.TOO_MANY, f"{self._count.clients} clients are connected")

    async def _serve_client(self, connection: Connection, grant: Grant, dialect: Dialect) -> None:
        def revoked() -> None:
            connection.refuse(Refusal(Code.UNAUTHORIZED, "the token was revoked"))

        unsubscribe = grant.listen(revoked)
        self._clients.add(connection)
        self._count.clients += 1
        self._by_role[grant.role] += 1
        about = {"role": grant.role, "protocol": dialect.protocol}
        logger.info("a client is connected, one of %d", self._count.clients, extra=about)
        try:
            await connection.run(lambda: self._hub.attach_viewer(dialect, role=grant.role))
        finally:
            self._clients.discard(connection)
            self._count.clients -= 1
            self._by_role[grant.role] -= 1
            unsubscribe()
            why = connection.refusal
            words = "it closed the connection" if why is None else why.reason
            logger.info("a client is gone: %s", words, extra=about)
            if connection.refusal is not None and connection.refusal.code is Code.BROKEN:
                self._count.broken += 1

    async def _answer(
        self, stream: trio.abc.Stream, answer: bytes, pending: trio.CancelScope
    ) -> None:
        """Send a response, and read on until the client has closed: what is left unread would reset
        the connection, and the answer could be lost with it."""
        pending.deadline = trio.current_time() + self._limits.ws_write
        await stream.send_all(answer)
        if isinstance(stream, trio.SocketStream):
            await stream.send_eof()
            pending.deadline = trio.current_time() + self._limits.ws_close
            while await stream.receive_some():
                pass

    async def _slow_down(self, pending: trio.CancelScope) -> None:
        if not self._guesses.take(1, trio.current_time()):
            pending.deadline += 1
            await trio.sleep(1)

    async def close(self) -> None:
        """Say goodbye to everybody, and return when all are gone. Bounded."""
        self._pending.cancel("shutdown")
        for client in tuple(self._clients):
            client.refuse(Refusal(Code.SHUTDOWN, "the server ends"))
        with trio.move_on_after(3 * self._limits.ws_close):
            for client in tuple(self._clients):
                await client.over.wait()
