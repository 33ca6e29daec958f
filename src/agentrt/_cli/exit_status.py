"""Exit statuses: of errors, of the time limit of a command, and of the end of a prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from typing import Final

import trio
from msgspec import structs

from .._public import Limits, TurnResult
from ..config import ConfigError
from ..errors import (
    AgentNotFound,
    AgentrtError,
    AgentStartError,
    BudgetExceeded,
    FolderNotTrusted,
    LocalProtocolError,
    SessionNotFound,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
    TraceError,
)
from ..events import Denial, Event, PermissionClosed, PermissionOpened, TurnEnded
from ..permissions import NOTHING_IS_ALLOWED
from .text import one_line

DAMAGED = 3
"""The exit status for a corrupt store."""
TIMED_OUT = 3
"""The exit status."""

TIMEOUT_SLACK_S = 0.2
"""Seconds by which an operation with its own limit may be late."""


class TimedOut(AgentStartError):
    """The time limit was reached before there was a turn, which has outcomes of its own."""


class UsageError(AgentrtError):
    """The command line is invalid."""


def exit_code(error: AgentrtError) -> int:
    """Return the exit status for an error that prevented a turn."""
    refused = UsageError | ConfigError | LocalProtocolError | TraceError | FolderNotTrusted
    if isinstance(error, refused):
        return 2
    if isinstance(error, StoreDamaged):
        return DAMAGED
    if isinstance(error, StoreError):
        return 1 if isinstance(error, StoreUnavailable) else 2
    if isinstance(error, TimedOut | BudgetExceeded):
        return TIMED_OUT
    return 4 if isinstance(error, AgentNotFound | SessionNotFound) else 1


class CommandTimeout:
    """The time limit of one command, starting now. Create and use it inside Trio."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._until = math.inf if seconds is None else trio.current_time() + seconds

    @property
    def left(self) -> float | None:
        """The remaining seconds, rounded to hundredths and at least 0.01; None without a limit."""
        if self.seconds is None:
            return None
        return max(0.01, round(self._until - trio.current_time(), 2))

    def applied(self, limits: Limits) -> Limits:
        """Return the limits with a handshake that ends in time.

        The error of a failed handshake contains the output of the agent.
        """
        left = self.left
        if left is None or left > limits.startup_timeout_s:
            return limits
        return structs.replace(limits, startup_timeout_s=left)

    @contextmanager
    def over(self, what: str) -> Iterator[trio.CancelScope]:
        """Limit the time of the block, or of the part before the scope's deadline is removed.

        Raises `TimedOut`, with the message that `what` took too long.
        """
        with trio.CancelScope(deadline=self._until + TIMEOUT_SLACK_S) as scope:
            try:
                yield scope
            except AgentStartError as error:
                if trio.current_time() < self._until:
                    raise
                why = str(error).partition("\n---")[0]
                raise TimedOut(f"{self._told(what)}: {why}", stderr=error.stderr) from error
        if scope.cancelled_caught:
            raise TimedOut(self._told(what))

    def _told(self, what: str) -> str:
        return f"{what} took over {self.seconds:g} s (--timeout)"


FAILED, DENIED = 1, 5

_NORMAL: Final = frozenset({None, "end_turn", "stop_sequence", "stop", "success", "completed"})
"""The agents' stop reasons for a normal end of a turn."""


def exit_status(result: TurnResult, *, rejected: bool) -> int:
    """Return the exit status of a result. `rejected`: a permission request was rejected."""
    match result.outcome:
        case "completed":
            return DENIED if rejected and result.stop_reason not in _NORMAL else 0
        case "timed_out":
            return TIMED_OUT
        case "cancelled" if result.by == "budget":
            return TIMED_OUT
        case "cancelled" | "refused" | "failed":
            return DENIED if rejected else FAILED
        case _:
            return FAILED


def decisive(result: TurnResult, ends: list[TurnEnded]) -> TurnResult:
    """Return the final result: that of the prompt's turn, unless the agent failed in later work."""
    if result.outcome == "completed":
        behind = dropwhile(lambda end: end.turn != result.turn, ends)
        for end in behind:
            if end.outcome not in ("completed", "cancelled"):
                return structs.replace(
                    result,
                    turn=end.turn,
                    outcome=end.outcome,
                    by=end.by,
                    stop_reason=end.stop_reason,
                    error=end.error,
                )
    return result


class Rejections:
    """Collects the rejected permission requests, for every origin of the rejection."""

    def __init__(self) -> None:
        self.denials: list[Denial] = []
        self._open: dict[str, PermissionOpened] = {}

    def take(self, event: Event) -> str:
        """Handle an event; returns the text to report for a rejection by a policy, which is
        silent.
        """
        if isinstance(event, PermissionOpened):
            self._open[event.request] = event
        elif isinstance(event, PermissionClosed):
            request = self._open.pop(event.request, None)
            if request is not None and self._rejects(request, event):
                denial = Denial(
                    title=request.title,
                    by=event.by or "",
                    reason=event.reason,
                    item=request.item,
                )
                self.denials.append(denial)
                if event.by in ("policy", "unattended"):
                    form = request.form is not None or request.url is not None
                    why = "nobody is asked here" if form else "see --permissions and --allow"
                    if not form and event.reason not in ("", NOTHING_IS_ALLOWED):
                        why = one_line(event.reason).removesuffix(".")
                    return f"rejected: {one_line(request.title)} ({why})"
        return ""

    def _rejects(self, request: PermissionOpened, closed: PermissionClosed) -> bool:
        """True if a request was rejected by an option, or closed without one.

        Requests that the agent has withdrawn, or that ended with their turn, are not rejections.
        """
        if closed.outcome == "selected":
            kinds = [each.kind for each in request.options if each.id == closed.option]
            return any(kind.startswith("reject") for kind in kinds)
        return closed.by not in ("turn", "agent")
