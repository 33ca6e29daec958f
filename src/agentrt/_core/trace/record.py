"""The records of a trace, and the format of its file.

Each record is a line of JSON. A record about lines of a pipe, of which many may be read or written
at once, states their size in bytes; the lines follow unchanged.

The first line is a record of kind `trace` with the version of the format; each program that writes
into the file adds its own. A record names its session, and which of that session's processes it is
about, so that a file may contain several sessions and programs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from ..errors import TraceError
from ..process.tap import TraceKind

FORMAT_VERSION: Final = 3
"""Version of the format.

Earlier versions had the lines inside of JSON: in 1 each line in its own record, in 2 the lines of
one read in one record.
"""
_BEGINS: Final = (b'{"t":', b"\n{")
"""Start of a record, also after an incomplete one."""

READ_BYTES: Final = 1024 * 1024
_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


class TraceRecord(Struct, kw_only=True, omit_defaults=True):
    """An event between the host and an agent.

    - `t`: seconds since the Unix epoch; never decreases within the records of one program.
    - `kind`: `received` (a line written by the agent), `sent` (a line to it), `stderr` (a line of
      its stderr); `session` (a session was opened: `agent`, `protocol`); for its process `started`
      (`pid`, `command`, `cwd`, and the names of its variables as `env`), `stdin_closed`,
      `stdout_closed`, `signal` (sent to it: `signal`), `exited` (`code`; negative: the signal that
      ended it); `lost` (`count` records were not kept); `trace` (a program began to write:
      `version` of the format, `by`, and its process as `pid`).
    - `session`, `process`: the session, and the number of its process, starting at 1.
    - `line`: a line without its newline, or `raw`, in base64, if it is not UTF-8. `cut`: it had no
      newline, or `left_out` bytes of its end are missing. `redacted`: secrets in it were replaced.
    """

    t: float
    kind: TraceKind
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
        """The bytes of the line as transferred, except for redactions."""
        if self.raw is not None:
            return base64.b64decode(self.raw)
        return (self.line or "").encode()

    @property
    def text(self) -> str:
        """The line as text; bytes that are not UTF-8 are replaced."""
        return self.line if self.line is not None else self.data.decode(errors="replace")


class Written:
    """A future record of a file: `fields` of an event, or lines, each with its newline."""

    __slots__ = ("cut", "data", "fields", "kind", "left_out", "process", "redacted", "session", "t")

    def __init__(
        self,
        *,
        t: float,
        kind: TraceKind,
        session: str = "",
        process: int = 0,
        data: bytes | memoryview = b"",
        fields: Mapping[str, Any] = _NO_FIELDS,
    ) -> None:
        """Create a record: an event with `fields`, or lines in `data`."""
        self.t = t
        self.kind: TraceKind = kind
        self.session = session
        self.process = process
        self.data = data
        self.fields = fields
        self.cut = self.redacted = False
        self.left_out = 0

    def __len__(self) -> int:
        """Return the number of events."""
        return bytes(self.data).count(b"\n") or 1

    def encoded(self) -> tuple[bytes, bytes, bytes | memoryview]:
        """Return the record in the format of a file, in parts."""
        return _encoder.encode(self._head(len(self.data))), b"\n", self.data

    def records(self) -> list[TraceRecord]:
        """Return a record for each line."""
        return self._head().records(bytes(self.data))

    def _head(self, size: int = 0) -> _RecordHead:
        """Return the JSON part of the record. `size`: the bytes of the lines that follow it."""
        return _RecordHead(
            t=self.t,
            kind=self.kind,
            session=self.session,
            process=self.process,
            cut=self.cut,
            left_out=self.left_out,
            redacted=self.redacted,
            size=size,
            **self.fields,
        )


class _RecordHead(TraceRecord, kw_only=True, omit_defaults=True):
    """The JSON of a record."""

    size: int = 0
    """Number of bytes of the lines that follow."""
    begins: str = ""
    """In format 2: common prefix of the lines in `line`."""

    def records(self, data: bytes = b"") -> list[TraceRecord]:
        """Return a record for each line; `data`: the lines that follow."""
        fields = {name: getattr(self, name) for name in TraceRecord.__struct_fields__}
        if data:
            del fields["line"], fields["raw"]
            return [_of_line(line, fields) for line in data[:-1].split(b"\n")]
        if self.line is None:
            return [TraceRecord(**fields)]
        del fields["line"]
        return [TraceRecord(**fields, line=self.begins + rest) for rest in self.line.split("\n")]


def _of_line(line: bytes, fields: dict[str, Any]) -> TraceRecord:
    """Return the record of one line, as text or, if it is not UTF-8, in base64."""
    try:
        return TraceRecord(**fields, line=line.decode())
    except UnicodeDecodeError:
        return TraceRecord(**fields, raw=base64.b64encode(line).decode())


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_RecordHead)


class TraceReader:
    """Makes records from the bytes of a file.

    Invalid parts are skipped, such as an incomplete record from a full disk.
    """

    def __init__(self, name: str) -> None:
        """Read a file from its beginning. `name` is for error messages."""
        self._name = name
        self._begun = False
        self._data = bytearray()
        self._head: _RecordHead | None = None
        """The record whose lines follow."""

    def feed(self, data: bytes) -> Iterator[TraceRecord]:
        """Yield the records in the data.

        Raises `TraceError` if the first line shows that this is not a trace, or a newer version.
        """
        self._data += data
        while (taken := self._next()) is not None:
            yield from taken

    def end(self) -> Iterator[TraceRecord]:
        """Yield the records after the last newline. Raises `TraceError` if the file was empty."""
        self._head = None  # its lines were never written: there may be records in their place
        yield from self.feed(b"\n")
        if not self._begun:
            raise TraceError(f"{self._name} is not a trace: it is empty")

    def _next(self) -> list[TraceRecord] | None:
        """Return the next records, or None if they are not complete yet."""
        head = self._head
        if head is not None:
            if len(self._data) < head.size:
                return None
            self._head = None
            if not self._is_whole(head.size):
                return []
            lines = bytes(self._data[: head.size])
            del self._data[: head.size]
            return head.records(lines)
        end = self._data.find(b"\n") + 1
        if not end:
            return None
        line = bytes(self._data[:end])
        del self._data[:end]
        return self._line(line) if line.strip() else []

    def _is_whole(self, size: int) -> bool:
        """Return True if these bytes are lines, and a record follows."""
        rest = bytes(self._data[size : size + len(_BEGINS[0])])
        follows = any(begin.startswith(rest) or rest.startswith(begin) for begin in _BEGINS)
        return self._data[size - 1 : size] == b"\n" and follows

    def _line(self, line: bytes) -> list[TraceRecord]:
        """Return the records of one line of a trace file.

        The first line must be a header of a known format, or `TraceError` is raised. Later lines
        that cannot be decoded are skipped: a process that was killed leaves one.
        """
        try:
            head = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            head = None
        if not self._begun:
            if head is None or head.kind != "trace":
                raise TraceError(
                    f"{self._name} is not a trace: its first line has no trace header"
                    " (`--trace FILE`"
                    " makes one)"
                )
            if head.version > FORMAT_VERSION:
                raise TraceError(
                    f"{self._name} is a trace of format {head.version}, written by {head.by};"
                    f" this agentrt reads up to {FORMAT_VERSION}"
                )
            self._begun = True
        if head is None:
            return []
        if head.size > 0:
            self._head = head
            return []
        return head.records()


def trace_files(file: str | Path) -> list[Path]:
    """Return the existing files of a trace, oldest first."""
    newest = Path(file)
    found = [newest]
    while (older := newest.with_name(f"{newest.name}.{len(found)}")).exists():
        found.append(older)
    return found[::-1]


def open_trace_file(part: Path) -> BinaryIO:
    """Open a file of a trace. Raises `TraceError`."""
    try:
        return open(part, "rb")
    except OSError as error:
        raise TraceError(f"{part}: {error.strerror}") from error


def read_part(part: Path) -> Iterator[TraceRecord]:
    """Yield the records in one of a trace's files. Raises `TraceError`."""
    reader = TraceReader(str(part))
    with open_trace_file(part) as file:
        while data := file.read(READ_BYTES):
            yield from reader.feed(data)
    yield from reader.end()


def read_trace(file: str | Path) -> Iterator[TraceRecord]:
    """Yield a trace's records, including those in full files.

    Raises `TraceError`, also if there is no such file.
    """
    for part in trace_files(file):
        yield from read_part(part)
