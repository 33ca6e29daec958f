r"""The web pages that a request names, parsed as agents parse them.

Browsers and HTTP clients of agents parse URLs by the WHATWG standard: `https:/evil.com`,
`evil%2ecom`, `https://evil.com\@example.com` and `http://0xa9fea9fe` all lead to a host that a
simple parser does not find. So URLs are parsed by the `ada-url` library, and a URL is certain only
if it cannot be parsed in another way.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from .paths import MAX_INPUT_PARTS, TooLarge, containers

KEYS: Final = frozenset(
    """url urls uri uris href link links src page website site address endpoint baseurl host
    hostname domain server origin proxy httpproxy httpsproxy proxyurl target referer""".split()  # noqa: SIM905
)
"""Keys whose strings are pages, in lower case and without `_` and `-`."""
_ALLOWED_KEYS: Final = frozenset({"url", "uri", "urls"})
_HARMLESS_KEYS: Final = frozenset(
    """prompt description format timeout timeoutms maxlength maxchars maxtokens startindex raw
    selector""".split()  # noqa: SIM905
)
"""Keys next to a page that do not change which page it is."""
MAX_URL_CHARS: Final = 16_384
"""Maximum number of characters of all URLs of a request together."""

_CERTAIN: Final = re.compile(
    r"(?:https?://)?(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::[0-9]{1,5})?"
    r"(?:[/?#][!#-\[\]-~]*)?",
    re.IGNORECASE,
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SPECIAL: Final = re.compile(r"(?:https?|wss?|ftp|file):", re.IGNORECASE)
_IN_TEXT: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}:[/\\]+[^\s'\"<>]{1,2048}")


@dataclass(frozen=True)
class WebPage:
    """A URL: every host that it may lead to, with its port if it has one."""

    hosts: frozenset[tuple[str, str]]
    certain: bool
    """True if there is only one way to parse it."""


def read_page(text: str) -> WebPage:
    """Parse a URL or a host."""
    found: set[tuple[str, str]] = set()
    plain = unicodedata.normalize("NFKC", unquote(text)).replace("\u00ad", "")
    for each in dict.fromkeys((text, plain, plain.replace("\\", "/"))):
        found |= _standard(each)
        found |= _simple(each)
    certain = _CERTAIN.fullmatch(text)
    sure = certain is not None and {host for host, _ in found} == {_host(certain["host"])}
    return WebPage(frozenset(found), sure)


def normal_host(host: str) -> str:
    """Normalise a rule's host as in a URL. A host with a `*` only loses a trailing dot."""
    if "*" in host:
        return host.rstrip(".")
    read = {name for name, _ in _standard(f"http://{host}")}
    return read.pop() if len(read) == 1 else host


def _standard(text: str) -> set[tuple[str, str]]:
    """Return the hosts by the WHATWG standard: of the text, and of a text without a scheme."""
    from ada_url import URL  # takes 10 ms

    found: set[tuple[str, str]] = set()
    bare = re.sub(r"[\t\r\n]", "", text).strip()
    forms = [bare] if _SCHEME.match(bare) else []
    if not _SPECIAL.match(bare):
        forms.append(f"https://{bare}")
    for each in forms:
        try:
            url = URL(each)
        except ValueError:
            continue
        if url.hostname and "://" in url.href:
            found.add((_host(url.hostname), url.port))
    return found


def _simple(text: str) -> set[tuple[str, str]]:
    """Return the host that a simple parser finds."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host = (parts.hostname or "").strip()
        port = str(parts.port or "")
    except ValueError:
        return set()
    return {(_host(host), port)} if host else set()


def _host(host: str) -> str:
    """Return a host for comparison: in lower case, without brackets and a trailing dot.

    An IPv4 address that is written as IPv6 counts as the same host.
    """
    host = host.casefold().strip("[]").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _key(key: object) -> str:
    """Return a key in lower case, without `_` and `-`."""
    return re.sub("[_-]", "", str(key)).casefold()


def named_pages(input: Any) -> list[WebPage] | None:
    """Return every page that an input names or may name, under any key; None if there are too
    many."""
    try:
        texts = list(_urls(input))
    except TooLarge:
        return None
    if sum(map(len, texts)) > MAX_URL_CHARS:
        return None
    return [read_page(text) for text in texts]


def _urls(input: Any) -> Iterator[str]:
    """Yield the texts under keys that name a page, and the URLs in all other texts."""
    for value in containers(input):
        for key, each in _items(value):
            for text in each if isinstance(each, list) else [each]:
                if not isinstance(text, str):
                    continue
                if _key(key) in KEYS or _key(key).endswith(("url", "uri")):
                    yield text
                else:
                    yield from _IN_TEXT.findall(text)


def _items(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object, or the texts of an array under an empty key."""
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from (("", each) for each in value if isinstance(each, str))


def strings(input: Any) -> Iterator[str]:
    """Yield every string of an input. Raises `TooLarge`."""
    for value in containers(input):
        yield from (each for _, each in _items(value) if isinstance(each, str))


def only_pages(input: Any) -> list[WebPage]:
    """Return the pages of an input that contains nothing else; empty if it may mean more."""
    if not isinstance(input, dict) or len(input) > MAX_INPUT_PARTS:
        return []
    texts: list[str] = []
    for key, value in input.items():
        if key in _ALLOWED_KEYS and not texts:
            given = value if isinstance(value, list) else [value]
            if not all(isinstance(each, str) for each in given):
                return []
            texts = given
        elif key in _ALLOWED_KEYS or (value and _key(key) not in _HARMLESS_KEYS):
            return []
    if sum(map(len, texts)) > MAX_URL_CHARS:
        return []
    return [read_page(text) for text in texts]
