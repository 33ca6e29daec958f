"""`agentrt trace show`: a trace as a conversation."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import trio
from msgspec import Struct

from ...config import Config
from ...errors import TraceError
from ...tracing import (
    TraceConversation,
    TraceReader,
    TraceRecord,
    TraceRow,
    open_trace_file,
    read_trace,
    trace_files,
)
from ..options import Work
from ..text import plain
from ..tracing import row_text

FOLLOW_INTERVAL_S: Final = 0.2
"""Seconds between two checks of a followed file."""
PAUSE_S: Final = 0.5
"""Seconds of a pause after which a text continues in a new row."""


class TraceFilter(Struct, frozen=True, kw_only=True):
    """The part of a trace that is shown."""

    session: str = ""
    """A prefix of the session id."""
    odd: bool = False
    text: str = ""
    """Text that one of the row's lines must contain."""
    whole: bool = False
    """True to show the raw lines."""

    def takes(self, row: TraceRow) -> bool:
        """Return True if a row is shown."""
        if self.session and not row.session.startswith(self.session):
            return False
        if self.odd and not row.odd:
            return False
        return not self.text or any(self.text in line for line in row.lines)


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand."""
    filter = TraceFilter(
        session=options.session, odd=options.odd, text=options.grep, whole=options.whole
    )
    return partial(show_trace, options.file, filter, late=options.late, follow=options.follow)


async def show_trace(file: str, filter: TraceFilter, *, late: float, follow: bool) -> int:
    """Print a trace as a conversation; returns the exit status.

    `follow`: keep printing new records, without end.
    """
    try:
        if follow:
            await _follow(file, _Printer(filter), TraceConversation(late=late))
        else:
            await _show(file, filter, TraceConversation(late=late))
    except TraceError as error:
        print(f"agentrt: {plain(str(error))}", file=sys.stderr)
        return 2
    return 0


async def _follow(file: str, printer: _Printer, conversation: TraceConversation) -> None:
    """Print the rows of new records, and unfinished rows after a moment without records."""
    async for record in _followed(Path(file)):
        for row in conversation.flush() if record is None else conversation.feed(record):
            printer.show(row, followed=True)


async def _show(file: str, filter: TraceFilter, conversation: TraceConversation) -> None:
    """Print a complete trace, with a summary. It is read in a thread, because it may be large."""
    printer = _Printer(filter)

    def read() -> list[TraceRow]:
        rows = [row for record in read_trace(file) for row in conversation.feed(record)]
        rows += conversation.flush()
        conversation.end()
        return rows

    rows = await trio.to_thread.run_sync(read)
    sessions = _known(file, filter, (row.session for row in rows))
    for row in rows:
        printer.show(row)
    odd = sum(bool(row.odd) for row in rows)
    print(
        f"\n{sum(row.count for row in rows)} records of {len(sessions)} session(s); "
        + (f"{odd} odd ones" + ("" if filter.odd else " (--odd)") if odd else "nothing odd")
    )


def _known(file: str, filter: TraceFilter, sessions: Iterable[str]) -> list[str]:
    """Return the sessions of a trace.

    Raises `TraceError` if none of them matches the filter.
    """
    known = [session for session in dict.fromkeys(sessions) if session]
    if not any(session.startswith(filter.session) for session in known) and filter.session:
        there = ", ".join(known) or "none"
        raise TraceError(f"{file}: no session begins with {filter.session!r}; there are: {there}")
    return known


async def replay_trace(file: str, filter: TraceFilter, *, speed: float) -> int:
    """Print a trace at its original pace, `speed` times as fast; returns the exit status."""
    printer, conversation, before = _Printer(filter), TraceConversation(), None
    try:
        records = await trio.to_thread.run_sync(lambda: list(read_trace(file)))
        _known(file, filter, (record.session for record in records))
        for record in records:
            taken = not filter.session or record.session.startswith(filter.session)
            if record.session and taken:
                if before is not None and record.t > before:
                    for row in conversation.flush() if record.t - before > PAUSE_S else ():
                        printer.show(row, followed=True)
                    await trio.sleep((record.t - before) / speed)
                before = record.t
                for row in conversation.feed(record):
                    printer.show(row, followed=True)
        for row in conversation.flush():
            printer.show(row)
    except TraceError as error:
        print(f"agentrt: {plain(str(error))}", file=sys.stderr)
        return 2
    return 0


class _Printer:
    """Prints rows, with a heading where the session or its process changes."""

    def __init__(self, filter: TraceFilter) -> None:
        self._filter = filter
        self._of = ("", 0)

    def show(self, row: TraceRow, *, followed: bool = False) -> None:
        """Print a row if the filter takes it. `followed`: flush, as the output may be a pipe."""
        if not self._filter.takes(row):
            return
        if row.session and (row.session, row.process) != self._of:
            self._of = (row.session, row.process)
            print(f"── session {plain(row.session[:12])}, process {row.process}", flush=followed)
        print(row_text(row), flush=followed)
        if self._filter.whole:
            for line in row.lines:
                print(f"      {plain(line)}", flush=followed)


async def _followed(path: Path) -> AsyncIterator[TraceRecord | None]:
    """Yield records as they are written, including those of rotated files; None if there is no new
    one.
    """
    files = await trio.to_thread.run_sync(_opened, path, None)
    try:
        while True:
            file, reader = files[0], TraceReader(str(path))
            while len(files) == 1:
                for record in reader.feed(await trio.to_thread.run_sync(file.read)):
                    yield record
                yield None
                await trio.sleep(FOLLOW_INTERVAL_S)
                if _is_another(path, file):
                    files += await trio.to_thread.run_sync(_opened, path, file)
            for record in reader.feed(await trio.to_thread.run_sync(file.read)):
                yield record  # written between the last check and the rotation
            files.pop(0).close()
    finally:
        for file in files:
            file.close()


def _opened(path: Path, after: BinaryIO | None) -> list[BinaryIO]:
    """Open the files of a trace, oldest first.

    With `after`, return only the files that were started after that one; none while files are being
    renamed. Raises `TraceError` if there is no trace.
    """
    named = trace_files(path)
    files: list[BinaryIO] = []
    try:
        files += map(open_trace_file, named)
        if after is None:
            return files
        found = list(map(_identity, files))
        now = [_identity(part) for part in trace_files(path)]
        if found == now and len(set(found)) == len(found):
            before = _identity(after)
            first = found.index(before) + 1 if before in found else 0
            for file in files[:first]:
                file.close()
            return files[first:]
    except (OSError, TraceError):
        if after is None:
            raise
    for file in files:
        file.close()
    return []


def _identity(file: BinaryIO | Path) -> tuple[int, int]:
    """Return the numbers that identify a file, also after it was renamed."""
    found = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
    return found.st_ino, found.st_dev


def _is_another(path: Path, file: BinaryIO) -> bool:
    """Return True if the file at this path is a different one."""
    try:
        return _identity(path) != _identity(file)
    except FileNotFoundError:
        return False
