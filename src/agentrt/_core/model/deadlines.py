"""The deadlines of a session: the next one, and the action when it has passed.

This module reads no clock. Times are on the session's monotonic clock, in seconds; infinity means
never.
"""

from __future__ import annotations

import enum
import math
from typing import Final, TypeAlias

from .turn import TurnMachine, TurnMachineState


class Deadline(enum.Enum):
    """A kind of deadline, which determines the action when it has passed."""

    NOTHING = "nothing"
    IDLE_REPORT = "idle_report"
    """The agent's report that it is idle will not come: the turn ends without it."""
    RESEND = "resend"
    """No reaction to the cancel: it is sent again."""
    GRACE = "grace"
    """The agent did not end its cancelled turn."""
    SILENCE = "silence"
    """A turn without an end on the wire is over."""
    IDLE = "idle"
    HARD = "hard"
    RETRY = "retry"
    """A rate limit is over: the prompt is sent again."""
    BUDGET = "budget"
    """The time of a budget that the turn belongs to is over."""


DueDeadline: TypeAlias = tuple[float, Deadline]
"""The time of a deadline, and its kind."""

NEVER: Final[DueDeadline] = (math.inf, Deadline.NOTHING)
"""The value without any deadline."""


def next_deadline(
    turn: TurnMachine | None,
    *,
    active_at: float,
    idle_report_s: float | None,
    silence_s: float,
    tail_s: float | None,
    serving: bool,
) -> DueDeadline:
    """Return the first deadline.

    - `active_at`: the time of the agent's last output or of the last answer to it.
    - `idle_report_s`: the silence after which a missing idle report is not waited for; None if none
      is missing.
    - `silence_s`: the silence that ends a turn without an end on the wire; `tail_s`: the shorter
      one that applies while a prompt waits.
    - `serving`: a tool, hook or terminal of the host is at work. The agent's wait for it does not
      count as silence.
    """
    if turn is None:
        return NEVER if idle_report_s is None else (active_at + idle_report_s, Deadline.IDLE_REPORT)
    if turn.retry_at < math.inf:  # no agent works, so no limit of its silence applies
        due = min((turn.retry_at, Deadline.RETRY), (turn.budget_at, Deadline.BUDGET), key=_time_of)
        if idle_report_s is None:
            return due
        return min((active_at + idle_report_s, Deadline.IDLE_REPORT), due, key=_time_of)
    due = _turn_deadline(
        turn,
        active_at=active_at,
        idle_report_s=idle_report_s,
        silence_s=silence_s,
        tail_s=tail_s,
        serving=serving,
    )
    if turn.budget_at < due[0] and turn.state is not TurnMachineState.CANCELLING:
        return turn.budget_at, Deadline.BUDGET
    return due


def _turn_deadline(
    turn: TurnMachine,
    *,
    active_at: float,
    idle_report_s: float | None,
    silence_s: float,
    tail_s: float | None,
    serving: bool,
) -> DueDeadline:
    """Return the first deadline of a turn that is not waiting for a rate limit.

    While a person is asked or a tool of the host works, silence has no limit. The arguments are
    those of `next_deadline`.
    """
    state, limits = turn.state, turn.limits
    if idle_report_s is not None:  # a running agent still reaches the turn's limits
        limit = turn.grace_at if state is TurnMachineState.CANCELLING else turn.hard_at
        return min(active_at + idle_report_s, limit), Deadline.IDLE_REPORT
    if state is TurnMachineState.CANCELLING:
        if turn.resend_at < turn.grace_at:
            return turn.resend_at, Deadline.RESEND
        return turn.grace_at, Deadline.GRACE
    asked, hard_at = state is TurnMachineState.WAITING, turn.hard_at
    if not turn.explicit:
        if tail_s is not None:
            # Its last output must not be counted for the next turn, but it may never end.
            return min(active_at + tail_s, turn.began_at + silence_s), Deadline.SILENCE
        ends_at = math.inf if asked or serving else active_at + silence_s
        return min((ends_at, Deadline.SILENCE), (hard_at, Deadline.HARD), key=_time_of)
    if asked or serving or limits.idle_timeout_s is None:
        return hard_at, Deadline.HARD
    return min(
        (active_at + limits.idle_timeout_s, Deadline.IDLE), (hard_at, Deadline.HARD), key=_time_of
    )


def _time_of(deadline: DueDeadline) -> float:
    return deadline[0]
