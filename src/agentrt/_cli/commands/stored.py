"""`agentrt sessions`: the sessions that agentrt itself has stored; `sessions.py` has the agents'
own.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from ..._errors import AgentrtError, SessionNotFound, StoreError
from ..._journal.address import PostgresAddress, StoreAddress
from ..._journal.base import StoreEntry
from ..._journal.opening import writing
from ..._journal.repair import Repaired, repair
from ..._journal.sqlite import writing as writing_file
from ..._journal.store import snapshot_of
from ..kept import Kept
from ..repl.export import ExportFormat, exported
from ..setup import UsageError, exit_code
from ..stores import SHORT, find, listed, load, read_all, searched
from ..text import escaped, one_line, plain
from .agents import print_table
from .sessions import failed, print_document, when


class Listed(StoreEntry, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of a list for programs. `store` is the file, `snippet` the text around a search
    hit.
    """

    store: str
    snippet: str = ""


async def show_list(
    files: list[StoreAddress], cwd: str | None, limit: int, *, as_json: bool
) -> int:
    """Print the latest sessions of a directory, or of all; returns the exit status."""
    found, errors = await trio.to_thread.run_sync(partial(listed, files, cwd=cwd, limit=limit))
    where = "" if cwd is None else " in this folder (--all: in any; --agent NAME: by an agent)"
    return _print(
        found, errors, f"no session is stored{where}", folders=cwd is None, as_json=as_json
    )


async def search(files: list[StoreAddress], words: str, limit: int, *, as_json: bool) -> int:
    """Print the latest sessions that contain all the words; returns the exit status."""
    found, errors = await trio.to_thread.run_sync(partial(searched, files, words, limit=limit))
    return _print(found, errors, "nothing was found", folders=True, as_json=as_json)


async def export(
    files: list[StoreAddress],
    id: str,
    format: ExportFormat,
    otherwise: Callable[[], Awaitable[int]],
) -> int:
    """Print one session; returns the exit status.

    `otherwise` is called if no such session is stored.
    """
    try:
        kept = await trio.to_thread.run_sync(find, files, id)
        stored = await trio.to_thread.run_sync(load, kept)
        text = exported(snapshot_of(kept.entry.session, stored), format)
    except SessionNotFound:
        return await otherwise()
    except AgentrtError as error:
        return failed(error)
    print_document(text, format)
    return 0


async def delete(
    files: list[StoreAddress], id: str, otherwise: Callable[[], Awaitable[int]]
) -> int:
    """Delete one session; returns the exit status.

    `otherwise` is called if no such session is stored.
    """

    def work() -> Kept:
        kept = find(files, id)
        session = kept.entry.session
        for file, entry in read_all(files, lambda reader: reader.find(session))[0]:
            if entry.session == session:
                with writing(file) as backend:
                    backend.delete(session)
        return kept

    try:
        kept = await trio.to_thread.run_sync(work)
    except SessionNotFound:
        return await otherwise()
    except AgentrtError as error:
        return failed(error)
    print(f"deleted {one_line(kept.entry.session)}")
    if kept.entry.agent_session is not None:
        own = one_line(kept.entry.agent_session)
        print(f"(what {one_line(kept.entry.agent)} itself may keep of it is {own})")
    return 0


async def vacuum(files: list[StoreAddress]) -> int:
    """Release unused space in files; returns the exit status."""

    def work(file: Path) -> tuple[int, int]:
        before = file.stat().st_size
        with writing_file(file) as backend:
            backend.vacuum()
        return before, file.stat().st_size

    status = 0
    for file in files:
        try:
            if isinstance(file, PostgresAddress):
                raise UsageError(f"{file}: PostgreSQL does this by itself (autovacuum)")
            if not file.is_file():
                raise StoreError(f"there is no store {file}")
            before, after = await trio.to_thread.run_sync(work, file)
        except AgentrtError as error:
            status = failed(error)
        else:
            print(f"{plain(str(file))}: {size(before)} before, {size(after)} now")
    return status


async def mend(files: list[StoreAddress]) -> int:
    """Set damaged files aside and copy their readable part to new ones; returns the exit status."""
    status = 0
    for file in files:
        try:
            if isinstance(file, PostgresAddress):
                raise UsageError(
                    f"{file}: `repair` is for files; PostgreSQL's own is a restored backup"
                )
            done = await trio.to_thread.run_sync(repair, file)
        except AgentrtError as error:
            status = failed(error)
        else:
            print(f"{plain(str(file))}: {_words(done)}")
            if done.aside is not None and not done.sessions:
                status = 1
    return status


def size(number: int) -> str:
    """Return a number of bytes as text."""
    value, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def _words(done: Repaired) -> str:
    if done.aside is None:
        return "not damaged"
    words = f"{sessions(done.sessions)} saved"
    if done.parts:
        words += f", something is missing in {done.parts} of them"
    if done.lost:
        words += f", {done.lost} lost"
    return f"{words}; the damaged file is {plain(str(done.aside))}"


def sessions(number: int) -> str:
    """Return a number of sessions as text."""
    return "1 session" if number == 1 else f"{number} sessions"


def _print(
    found: list[Kept], errors: list[StoreError], none: str, *, folders: bool, as_json: bool
) -> int:
    if as_json:
        entries = [
            Listed(**msgspec.structs.asdict(each.entry), store=str(each.file), snippet=each.snippet)
            for each in found
        ]
        print(escaped(msgspec.json.format(msgspec.json.encode(entries)).decode()))
    elif found:
        head = ("UPDATED", "AGENT", "SESSION", "TITLE") + (("FOLDER",) if folders else ())
        print_table(head, [_row(each, folders=folders) for each in found])
        for each in found:
            if each.snippet:
                print(f"\n{one_line(each.entry.session[:SHORT])}  {one_line(each.snippet, 300)}")
        print("\nTo go on with one: agentrt --resume SESSION")
    elif not errors:
        print(f"agentrt: {none}", file=sys.stderr)
    for error in errors:
        failed(error)
    return exit_code(errors[0]) if errors else 0


def _row(kept: Kept, *, folders: bool) -> tuple[str, ...]:
    entry = kept.entry
    title = one_line(entry.title or entry.prompt, 60) or "-"
    row = (when(entry.updated), entry.agent, entry.session[:SHORT], title)
    return (*row, entry.cwd) if folders else row
