"""The single statement that writes a flush: all of it, or nothing.

A flush has parts of several sessions: events, and for some of them a new row, records and answers.
`_text` assembles a statement of as many common table expressions as the flush needs. There are few
combinations, so each is prepared once and executed with arrays as parameters, however many sessions
the flush has.

The last expression divides by zero unless every session was updated, that is, unless this process
still owns each of them under its lease and the next event is the expected one. The error undoes the
whole statement, so no transaction block and no second round trip is needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import count
from struct import pack
from typing import Final

from msgspec import Struct

from ...lowlevel import Flush, FlushPart
from ...storage import clean, encode, encode_events, encode_record, text_of
from .words import vector

_FRAMES = """
WITH f AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
    AS f(num, owner, first, last))"""

_BODIES = """
WITH f AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])
    AS f(num, owner, first, last, body)),
i AS (INSERT INTO frame(session, owner, first, last, body)
    SELECT num, owner, first, last, body FROM f)"""

ALIVE: Final = "EXISTS (SELECT FROM node n WHERE n.num=s.node AND n.until>clock_timestamp())"
"""SQL: true if the lease of a session `s` is not over."""

_OURS = (
    "s.num=f.num AND s.owner=f.owner AND s.next=f.first"
    f" AND s.node IS NOT DISTINCT FROM %s::bigint AND (s.node IS NULL OR {ALIVE})"
)

_EPOCH = """s.epoch || coalesce('.' || nullif(
    (SELECT value FROM meta WHERE key='generation'), s.generation::text), '') AS epoch"""
"""SQL: the equivalent of `epoch_of`."""

_NEXT = f""",
u AS (UPDATE session s SET next=f.last+1 FROM f WHERE {_OURS} RETURNING s.num, {_EPOCH})"""

_ROWS = f""",
r AS (SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[],
        %s::bytea[], %s::text[], %s::bytea[], %s::bigint[])
    AS r(num, title, prompt, phase, turns, about, cwd, head, head_seq)),
u AS (UPDATE session s SET next=f.last+1,
        updated=CASE WHEN r.num IS NULL THEN s.updated ELSE now() END,
        title=CASE WHEN r.num IS NULL THEN s.title ELSE r.title END,
        prompt=coalesce(r.prompt, s.prompt), phase=coalesce(r.phase, s.phase),
        turns=coalesce(r.turns, s.turns), about=coalesce(r.about, s.about),
        cwd=coalesce(r.cwd, s.cwd),
        head=coalesce(r.head, s.head), head_seq=coalesce(r.head_seq, s.head_seq)
    FROM f LEFT JOIN r USING (num) WHERE {_OURS} RETURNING s.num, {_EPOCH})"""

_RECORDS = """,
c AS (INSERT INTO record(session, number, last, body, said, words)
    SELECT num, number, last, body, said, words::tsvector
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[], %s::text[], %s::text[])
        AS c(num, number, last, body, said, words)
    ON CONFLICT (session, number) DO UPDATE
    SET last=excluded.last, body=excluded.body, said=excluded.said, words=excluded.words)"""

_ANSWERS = """,
a AS (INSERT INTO answer(client, id, digest, body)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bytea[], %s::bytea[])
    ON CONFLICT (client, id) DO UPDATE
    SET digest=excluded.digest, body=excluded.body, at=excluded.at)"""

_ALL_OURS = " SELECT 1/(count(*)=%s::bigint)::integer FROM u"
"""Fails if one of the sessions has another owner: then nothing of the flush is written."""

CHANNEL: Final = "'agentrt_' || hashtext(current_schema()) || '_'"
"""SQL: the prefix of the channel to which a process that shares the store listens; its lease
follows."""

_INLINE_FRAME_BYTES: Final = 2000
"""Bytes of a frame below which a notification contains it, so that it need not be read."""

_NOTIFICATION_BYTES: Final = 5000
"""Bytes after which a further notification is started: the limit of one is 8000."""

_LINE = f"""CASE WHEN octet_length(body)<{_INLINE_FRAME_BYTES} AND getdatabaseencoding()='UTF8' THEN
    E'\\n' || num || ' ' || first || ' ' || epoch || ' ' || convert_from(body, 'UTF8') END"""


def _shared(line: str) -> str:
    """Return the end of the statement for a shared store: like `_ALL_OURS`, and it notifies the
    watchers of the sessions' numbers, and of each frame as a `line`."""
    return f""" SELECT 1/(count(*)=%s::bigint)::integer, (SELECT count(notified) FROM (
    SELECT pg_notify({CHANNEL} || node,
        string_agg(num::text, ',') || ',' || coalesce(string_agg(line, ''), '')) AS notified
    FROM (SELECT node, num, line,
            sum(20+coalesce(octet_length(line), 0)) OVER (PARTITION BY node ORDER BY num)
                / {_NOTIFICATION_BYTES} AS part
        FROM (SELECT node, num, {line} AS line
            FROM watch JOIN u ON num=session JOIN f USING (num)) AS each) AS all_of_them
    GROUP BY node, part) AS told)
FROM u"""


COPY: Final = "COPY frame(session, owner, first, last, body) FROM STDIN (FORMAT binary)"
COPIED: Final = ("int8", "int8", "int8", "int8", "bytea")

COPY_BYTES: Final = 64 * 1024
"""Bytes of frames above which they are copied: a backlog."""

FrameRow = tuple[int, int, int, int, bytes]


Param = bytes | None
"""A parameter in PostgreSQL's binary format; the statement determines its type."""


class Statement(Struct):
    """A statement with parameters. `frames`: rows to copy in the same transaction, or none."""

    text: bytes
    params: list[Param]
    frames: list[FrameRow]


def statement(flush: Flush, lease: int | None) -> Statement:
    """Return the statement that writes a flush under a lease, or as the only writer.

    It is ordered by the sessions' numbers: otherwise two flushes could each wait for a session that
    the other has locked.
    """
    parts = sorted(flush.parts, key=lambda part: part.place.num)
    frames = [_frame(part) for part in parts]
    copied = sum(len(frame[4]) for frame in frames) > COPY_BYTES
    rows = [_row(part) for part in parts if part.row is not None]
    records = [row for part in parts for row in _records(part)]
    answers = [
        (clean(each.client), clean(each.id), each.digest, each.body)
        # the last one of several answers to a command
        for each in {(each.client, each.id): each for each in flush.answers}.values()
    ]
    params = _columns(frames, "nnnn" if copied else "nnnnb")
    if rows:
        params += _columns(rows, "ntttnbtbn")
    params.append(None if lease is None else pack(">q", lease))
    if records:
        params += _columns(records, "nnnbtt")
    if answers:
        params += _columns(answers, "ttbb")
    params.append(pack(">q", len(parts)))
    text = _text(copied, bool(rows), bool(records), bool(answers), lease is not None)
    return Statement(text, params, frames if copied else [])


@cache
def _text(copied: bool, rows: bool, records: bool, answers: bool, shared: bool) -> bytes:
    """Return the statement for flushes with these parts, with numbered parameters.

    `copied`: the frames are copied, not inserted. `shared`: watchers in other processes are
    notified.
    """
    text = (
        (_FRAMES if copied else _BODIES)
        + (_ROWS if rows else _NEXT)
        + _RECORDS * records
        + _ANSWERS * answers
        + (_shared("NULL::text" if copied else _LINE) if shared else _ALL_OURS)
    )
    number = count(1)
    return re.sub("%s", lambda _: f"${next(number)}", text).encode()


# --- arrays in PostgreSQL's binary format: psycopg would inspect the type of each value

_TYPES: Final = {"n": 20, "b": 17, "t": 25}
"""The type numbers of `bigint`, `bytea` and `text`."""


def _columns(rows: Sequence[Sequence[object]], types: str) -> list[Param]:
    """Return the columns of rows of these types, each as an array."""
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return [_array(column, type) for column, type in zip(columns, types, strict=False)]


def _array(values: Sequence[object], type: str) -> bytes:
    """Return an array in PostgreSQL's binary format. `type`: a key of `_TYPES`; None
    becomes NULL.
    """
    parts = [pack(">iiiii", 1, None in values, _TYPES[type], len(values), 1)]
    for value in values:
        match value:
            case None:
                parts.append(b"\xff\xff\xff\xff")
            case int():
                parts.append(pack(">iq", 8, value))
            case str() | bytes():
                body = value.encode() if isinstance(value, str) else value
                parts += pack(">i", len(body)), body
    return b"".join(parts)


def _frame(part: FlushPart) -> FrameRow:
    """Return the events of a part as a row of `frame`."""
    last = part.first + len(part.events) - 1
    return part.place.num, part.place.owner, part.first, last, encode_events(part.events)


def _row(part: FlushPart) -> tuple[object, ...]:
    """Return the new values of a session's row. None leaves a column as it is, except for the
    title.
    """
    row, head = part.row, part.head
    assert row is not None
    return (
        part.place.num,
        None if row.title is None else clean(row.title),
        clean(row.prompt),
        row.phase,
        row.turns,
        encode(row.about),
        clean(row.about.cwd),
        None if head is None else encode(head),
        None if head is None else head.seq,
    )


def _records(part: FlushPart) -> list[tuple[object, ...]]:
    """Return the records of a part as rows, with their text for searching."""
    last = part.first + len(part.events) - 1
    found: list[tuple[object, ...]] = []
    for record in part.records.values():
        said = text_of(record)
        body = encode_record(record)
        found.append((part.place.num, record.number, last, body, said, vector(said)))
    return found
