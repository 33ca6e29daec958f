"""Making records of pieces: lines from data that is cut anywhere, without the secrets in them.

Pieces of several pipes arrive mixed. Each pipe (a session, a process, a direction) has its
incomplete last line in `_begun`, and is between the lines of a private key if it is in `_keys`.

Looking for secrets is the expensive part. So whole pieces, and groups of them, are first tested
together (`Redaction.passes`); only where that fails, halves and at last single lines are scanned. A
record has many lines as long as they contain nothing to redact. The functions that scan are
generators that yield None from time to time, so that their caller can let other tasks run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from ..process.inherited import has_secret_name
from ..process.tap import Piece, PieceKind, TraceKind
from .record import Written
from .redact import Redaction, begins_key
from .secrets import REDACTED

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""Maximum number of bytes kept of a line."""
MAX_SCAN_BYTES: Final = 64 * 1024
"""Maximum number of bytes of several reads that are scanned together."""
SCAN_STEP_BYTES: Final = 8 * 1024
"""Bytes of lines with possible secrets after which other tasks may run."""
MAX_SINGLE_LINES: Final = 4
"""Number of lines that are scanned one by one if there may be a secret in them."""

_OF_A_KEY: Final = re.compile(rb"[\w+/=:,. -]*\r?")
"""Any line of a multi-line key; the last one marks its end."""
MAX_KEY_LINES: Final = 400
"""Maximum number of lines of a key."""

_DATA: Final = frozenset({"received", "sent", "stderr"})
_ENDED: Final[dict[PieceKind, TraceKind]] = {"stdout_closed": "received", "exited": "stderr"}
"""The pipe that ends with each of these events."""
_Pipe = tuple[str, int, PieceKind]


class _IncompleteLine:
    """An incomplete line."""

    def __init__(self) -> None:
        """Begin an empty line."""
        self.data = bytearray()
        self.left_out = 0

    def add(self, data: bytes) -> None:
        """Add data, of which only the first `MAX_LINE_BYTES` are kept."""
        room = MAX_LINE_BYTES - len(self.data)
        self.data += data[:room]
        self.left_out += max(0, len(data) - room)


class Assembler:
    """Makes records from pieces of any number of sessions.

    The time of a line is the time of its end. `together`: maximum size of the lines in one record.
    """

    def __init__(self, redaction: Redaction, together: int = MAX_LINE_BYTES) -> None:
        """Create an assembler for one file or one reader."""
        self._redaction = redaction
        self._together = together
        self._begun: dict[_Pipe, _IncompleteLine] = {}
        self._keys: dict[_Pipe, int] = {}
        """Maximum number of remaining lines of an unfinished key."""
        self._worked = 0

    def records(self, pieces: Iterable[Piece]) -> Iterator[Written | None]:
        """Yield the records of the pieces, and None from time to time.

        At each None, the caller should let other tasks run.
        """
        for are_data, some in groupby(pieces, _is_data):
            if are_data:
                for portion in _portions(some):
                    yield from self._portion(portion)
            else:
                for piece in some:
                    yield from self._event(piece)

    def _portion(self, pieces: list[Piece]) -> Iterator[Written | None]:
        """Yield the records of neighbouring pieces, which are tested for secrets together."""
        several = len(pieces) > 1
        data = b"\n".join([piece.data for piece in pieces]) if several else pieces[0].data
        passes = len(data) <= MAX_SCAN_BYTES and self._redaction.passes(data)
        for piece in pieces:
            yield from self._lines(piece, passes)

    def flush(self, t: float) -> Iterator[Written | None]:
        """Yield the incomplete lines, which will never end."""
        for pipe in list(self._begun):
            yield from self._broken_off(pipe, t)

    def _event(self, piece: Piece) -> Iterator[Written | None]:
        """Yield the record of an event, after the line that it breaks off.

        The environment of a started process names more secrets; only the names of its variables are
        recorded.
        """
        fields = dict(piece.fields or {})
        if piece.kind == "secrets":
            self._redaction.add_secrets(fields["values"])
            return
        if (pipe := _ENDED.get(piece.kind)) is not None:
            yield from self._broken_off((piece.session, piece.process, pipe), piece.t)
        if piece.kind == "started":
            env = fields["env"]
            self._redaction.add_secrets(
                value for name, value in env.items() if has_secret_name(name)
            )
            fields["env"] = sorted(env)
            fields["command"] = self._redaction.command(fields["command"])
        yield Written(
            t=piece.t,
            kind=piece.kind,
            session=piece.session,
            process=piece.process,
            fields=fields,
        )

    def _broken_off(self, pipe: _Pipe, t: float) -> Iterator[Written | None]:
        """Yield the incomplete line of a pipe that has ended."""
        begun = self._begun.pop(pipe, None)
        if begun is not None:
            session, process, kind = pipe
            piece = Piece(t, session, process, kind)
            yield from self._record(piece, bytes(begun.data), left_out=begun.left_out, cut=True)

    def _lines(self, piece: Piece, passes: bool) -> Iterator[Written | None]:
        """Yield the records for a piece of output, which may begin and end within a line.

        `passes`: the whole piece contains nothing to redact. Its complete lines then become one
        record; otherwise each line is looked at alone.
        """
        pipe = _pipe(piece)
        data, start = piece.data, 0
        begun = self._begun.get(pipe)
        if begun is not None:
            start = data.find(b"\n") + 1
            begun.add(data[: start - 1] if start else data)
            if not start:
                return
            del self._begun[pipe]
            if begun.left_out:
                yield from self._record(piece, bytes(begun.data), left_out=begun.left_out, cut=True)
            else:
                yield from self._whole(piece, bytes(begun.data) + b"\n", False)
        whole = data.rfind(b"\n", start) + 1
        if max(whole, start) < len(data):
            self._begun[pipe] = begun = _IncompleteLine()
            begun.add(data[max(whole, start) :])
        if whole and passes and whole - start <= self._together and pipe not in self._keys:
            yield _written(piece, memoryview(data)[start:whole])
        elif whole:
            yield from self._whole(piece, data[start:whole], passes)

    def _whole(self, piece: Piece, data: bytes, passes: bool) -> Iterator[Written | None]:
        """Yield whole lines, as one record if they contain no secrets.

        `passes`: they are known to contain none.
        """
        if _pipe(piece) in self._keys:
            for line in data[:-1].split(b"\n"):
                yield from self._record(piece, line)
            return
        passes = passes or (len(data) <= MAX_SCAN_BYTES and self._redaction.passes(data))
        if passes and len(data) <= self._together:
            yield _written(piece, data)
            return
        middle = data.find(b"\n", len(data) // 2, -1) + 1 or data.rfind(b"\n", 0, -1) + 1
        if middle and (
            passes or len(data) > MAX_SCAN_BYTES or data.count(b"\n") > MAX_SINGLE_LINES
        ):  # most of them may still be grouped
            yield from self._whole(piece, data[:middle], passes)
            yield from self._whole(piece, data[middle:], passes)
        elif passes:
            yield _written(piece, data)
        else:
            for line in data[:-1].split(b"\n"):
                yield from self._record(piece, line)

    def _is_of_a_key(self, pipe: _Pipe, line: bytes) -> bool:
        """Return True if a line is part of a private key of several lines."""
        left = self._keys.pop(pipe, 0)
        if left and _OF_A_KEY.fullmatch(line):
            if left > 1 and b"-----END" not in line:
                self._keys[pipe] = left - 1
            return True
        if begins_key(line):
            self._keys[pipe] = MAX_KEY_LINES
        return False

    def _record(
        self, piece: Piece, data: bytes, *, left_out: int = 0, cut: bool = False
    ) -> Iterator[Written | None]:
        """Yield the record of one line."""
        text = REDACTED
        if not self._is_of_a_key(_pipe(piece), data):
            parts = []
            for part in self._redaction.steps(data):
                if part is None:
                    yield None
                else:
                    parts.append(part)
            text = b"".join(parts)
        record = _written(piece, text + b"\n")
        record.cut, record.left_out, record.redacted = cut, left_out, text != data
        yield record
        self._worked += len(data)
        if self._worked >= SCAN_STEP_BYTES:
            self._worked = 0
            yield None


def _pipe(piece: Piece) -> _Pipe:
    """Return the pipe that a piece comes from."""
    return piece.session, piece.process, piece.kind


def _written(piece: Piece, data: bytes | memoryview) -> Written:
    """Return the record of lines."""
    assert piece.kind != "secrets"
    return Written(
        t=piece.t, kind=piece.kind, session=piece.session, process=piece.process, data=data
    )


def _is_data(piece: Piece) -> bool:
    """Return True if a piece is data of a pipe."""
    return piece.kind in _DATA


def _portions(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Group neighbouring pieces up to `MAX_SCAN_BYTES`; a larger piece is a group of its own."""
    portion: list[Piece] = []
    size = 0
    for piece in pieces:
        size += len(piece.data)
        if portion and size > MAX_SCAN_BYTES:
            yield portion
            portion, size = [], len(piece.data)
        portion.append(piece)
    if portion:
        yield portion
