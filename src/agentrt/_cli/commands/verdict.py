"""The exit status for the end of a prompt."""

from __future__ import annotations

from itertools import dropwhile
from typing import Final

from msgspec import structs

from ..._model.events import Event, PermissionClosed, PermissionOpened, TurnEnded
from ..._model.result import Denial, TurnResult
from ..._permissions.policies import NOTHING_IS_ALLOWED
from ..bound import TIMED_OUT
from ..text import one_line

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
        if closed.outcome == "selected":
            kinds = [each.kind for each in request.options if each.id == closed.option]
            return any(kind.startswith("reject") for kind in kinds)
        return closed.by not in ("turn", "agent")
