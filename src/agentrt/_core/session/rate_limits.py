"""Waiting for the end of a provider's rate limit, and sending the prompt again.

A prompt is sent again only if its turn has shown and started nothing. Otherwise the user gets a
notice and decides.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import to_builtins

from ..._base.tenant import is_number
from ..limits import parse_duration
from ..model.events import ErrorInfo, Notice
from ..model.state import SessionState
from ..model.turn import TurnMachine
from .interfaces import Steps

_FIRST_WAIT_S: Final = 60.0
_LONGEST_WAIT_S: Final = 900.0
_JITTER: Final = 0.1
"""The part of a wait that is added at random, so that many sessions do not return at once."""
_SLACK_S: Final = 5.0
"""Seconds after the provider's time, since clocks differ."""
_CAUSES: Final = frozenset({"rate_limit", "overloaded", "quota"})
_MAX_DEPTH: Final = 4


class WaitForLimits:
    """Permission to wait for the end of rate limits; pass it to `open_session` as `wait`.

    If a turn fails because of a rate limit before the agent has shown or started anything, the turn
    stays open until the limit ends, and its prompt is sent again. Viewers see the time, and a
    cancel ends the turn at once. The turn's own limits do not count meanwhile; budgets do.

    Without a time from the provider, the first wait takes a minute, each further one twice as long,
    at most 15 minutes. Sessions with the same object share the time until which a limit lasts.

    `at_most_s`: the maximum wait of one turn, in seconds. Raises `ValueError` for other values than
    positive numbers.
    """

    def __init__(self, *, at_most_s: float) -> None:
        """Allow waits of up to `at_most_s` seconds per turn."""
        if not is_number(at_most_s) or at_most_s <= 0:
            raise ValueError(f"at_most_s must be a number of seconds above 0, not {at_most_s!r}")
        self.at_most_s: Final[float] = at_most_s
        self.until: float = 0.0
        """The time until which a limit lasts as far as known, in seconds since 1970."""

    def __repr__(self) -> str:
        return f"WaitForLimits(at_most_s={self.at_most_s:g})"


def wait_from(text: str | None) -> WaitForLimits | None:
    """Return the permission to wait for a time such as `6h`. Raises `ValueError`."""
    return None if text is None else WaitForLimits(at_most_s=parse_duration(text))


class RateLimitWait:
    """Decides for one session whether a failed turn waits, and until when."""

    def __init__(
        self,
        core: Steps,
        wait: WaitForLimits | None,
        *,
        state: SessionState,
        wall: Callable[[], float],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Create the decision for a session. `wait` None: turns never wait.

        `jitter` returns a number from 0 to 1, so that sessions with the same limit do not resume at
        the same moment.
        """
        self._core = core
        self._wait = wait
        self._state = state
        self._wall = wall
        self._jitter = jitter
        self._reported: float | None = None

    def noticed(self, notice: Notice) -> None:
        """Take the provider's time from an agent's notice about a limit that was reached."""
        if notice.code == "rate_limit" and notice.level == "error":
            self._reported = reset_time(to_builtins(notice.data), self._wall())

    def wait_s(self, turn: TurnMachine, error: ErrorInfo | None) -> float | None:
        """Return the seconds for which a turn waits that has failed; None to let it end.

        Sets `retry_at` of the error. Appends the notice about the wait, or about a turn that has to
        be continued by hand.
        """
        if error is None or error.cause not in _CAUSES:
            return None
        wait, now = self._wait, self._wall()
        reported = error.retry_at = self._reset_time(error, now)
        if wait is None or turn.origin != "user" or turn.verdict is not None:
            return None
        if error.cause != "rate_limit" and reported is None:
            return None
        until = max(wait.until, 0.0 if reported is None else reported + _SLACK_S)
        if until <= now:
            seconds = min(_FIRST_WAIT_S * 2**turn.retries, _LONGEST_WAIT_S)
            until = now + seconds * (1 + _JITTER * self._jitter())
        if until - now + turn.waited_s > wait.at_most_s:
            return None
        wait.until = max(wait.until, until) if reported is not None else wait.until
        clock = time.strftime("%H:%M", time.localtime(until))
        if self._has_begun(turn):
            message = (
                f"a rate limit ended the turn, until about {clock}; send a new prompt then, since"
                " this turn has already done something and is not repeated"
            )
            self._core.add_notice(Notice("warning", "rate_limit_offer", message, {"until": until}))
            return None
        message = (
            f"waiting until {clock} for the end of a rate limit; the prompt is then sent again"
        )
        self._core.add_notice(Notice("warning", "rate_limit_wait", message, {"until": until}))
        return until - now

    def _reset_time(self, error: ErrorInfo, now: float) -> float | None:
        """Return the time at which a limit ends: from the error, or from a notice before it."""
        noticed, self._reported = self._reported, None
        found = reset_time(error.data, now)
        if found is None and noticed is not None and noticed > now:
            return noticed
        return found

    def _has_begun(self, turn: TurnMachine) -> bool:
        """Return True if the turn has shown or started anything besides its own prompt."""
        prompts = 0
        for item in reversed(self._state.items.values()):
            if item.turn != turn.id:
                if item.turn is not None:
                    break
                continue
            if item.type != "user" or prompts:
                return True
            prompts += 1
        return bool(turn.served or turn.denied or turn.failures)


def reset_time(data: Any, now: float) -> float | None:
    """Return the time at which a limit ends, in seconds since 1970, from an agent's report.

    Of several windows, those that are used up count, and the last of their times.
    """
    found = [(used, at) for used, at in _windows(data, _MAX_DEPTH) if at > now]
    full = [at for used, at in found if used is None or used >= 100]
    return max(full, default=None)


def _windows(data: Any, depth: int) -> Iterator[tuple[float | None, float]]:
    """Yield the use in percent (None if unknown) and the reset time of each window in a report.

    Agents report limits in different shapes, so times are searched by their names, at a limited
    depth and for a limited number of members.
    """
    if not isinstance(data, dict) or not depth:
        return
    used = data.get("used_percent", data.get("usedPercent"))
    for key in ("resetsAt", "resets_at"):
        at = data.get(key)
        if isinstance(at, int | float) and not isinstance(at, bool) and math.isfinite(at):
            yield (float(used) if isinstance(used, int | float) else None), float(at)
    for value in list(data.values())[:32]:
        yield from _windows(value, depth - 1)
