"""The servers of this user that run: each writes down where it is and its token, for this user
alone, so that programs of theirs can come in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from .._errors import AgentrtError
from .._web.address import Address, address
from .own import warn
from .setup import UsageError
from .state import state_folder
from .text import one_line

TOKEN = "AGENTRT_SERVE_TOKEN"
"""The variable that a token may be in."""


class ServerNotFound(AgentrtError):
    """No server is known that could be meant."""


class Server(Struct, frozen=True):
    """`url`: as other programs of this machine reach it."""

    url: str
    token: str
    pid: int
    cwd: str = ""


_decode = msgspec.json.Decoder(Server).decode


def servers_folder() -> Path:
    return state_folder() / "servers"


@contextmanager
def announced(url: str, token: str) -> Iterator[None]:
    """This process serves there while the block runs. Where it cannot be written down, the token is
    to be given."""
    path = servers_folder() / f"{os.getpid()}-{address(url).place.rpartition(':')[2]}.json"
    server = Server(url, token, os.getpid(), os.getcwd())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)  # of a process that had the number before
        with open(path, "xb", opener=_private) as file:
            file.write(msgspec.json.encode(server))
    except OSError as error:
        warn(f"`--attach` finds this server by its URL and token only: {error}")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def running() -> list[Server]:
    """The servers of this user that run."""
    found = []
    for path in sorted(servers_folder().glob("*.json")):
        try:
            if path.stat().st_uid == os.getuid():
                server = _decode(path.read_bytes())
                os.kill(server.pid, 0)
                found.append(server)
        except (OSError, msgspec.DecodeError):
            continue  # killed, or half written
    return found


def find_server(url: str | None, *, insecure: bool = False) -> tuple[Address, str]:
    """The server that is meant, and its token: of a URL, or, if there is none, the one that runs.
    `insecure`: the token may be sent over a network in clear. Raises `UsageError` or
    `ServerNotFound`."""
    if url == "":  # a variable that is not set, say, and not a wish for any server
        raise UsageError("the server's URL is empty: leave it out for the one of yours that runs")
    given = os.environ.get(TOKEN)
    known = {address(server.url): server for server in running()}
    if url is not None:
        try:
            wanted = address(url)
        except ValueError as error:
            raise UsageError(str(error)) from error
        server = known.get(wanted)
        token = given or (server.token if server is not None else None)
        if token is None:
            raise ServerNotFound(
                f"no known server at {one_line(str(wanted))}; if it is someone else's, put its"
                f" token into the variable {TOKEN}"
            )
        if not (wanted.is_private or insecure):
            raise UsageError(
                f"{one_line(str(wanted))} would get the token unencrypted; use https, a tunnel"
                " (ssh -L 8000:localhost:8000 HOST), or --insecure on a network that you trust"
            )
        return wanted, token
    match list(known.items()):
        case [(wanted, server)]:
            return wanted, given or server.token
        case []:
            raise ServerNotFound(
                "you have no running server; start one with `agentrt serve`, or give a URL"
            )
        case several:
            urls = ", ".join(str(wanted) for wanted, _ in several)
            raise UsageError(f"you have several running servers; give the URL of one ({urls})")
