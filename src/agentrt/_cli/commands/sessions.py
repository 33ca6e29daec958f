"""`agentrt sessions`: the sessions that agentrt has stored; `agent_sessions.py` has those that the
agents have stored themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from ...config import Config
from ...errors import AgentrtError, SessionNotFound, StoreError
from ...storage import Repaired, StoreAddress, open_store_file, repair, writing
from ...store import StoreEntry
from ..exit_status import UsageError, exit_code
from ..options import Work, chosen_agents
from ..printing import (
    as_date,
    as_size,
    count_of_sessions,
    print_document,
    print_error,
    print_json,
    print_table,
)
from ..repl.export import ExportFormat, exported
from ..stores import ID_CHARS, OFF, StoredRef, find, listed, load, read_all, searched, store_files
from ..text import one_line, plain
from . import agent_sessions


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` or `AgentNotFound`."""
    agents = chosen_agents(options, config)
    files = [] if agents else store_files(options.store, config)
    match options.verb:
        case "list" if agents or options.store == OFF:
            cwd = None if options.all else options.cwd
            return partial(agent_sessions.show_list, agents, config, cwd, as_json=options.json)
        case "list":
            cwd = None if options.all else os.path.abspath(options.cwd)
            return partial(show_list, files, cwd, options.limit, as_json=options.json)
        case "search":
            words = " ".join(options.words)
            return partial(search, files, words, options.limit, as_json=options.json)
        case "repair":
            return partial(mend, files)
        case "vacuum":
            return partial(vacuum, files)
        case "delete":
            id = options.session
            otherwise = partial(agent_sessions.delete, agents, config, options.cwd, id)
            return partial(delete, files, options, otherwise)
        case _:  # "show" and "export"
            id = options.session
            format: ExportFormat = getattr(options, "format", "markdown")
            otherwise = partial(agent_sessions.export, agents, config, options.cwd, id, format)
            return partial(export, files, id, format, otherwise)


class ListedSession(StoreEntry, frozen=True, kw_only=True, omit_defaults=True):
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
        ref = await trio.to_thread.run_sync(find, files, id)
        stored = await trio.to_thread.run_sync(load, ref)
        text = exported(stored.snapshot(ref.entry.session), format)
    except SessionNotFound:
        return await otherwise()
    except AgentrtError as error:
        return print_error(error)
    print_document(text, format)
    return 0


async def delete(
    files: list[StoreAddress], options: argparse.Namespace, otherwise: Callable[[], Awaitable[int]]
) -> int:
    """Delete one session; returns the exit status.

    `options.session`: the beginning of its id, and then the id, for the audit log. `otherwise` is
    called if no such session is stored.
    """

    def work() -> StoredRef:
        ref = find(files, options.session)
        options.session = ref.entry.session
        session = ref.entry.session
        for file, entry in read_all(files, lambda reader: reader.find(session))[0]:
            if entry.session == session:
                with writing(file) as backend:
                    backend.delete(session)
        return ref

    try:
        ref = await trio.to_thread.run_sync(work)
    except SessionNotFound:
        return await otherwise()
    except AgentrtError as error:
        return print_error(error)
    print(f"deleted {one_line(ref.entry.session)}")
    if ref.entry.agent_session is not None:
        own = one_line(ref.entry.agent_session)
        print(f"({one_line(ref.entry.agent)} may have stored it, too, as {own})")
    return 0


async def vacuum(files: list[StoreAddress]) -> int:
    """Release unused space in files; returns the exit status."""

    def work(file: Path) -> tuple[int, int]:
        before = file.stat().st_size
        with open_store_file(file) as backend:
            backend.vacuum()
        return before, file.stat().st_size

    status = 0
    for file in files:
        try:
            if not isinstance(file, Path):
                raise UsageError(f"{file}: PostgreSQL does this by itself (autovacuum)")
            if not file.is_file():
                raise StoreError(f"the store {file} does not exist")
            before, after = await trio.to_thread.run_sync(work, file)
        except AgentrtError as error:
            status = print_error(error)
        else:
            print(f"{plain(str(file))}: {as_size(before)} before, {as_size(after)} now")
    return status


async def mend(files: list[StoreAddress]) -> int:
    """Set damaged files aside and copy their readable part to new ones; returns the exit status."""
    status = 0
    for file in files:
        try:
            if not isinstance(file, Path):
                raise UsageError(
                    f"{file}: `repair` applies to files; for PostgreSQL, restore a backup"
                )
            done = await trio.to_thread.run_sync(repair, file)
        except AgentrtError as error:
            status = print_error(error)
        else:
            print(f"{plain(str(file))}: {_words(done)}")
            if done.aside is not None and not done.sessions:
                status = 1
    return status


def _words(done: Repaired) -> str:
    if done.aside is None:
        return "not damaged"
    words = f"{count_of_sessions(done.sessions)} saved"
    if done.parts:
        words += f", {done.parts} of them incomplete"
    if done.lost:
        words += f", {done.lost} lost"
    return f"{words}; the damaged file is {plain(str(done.aside))}"


def _print(
    found: list[StoredRef], errors: list[StoreError], none: str, *, folders: bool, as_json: bool
) -> int:
    """Print the sessions that were found, then the stores that could not be read.

    `none`: the message if there are no sessions. `folders`: with a column for the folder. Returns
    the exit status; a store that could not be read makes it an error, although the others are
    shown.
    """
    if as_json:
        entries = [
            ListedSession(
                **msgspec.structs.asdict(each.entry), store=str(each.file), snippet=each.snippet
            )
            for each in found
        ]
        print_json(entries)
    elif found:
        head = ("UPDATED", "AGENT", "SESSION", "TITLE") + (("FOLDER",) if folders else ())
        print_table(head, [_row(each, folders=folders) for each in found])
        for each in found:
            if each.snippet:
                print(f"\n{one_line(each.entry.session[:ID_CHARS])}  {one_line(each.snippet, 300)}")
        print("\nResume one: agentrt --resume SESSION")
    elif not errors:
        print(f"agentrt: {none}", file=sys.stderr)
    for error in errors:
        print_error(error)
    return exit_code(errors[0]) if errors else 0


def _row(ref: StoredRef, *, folders: bool) -> tuple[str, ...]:
    entry = ref.entry
    title = one_line(entry.title or entry.prompt, 60) or "-"
    row = (as_date(entry.updated), entry.agent, entry.session[:ID_CHARS], title)
    return (*row, entry.cwd) if folders else row
