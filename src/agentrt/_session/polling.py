"""Reading events without Trio's waiting, for readers whose event loop is another one in the same
thread: what is there is taken at once, and a callback says when there is more.
"""

from __future__ import annotations

from collections.abc import Callable

from .._model.events import Event
from .subscription import Subscription
from .turn import Turn


def take(source: Turn | Subscription) -> Event | None:
    """The next event, as iterating gives it; None if there is none yet. Raises
    `StopAsyncIteration` behind the last one, and what iterating raises."""
    return source.poll()


def due(source: Turn | Subscription) -> bool:
    """Whether it is the others' turn, as for iterating; to be asked before each event."""
    pace = source._pace
    return not (source._ready and source._clock() <= pace.until) and pace.due()


def rested(source: Turn | Subscription) -> None:
    """The others had their turn."""
    source._pace.free()


def when_more(source: Turn | Subscription, wake: Callable[[], None]) -> Callable[[], None]:
    """Have `wake` called once, when there may be more; returns the function that ends that. Until
    `rested`, another reader of the same one is refused, as in Trio."""
    source._pace.occupy()
    return source._host.readers.listen(wake)
