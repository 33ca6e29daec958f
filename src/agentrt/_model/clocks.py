"""The clocks of a session: which one is the next, and what it asks for when it is due.

Nothing here reads a clock. Instants are on the session's monotonic clock, in seconds; infinity is
never.
"""

from __future__ import annotations

import enum
import math
from typing import Final, TypeAlias

from .turn import TurnMachine, TurnState


class Ring(enum.Enum):
    """What is due."""

    NOTHING = "nothing"
    REST = "rest"
    """The agent's word that it rests will not come: the turn ends without it."""
    RESEND = "resend"
    """No sign of the cancel: it is sent once more."""
    GRACE = "grace"
    """The agent did not end its cancelled turn."""
    SILENCE = "silence"
    """A turn that has no end on the wire is over."""
    IDLE = "idle"
    HARD = "hard"


Alarm: TypeAlias = tuple[float, Ring]

NEVER: Final[Alarm] = (math.inf, Ring.NOTHING)


def next_alarm(
    turn: TurnMachine | None,
    *,
    active_at: float,
    rest: float | None,
    silence: float,
    tail: float | None,
    serving: bool,
) -> Alarm:
    """The clock that rings first.

    - `active_at`: when the agent last wrote something, or was last answered.
    - `rest`: the silence after which a missing word of rest is not waited for, if it is missing.
    - `silence`: what ends a turn without an end on the wire; `tail`: the shorter one, while a
      prompt waits.
    - `serving`: a tool, hook or terminal of the host's is at work. What the agent waits for is no
      silence of its own.
    """
    if turn is None:
        return NEVER if rest is None else (active_at + rest, Ring.REST)
    state, limits = turn.state, turn.limits
    if rest is not None:  # an agent that goes on talking meets the turn's limits, too
        limit = turn.grace_at if state is TurnState.CANCELLING else turn.hard_at
        return min(active_at + rest, limit), Ring.REST
    if state is TurnState.CANCELLING:
        if turn.resend_at < turn.grace_at:
            return turn.resend_at, Ring.RESEND
        return turn.grace_at, Ring.GRACE
    asked, hard_at = state is TurnState.WAITING, turn.hard_at
    if not turn.explicit:
        if tail is not None:
            # Its last words shall not be the first of the next turn, but it may have no end.
            return min(active_at + tail, turn.began_at + silence), Ring.SILENCE
        ends_at = math.inf if asked or serving else active_at + silence
        return min((ends_at, Ring.SILENCE), (hard_at, Ring.HARD), key=_when)
    if asked or serving or limits.idle is None:
        return hard_at, Ring.HARD
    return min((active_at + limits.idle, Ring.IDLE), (hard_at, Ring.HARD), key=_when)


def _when(alarm: Alarm) -> float:
    return alarm[0]
