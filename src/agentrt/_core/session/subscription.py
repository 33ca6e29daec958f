"""An async iterator over a session's log.

Readers in another event loop of the same thread poll: available events are taken immediately, and a
callback reports that there are more.
"""

from __future__ import annotations

from collections.abc import Callable

from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..model.events import Event
from ..model.log import Cursor
from .host import SessionHost
from .turn import Turn
from .waiters import ReaderFairness


class Subscription:
    """An async iterator over the events of a session's log.

    It ends only when the session does. Memory is bounded while it is not read, because neighbouring
    text is joined. Close it with `close`, or use it as a block.
    """

    _host: SessionHost
    _cursor: Cursor
    _clock: Callable[[], float]
    _fairness: ReaderFairness
    _ready: list[Event]
    _end: int | None

    def __init__(self) -> None:
        raise TypeError("a subscription is made by Session.subscribe")

    @property
    def seq(self) -> int:
        """The number of the last event that was yielded."""
        return self._cursor.seq

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop following the log."""
        self._cursor.close()

    def finish(self) -> None:
        """End the iteration after the last event that exists now."""
        self._end = self._host.log.seq
        self._host.waiters.wake()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Cancelling this call loses none."""
        pace, clock = self._fairness, self._clock
        if self._ready and self._end is None and clock() <= pace.until:
            await checkpoint_if_cancelled()
            return self._ready.pop()
        found = self._found()
        if found:
            await pace.step()
            found = self._found()  # other tasks may have run
        while not found:
            if self._done:
                await checkpoint()
                raise StopAsyncIteration
            await pace.wait(self._host.waiters)
            found = self._found()
        return self._ready.pop()

    def poll(self) -> Event | None:
        """Return the next event as iterating yields it, or None if it does not exist yet."""
        if self._found():
            return self._ready.pop()
        if self._done:
            raise StopAsyncIteration
        return None

    def _found(self) -> bool:
        """Return True if there is a next event, which is then in `_ready`."""
        return not self._at_end and (bool(self._ready) or self._cursor.more())

    @property
    def _at_end(self) -> bool:
        """True if `finish` was called and everything up to then was yielded."""
        return self._end is not None and self.seq >= self._end

    @property
    def _done(self) -> bool:
        """True if no more events will come."""
        return self._at_end or (self._host.closed.is_set() and self._host.complete)


def make_subscription(host: SessionHost, cursor: Cursor) -> Subscription:
    """Make an iterator over the events that the cursor reads."""
    made = Subscription.__new__(Subscription)
    made._host = host
    made._cursor = cursor
    made._clock = host.clock
    made._fairness = ReaderFairness(host.clock)
    made._ready = cursor.ready
    made._end = None
    return made


def next_event(source: Turn | Subscription) -> Event | None:
    """Return the next event as iterating yields it, or None if it does not exist yet.

    Raises `StopAsyncIteration` after the last one, and the errors of iterating.
    """
    return source.poll()


def must_yield(source: Turn | Subscription) -> bool:
    """Return True if other tasks must run, as for iterating. Check it before each event."""
    pace = source._fairness
    return not (source._ready and source._clock() <= pace.until) and pace.must_yield()


def has_yielded(source: Turn | Subscription) -> None:
    """Record that other tasks have run."""
    source._fairness.end_wait()


def call_when_more(source: Turn | Subscription, wake: Callable[[], None]) -> Callable[[], None]:
    """Call `wake` once, when there may be more events. Returns the function that unsubscribes it.

    Until `has_yielded`, another reader of the same source is refused, as in Trio.
    """
    source._fairness.start_wait()
    return source._host.waiters.listen(wake)
