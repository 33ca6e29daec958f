"""The clocks of a session: which one is next, and the action when it is due.

This module reads no clock. Times are on the session's monotonic clock, in seconds; infinity means
never.
"""

from __future__ import annotations

import enum
import math
from typing import Final, TypeAlias

from .turn import TurnMachine, TurnState


class Ring(enum.Enum):
    """The action of a clock that is due."""

    NOTHING = "nothing"
    REST = "rest"
    """The agent's report that it is idle will not come: the turn ends without it."""
    RESEND = "resend"
    """No reaction to the cancel: it is sent again."""
    GRACE = "grace"
    """The agent did not end its cancelled turn."""
    SILENCE = "silence"
    """A turn without an end on the wire is over."""
    IDLE = "idle"
    HARD = "hard"


Alarm: TypeAlias = tuple[float, Ring]
"""The time of a clock, and its action."""

NEVER: Final[Alarm] = (math.inf, Ring.NOTHING)
"""No clock is running."""


def next_alarm(
    turn: TurnMachine | None,
    *,
    active_at: float,
    rest: float | None,
    silence: float,
    tail: float | None,
    serving: bool,
) -> Alarm:
    """Return the clock that rings first.

    - `active_at`: the time of the agent's last output or of the last answer to it.
    - `rest`: the silence after which a missing idle report is not waited for, if it is missing.
    - `silence`: the silence that ends a turn without an end on the wire; `tail`: the shorter one
      that applies while a prompt waits.
    - `serving`: a tool, hook or terminal of the host is at work. The agent's wait for it does not
      count as silence.
    """
    if turn is None:
        return NEVER if rest is None else (active_at + rest, Ring.REST)
    state, limits = turn.state, turn.limits
    if rest is not None:  # a running agent still reaches the turn's limits
        limit = turn.grace_at if state is TurnState.CANCELLING else turn.hard_at
        return min(active_at + rest, limit), Ring.REST
    if state is TurnState.CANCELLING:
        if turn.resend_at < turn.grace_at:
            return turn.resend_at, Ring.RESEND
        return turn.grace_at, Ring.GRACE
    asked, hard_at = state is TurnState.WAITING, turn.hard_at
    if not turn.explicit:
        if tail is not None:
            # Its last output must not be counted for the next turn, but it may never end.
            return min(active_at + tail, turn.began_at + silence), Ring.SILENCE
        ends_at = math.inf if asked or serving else active_at + silence
        return min((ends_at, Ring.SILENCE), (hard_at, Ring.HARD), key=_when)
    if asked or serving or limits.idle is None:
        return hard_at, Ring.HARD
    return min((active_at + limits.idle, Ring.IDLE), (hard_at, Ring.HARD), key=_when)


def _when(alarm: Alarm) -> float:
    return alarm[0]
