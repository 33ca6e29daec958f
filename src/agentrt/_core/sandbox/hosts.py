"""Host names and addresses as a proxy judges them: normalized, matched, and checked.

A request is judged by the name that is dialled, in one normal form. Names that programs could read
in two ways are refused. After a name was resolved, the address is judged, too: a name that leads
back to this machine, or into the network of its provider, is refused unless the policy names the
address itself.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, TypeAlias

MAX_NAME_CHARS: Final = 253
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
        ),
    )
)
"""Addresses at which providers of machines serve their secrets."""


class HostRefused(ValueError):
    """The name of a host, or its address, cannot be used; the message gives the reason."""


def normal_host(name: str) -> str:
    """Return a host name or an address in its one normal form. Raises `HostRefused`.

    Lower case, ASCII (IDNA), without a final dot; addresses as `ipaddress` writes them. Numeric
    forms of an address other than four decimal numbers are refused, because programs read them in
    different ways.
    """
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if ":" in bare:
        try:
            address = ipaddress.IPv6Address(bare)
        except ValueError:
            raise HostRefused(f"{name!r:.100} is not a host") from None
        if address.scope_id is not None:
            raise HostRefused(f"{name!r:.100} names a network interface")
        return str(address.ipv4_mapped or address)
    if name != bare:
        raise HostRefused(f"{name!r:.100} is not a host")
    text = bare.removesuffix(".")
    if not text.isascii():
        try:
            text = text.encode("idna").decode()
        except UnicodeError:
            raise HostRefused(f"{name!r:.100} is not a host") from None
    text = text.lower()
    labels = text.split(".")
    if not text or len(text) > MAX_NAME_CHARS or not all(map(_LABEL.fullmatch, labels)):
        raise HostRefused(f"{name!r:.100} is not a host")
    if _NUMBER.fullmatch(labels[-1]):  # a client would read it as an address
        try:
            return str(ipaddress.IPv4Address(text))
        except ValueError:
            raise HostRefused(f"{name!r:.100} is an address in an unusual form") from None
    return text


def split_authority(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Return the normal host and the port of `HOST:PORT`. Raises `HostRefused`."""
    if re.search(r"[\s\\@/?#%]", text) or not text.isprintable():
        raise HostRefused(f"{text!r:.100} can be read in more than one way")
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        host += bracket
        port = rest.removeprefix(":") if rest.startswith(":") or not rest else "-"
    else:
        host, _, port = text.partition(":")
    if not port and default_port is not None:
        return normal_host(host), default_port
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise HostRefused(f"{text!r:.100} has no valid port")
    return normal_host(host), int(port)


class HostPattern:
    """A host in a policy: `NAME`, `*.NAME`, `*`, each with `:PORT` or without."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError` for a text that is not a host."""
        self.text = text
        host, port = text, ""
        bracketed = re.fullmatch(r"(\[[^]]*\])(?::([^:]*))?", text)
        if bracketed:
            host, port = bracketed[1], bracketed[2] or ""
        elif text.count(":") == 1:
            host, _, port = text.partition(":")
            if not port:
                raise ValueError(f"{text!r} is not a host: the port is missing after the colon")
        self.port: int | None = None
        if port and port != "*":
            if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
                raise ValueError(f"{text!r} is not a host: {port!r} is not a port")
            self.port = int(port)
        self.subdomains = host.startswith("*.")
        self.everything = host == "*"
        try:
            rest = host.removeprefix("*.")
            self.host = "" if self.everything else normal_host(rest)
        except HostRefused as error:
            raise ValueError(
                f"{text!r} is not a host: give a name without scheme and path, such as"
                f" 'api.example.com' or '*.example.com:443' ({error})"
            ) from None

    def matches(self, host: str, port: int) -> bool:
        """Return True if the pattern names this host, which is in its normal form.

        `*.NAME` names all hosts below NAME and NAME itself.
        """
        if self.port is not None and self.port != port:
            return False
        if self.everything or host == self.host:
            return True
        return self.subdomains and host.endswith("." + self.host)

    def covers(self, other: HostPattern) -> bool:
        """Return True if everything that the other pattern names is named by this one, too."""
        if self.port is not None and self.port != other.port:
            return False
        return self._covers_hosts(other)

    def _covers_hosts(self, other: HostPattern) -> bool:
        """As `covers`, without the ports."""
        if self.everything or other.everything:
            return self.everything
        if other.subdomains and not self.subdomains:
            return False
        return other.host == self.host or (self.subdomains and other.host.endswith("." + self.host))

    def common(self, other: HostPattern) -> str | None:
        """Return the pattern for everything that both name; None if that is nothing."""
        if self.covers(other):
            return other.text
        if other.covers(self):
            return self.text
        if None not in (self.port, other.port):
            return None
        narrow = other if self._covers_hosts(other) else self
        if narrow is self and not other._covers_hosts(self):
            return None
        name = "*" if narrow.everything else "*." * narrow.subdomains + narrow.bracketed
        return f"{name}:{self.port or other.port}"

    @property
    def bracketed(self) -> str:
        """The host as it is written before a port."""
        return f"[{self.host}]" if ":" in self.host else self.host


_TRANSLATED: Final = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
"""Networks whose addresses end with an IPv4 address."""
_LOCAL_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b:1::/48")


def _embedded(ip: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address to which a gateway or the kernel sends packets for an address."""
    if isinstance(ip, ipaddress.IPv4Address) or int(ip) <= 1:  # :: and ::1
        return None
    if any(ip in network for network in _TRANSLATED) or ip in _LOCAL_TRANSLATED:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.sixtofour or (ip.teredo[1] if ip.teredo else None)


def address_problem(address: str, *, named: bool, listed: bool) -> str | None:
    """Return the reason why an address must not be dialled, or None.

    `named`: the policy or a person named this address itself. `listed`: the policy names the host,
    so it may be in a private network.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    inner = _embedded(ip)
    if inner is not None:
        problem = address_problem(str(inner), named=named, listed=listed)
        if problem is not None or getattr(ip, "ipv4_mapped", None) is not None:
            return problem
    if ip in METADATA:
        return "it is the address of a cloud provider's secrets"
    if ip.is_loopback or ip.is_unspecified:
        return "it is this machine; pass a port in with `ports`"
    if ip.is_multicast:
        return "it is a multicast address"
    if named:
        return None
    if ip.is_link_local:
        return "it is a link-local address"
    if not ip.is_global and not listed:
        return "it is in a private network; list the host to allow it"
    return None
