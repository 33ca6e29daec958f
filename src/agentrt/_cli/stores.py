"""The stores with the user's sessions.

`agentrt serve` writes one, and interactive sessions in terminals write others; commands that list
or find sessions read all of them. Reading needs no lock, so it works while another process writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from .._config import Config
from .._errors import SessionNotFound, StoreError
from .._journal.address import PostgresAddress, StoreAddress, is_server, server_of
from .._journal.base import Outdated, SessionQuery
from .._journal.base import Stored as Loaded
from .._journal.opening import ReportingReader, reader_of, writing
from .._session.agent_sessions import AgentSession
from .kept import Kept
from .setup import UsageError
from .state import state_folder
from .text import one_line

T = TypeVar("T")

OFF: Final = "off"
"""The value of `--store` for no store."""


SHORT: Final = 8
"""Characters of an id that are shown; a prefix is enough for every command that takes an id."""


class Past(AgentSession, kw_only=True):
    """An earlier session. `kept` is its stored form, if it is stored."""

    kept: Kept | None = None


def server_file() -> Path:
    """Return the file in which `agentrt serve` stores its sessions."""
    return state_folder() / "journal.db"


def store_files(said: str | None, config: Config) -> list[StoreAddress]:
    """Return the existing stores.

    `said`: the store that `--store` names, or `off`.
    """
    if said is not None:
        one = named_store(said)
        return [] if one is None else [one]
    named = [named_store(config.serve.store or "sqlite"), named_store(config.terminal.store or OFF)]
    named += sorted(state_folder().glob("terminal*.db"))
    return [
        each
        for each in dict.fromkeys(named)
        if each is not None and (isinstance(each, PostgresAddress) or each.is_file())
    ]


def named_store(said: str) -> StoreAddress | None:
    """Return the store that `--store` names; None for no store.

    Raises `UsageError`.
    """
    if said in (OFF, "memory"):
        return None
    if is_server(said):
        try:
            return server_of(said)
        except ValueError as error:
            raise UsageError(f"--store: {error}") from None
    path = server_file() if said == "sqlite" else Path(said.removeprefix("sqlite:"))
    if not path.name:
        raise UsageError(f"--store takes a file, a URL of PostgreSQL or `off`, not {said!r}")
    if path.is_dir():
        raise UsageError(f"--store takes a file, and {path} is a folder")
    return path


def read(file: StoreAddress, look: Callable[[ReportingReader], T]) -> T:
    """Open a store for reading and return the result of `look`.

    An outdated store is updated first. Raises `StoreError`.
    """
    try:
        reader = reader_of(file)
    except Outdated:
        with writing(file):
            pass  # opening it updates its schema
        reader = reader_of(file)
    try:
        return look(reader)
    finally:
        reader.close()


def read_all(
    files: Iterable[StoreAddress], look: Callable[[ReportingReader], list[T]]
) -> tuple[list[tuple[StoreAddress, T]], list[StoreError]]:
    """Read several stores; returns the results, and the errors of those that could not be read."""
    found: list[tuple[StoreAddress, T]] = []
    errors: list[StoreError] = []
    for file in files:
        try:
            found += [(file, each) for each in read(file, look)]
        except StoreError as error:
            errors.append(error)
    return found, errors


def listed(
    files: Iterable[StoreAddress], *, cwd: str | None, limit: int | None
) -> tuple[list[Kept], list[StoreError]]:
    """Return the latest sessions of a directory, and the errors of unreadable stores.

    `cwd`: None for all directories. `limit`: None for all sessions.
    """
    query = SessionQuery(limit=limit, cwd=cwd)
    found, errors = read_all(files, lambda reader: reader.sessions(query))
    return _latest((Kept(file=file, entry=entry) for file, entry in found), limit), errors


def searched(
    files: Iterable[StoreAddress], words: str, *, limit: int
) -> tuple[list[Kept], list[StoreError]]:
    """Return the latest sessions that contain all the words, and the errors of unreadable
    stores.
    """
    found, errors = read_all(files, lambda reader: reader.search(words, limit))
    hits = (Kept(file=file, entry=hit.entry, snippet=hit.snippet) for file, hit in found)
    return _latest(hits, limit), errors


def latest(files: Iterable[StoreAddress], cwd: str, agent: str | None = None) -> Kept:
    """Return the latest session of a directory, or of one agent in it.

    Raises `SessionNotFound` or `StoreError`.
    """
    query = SessionQuery(cwd=cwd, agent=agent, limit=1)
    found, errors = read_all(files, lambda reader: reader.sessions(query))
    if not found and errors:
        raise errors[0]
    for kept in _latest((Kept(file=file, entry=entry) for file, entry in found), 1):
        return kept
    raise SessionNotFound(f"no session is stored of {cwd}")


def find(files: Iterable[StoreAddress], prefix: str, agent: str | None = None) -> Kept:
    """Return the one session with this id prefix, or else with this prefix of the agent's own id.

    `agent` restricts the search to one agent. Raises `SessionNotFound`, `UsageError` if several
    sessions match, or `StoreError`.
    """
    found, errors = read_all(files if prefix else (), lambda reader: reader.find(prefix))
    kept = _latest((Kept(file=file, entry=entry) for file, entry in found), len(found))
    kept = [each for each in kept if agent in (None, each.entry.agent)]
    if any(each.entry.session.startswith(prefix) for each in kept):
        kept = [each for each in kept if each.entry.session.startswith(prefix)]
    exact = [each for each in kept if prefix in (each.entry.session, each.entry.agent_session)]
    match exact[:1] or kept:
        case [one]:
            return one
        case []:
            if errors:
                raise errors[0]
            raise SessionNotFound(f"no session {one_line(prefix)!r} is stored")
        case several:
            names = ", ".join(one_line(each.entry.session) for each in several[:5])
            raise UsageError(f"several sessions begin with {one_line(prefix)!r}: {names}")


def load(kept: Kept) -> Loaded:
    """Load everything that is stored of a session.

    Raises `AgentrtError`.
    """
    stored = read(kept.file, lambda reader: reader.load(kept.entry.session))
    if stored is None:
        raise SessionNotFound(f"no session {kept.entry.session!r} is stored any more")
    return stored


def _latest(found: Iterable[Kept], limit: int | None) -> list[Kept]:
    """Sort sessions by age, newest first; of a session in several files, only the newest counts."""
    newest: dict[str, Kept] = {}
    for each in found:
        known = newest.get(each.entry.session)
        if known is None or known.entry.updated < each.entry.updated:
            newest[each.entry.session] = each
    return sorted(newest.values(), key=lambda each: each.entry.updated, reverse=True)[:limit]
