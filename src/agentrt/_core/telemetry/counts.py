"""The fold from sessions' events to figures: counts and durations.

It is independent of Prometheus. Values of one moment, such as the number of queued prompts, are not
counted here: the collector reads them from the sessions.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from ..model.events import (
    Event,
    ItemClosed,
    ItemOpened,
    Notice,
    PermissionClosed,
    PermissionOpened,
    StateChanged,
    TextDelta,
    ThoughtDelta,
    TurnEnded,
    TurnStarted,
)
from ..model.log import Log
from .observation import Observation

SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800, 3600)
"""The upper bounds of the histograms' buckets; a further bucket has no bound."""

ODD: Final = {
    "stale": "stale",
    "late": "late",
    "late_response": "late",
    "malformed": "malformed",
    "bad_line": "malformed",
    "line_too_long": "malformed",
    "invalid_request": "malformed",
    "unusable_update": "malformed",
    "unknown_response": "stale",
    "foreign_session": "stale",
}
"""Notices about unexpected messages, mapped to the kind of the defect."""


class Histogram:
    """The distribution and the sum of values."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        """Begin without values."""
        self.buckets = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.buckets[bisect_left(SECONDS, value)] += 1
        self.total += value


class Totals:
    """Totals of all sessions since the start, by agent."""

    def __init__(self) -> None:
        """Begin with zeros."""
        self.turns: Counter[tuple[str, str]] = Counter()
        """Turns that have ended, by agent and outcome."""
        self.odd: Counter[tuple[str, str]] = Counter()
        """Unexpected messages, by agent and kind."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """Tokens, by agent and kind."""
        self.permissions: Counter[tuple[str, str]] = Counter()
        """Closed permission requests, by agent and by the party that closed them."""
        self.cost: defaultdict[str, float] = defaultdict(float)
        """Cost in dollars."""
        self.restarts: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.seconds: dict[str, defaultdict[str, Histogram]] = {
            name: defaultdict(Histogram)
            for name in ("turn", "first_token", "tool", "permission_wait", "cancel")
        }


class Counted(Observation):
    """Adds one session's events to the totals. `over` is called at its end."""

    def __init__(
        self,
        agent: str,
        log: Log,
        totals: Totals,
        over: Callable[[Counted], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count the events of a session. `now` is a monotonic clock, in seconds."""
        self.agent = agent
        self.log = log
        self._totals = totals
        self._over = over
        self._now = now
        self._at = 0.0
        self._began: float | None = None
        self._silent = False
        """True if the turn has produced no text yet."""
        self._cancelled: float | None = None
        self._calls: dict[str, float] = {}
        self._asks: dict[str, float] = {}

    def events(self, events: list[Event], size: int) -> None:
        """Count a batch; all of its events happened at this moment."""
        self._at = self._now()
        self._totals.bytes[self.agent] += size
        take = self._HANDLERS
        for event in events:
            taken = take.get(type(event))
            if taken is not None:
                taken(self, event)

    def close(self) -> None:
        """Report the end of the session."""
        self._over(self)
        del self.log  # it refers to its observers

    def _took(self, what: str, since: float) -> None:
        """Add a duration up to now."""
        self._totals.seconds[what][self.agent].add(self._at - since)

    def _turn_started(self, event: TurnStarted) -> None:
        """Begin the times of a turn."""
        self._began = self._at
        self._silent = True
        self._cancelled = None

    def _turn_ended(self, event: TurnEnded) -> None:
        """Count a finished turn: its outcome, durations, tokens, and its cost in dollars."""
        totals, agent = self._totals, self.agent
        totals.turns[agent, event.outcome] += 1
        if self._began is not None:
            self._took("turn", self._began)
            self._began = None
        if self._cancelled is not None:
            self._took("cancel", self._cancelled)
            self._cancelled = None
        usage = event.usage
        if usage is None:
            return
        for kind, count in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        ):
            if count:
                totals.tokens[agent, kind] += count
        if usage.cost and usage.currency in (None, "USD"):
            totals.cost[agent] += usage.cost

    def _spoke(self, event: TextDelta | ThoughtDelta) -> None:
        """Take the time to the first output of a turn, text or thought."""
        if self._silent and self._began is not None:
            self._silent = False
            self._took("first_token", self._began)

    def _opened(self, event: ItemOpened) -> None:
        """Begin the time of a tool call."""
        item = event.item
        if item.type == "tool" and not item.replay:
            self._calls[item.id] = self._at

    def _closed(self, event: ItemClosed) -> None:
        """Take the duration of a tool call."""
        since = self._calls.pop(event.item, None)
        if since is not None:
            self._took("tool", since)

    def _asked(self, event: PermissionOpened) -> None:
        """Begin the time of a question."""
        self._asks[event.request] = self._at

    def _answered(self, event: PermissionClosed) -> None:
        """Count an answer; a policy's does not count as waiting for a person."""
        since = self._asks.pop(event.request, None)
        self._totals.permissions[self.agent, event.by] += 1
        if since is not None and event.by != "policy":
            self._took("permission_wait", since)

    def _changed(self, event: StateChanged) -> None:
        """Note the beginning of a cancel."""
        if event.state.phase == "cancelling" and self._cancelled is None:
            self._cancelled = self._at

    def _noticed(self, event: Notice) -> None:
        """Count a restart of the agent, or an unexpected message."""
        if event.code == "agent_restarted":
            self._totals.restarts[self.agent] += 1
        elif (kind := ODD.get(event.code)) is not None:
            self._totals.odd[self.agent, kind] += 1

    _HANDLERS: Final[Mapping[type, Callable[..., None]]] = {
        TurnStarted: _turn_started,
        TurnEnded: _turn_ended,
        TextDelta: _spoke,
        ThoughtDelta: _spoke,
        ItemOpened: _opened,
        ItemClosed: _closed,
        PermissionOpened: _asked,
        PermissionClosed: _answered,
        StateChanged: _changed,
        Notice: _noticed,
    }
    """The method for each type of event."""
