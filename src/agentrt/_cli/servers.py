"""The running servers of this user, and the sessions of a server.

Each server writes its URL and its token to a file that only this user can read, so that the user's
programs can connect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, convert

from .._base.home import state_folder
from .._public import SessionInfo
from .._serve import commands as c
from .._serve.address import ServerAddress, address
from ..errors import AgentrtError, SessionNotFound
from .exit_status import UsageError
from .printing import print_warning
from .text import one_line

if TYPE_CHECKING:
    from .._serve.remote.line import ServerLine

TOKEN_VARIABLE = "AGENTRT_SERVE_TOKEN"
"""The environment variable for a token."""


class ServerNotFound(AgentrtError):
    """No known server matches the request."""


class RunningServer(Struct, frozen=True):
    """A running server. `url` is the one for other programs of this machine."""

    url: str
    token: str
    pid: int
    cwd: str = ""


_decode = msgspec.json.Decoder(RunningServer).decode


def servers_folder() -> Path:
    """Return the directory with the files of running servers."""
    return state_folder() / "servers"


@contextmanager
def announced(url: str, token: str) -> Iterator[None]:
    """Announce a server of this process while the block runs.

    If the file cannot be written, a warning is printed, and clients need the URL and the token.
    """
    path = servers_folder() / f"{os.getpid()}-{address(url).place.rpartition(':')[2]}.json"
    server = RunningServer(url, token, os.getpid(), os.getcwd())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)  # left by a process with the same id
        with open(path, "xb", opener=_private) as file:
            file.write(msgspec.json.encode(server))
    except OSError as error:
        print_warning(f"clients need the URL and the token of this server: {error}")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    """Open a file that only the user can read, and that is not a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def running() -> list[RunningServer]:
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


def _at_origin(
    known: dict[ServerAddress, RunningServer], wanted: ServerAddress
) -> RunningServer | None:
    """Return the running server with this host and port, whatever the path."""
    return {each.origin: server for each, server in known.items()}.get(wanted.origin)


def find_server(url: str | None, *, insecure: bool = False) -> tuple[ServerAddress, str]:
    """Return the address and the token of a server.

    `url`: the server; None for the user's only running one. `insecure`: the token may be sent
    unencrypted over a network. Raises `UsageError` or `ServerNotFound`.
    """
    if url == "":  # for example an unset variable, not a request for any server
        raise UsageError("the server's URL is empty; leave it out to use your running server")
    given = os.environ.get(TOKEN_VARIABLE)
    known = {address(server.url): server for server in running()}
    if url is not None:
        try:
            wanted = address(url)
        except ValueError as error:
            raise UsageError(str(error)) from error
        server = _at_origin(known, wanted)
        token = given or (server.token if server is not None else None)
        if token is None:
            raise ServerNotFound(
                f"no known server at {one_line(str(wanted))}; if it is someone else's, put its"
                f" token into the variable {TOKEN_VARIABLE}"
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


PAGE_SESSIONS: Final = 1000
"""Stored sessions per request when all are searched."""


async def newest_sessions(line: ServerLine) -> list[SessionInfo]:
    """Return the sessions that the server lists by default.

    Open ones come first, each group newest first. Raises `AgentrtError`.
    """
    return (await _page(line, c.ListSessions(id="")))[0]


async def find_session(line: ServerLine, prefix: str) -> SessionInfo:
    """Return the one session with this id or id prefix.

    Raises `SessionNotFound`, `UsageError` if several sessions match, or the server's error.
    """
    sessions, more = await _page(line, c.ListSessions(id=""))
    matching = {each.session: each for each in sessions if each.session.startswith(prefix)}
    # The first list may have gaps among its old sessions: start after the newest stored one.
    before = next((each.session for each in sessions if each.phase == "stored"), None)
    while more and before is not None and prefix not in matching:
        sessions, more = await _page(
            line, c.ListSessions(id="", before=before, limit=PAGE_SESSIONS)
        )
        matching |= {each.session: each for each in sessions if each.session.startswith(prefix)}
        before = sessions[-1].session if sessions else None
    match [matching[prefix]] if prefix in matching else [*matching.values()]:
        case [one]:
            return one
        case []:
            raise SessionNotFound(f"the server has no session {one_line(prefix)!r}")
        case several:
            names = ", ".join(each.session for each in several[:5])
            raise UsageError(f"several sessions begin with {one_line(prefix)!r}: {names}")


async def _page(line: ServerLine, command: c.ListSessions) -> tuple[list[SessionInfo], bool]:
    """Return a page of sessions, newest first, and True if there are older ones."""
    answer = await line.ask(command)
    return convert(answer.get("sessions"), list[SessionInfo])[::-1], answer.get("more") is True
