"""The last of what went over a session's wire, for who looks at a conversation that goes wrong."""

from __future__ import annotations

from collections import deque
from typing import Final

from .conversation import Row, TraceConversation
from .subscription import TraceSubscription

KEPT: Final = 500
"""Rows; the oldest are forgotten."""
STEPS: Final = 8
"""Steps of work, of a few milliseconds at the most, that one look may take."""


class RecentWire:
    """The last rows of a session, of what was heard since it was made, until `listen` ends."""

    def __init__(self, records: TraceSubscription) -> None:
        self._records = records
        self._rows: deque[Row] = deque(maxlen=KEPT)
        self._conversation = TraceConversation()

    async def listen(self) -> None:
        """Until the session is over, or this is cancelled."""
        with self._records:
            async for record in self._records:
                self._keep(*self._conversation.feed(record))

    def rows(self) -> list[Row]:
        """Return the rows, oldest first. A row may still change, when its answer comes.

        What has gone over the wire is in it, unless that is so much that others would have to
        wait: then the newest comes with a later call."""
        for record in self._records.take(STEPS):
            self._keep(*self._conversation.feed(record))
        self._keep(*self._conversation.flush())
        return list(self._rows)

    def _keep(self, *rows: Row) -> None:
        for row in rows:
            # What is shown is in it; the lines may be megabytes.
            row.lines.clear()
            if row.message is not None:
                row.message.body = None
            self._rows.append(row)
