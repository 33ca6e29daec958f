"""The dialects of a site's WebSockets, one for each path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..lowlevel import Dialect
from .acp import ACP
from .aisdk import AI_SDK
from .foreign import served
from .hub import ServedDialect
from .native import NATIVE

BUILT_IN: Final[Mapping[str, ServedDialect]] = {
    dialect.path: dialect for dialect in (NATIVE, AI_SDK, ACP)
}

RESERVED: Final = frozenset(("/", "/login", "/healthz", "/readyz", "/metrics"))
"""Paths where the site answers plain requests; so do those below `/page/`."""

PATH: Final = re.compile(r"(/(?!\.+(/|$))[A-Za-z0-9._~-]+)+")
TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A token of HTTP, such as the name of a header or of a subprotocol."""


def dialects_of_site(dialects: Iterable[Dialect]) -> dict[str, ServedDialect]:
    """Return the built-in dialects and those of the program, by path.

    Raises `TypeError` unless `dialects` is a list of dialects, `ValueError` if one has an invalid
    path, subprotocol or header, or the path of another one.
    """
    if isinstance(dialects, Dialect):
        raise TypeError("dialects must be a list: dialects=[dialect]")
    found = dict(BUILT_IN)
    for each in dialects:
        if not isinstance(each, Dialect):
            raise TypeError(f"a dialect must be agentrt.lowlevel.Dialect(…), not {each!r:.100}")
        if not isinstance(each.path, str) or not PATH.fullmatch(each.path):
            raise ValueError(f"{each.path!r} is not a path for a dialect; use one such as '/mine'")
        if each.path in RESERVED or each.path.startswith("/page/"):
            raise ValueError(f"the path {each.path} is used by the page; choose another one")
        if each.path in found:
            raise ValueError(f"two dialects have the path {each.path}; choose another one")
        for name in (each.protocol, each.connection_header):
            if name is not None and not (isinstance(name, str) and TOKEN.fullmatch(name)):
                raise ValueError(
                    f"{name!r} is not the name of a subprotocol or header; use letters, digits"
                    " and '.', '-' or '_'"
                )
        found[each.path] = served(each)
    return found
