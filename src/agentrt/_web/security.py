"""Who may come in: the names that the server answers to, the pages whose scripts it talks to, and
the tokens that it knows.

A token stays what it is for as long as the server runs, or until it is revoked. It is never part of
a URL: a link carries a *ticket*, which is good for one use and is exchanged for a cookie and a key.

Browsers show a cookie to every port of a machine, so that another local server, perhaps one that an
agent wrote, may know it. The cookie alone therefore gives the page's files and nothing else; for a
WebSocket the page shows the key as well, which it keeps in the storage of its origin. Both are
derived from the token: with the same token, a browser is let in again after a restart.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from .._limits import Tenant

Role: TypeAlias = Literal["controller", "viewer"]
"""A controller may do everything, a viewer only watches."""

COOKIES: Final = 8
"""Cookies of our name that are looked at."""

SHORTEST: Final = 16
"""Characters of a token that somebody chose: a shorter one could be guessed over the network."""

OFFERED: Final = "agentrt.token."
KEY: Final = "agentrt.key."
"""A browser's script cannot set headers on a WebSocket, but it can offer subprotocols."""


class Pass(Struct, frozen=True):
    """What lets a browser in: the secret in its cookie, and the key that its page keeps."""

    cookie: str
    key: str


class Grant:
    """What a token gives: all sessions, or those of a tenant. Revoking it ends all that live by
    it."""

    def __init__(self, token: str, role: Role, tenant: Tenant | None = None) -> None:
        self.role: Role = role
        self.tenant = tenant
        # Says whose secret is to be tried, which takes a while: of a tenant's, not of everybody's.
        name = "" if tenant is None else f"{role} {tenant.name}"
        self._mark = name and f"{hashlib.sha256(name.encode()).hexdigest()[:16]}~"
        self.revoked = False
        self._token = token
        self._digest = _digest(token)
        self._live: set[Callable[[], None]] = set()

    def fits(self, token: str) -> bool:
        return hmac.compare_digest(self._digest, _digest(token))

    @cached_property
    def _secret(self) -> bytes:
        """Slow to derive: who knows a cookie must not find the token by trying likely ones."""
        return hashlib.scrypt(self._token.encode(), salt=b"agentrt", n=2**14, r=8, p=1)

    def new_pass(self) -> Pass:
        """For another browser."""
        id = self._mark + secrets.token_urlsafe(16)
        return Pass(f"{id}.{self._sign('cookie', id)}", self._sign("key", id))

    def knows(self, cookie: str, key: str | None = None) -> bool:
        """Whether a cookie is of this grant and, if it is given, the key is that cookie's."""
        id, _, signed = cookie.partition(".")
        if not id.startswith(self._mark) or "~" in id.removeprefix(self._mark):
            return False
        good = hmac.compare_digest(signed.encode(), self._sign("cookie", id).encode())
        if key is not None:
            good &= hmac.compare_digest(key.encode(), self._sign("key", id).encode())
        return good

    def _sign(self, what: str, id: str) -> str:
        digest = hmac.digest(self._secret, f"{what} {id}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def listen(self, revoked: Callable[[], None]) -> Callable[[], None]:
        """Have `revoked` called when that happens; returns the function that ends it."""
        self._live.add(revoked)
        return lambda: self._live.discard(revoked)

    def revoke(self) -> None:
        self.revoked = True
        for end in tuple(self._live):
            end()


class _Ticket(Struct, frozen=True):
    grant: Grant
    until: float
    """The time at which it expires."""


class Security:
    """The rules of one server.

    - `token`: gives control; without one, a random one is made.
    - `viewer_token`: gives sight only; without one, nobody just watches.
    - `metrics_token`: gives `/metrics` and nothing else; without one, nobody gets that.
    - `tenants`, `tenant_viewers`: further tokens, for control and for sight, each with the tenant
      whose sessions alone it gives. The tokens above are the operator's, and give all.
    - `url`: the address, `https://NAME` or `http://NAME:PORT`, under which people reach the server,
      for example through a proxy that ends TLS. Links begin with it, its name and origin are
      allowed, and with `https` the cookie is `Secure`.
    - `allow_hosts`: further names, `NAME` or `NAME:PORT`, under which the server is reached.
    - `allow_origins`: further origins, `https://NAME:PORT`, whose pages may connect.
    - `clock`: the monotonic time in seconds, by which tickets expire.

    Raises `ValueError` for what would be no protection.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        viewer_token: str | None = None,
        metrics_token: str | None = None,
        tenants: Mapping[str, Tenant] | None = None,
        tenant_viewers: Mapping[str, Tenant] | None = None,
        url: str | None = None,
        allow_hosts: Iterable[str] = (),
        allow_origins: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        tenants, watching = tenants or {}, tenant_viewers or {}
        given = [each for each in (token, viewer_token, metrics_token) if each is not None]
        given += [*tenants, *watching]
        if any(len(each) < SHORTEST for each in given):
            raise ValueError(f"a token must have at least {SHORTEST} characters")
        if token is not None and token == viewer_token:
            raise ValueError("the viewers' token must be another one than the controllers'")
        if metrics_token is not None and metrics_token in (token, viewer_token):
            raise ValueError("the token for metrics must be another one than those for the page")
        if len({*given}) < len(given):
            raise ValueError("a tenant's token must be another one than all others")
        known: dict[str, Tenant] = {}
        for tenant in (*tenants.values(), *watching.values()):
            if known.setdefault(tenant.name, tenant) != tenant:
                raise ValueError(f"the tenant {tenant.name!r} has different limits by its tokens")
        self.chosen = token is not None
        self.token = token if token is not None else secrets.token_urlsafe(32)
        self.url = None if url is None else _origin(url.removesuffix("/"), "URL")
        self.allow_hosts = tuple(_host(name) for name in allow_hosts)
        self.allow_origins = tuple(_origin(name) for name in allow_origins)
        self._grants = [Grant(self.token, "controller")]
        if viewer_token is not None:
            self._grants.append(Grant(viewer_token, "viewer"))
        self._grants += [Grant(each, "controller", whose) for each, whose in tenants.items()]
        self._grants += [Grant(each, "viewer", whose) for each, whose in watching.items()]
        self._metrics = None if metrics_token is None else _digest(metrics_token)
        self._clock = clock
        self._tickets: dict[bytes, _Ticket] = {}  # by their digests

    @property
    def public_port(self) -> int | None:
        """The port of `url`; None without a `url`."""
        if self.url is None:
            return None
        return urlsplit(self.url).port or (443 if self.url.startswith("https:") else 80)

    def by_token(self, token: str) -> Grant | None:
        """What a token gives, if it is one of ours. Takes the same time for every wrong one."""
        found = None
        for grant in self._grants:
            if grant.fits(token) and not grant.revoked:
                found = grant
        return found

    @property
    def measured(self) -> bool:
        """Whether there is a token for metrics."""
        return self._metrics is not None

    def may_measure(self, token: str | None) -> bool:
        """Whether that is the token for metrics. Takes the same time for every wrong one."""
        if self._metrics is None or token is None:
            return False
        return hmac.compare_digest(self._metrics, _digest(token))

    def by_cookies(self, cookies: Iterable[str], key: str | None = None) -> Grant | None:
        """What a browser's cookies give, with the key that goes with one of them if it is given.
        (Another local server may have set some of that name.)"""
        for cookie in list(cookies)[:COOKIES]:
            for grant in self._grants:
                if not grant.revoked and grant.knows(cookie, key):
                    return grant
        return None

    def ticket(self, role: Role = "controller", life_s: float | None = None) -> str:
        """Return a new ticket for a link, which expires after `life_s` seconds (None: never).
        Raises `ValueError` if there is no token of that role."""
        grant = next(
            (g for g in self._grants if g.role == role and g.tenant is None and not g.revoked), None
        )
        if grant is None:
            raise ValueError(f"there is no token for a {role}")
        now = self._clock()
        self._tickets = {known: each for known, each in self._tickets.items() if now < each.until}
        ticket = secrets.token_urlsafe(32)
        until = math.inf if life_s is None else now + life_s
        self._tickets[_digest(ticket)] = _Ticket(grant, until)
        return ticket

    def redeem(self, ticket: str) -> Pass | None:
        """Exchange a ticket, which is then used up, for a pass. None if it is unknown, used,
        expired or revoked."""
        digest = _digest(ticket)
        known = [each for each in self._tickets if hmac.compare_digest(each, digest)]
        found = self._tickets.pop(known[0]) if known else None
        if found is None or found.grant.revoked or self._clock() >= found.until:
            return None
        return found.grant.new_pass()

    def revoke(self, token: str) -> bool:
        """Forget a token, the tickets and cookies that came from it, and close every connection
        that lives by it. Returns whether there was such a token."""
        grant = self.by_token(token)
        if grant is None:
            return False
        grant.revoke()
        self._tickets = {
            known: each for known, each in self._tickets.items() if each.grant is not grant
        }
        return True

    def check_addresses(self, addresses: Iterable[str]) -> None:
        """Raises `ValueError` if these addresses may not be listened on."""
        for address in addresses:
            if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
                continue
            if not self.chosen or not (self.allow_hosts or self.url):
                raise ValueError(
                    f"{address} can be reached from other machines: that needs a token of your"
                    " own (AGENTRT_SERVE_TOKEN or --token) and the address or the names under which"
                    " the server is reached (--url or --allow-host)"
                )

    def names(self, host: str, port: int, *, tls: bool) -> Names:
        """What `Host` and `Origin` may say to a server that listens on `host`."""
        scheme = "https" if tls else "http"
        default = 443 if tls else 80
        hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        if host and host not in ("0.0.0.0", "::"):
            hosts.add(f"[{host}]:{port}" if ":" in host else f"{host.lower()}:{port}")
        origins = set()
        for name in self.allow_hosts:
            if _has_port(name):
                hosts.add(name)
            else:
                hosts |= {name, f"{name}:{port}"}
                origins.add(f"https://{name}")  # behind a proxy that ends TLS
        if port == default:
            hosts |= {name.removesuffix(f":{port}") for name in hosts}
        origins |= {f"{scheme}://{name}" for name in hosts if port == default or _has_port(name)}
        if self.url is not None:
            public = self.url.partition("://")[2]
            hosts |= {public} if _has_port(public) else {public, f"{public}:{self.public_port}"}
            origins.add(self.url)
        return Names(hosts=frozenset(hosts), origins=frozenset(origins | {*self.allow_origins}))

    def shown(self, host: str, port: int) -> str:
        """The name and port to be put into a link."""
        if host in ("", "0.0.0.0", "::"):
            host = self.allow_hosts[0] if self.allow_hosts else "localhost"
        elif ":" in host:
            host = f"[{host}]"
        return host if _has_port(host) else f"{host}:{port}"


class Names(Struct, frozen=True):
    """The `Host` and `Origin` headers that are let in. A `Host` that equals the `Origin` proves
    nothing: a name of the attacker's may lead to this machine."""

    hosts: frozenset[str]
    origins: frozenset[str]

    def answers_to(self, host: str) -> bool:
        return host.lower() in self.hosts


def offered_token(protocols: Iterable[str]) -> str | None:
    """The token among the subprotocols that a client offers; an unreadable one is a wrong one."""
    for protocol in protocols:
        if protocol.startswith(OFFERED):
            text = protocol.removeprefix(OFFERED)
            try:
                return base64.b64decode(
                    text + "=" * (-len(text) % 4), altchars=b"-_", validate=True
                ).decode()
            except (binascii.Error, ValueError):
                return ""
    return None


def offered_key(protocols: Iterable[str]) -> str:
    """The key among the subprotocols that a page offers, or an empty one, which is a wrong one."""
    return next((each.removeprefix(KEY) for each in protocols if each.startswith(KEY)), "")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _has_port(name: str) -> bool:
    return name.rpartition("]")[2].count(":") == 1


def _host(name: str) -> str:
    if not name or any(c in name for c in "/@*?#, ") or name.endswith((".", ":")):
        raise ValueError(f"{name!r} is no NAME or NAME:PORT")
    return name.lower()


def _origin(name: str, kind: str = "origin") -> str:
    scheme, separator, host = name.partition("://")
    if scheme not in ("http", "https") or not separator or host != _host(host):
        raise ValueError(f"{name!r} is no {kind}, as in https://example.org:8443")
    return name
