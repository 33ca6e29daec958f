"""Following a session's log, as an async iterator."""

from __future__ import annotations

import trio

from .._model.events import Event
from .._model.log import Cursor
from .host import SessionHost
from .readers import Pace


class Subscription:
    """An async iterator over the log. It never ends by itself before the session does; memory is
    bounded while it is not read (neighbouring text is joined). Close it with `close`, or use it
    as a block."""

    def __init__(self, host: SessionHost, cursor: Cursor) -> None:
        self._host = host
        self._cursor = cursor
        self._pace = Pace(host.clock)
        self._end: int | None = None

    @property
    def seq(self) -> int:
        """The number of the last event given."""
        return self._cursor.seq

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._cursor.close()

    def finish(self) -> None:
        """End the iteration behind the last event that there is now."""
        self._end = self._host.log.seq
        self._host.readers.wake()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        """The next event. Cancelling it loses none."""
        if self._pace.due():
            await self._pace.rest()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            if self._end is None or self.seq < self._end:
                if (event := self._cursor.pop()) is not None:
                    return event
            at_end = self._end is not None and self.seq >= self._end
            if at_end or (self._host.closed.is_set() and self._host.complete):
                await trio.lowlevel.checkpoint()
                raise StopAsyncIteration
            await self._pace.wait(self._host.readers)
