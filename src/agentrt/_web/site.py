"""The web site: who gets in, and what is behind which path.

`/` the page and `/page/…` its files, `/healthz`, and a WebSocket for each of the `DIALECTS`.
"""

from __future__ import annotations

from typing import Final

import trio
from msgspec import Struct, structs

from .._limits import Limits
from .._runtime.pending import PendingConnections
from .dialects import DIALECTS
from .http import Request, load_page, response
from .refusal import Code, Refusal
from .security import Grant, Role, Security

LOCKED: Final = """\
This page belongs to an agentrt server, and your browser has no key to it.

Open the link that `agentrt serve` printed. A link is good for one browser; after a restart of the
server, take its new one.
"""


class SiteStatistics(Struct):
    """Connections: now, and since the start."""

    clients: int = 0
    pending: int = 0
    """Those that have not shown a token."""
    refused: int = 0
    dropped: int = 0
    """Those that did not read, or answered no ping."""
    broken: int = 0
    """Those that a mistake of the server's has ended."""


class Site:
    """A web frontend that is running; what `await nursery.start(serve, …)` returns."""

    def __init__(
        self, security: Security, host: str, port: int, limits: Limits, *, tls: bool
    ) -> None:
        self.port = port
        self._host = host
        self._tls = tls
        self._security = security
        self._names = security.names(host, port, tls=tls)
        self._cookie = f"agentrt-{port}"  # cookies do not tell ports apart
        self._files = load_page()
        self._used = trio.Event()
        self._statistics = SiteStatistics()
        self.pending = PendingConnections(limits.ws_pending, limits.ws_handshake)

    @property
    def url(self) -> str:
        """Where the page is; it opens for browsers that came by a link."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{self._security.shown(self._host, self.port)}/"

    def link(self, role: Role = "controller") -> str:
        """A URL with a new one-time ticket: the first browser that opens it gets in. Raises
        `ValueError` if there is no token of that role."""
        return f"{self.url}?t={self._security.ticket(role)}"

    async def link_used(self) -> None:
        """Wait until the next browser has come in by a link. Cancelling it changes nothing."""
        await self._used.wait()

    def statistics(self) -> SiteStatistics:
        """A copy of the counters."""
        count, pending = self._statistics, self.pending
        return structs.replace(count, pending=len(pending), refused=count.refused + pending.dropped)

    def admit(self, request: Request) -> Grant:
        """What the one who asks for a WebSocket may do. Raises `Refusal`."""
        if request.path not in DIALECTS:
            raise Refusal(Code.BAD_REQUEST, f"WebSockets are at {', '.join(DIALECTS)}")
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

    def page(self, request: Request) -> bytes:
        """The answer to a plain request."""
        head_only = request.method == "HEAD"
        if not self._names.answers_to(request.host):
            self._statistics.refused += 1
            return response(421, "This server does not go by that name (--allow-host).\n")
        if request.method not in ("GET", "HEAD"):
            return response(405, headers=(("Allow", "GET, HEAD"),))
        if request.path == "/healthz":
            return response(200, "ok\n", head_only=head_only)
        if request.method == "GET" and request.path == "/" and (tickets := request.query.get("t")):
            return self._let_in(tickets)
        if self._security.by_cookie(request.cookie(self._cookie) or "") is None:
            self._statistics.refused += 1
            return response(401, LOCKED, head_only=head_only)
        file = self._files.get(request.path)
        if file is None:
            return response(404, "There is nothing here.\n", head_only=head_only)
        return file.answer(request)

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
