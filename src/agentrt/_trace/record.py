"""A trace's records, and the file they stand in: NDJSON, a record a line.

The first line is a record of kind `trace` with the format's version; each program that writes into
the file adds one of its own. A record names its session, and which of that session's processes it
is about, so that sessions and programs may be mixed in one file.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from .._errors import TraceError

VERSION: Final = 1
"""Of the format."""

Kind: TypeAlias = Literal[
    "trace",
    "session",
    "started",
    "received",
    "sent",
    "stderr",
    "stdin_closed",
    "stdout_closed",
    "signal",
    "exited",
    "lost",
]


class TraceRecord(Struct, kw_only=True, omit_defaults=True):
    """One thing that happened between the host and an agent.

    - `t`: when, in seconds since the Unix epoch; of one program's records none goes back.
    - `kind`: `received` (a line that the agent wrote), `sent` (a line to it), `stderr` (a line of
      its stderr); `session` (one was opened: `agent`, `protocol`); of its process `started` (`pid`,
      `command`, `cwd`, and the names of its variables as `env`), `stdin_closed`, `stdout_closed`,
      `signal` (sent to it: `signal`), `exited` (`code`; negative: the signal that ended it);
      `lost` (`count` records were not kept); `trace` (a program began to write: `version` of the
      format, `by`, and its process as `pid`).
    - `session`, `process`: of which session, and which of its processes, from 1 on.
    - `line`: a line without its newline, or `raw`, in base64, if it is not UTF-8. `cut`: it had no
      newline, or `left_out` bytes of its end are not here. `redacted`: secrets in it were replaced.
    """

    t: float
    kind: Kind
    session: str = ""
    process: int = 0
    line: str | None = None
    raw: str | None = None
    cut: bool = False
    left_out: int = 0
    redacted: bool = False
    agent: str = ""
    protocol: str = ""
    pid: int | None = None
    command: list[str] = []
    cwd: str = ""
    env: list[str] = []
    signal: str = ""
    code: int | None = None
    count: int = 0
    version: int = 0
    by: str = ""

    @property
    def data(self) -> bytes:
        """The line's bytes, as they went over the wire but for what was redacted."""
        if self.raw is not None:
            return base64.b64decode(self.raw)
        return (self.line or "").encode()

    @property
    def text(self) -> str:
        """The line for reading: what is not UTF-8 is replaced."""
        return self.line if self.line is not None else self.data.decode(errors="replace")


encode: Final = msgspec.json.Encoder().encode_lines
_decoder: Final = msgspec.json.Decoder(TraceRecord)


class TraceReader:
    """Makes records of a file's lines. What is no record (a disk that was full leaves half of one)
    is left out and counted."""

    def __init__(self, name: str) -> None:
        self.damaged = 0
        self._name = name
        self._begun = False

    def record(self, line: bytes) -> TraceRecord | None:
        """Raises `TraceError` if the first line says that this is no trace, or a newer one."""
        if not line.strip():
            return None
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            record = None
        if not self._begun:
            if record is None or record.kind != "trace":
                raise TraceError(
                    f"{self._name} is no trace: its first line does not say so (`--trace FILE`"
                    " makes one)"
                )
            if record.version > VERSION:
                raise TraceError(
                    f"{self._name} is a trace of format {record.version}, written by {record.by};"
                    f" this agentrt reads up to {VERSION}"
                )
            self._begun = True
        self.damaged += record is None
        return record

    def end(self) -> None:
        """Raises `TraceError` if there was nothing."""
        if not self._begun:
            raise TraceError(f"{self._name} is no trace: it is empty")


def parts(file: str | Path) -> list[Path]:
    """The files of a trace that there are, the oldest first."""
    newest = Path(file)
    found = [newest]
    while (older := newest.with_name(f"{newest.name}.{len(found)}")).exists():
        found.append(older)
    return found[::-1]


def opened_trace(part: Path) -> BinaryIO:
    """Raises `TraceError`."""
    try:
        return open(part, "rb")
    except OSError as error:
        raise TraceError(f"{part}: {error.strerror}") from error


def read_part(part: Path) -> Iterator[TraceRecord]:
    """The records of one of a trace's files. Raises `TraceError`."""
    reader = TraceReader(str(part))
    with opened_trace(part) as lines:
        for line in lines:
            if (record := reader.record(line)) is not None:
                yield record
    reader.end()


def read_trace(file: str | Path) -> Iterator[TraceRecord]:
    """A trace's records, with those of the files that were full. Raises `TraceError`, also where
    there is no such file."""
    for part in parts(file):
        yield from read_part(part)
