"""Admission and number of connections, whatever carries them, and limits on their total cost."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import trio

from .._public import Limits
from .connection import ViewerConnection
from .frames import Bucket
from .http import BadRequest, HttpRequest
from .hub import Hub, ServedDialect
from .native import NATIVE
from .refusal import CloseCode, ConnectionRefusal
from .security import Grant, Role
from .site import SiteServer

logger = logging.getLogger("agentrt.server")

GUESSES_PER_S: Final = 10
"""Wrong tokens per second that are answered immediately. Each further one waits for a second, in
one of the few places for connections that have not sent a token.
"""


class Connections:
    """The connections of one site. `dialects`: by path."""

    def __init__(
        self, site: SiteServer, hub: Hub, limits: Limits, dialects: Mapping[str, ServedDialect]
    ) -> None:
        self.site = site
        self.limits = limits
        self.count = site.count
        self._hub = hub
        self._dialects = dialects
        self._open: set[ViewerConnection] = set()
        self._by_role: Counter[Role] = Counter()
        self._by_tenant: Counter[str] = Counter()
        self._guesses = Bucket(GUESSES_PER_S, GUESSES_PER_S)

    def dialect(self, path: str) -> ServedDialect:
        """Return the dialect of a path, or the one in which an unknown path is refused."""
        return self._dialects.get(path, NATIVE)

    async def let_in(
        self,
        request: HttpRequest,
        connect: Callable[[Role | None], ViewerConnection],
    ) -> tuple[ViewerConnection, Grant] | None:
        """Admit a WebSocket request.

        Returns its connection and grant. Returns None if it was refused; the client knows the
        reason then. `connect`: creates the connection.
        """
        try:
            if request.path not in self._dialects:
                raise ConnectionRefusal(
                    CloseCode.BAD_REQUEST, f"WebSockets are at {', '.join(self._dialects)}"
                )
            grant = self.site.admit(request)
            self._check_number(grant)
            return connect(grant.role), grant
        except ConnectionRefusal as refusal:
            self.refused(refusal)
            if refusal.code is CloseCode.UNAUTHORIZED:
                await self.slow_down()
            connection = connect(None)
            connection.refuse(refusal)
            await connection.run()
            return None

    def refused(self, why: BadRequest | ConnectionRefusal) -> None:
        """Count and log a refused client."""
        self.count.refused += 1
        logger.warning("a client was refused: %s", why)

    def _check_number(self, grant: Grant) -> None:
        """Check the number of connections: viewers may take three quarters of the places, a tenant
        as many as its limit. Raises `ConnectionRefusal`.
        """
        places = self.limits.ws_connections
        viewers = self._by_role["viewer"]
        few = grant.role == "viewer" and viewers >= places * 3 // 4
        if self.count.clients >= places or few:
            raise ConnectionRefusal(
                CloseCode.TOO_MANY, f"{self.count.clients} clients are connected"
            )
        tenant = grant.tenant
        if tenant is None or tenant.viewers is None:
            return
        there = self._by_tenant[tenant.name]
        if there >= tenant.viewers:
            raise ConnectionRefusal(
                CloseCode.TOO_MANY,
                f"the tenant has {there} connections here, and may have {tenant.viewers}"
                " (viewers): close one first",
            )

    async def serve(
        self, connection: ViewerConnection, grant: Grant, dialect: ServedDialect
    ) -> None:
        """Serve a connection until either side ends it.

        Raises the errors of `ViewerConnection.run`.
        """

        def revoked() -> None:
            connection.refuse(ConnectionRefusal(CloseCode.UNAUTHORIZED, "the token was revoked"))

        unsubscribe = grant.listen(revoked)
        self._open.add(connection)
        self.count.clients += 1
        self._by_role[grant.role] += 1
        whose = "" if grant.tenant is None else grant.tenant.name
        self._by_tenant[whose] += 1
        about = {"role": grant.role, "protocol": dialect.protocol}
        if whose:
            about["tenant"] = whose
        logger.info("a client is connected, one of %d", self.count.clients, extra=about)
        try:
            hub = self._hub if grant.tenant is None else self._hub.of(grant.tenant)
            await connection.run(lambda: hub.attach_viewer(dialect, role=grant.role))
        finally:
            self._open.discard(connection)
            self.count.clients -= 1
            self._by_role[grant.role] -= 1
            self._by_tenant[whose] -= 1
            unsubscribe()
            why = connection.refusal
            words = "it closed the connection" if why is None else why.reason
            logger.info("a client is gone: %s", words, extra=about)
            if connection.refusal is not None and connection.refusal.code is CloseCode.BROKEN:
                self.count.broken += 1

    async def slow_down(self) -> None:
        """Delay the answer to a wrong token, if there were many."""
        if not self._guesses.take(1, trio.current_time()):
            await trio.sleep(1)

    async def close(self) -> None:
        """End all connections and wait until they are closed, in bounded time."""
        self.site.pending.cancel("shutdown")
        self.site.downloads.cancel("shutdown")
        for each in tuple(self._open):
            each.refuse(ConnectionRefusal(CloseCode.SHUTDOWN, "the server ends"))
        with trio.move_on_after(3 * self.limits.ws_close_timeout_s):
            for each in tuple(self._open):
                await each.over.wait()
