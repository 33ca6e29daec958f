"""Following a session's log, as an async iterator."""

from __future__ import annotations

from trio.lowlevel import checkpoint, checkpoint_if_cancelled

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
        self._clock = host.clock
        self._pace = Pace(host.clock)
        self._ready = cursor.ready
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
        pace, clock = self._pace, self._clock
        if self._ready and self._end is None and clock() <= pace.until:
            await checkpoint_if_cancelled()
            return self._ready.pop()
        found = self._found()
        if found:
            await pace.step()
            found = self._found()  # others may have run
        while not found:
            if self._done:
                await checkpoint()
                raise StopAsyncIteration
            await pace.wait(self._host.readers)
            found = self._found()
        return self._ready.pop()

    def poll(self) -> Event | None:
        """The next event, as iterating gives it; None if there is none yet."""
        if self._found():
            return self._ready.pop()
        if self._done:
            raise StopAsyncIteration
        return None

    def _found(self) -> bool:
        """Whether there is a next event: it is in hand then."""
        return not self._at_end and (bool(self._ready) or self._cursor.more())

    @property
    def _at_end(self) -> bool:
        return self._end is not None and self.seq >= self._end

    @property
    def _done(self) -> bool:
        """Whether nothing will come any more."""
        return self._at_end or (self._host.closed.is_set() and self._host.complete)
