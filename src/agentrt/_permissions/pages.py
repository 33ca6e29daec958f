"""The web pages that a request names, read as agents read them.

Browsers and the clients of agents read URLs by the WHATWG standard: `https:/evil.com`,
`evil%2ecom`, `https://evil.com\\@example.com` and `http://0xa9fea9fe` all lead to a host that a
plain reader does not find. So a URL is parsed by the `ada-url` library, and only a URL that cannot
be read in another way is certain.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from .paths import MOST_PARTS, TooLarge, containers

KEYS: Final = frozenset(
    """url urls uri uris href link links src page website site address endpoint baseurl host
    hostname domain server origin proxy httpproxy httpsproxy proxyurl target referer""".split()  # noqa: SIM905
)
"""Keys, without case, `_` and `-`, whose strings are pages."""
_ALLOWED_KEYS: Final = frozenset({"url", "uri", "urls"})
_HARMLESS_KEYS: Final = frozenset(
    """prompt description format timeout timeoutms maxlength maxchars maxtokens startindex raw
    selector""".split()  # noqa: SIM905
)
"""Keys next to a page that do not change which one it is."""
LONGEST_URLS: Final = 16_384
"""Characters of all URLs of a request together."""

_CERTAIN: Final = re.compile(
    r"(?:https?://)?(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::[0-9]{1,5})?"
    r"(?:[/?#][!#-\[\]-~]*)?",
    re.IGNORECASE,
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SPECIAL: Final = re.compile(r"(?:https?|wss?|ftp|file):", re.IGNORECASE)
_IN_TEXT: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}:[/\\]+[^\s'\"<>]{1,2048}")


@dataclass(frozen=True)
class Page:
    """A URL: every host that it may lead to, with its port if it has one."""

    hosts: frozenset[tuple[str, str]]
    certain: bool
    """There is only one way to read it."""


def read_page(text: str) -> Page:
    """Read a URL, or a host."""
    found: set[tuple[str, str]] = set()
    plain = unicodedata.normalize("NFKC", unquote(text)).replace("\u00ad", "")
    for each in dict.fromkeys((text, plain, plain.replace("\\", "/"))):
        found |= _standard(each)
        found |= _simple(each)
    certain = _CERTAIN.fullmatch(text)
    sure = certain is not None and {host for host, _ in found} == {_host(certain["host"])}
    return Page(frozenset(found), sure)


def normal_host(host: str) -> str:
    """A host of a rule, as a URL's would be read. With a `*` in it, it stays as it is."""
    if "*" in host:
        return host.rstrip(".")
    read = {name for name, _ in _standard(f"http://{host}")}
    return read.pop() if len(read) == 1 else host


def _standard(text: str) -> set[tuple[str, str]]:
    """The hosts by the WHATWG standard: of the text, and of a text without a scheme."""
    from ada_url import URL  # 10 ms

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
    """The host as a simple reader finds it."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host = (parts.hostname or "").strip()
        port = str(parts.port or "")
    except ValueError:
        return set()
    return {(_host(host), port)} if host else set()


def _host(host: str) -> str:
    host = host.casefold().strip("[]").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _key(key: object) -> str:
    return re.sub("[_-]", "", str(key)).casefold()


def named_pages(input: Any) -> list[Page] | None:
    """Every page that an input names or may name, under any key; None if there is too much of
    it."""
    try:
        texts = list(_urls(input))
    except TooLarge:
        return None
    if sum(map(len, texts)) > LONGEST_URLS:
        return None
    return [read_page(text) for text in texts]


def _urls(input: Any) -> Iterator[str]:
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
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from (("", each) for each in value if isinstance(each, str))


def strings(input: Any) -> Iterator[str]:
    """Every string of an input. Raises `TooLarge`."""
    for value in containers(input):
        yield from (each for _, each in _items(value) if isinstance(each, str))


def only_pages(input: Any) -> list[Page]:
    """The pages of an input that says nothing else; empty if something else may be meant."""
    if not isinstance(input, dict) or len(input) > MOST_PARTS:
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
    if sum(map(len, texts)) > LONGEST_URLS:
        return []
    return [read_page(text) for text in texts]
