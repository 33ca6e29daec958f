"""Reading events without Trio's waiting, for readers whose event loop is another one in the same
thread: what is there is taken at once, and a callback says when there is more.
"""

from __future__ import annotations

from collections.abc import Callable

from .._errors import LocalProtocolError
from .._model.events import Event, PermissionOpened, TurnEnded
from .subscription import Subscription
from .turn import Turn


def take(source: Turn | Subscription) -> Event | None:
    """The next event, as iterating gives it; None if there is none yet. Raises
    `StopAsyncIteration` behind the last one, and what iterating raises."""
    return _of_turn(source) if isinstance(source, Turn) else _of_subscription(source)


def due(source: Turn | Subscription) -> bool:
    """Whether it is the others' turn, as for iterating; to be asked before each event."""
    return source._pace.due()


def rested(source: Turn | Subscription) -> None:
    """The others had their turn."""
    source._pace.free()


def when_more(source: Turn | Subscription, wake: Callable[[], None]) -> Callable[[], None]:
    """Have `wake` called once, when there may be more; returns the function that ends that. Until
    `rested`, another reader of the same one is refused, as in Trio."""
    source._pace.occupy()
    return source._host.readers.listen(wake)


def _of_turn(turn: Turn) -> Event | None:
    if turn._over:
        raise StopAsyncIteration
    machine = turn._machine
    cursor = machine.cursor
    if cursor is None:
        raise LocalProtocolError("iterate a turn inside its `async with` block")
    if turn._offered is not None:
        turn._core.questions.passed_by(machine, turn._offered)
        turn._offered = None
    event = cursor.pop() if machine.verdict is None else turn._skip(cursor)
    if event is None:
        if turn._host.keeper is not None and turn._host.lacks_its_end(machine):
            raise turn._unstored()
    elif type(event) is TurnEnded:
        turn._over = True
    elif type(event) is PermissionOpened:
        turn._offered = event.request
    return event


def _of_subscription(following: Subscription) -> Event | None:
    if following._end is None or following.seq < following._end:
        if (event := following._cursor.pop()) is not None:
            return event
    at_end = following._end is not None and following.seq >= following._end
    host = following._host
    if at_end or (host.closed.is_set() and host.complete):
        raise StopAsyncIteration
    return None
