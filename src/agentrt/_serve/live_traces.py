"""Live traces of sessions, while a client looks at them.

A client requests the rows of a session again and again while it shows them. No message reports that
it has stopped: tracing ends when nothing was requested for `TRACE_DURATION_S`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from .._public import Session
from ..lowlevel import CommandFields
from ..tracing import RecentWire
from .native_frames import WireRow

if TYPE_CHECKING:
    from ..hosting import RuntimeHost
    from ..tracing import TraceRow

TRACE_DURATION_S: Final = 30.0
"""Seconds for which a session is traced after a request for its rows."""

MAX_TRACE_ROWS: Final = 100
"""Maximum rows of an answer."""


class LiveTraces:
    """The sessions that are traced. Tracing begins with the first request, and costs nothing
    before.
    """

    def __init__(self, runtime: RuntimeHost) -> None:
        self._runtime = runtime
        self._listening: dict[str, tuple[RecentWire, trio.CancelScope]] = {}

    def latest_rows(self, session: Session) -> CommandFields:
        """Return the last rows of a session's trace."""
        known = self._listening.get(session.id)
        if known is None:
            known = self._listening[session.id] = RecentWire(session.trace()), trio.CancelScope()
            self._runtime.start_soon(self._listen, session.id)
        wire, scope = known
        scope.deadline = trio.current_time() + TRACE_DURATION_S
        return {"rows": [_shown(row) for row in wire.rows()[-MAX_TRACE_ROWS:]]}

    def close(self) -> None:
        """Stop all tracing."""
        for _, scope in self._listening.values():
            scope.cancel()

    async def _listen(self, id: str) -> None:
        """Trace a session until the time since the last request is over."""
        wire, scope = self._listening[id]
        try:
            with scope:
                await wire.listen()
        finally:
            del self._listening[id]


def _shown(row: TraceRow) -> WireRow:
    """Return a row as clients get it."""
    return WireRow(
        t=row.t,
        kind=row.kind,
        what=row.what,
        detail=row.detail,
        count=row.count,
        took=row.took,
        answer=row.answer,
        odd=row.odd,
    )
