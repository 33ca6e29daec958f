"""The web site: access checks and routing of plain requests.

`/` is the page and `/page/…` its files; then there are `/healthz`, `/readyz`, and one WebSocket for
each dialect.

Each kind of request has its own way to show that it may: the page by a cookie, a WebSocket by a
token or by a cookie with its key, and `/metrics` by a token for nothing else. `/healthz` and
`/readyz` need none, because balancers have none, and reveal only the server's state. Every request
for the page or a WebSocket must name the server by an accepted `Host`, so that a page of another
site cannot reach it under that site's name (DNS rebinding).

Signing in exchanges a ticket or a typed token for a cookie and a key. The key is in the fragment of
the redirect, which browsers do not send to servers or proxies; the page stores it and removes it
from the address bar.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final
from urllib.parse import parse_qs

import trio
from msgspec import Struct, structs

from .._base.pending import PendingConnections
from .._public import Limits
from .http import (
    SIGN_IN_STYLE,
    BadRequest,
    HttpRequest,
    HttpResponse,
    check_target,
    load_page,
    response,
)
from .refusal import CloseCode, ConnectionRefusal
from .security import (
    Grant,
    Pass,
    Role,
    Security,
    accepted_names,
    grant_of_cookies,
    grant_of_token,
    offered_key,
    redeem_ticket,
)

NO_CLIENTS: Final = "This server runs sessions for gateways, and serves no clients."

METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of the Prometheus text format."""

# The only style inside a document: this page goes to browsers that get no files.
LOCKED: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Sign in · agentrt</title>
<style>{style}</style>
<main>
<h1>Sign in</h1>
<p>This browser isn't signed in to this agentrt server.</p>
<p>Open the newest link printed by <code>agentrt serve</code> (each link works once), or paste the
server token.</p>
<form method="post" action="{root}">
<label for="token">Server token</label>
<input id="token" type="password" name="token" autocomplete="current-password" required autofocus>
<button>Sign in</button>
</form>
</main>
</html>
"""


class SiteStatistics(Struct):
    """Connection counts: current ones, and totals since the start."""

    clients: int = 0
    """Clients that are connected now."""
    pending: int = 0
    """Connections that have not sent a token yet."""
    refused: int = 0
    """Requests and connections that were refused."""
    dropped: int = 0
    """Connections closed because they did not read or did not answer a ping."""
    broken: int = 0
    """Connections that ended because of a bug in the server."""


class Site:
    """A running web frontend, as returned by `await nursery.start(serve, …)`."""

    def __init__(
        self,
        security: Security,
        host: str,
        port: int,
        limits: Limits,
        *,
        tls: bool,
        root: str | None = None,
        serves_clients: bool = True,
        not_ready_reason: Callable[[], str | None] | None = None,
        metrics: Callable[[], bytes] | None = None,
    ) -> None:
        """Set up a site.

        - `root`: the path at which another server mounts this site, ending with a slash; by default
          the path of the public address in `security`.
        - `serves_clients`: if false, only the server's own state is served.
        - `not_ready_reason`: returns the reason why no new sessions should be sent to this server,
          or None.
        - `metrics`: returns the metrics, which are served at `/metrics` to requests with the token
          for metrics.
        """
        self.port = port
        self._host = host
        self._mounted = root or "/"
        self._root = security.root if root is None else root
        self._locked = LOCKED.format(root=escape(self._root), style=SIGN_IN_STYLE)
        self._tls = tls
        self._security = security
        self._names = accepted_names(security, host, port, tls=tls)
        self._ticket_s = limits.link_lifetime_s
        # Cookies do not distinguish ports. Gateways behind one balancer share the public port.
        self._cookie = f"agentrt-{security.public_port or port}"
        self._files = load_page()
        self._used = trio.Event()
        self._statistics = SiteStatistics()
        self._metrics = metrics
        self._not_ready_reason = not_ready_reason
        self.serves_clients = serves_clients
        """True if clients are served; otherwise only the server's own state is."""
        self._pending = PendingConnections(limits.ws_unauthenticated)
        self._downloads = PendingConnections(limits.ws_connections)

    @property
    def url(self) -> str:
        """The address of the page. It opens for browsers that have signed in by a link."""
        if self._security.url is not None:
            return f"{self._security.url}{self._root}"
        return self.direct_url

    @property
    def direct_url(self) -> str:
        """The address that bypasses a proxy or balancer."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{self._security.shown(self._host, self.port)}{self._mounted}"

    def link(self, role: Role = "controller") -> str:
        """Return a URL with a new one-time ticket.

        The first browser that opens it within `limits.link_lifetime_s` seconds is signed in. Raises
        `ValueError` if no token has `role`.
        """
        return f"{self.url}?t={self._security.ticket(role, self._ticket_s)}"

    async def link_used(self) -> None:
        """Wait until the next browser has signed in by a link. Cancelling it changes nothing."""
        await self._used.wait()

    def statistics(self) -> SiteStatistics:
        """Return a copy of the counters."""
        count, pending = self._statistics, self._pending
        return structs.replace(count, pending=len(pending), refused=count.refused + pending.dropped)


class SiteServer(Site):
    """The side of a site that answers requests, for the connections of its server."""

    @property
    def pending(self) -> PendingConnections:
        """Connections that have not sent a token yet."""
        return self._pending

    @property
    def downloads(self) -> PendingConnections:
        """Responses to browsers that are signed in; unauthenticated connections do not end them."""
        return self._downloads

    @property
    def count(self) -> SiteStatistics:
        """The counters themselves."""
        return self._statistics

    def local(self, request: HttpRequest) -> HttpRequest:
        """Return the request with a target below `/`, whether or not a proxy has removed the path
        of the public address. Raises `BadRequest` if the target is not a path.
        """
        if self._root == "/" or not request.target.startswith(self._root):
            return request
        target = request.target[len(self._root) - 1 :]
        return check_target(structs.replace(request, target=target))

    def admit(self, request: HttpRequest) -> Grant:
        """Return the grant for a WebSocket request. Raises `ConnectionRefusal`."""
        if not self._names.answers_to(request.host):
            raise ConnectionRefusal(CloseCode.FORBIDDEN, "host name not allowed (see --allow-host)")
        if not self.serves_clients:
            raise ConnectionRefusal(CloseCode.FORBIDDEN, NO_CLIENTS)
        origins = request.values("origin")
        if origins and (len(origins) > 1 or origins[0] not in self._names.origins):
            raise ConnectionRefusal(CloseCode.FORBIDDEN, "origin not allowed (see --allow-origin)")
        if request.query:
            raise ConnectionRefusal(
                CloseCode.BAD_REQUEST,
                "query parameters are not accepted; send the token in a header or a subprotocol",
            )
        if (token := request.token) is not None:
            grant = grant_of_token(self._security, token)
        elif origins:
            key = offered_key(request.listed("sec-websocket-protocol"))
            grant = grant_of_cookies(self._security, request.cookies(self._cookie), key)
        else:  # a request without an origin is not from a page, and only pages have cookies
            grant = None
        if grant is None:
            raise ConnectionRefusal(CloseCode.UNAUTHORIZED, "no valid token")
        return grant

    def page(self, request: HttpRequest) -> HttpResponse:
        """Answer a plain request. Raises `BadRequest`, with 401 for a wrong token."""
        head_only = request.method == "HEAD"
        if request.method in ("GET", "HEAD") and (found := self._server_state(request, head_only)):
            return found
        if not self._names.answers_to(request.host):
            self._statistics.refused += 1
            return response(421, "Host name not allowed (see --allow-host).\n")
        if not self.serves_clients:
            return response(404, f"{NO_CLIENTS}\n", head_only=head_only)
        if request.method == "POST" and request.path == "/":
            return self._sign_in(request)
        if request.method not in ("GET", "HEAD"):
            return response(405, headers=(("Allow", "GET, HEAD"),))
        if request.method == "GET" and (moved := self._redirect(request)):
            return moved
        unknown = not self.is_signed_in(request)
        if unknown or request.path == "/login":
            self._statistics.refused += unknown
            html = "text/html; charset=utf-8"
            return response(401, self._locked, type=html, head_only=head_only, form=True)
        file = self._files.get(request.path)
        if file is None:
            return response(404, "Not found.\n", head_only=head_only)
        return file.answer(request)

    def is_signed_in(self, request: HttpRequest) -> bool:
        """True if the request comes from a browser that has signed in."""
        return grant_of_cookies(self._security, request.cookies(self._cookie)) is not None

    def _server_state(self, request: HttpRequest, head_only: bool) -> HttpResponse | None:
        """Answer a balancer, a supervisor or Prometheus; return None if the request is for the
        page.

        They may use any name of this machine, because cookies give nothing here. Raises
        `BadRequest` with 401 for a wrong token.
        """
        if request.path == "/healthz":
            return response(200, "ok\n", head_only=head_only)
        if request.path == "/readyz":
            reason = None if self._not_ready_reason is None else self._not_ready_reason()
            status = 200 if reason is None else 503
            return response(status, f"{reason or 'ready'}\n", head_only=head_only)
        if request.path == "/metrics" and self._metrics is not None:
            if not self._security.may_measure(request.token):
                raise BadRequest(401, "no valid token for metrics")
            return response(200, self._metrics(), type=METRICS, head_only=head_only)
        return None

    def _is_secure(self, request: HttpRequest) -> bool:
        """True if the browser speaks TLS to this server or to a proxy in front of it. A client that
        lies about this only locks itself out.
        """
        forwarded = request.values("x-forwarded-proto")
        public = self._security.url or ""
        return self._tls or public.startswith("https:") or forwarded == ["https"]

    def _sign_in(self, request: HttpRequest) -> HttpResponse:
        """Exchange a token that a person typed into the form for a cookie and a key."""
        if any(origin not in self._names.origins for origin in request.values("origin")):
            self._statistics.refused += 1
            return response(403, "Pages of that origin may not sign in.\n")
        token = parse_qs(request.body.decode("latin-1")).get("token", [""])[0]
        grant = grant_of_token(self._security, token)
        if grant is None:
            raise BadRequest(401, "no valid token")
        return self._redirect_signed_in(grant.new_pass(), request)

    def _redirect(self, request: HttpRequest) -> HttpResponse | None:
        """Return the redirect of a link with a ticket, or of the page's path without its slash, at
        which the page's relative addresses would miss that path; None for other requests.
        """
        if request.path == "/" and (tickets := request.query.get("t")):
            return self._redeem_ticket(tickets, request)
        if self._root != "/" and request.path == self._root[:-1]:
            return response(308, headers=(("Location", self._root),))
        return None

    def _redeem_ticket(self, tickets: list[str], request: HttpRequest) -> HttpResponse:
        """Exchange the ticket for a cookie and a key; the page removes the key from the address bar
        and stores it. A used ticket also redirects to the page, which opens if the browser is
        known.
        """
        found = redeem_ticket(self._security, tickets[0])
        if found is None:
            return response(303, headers=(("Location", self._root),))
        self._used.set()
        self._used = trio.Event()
        return self._redirect_signed_in(found, request)

    def _redirect_signed_in(self, found: Pass, request: HttpRequest) -> HttpResponse:
        """Redirect the browser to the page, with its cookie and its key."""
        secure = "; Secure" if self._is_secure(request) else ""
        where = f"Path={self._root}; HttpOnly; SameSite=Strict{secure}"
        cookie = f"{self._cookie}={found.cookie}; {where}"
        location = f"{self._root}#key={found.key}"
        return response(303, headers=(("Location", location), ("Set-Cookie", cookie)))
