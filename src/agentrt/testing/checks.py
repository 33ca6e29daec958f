"""The guarantees that agentrt gives to readers of a log, as a check of its events.

A log that passes can be shown by any reader without special cases: no item or question is open
after its turn, and the state never names a turn that does not run. The checks do not depend on the
agent or the protocol.

A program that stores or forwards events can use the same check on its own copy, to show that it
lost, repeated or reordered none.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..events import (
    TERMINAL,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    PermissionClosed,
    PermissionOpened,
    StateChanged,
    TurnEnded,
    TurnStarted,
)


class LogBroken(AssertionError):
    """A log violates agentrt's guarantees.

    The message starts with the number of the event, from 1, unless something is missing at the end.
    """


def check_log(events: Iterable[Event], *, whole: bool = True) -> None:
    """Check a session's events, from the first one on, against agentrt's guarantees.

    - a turn begins only if none runs, and ends once; nothing of it is open then;
    - an item is opened once, changes while its turn runs and it is open, and is closed once;
    - a permission request is opened once and closed once;
    - the state names the turn that runs.

    - `events`: in the order of the log. Events of unknown types are ignored.
    - `whole`: the session is over, so nothing may be open at the end. Pass False for the log of a
      session that still runs, or for the first part of one.

    Takes time and memory in proportion to the number of items, not to the length of their texts.
    Raises `LogBroken` (an `AssertionError`) at the first event that violates a guarantee.
    """
    check = _LogCheck()
    for number, event in enumerate(events, 1):
        try:
            check.take(event)
        except LogBroken as broken:
            raise LogBroken(f"event {number}: {broken}") from None
    if whole and check.turn is not None:
        raise LogBroken(f"the turn {check.turn} never ended")
    if whole and (check.open or check.asked):
        left = ", ".join([*check.open, *check.asked])
        raise LogBroken(f"the log ends, and open are: {left}")


class _LogCheck:
    """Follows a log event by event, and raises `LogBroken` at the first one that cannot be right.

    `check_log` uses it for whole logs. It knows only what events say of each other: that items
    close once, that a turn ends before the next one starts, and that its questions are closed by
    then.
    """

    def __init__(self) -> None:
        self.turn: str | None = None
        self.turns: set[str] = set()
        self.items: set[str] = set()
        self.open: dict[str, Item] = {}
        self.asked: dict[str, str | None] = {}
        """Open questions, with the turn that waits for each."""
        self.requests: set[str] = set()

    def take(self, event: Event) -> None:
        """Check one event against those before it. Raises `LogBroken`."""
        match event:
            case TurnStarted(turn=id):
                self._begins(id)
            case TurnEnded(turn=id):
                self._ends(id)
            case ItemOpened(item=item):
                self._opens(item)
            case ItemDelta(item=id) | ItemUpdated(item=id):
                self._changes(id)
            case ItemClosed(item=id, status=status):
                self._closes(id, status)
            case PermissionOpened(request=id, background=background):
                self._asks(id, None if background else self.turn)
            case PermissionClosed(request=id):
                self._answers(id)
            case StateChanged(state=state):
                named = None if state.turn is None else state.turn.id
                if named != self.turn:
                    raise LogBroken(f"the state names the turn {named}, and {self.turn} runs")

    def _closes(self, id: str, status: str) -> None:
        """Check that the item was open, and that its status is a final one."""
        if id not in self.open:
            raise LogBroken(f"{id} is closed and was not open")
        if status not in TERMINAL:
            raise LogBroken(f"{id} is closed as {status!r}, which is not a final status")
        del self.open[id]

    def _asks(self, id: str, turn: str | None) -> None:
        """Check that the question is new, and remember the turn that waits for it."""
        if id in self.requests:
            raise LogBroken(f"the question {id} is opened twice")
        self.requests.add(id)
        self.asked[id] = turn

    def _answers(self, id: str) -> None:
        """Check that the question was open."""
        if id not in self.asked:
            raise LogBroken(f"the question {id} is closed and was not open")
        del self.asked[id]

    def _begins(self, id: str) -> None:
        """Check that no turn runs, and that this one is new."""
        if self.turn is not None:
            raise LogBroken(f"the turn {id} begins while {self.turn} runs")
        if id in self.turns:
            raise LogBroken(f"the turn {id} begins twice")
        self.turn = id
        self.turns.add(id)

    def _ends(self, id: str) -> None:
        """Check that the turn runs, and that none of its items and questions is open."""
        if id != self.turn:
            raise LogBroken(f"the turn {id} ends, and {self.turn} runs")
        left = [key for key, item in self.open.items() if item.turn == id]
        left += [key for key, turn in self.asked.items() if turn == id]
        if left:
            raise LogBroken(f"the turn {id} ends, and of it are open: {', '.join(left)}")
        self.turn = None

    def _opens(self, item: Item) -> None:
        """Check that the item is new, and that it belongs to the running turn or to none."""
        if item.id in self.items:
            raise LogBroken(f"{item.id} is opened twice")
        if item.turn is not None and item.turn != self.turn:
            raise LogBroken(f"{item.id} is opened for {item.turn} while {self.turn} runs")
        self.items.add(item.id)
        if item.status not in TERMINAL:
            self.open[item.id] = item

    def _changes(self, id: str) -> None:
        """Check that the item is known; an open one of a turn changes only while that turn runs."""
        if id not in self.items:
            raise LogBroken(f"{id} changes and was never opened")
        item = self.open.get(id)
        if item is not None and item.turn is not None and item.turn != self.turn:
            raise LogBroken(f"{id} of {item.turn} changes while {self.turn} runs")
