"""The address of a store in a schema of a PostgreSQL database. Imports no library for it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct

SCHEMA: Final = "agentrt"
"""Default schema of a store in a database, unless its URL has `?schema=NAME`."""

_HOSTS = re.compile(r"(?:(?:\[[^\]@]*\]|[^\[\]:@,]*)(?::\d*)?(?:,|$))*")
_SHOWN = ("host", "port", "user", "dbname", "service")


class PostgresAddress(Struct, frozen=True):
    """A schema of a PostgreSQL database. Its string form contains no password."""

    conninfo: str
    """The connection string for libpq. It may contain a password: do not show it."""
    schema: str = SCHEMA

    def __str__(self) -> str:
        url = urlsplit(self.conninfo)
        user, at, hosts = url.netloc.rpartition("@")
        user = user.partition(":")[0]
        query = [(key, value) for key, value in parse_qsl(url.query) if key in _SHOWN]
        if self.schema != SCHEMA:
            query.append(("schema", self.schema))
        text = f"postgresql://{user}{at}{hosts}{url.path}"
        return f"{text}?{urlencode(query, quote_via=quote, safe='/')}" if query else text

    __repr__ = __str__

    @property
    def has_password(self) -> bool:
        """True if the connection string contains a password."""
        url = urlsplit(self.conninfo)
        return ":" in url.netloc.rpartition("@")[0] or any(
            "password" in key for key, _ in parse_qsl(url.query)
        )


def parsed(said: str) -> tuple[str, str]:
    """Return the connection string and the schema of a PostgreSQL URL.

    Raises `ValueError`, with a message that quotes none of it: the bounds of a password are not
    certain in an invalid URL."""
    try:
        url = urlsplit(said)
        query = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
    except ValueError:
        raise ValueError(_WRONG) from None
    user, _, hosts = url.netloc.rpartition("@")
    if "@" in user + url.path + url.query or url.fragment or not _HOSTS.fullmatch(hosts):
        raise ValueError(_WRONG)
    schema = dict(query).get("schema", SCHEMA)
    if not schema or "\0" in unquote(said):
        raise ValueError(_WRONG)
    rest = urlencode([each for each in query if each[0] != "schema"], quote_via=quote)
    return f"postgresql://{url.netloc}{url.path}{'?' * bool(rest)}{rest}", schema


_WRONG = (
    "this is not a PostgreSQL URL (postgresql://USER@HOST:PORT/DATABASE?sslmode=…&schema=…); write"
    " / or @ in a name or a password as %2F or %40"
)
