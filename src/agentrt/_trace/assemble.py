"""Pieces of a wire to records: whole lines, without secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Final

from .._process.inherited import has_secret_name
from .record import Kind, TraceRecord
from .redact import Redaction
from .tap import Piece

LONGEST: Final = 8 * 1024 * 1024
"""Bytes that are kept of a line."""

_DATA: Final = frozenset({"received", "sent", "stderr"})
_ENDED: Final[dict[Kind, Kind]] = {"stdout_closed": "received", "exited": "stderr"}
"""What ends with what."""
_Pipe = tuple[str, int, Kind]


class _Begun:
    """A line whose end has not come."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.left_out = 0

    def add(self, data: bytes) -> None:
        room = LONGEST - len(self.data)
        self.data += data[:room]
        self.left_out += max(0, len(data) - room)


class Assembler:
    """Makes records of pieces, of any number of sessions. A line's time is that of its end."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._begun: dict[_Pipe, _Begun] = {}

    def records(self, pieces: Iterable[Piece]) -> Iterator[TraceRecord]:
        for piece in pieces:
            if piece.kind in _DATA:
                yield from self._lines(piece)
            else:
                yield from self._event(piece)

    def rest(self, t: float) -> Iterator[TraceRecord]:
        """The lines that will never end."""
        for pipe in list(self._begun):
            yield from self._broken_off(pipe, t)

    def _event(self, piece: Piece) -> Iterator[TraceRecord]:
        fields = dict(piece.fields or {})
        if (pipe := _ENDED.get(piece.kind)) is not None:
            yield from self._broken_off((piece.session, piece.process, pipe), piece.t)
        if piece.kind == "started":
            env = fields["env"]
            self._redaction.know(value for name, value in env.items() if has_secret_name(name))
            fields["env"] = sorted(env)
            fields["command"] = self._redaction.command(fields["command"])
        yield TraceRecord(
            t=piece.t, kind=piece.kind, session=piece.session, process=piece.process, **fields
        )

    def _broken_off(self, pipe: _Pipe, t: float) -> Iterator[TraceRecord]:
        begun = self._begun.pop(pipe, None)
        if begun is not None:
            session, process, kind = pipe
            piece = Piece(t, session, process, kind)
            yield self._record(piece, bytes(begun.data), left_out=begun.left_out, cut=True)

    def _lines(self, piece: Piece) -> Iterator[TraceRecord]:
        pipe: _Pipe = (piece.session, piece.process, piece.kind)
        data = piece.data
        begun = self._begun.get(pipe)
        if begun is not None:
            first, newline, data = data.partition(b"\n")
            begun.add(first)
            if not newline:
                return
            del self._begun[pipe]
            left_out = begun.left_out
            yield self._record(piece, bytes(begun.data), left_out=left_out, cut=left_out > 0)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._begun[pipe] = begun = _Begun()
            begun.add(data[whole:])
        if not whole:
            return
        try:
            before = data[: whole - 1].decode()
        except UnicodeDecodeError:
            for line in data[: whole - 1].split(b"\n"):
                yield self._record(piece, line)
            return
        after = self._redaction.text(before)
        t, kind, session, process = piece.t, piece.kind, piece.session, piece.process
        changed = () if after == before else before.split("\n")
        for number, text in enumerate(after.split("\n")):
            redacted = bool(changed) and text != changed[number]
            yield TraceRecord(
                t=t, kind=kind, session=session, process=process, line=text, redacted=redacted
            )

    def _record(
        self, piece: Piece, data: bytes, *, left_out: int = 0, cut: bool = False
    ) -> TraceRecord:
        """One line, of any bytes."""
        before = data.decode(errors="surrogateescape")
        text = self._redaction.text(before)
        record = TraceRecord(
            t=piece.t,
            kind=piece.kind,
            session=piece.session,
            process=piece.process,
            cut=cut,
            left_out=left_out,
            redacted=text != before,
        )
        try:
            text.encode()
            record.line = text
        except UnicodeEncodeError:
            record.raw = base64.b64encode(text.encode(errors="surrogateescape")).decode()
        return record
