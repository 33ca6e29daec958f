"""Access rules: accepted host names, allowed origins, and known tokens.

The meaning of a token is fixed until the server ends or the token is revoked. A token is never part
of a URL: a link carries a *ticket*, which works once and is exchanged for a cookie and a key.

Browsers send a cookie to every port of a machine, so another local server, perhaps one that an
agent wrote, may learn it. The cookie alone therefore only gives access to the page's files. For a
WebSocket the page also sends the key, which it keeps in the storage of its origin. Both are derived
from the token, so a browser stays signed in after a restart with the same token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from .._base.tenant import Tenant

Role: TypeAlias = Literal["controller", "viewer"]
"""The role of a client. A controller may do everything, a viewer only watches."""

MAX_CHECKED_COOKIES: Final = 8
"""Maximum number of cookies with our name that are checked."""

MIN_TOKEN_CHARS: Final = 16
"""Minimum characters of a chosen token: a shorter one could be guessed over the network."""

OFFERED: Final = "agentrt.token."
KEY: Final = "agentrt.key."
"""Prefixes of subprotocols that carry a token or a key: a browser's script cannot set headers on a
WebSocket, but it can offer subprotocols.
"""


_SEGMENT: Final = re.compile(r"[A-Za-z0-9._~-]+")
"""A part of the path of a public address: it needs no quoting in a URL or a cookie."""


class Pass(Struct, frozen=True):
    """Credentials of a browser: the secret in its cookie, and the key that its page keeps."""

    cookie: str
    key: str


class Grant:
    """The rights of one token: to all sessions, or to those of one tenant. Revoking it closes
    everything that depends on it.
    """

    def __init__(self, token: str, role: Role, tenant: Tenant | None = None) -> None:
        self.role: Role = role
        self.tenant = tenant
        # The mark selects the secret to try, which is slow: only the tenant's, not all of them.
        name = "" if tenant is None else f"{role} {tenant.name}"
        self._mark = name and f"{hashlib.sha256(name.encode()).hexdigest()[:16]}~"
        self.revoked: bool = False
        self._token = token
        self._digest = _digest(token)
        self._live: set[Callable[[], None]] = set()

    def fits(self, token: str) -> bool:
        """True if `token` is the token of this grant."""
        return hmac.compare_digest(self._digest, _digest(token))

    @cached_property
    def _secret(self) -> bytes:
        """The signing key. It is slow to derive, so that a cookie does not help to find the token
        by trying likely ones.
        """
        return hashlib.scrypt(self._token.encode(), salt=b"agentrt", n=2**14, r=8, p=1)

    def new_pass(self) -> Pass:
        """Create credentials for another browser."""
        id = self._mark + secrets.token_urlsafe(16)
        return Pass(f"{id}.{self._sign('cookie', id)}", self._sign("key", id))

    def knows(self, cookie: str, key: str | None = None) -> bool:
        """True if the cookie belongs to this grant and the key, if given, to the cookie."""
        id, _, signed = cookie.partition(".")
        if not id.startswith(self._mark) or "~" in id.removeprefix(self._mark):
            return False
        good = hmac.compare_digest(signed.encode(), self._sign("cookie", id).encode())
        if key is not None:
            good &= hmac.compare_digest(key.encode(), self._sign("key", id).encode())
        return good

    def _sign(self, what: str, id: str) -> str:
        """Sign an id for one purpose, so that a cookie cannot be used as a key or the other way
        round.
        """
        digest = hmac.digest(self._secret, f"{what} {id}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def listen(self, revoked: Callable[[], None]) -> Callable[[], None]:
        """Call `revoked` when the grant is revoked. Returns a function that unregisters it."""
        self._live.add(revoked)
        return lambda: self._live.discard(revoked)

    def revoke(self) -> None:
        """Revoke the grant and call all listeners."""
        self.revoked = True
        for end in tuple(self._live):
            end()


class _Ticket(Struct, frozen=True):
    """A ticket that was not used yet."""

    grant: Grant
    until: float
    """The time at which it expires, by the clock of `Security`."""


class Security:
    """The access rules of one server.

    - `token`: gives control; by default a random one is made.
    - `viewer_token`: gives read-only access; by default there is none.
    - `metrics_token`: gives access to `/metrics` and nothing else; by default nothing does.
    - `tenants`, `tenant_viewers`: further tokens, for control and for read-only access, each
      limited to the sessions of its tenant. The tokens above are the operator's and give access to
      all sessions.
    - `url`: the address under which people reach the server, for example through a proxy that ends
      TLS: `https://NAME`, `http://NAME:PORT`, or `https://NAME/PATH/` if the proxy serves it below
      a path. Links begin with it, its name and origin are allowed, the cookie is limited to its
      path, and with `https` the cookie is `Secure`.
    - `allow_hosts`: further names, `NAME` or `NAME:PORT`, under which the server is reached.
    - `allow_origins`: further origins, `https://NAME:PORT`, whose pages may connect.
    - `clock`: returns monotonic time in seconds, used for the expiry of tickets.

    Raises `ValueError` for values that would give no protection.
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
        _check_tokens(token, viewer_token, metrics_token, [*tenants, *watching])
        _check_tenants([*tenants.values(), *watching.values()])
        self.chosen: bool = token is not None
        self.token: str = token if token is not None else secrets.token_urlsafe(32)
        origin, root = (None, "/") if url is None else _public_address(url)
        self.url: str | None = origin
        """The origin of the public address, without its path; None without a `url`."""
        self.root: str = root
        """The path of the public address. It begins and ends with a slash."""
        self.allow_hosts: tuple[str, ...] = tuple(_host(name) for name in allow_hosts)
        self.allow_origins: tuple[str, ...] = tuple(_origin(name) for name in allow_origins)
        self._grants = [Grant(self.token, "controller")]
        if viewer_token is not None:
            self._grants.append(Grant(viewer_token, "viewer"))
        self._grants += [Grant(each, "controller", whose) for each, whose in tenants.items()]
        self._grants += [Grant(each, "viewer", whose) for each, whose in watching.items()]
        self._metrics = None if metrics_token is None else _digest(metrics_token)
        self._clock = clock
        self._tickets: dict[bytes, _Ticket] = {}  # by digest

    @property
    def public_port(self) -> int | None:
        """The port of `url`; None without a `url`."""
        if self.url is None:
            return None
        return urlsplit(self.url).port or (443 if self.url.startswith("https:") else 80)

    @property
    def measured(self) -> bool:
        """True if there is a token for metrics."""
        return self._metrics is not None

    def may_measure(self, token: str | None) -> bool:
        """True if this is the token for metrics. It takes the same time for every wrong token."""
        if self._metrics is None or token is None:
            return False
        return hmac.compare_digest(self._metrics, _digest(token))

    def ticket(self, role: Role = "controller", life_s: float | None = None) -> str:
        """Create a ticket for a link.

        It expires after `life_s` seconds (None: never). Raises `ValueError` if no token has
        that role.
        """
        grant = next(
            (g for g in self._grants if g.role == role and g.tenant is None and not g.revoked), None
        )
        if grant is None:
            raise ValueError(f"no token for the role {role!r}")
        now = self._clock()
        self._tickets = {known: each for known, each in self._tickets.items() if now < each.until}
        ticket = secrets.token_urlsafe(32)
        until = math.inf if life_s is None else now + life_s
        self._tickets[_digest(ticket)] = _Ticket(grant, until)
        return ticket

    def revoke(self, token: str) -> bool:
        """Revoke a token, its tickets and its cookies, and close every connection that depends on
        it. Returns True if there was such a token.
        """
        grant = grant_of_token(self, token)
        if grant is None:
            return False
        grant.revoke()
        self._tickets = {
            known: each for known, each in self._tickets.items() if each.grant is not grant
        }
        return True

    def check_addresses(self, addresses: Iterable[str]) -> None:
        """Raise `ValueError` if the server may not listen on these addresses."""
        for address in addresses:
            if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
                continue
            if not self.chosen or not (self.allow_hosts or self.url):
                raise ValueError(
                    f"{address} can be reached from other machines: that needs an explicit"
                    " token (AGENTRT_SERVE_TOKEN or --token) and the address or the names under"
                    " which the server is reached (--url or --allow-host)"
                )

    def shown(self, host: str, port: int) -> str:
        """Return the name and port to put into a link."""
        if host in ("", "0.0.0.0", "::"):
            host = self.allow_hosts[0] if self.allow_hosts else "localhost"
        elif ":" in host:
            host = f"[{host}]"
        return host if _has_port(host) else f"{host}:{port}"


def grant_of_token(security: Security, token: str) -> Grant | None:
    """Return the grant of a token, or None. It takes the same time for every wrong token."""
    found = None
    for grant in security._grants:
        if grant.fits(token) and not grant.revoked:
            found = grant
    return found


def grant_of_cookies(
    security: Security, cookies: Iterable[str], key: str | None = None
) -> Grant | None:
    """Return the grant of a browser's cookies, or None.

    With `key`, it must belong to one of the cookies. Several cookies are tried because another
    local server may have set some of the same name.
    """
    for cookie in list(cookies)[:MAX_CHECKED_COOKIES]:
        for grant in security._grants:
            if not grant.revoked and grant.knows(cookie, key):
                return grant
    return None


def redeem_ticket(security: Security, ticket: str) -> Pass | None:
    """Exchange a ticket for a pass; the ticket is then used up. Returns None if it is unknown,
    used, expired or revoked.
    """
    digest = _digest(ticket)
    known = [each for each in security._tickets if hmac.compare_digest(each, digest)]
    found = security._tickets.pop(known[0]) if known else None
    if found is None or found.grant.revoked or security._clock() >= found.until:
        return None
    return found.grant.new_pass()


def accepted_names(security: Security, host: str, port: int, *, tls: bool) -> AcceptedNames:
    """Return the `Host` and `Origin` headers accepted by a server that listens on `host`."""
    scheme = "https" if tls else "http"
    default = 443 if tls else 80
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if host and host not in ("0.0.0.0", "::"):
        hosts.add(f"[{host}]:{port}" if ":" in host else f"{host.lower()}:{port}")
    origins = set()
    for name in security.allow_hosts:
        if _has_port(name):
            hosts.add(name)
        else:
            hosts |= {name, f"{name}:{port}"}
            origins.add(f"https://{name}")  # a proxy in front of it ends TLS
    if port == default:
        hosts |= {name.removesuffix(f":{port}") for name in hosts}
    origins |= {f"{scheme}://{name}" for name in hosts if port == default or _has_port(name)}
    if security.url is not None:
        public = security.url.partition("://")[2]
        hosts |= {public} if _has_port(public) else {public, f"{public}:{security.public_port}"}
        origins.add(security.url)
    return AcceptedNames(
        hosts=frozenset(hosts), origins=frozenset(origins | {*security.allow_origins})
    )


def _check_tokens(
    token: str | None,
    viewer_token: str | None,
    metrics_token: str | None,
    tenant_tokens: list[str],
) -> None:
    """Raise `ValueError` for tokens that are too short, or that are used for two purposes."""
    given = [each for each in (token, viewer_token, metrics_token) if each is not None]
    given += tenant_tokens
    if any(len(each) < MIN_TOKEN_CHARS for each in given):
        raise ValueError(f"a token must have at least {MIN_TOKEN_CHARS} characters")
    if token is not None and token == viewer_token:
        raise ValueError("viewer_token and token must differ")
    if metrics_token is not None and metrics_token in (token, viewer_token):
        raise ValueError("metrics_token must differ from the tokens for the page")
    if len({*given}) < len(given):
        raise ValueError("a tenant's token must differ from all other tokens")


def _check_tenants(tenants: list[Tenant]) -> None:
    """Raise `ValueError` if a tenant has different limits by different tokens."""
    known: dict[str, Tenant] = {}
    for tenant in tenants:
        if known.setdefault(tenant.name, tenant) != tenant:
            raise ValueError(f"the tenant {tenant.name!r} has different limits by its tokens")


class AcceptedNames(Struct, frozen=True):
    """The accepted `Host` and `Origin` headers. A `Host` that equals the `Origin` proves nothing:
    an attacker's name may resolve to this machine.
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    def answers_to(self, host: str) -> bool:
        """True if `host` is an accepted `Host` header."""
        return host.lower() in self.hosts


def offered_token(protocols: Iterable[str]) -> str | None:
    """Return the token among the offered subprotocols; None if it is missing, an empty (and so
    wrong) one if it is unreadable.
    """
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
    """Return the key among the offered subprotocols, or an empty (and so wrong) one."""
    return next((each.removeprefix(KEY) for each in protocols if each.startswith(KEY)), "")


def _digest(secret: str) -> bytes:
    """Return a digest of a secret. Digests have equal lengths, so comparing them takes the same
    time for all secrets. Tickets are kept as digests only.
    """
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _has_port(name: str) -> bool:
    """True if a name ends with a port. The colons of an IPv6 address in brackets do not count."""
    return name.rpartition("]")[2].count(":") == 1


def _host(name: str) -> str:
    """Return an allowed host name in lower case. Raises `ValueError` if it is not one."""
    if not name or any(c in name for c in "/@*?#, ") or name.endswith((".", ":")):
        raise ValueError(f"{name!r} is not NAME or NAME:PORT")
    return name.lower()


def _public_address(url: str) -> tuple[str, str]:
    """Return the origin and the path of a public address. Raises `ValueError`."""
    scheme, separator, rest = url.partition("://")
    name, _, path = rest.partition("/")
    origin = _origin(f"{scheme}{separator}{name}", "URL")
    names = path.removesuffix("/").split("/") if path else []
    if not all(_SEGMENT.fullmatch(each) and each.strip(".") for each in names):
        raise ValueError(
            f"{url!r} is not a valid URL: its path may only have letters, digits, `-`, `_`, `~` and"
            " `.`, such as https://example.org/agents/"
        )
    if names[:1] == ["page"]:
        raise ValueError(f"{url!r}: the path /page/ is used by the server's own files")
    return origin, "".join(["/", *(f"{each}/" for each in names)])


def _origin(name: str, kind: str = "origin") -> str:
    """Return an origin unchanged. Raises `ValueError`, in which `kind` is the name of the value."""
    scheme, separator, host = name.partition("://")
    if scheme not in ("http", "https") or not separator or host != _host(host):
        raise ValueError(f"{name!r} is not a valid {kind} (example: https://example.org:8443)")
    return name
