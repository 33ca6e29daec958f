"""The running servers of this user.

Each writes its URL and its token to a file that only this user can read, so that the user's
programs can connect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from .._errors import AgentrtError
from .._web.address import ServerAddress, address
from .own import warn
from .setup import UsageError
from .state import state_folder
from .text import one_line

TOKEN = "AGENTRT_SERVE_TOKEN"
"""The environment variable for a token."""


class ServerNotFound(AgentrtError):
    """No known server matches the request."""


class Server(Struct, frozen=True):
    """A running server. `url` is the one for other programs of this machine."""

    url: str
    token: str
    pid: int
    cwd: str = ""


_decode = msgspec.json.Decoder(Server).decode


def servers_folder() -> Path:
    """Return the directory with the files of running servers."""
    return state_folder() / "servers"


@contextmanager
def announced(url: str, token: str) -> Iterator[None]:
    """Announce a server of this process while the block runs.

    If the file cannot be written, a warning is printed, and clients need the URL and the token.
    """
    path = servers_folder() / f"{os.getpid()}-{address(url).place.rpartition(':')[2]}.json"
    server = Server(url, token, os.getpid(), os.getcwd())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)  # left by a process with the same id
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
    """Return the running servers of this user."""
    found = []
    for path in sorted(servers_folder().glob("*.json")):
        try:
            if path.stat().st_uid == os.getuid():
                server = _decode(path.read_bytes())
                os.kill(server.pid, 0)
                found.append(server)
        except (OSError, msgspec.DecodeError):
            continue  # killed, or not completely written
    return found


def find_server(url: str | None, *, insecure: bool = False) -> tuple[ServerAddress, str]:
    """Return the address and the token of a server.

    `url`: the server; None for the user's only running one. `insecure`: the token may be sent
    unencrypted over a network. Raises `UsageError` or `ServerNotFound`.
    """
    if url == "":  # for example an unset variable, not a request for any server
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
