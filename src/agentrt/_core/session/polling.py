"""Reading events without Trio's waiting, for readers in another event loop of the same thread.

Available events are taken immediately, and a callback reports that there are more.
"""

from __future__ import annotations

from collections.abc import Callable

from ..model.events import Event
from .subscription import Subscription
from .turn import Turn


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
