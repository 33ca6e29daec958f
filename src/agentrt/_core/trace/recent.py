"""The most recent wire messages of a session, for debugging a conversation."""

from __future__ import annotations

from collections import deque
from typing import Final

from .conversation import TraceConversation, TraceRow
from .subscription import TraceSubscription

MAX_ROWS: Final = 500
"""Maximum number of rows; the oldest are dropped."""
MAX_STEPS: Final = 8
"""Maximum number of steps, of a few milliseconds each, for one call."""


class RecentWire:
    """The most recent rows of a session, from its creation until `listen` ends."""

    def __init__(self, records: TraceSubscription) -> None:
        self._records = records
        self._rows: deque[TraceRow] = deque(maxlen=MAX_ROWS)
        self._conversation = TraceConversation()

    async def listen(self) -> None:
        """Collect rows until the session is over, or this is cancelled."""
        with self._records:
            async for record in self._records:
                self._keep(*self._conversation.feed(record))

    def rows(self) -> list[TraceRow]:
        """Return the rows, oldest first. A row may still change when its answer arrives.

        The rows include all messages so far, unless processing them would delay other tasks: then a
        later call returns the newest.
        """
        for record in self._records.take(MAX_STEPS):
            self._keep(*self._conversation.feed(record))
        self._keep(*self._conversation.flush())
        return list(self._rows)

    def _keep(self, *rows: TraceRow) -> None:
        for row in rows:
            # The row has everything that is shown; the lines may be megabytes.
            row.lines.clear()
            if row.message is not None:
                row.message.body = None
            self._rows.append(row)
