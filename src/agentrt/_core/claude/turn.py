"""The state of one turn of Claude's, and of the turns it owes, as two transition tables.

No message of Claude's is illegal at any time, so both tables have an entry for every input.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from ..model.driver import TurnFinished
from ..model.events import ErrorInfo, Usage
from .outcome import ResultVerdict


class Progress(enum.Enum):
    """The progress of a turn, as far as Claude has shown it."""

    __hash__ = object.__hash__

    SENT = "sent"
    """No output of Claude's is known to belong to it."""
    RUNNING = "running"
    OPENED = "opened"
    """It runs, and the prompt itself runs, not a turn that it was taken into."""
    RESTED = "rested"
    """Claude became idle after it ran, but no result has come."""
    ANSWERED = "answered"
    """Its last message has come, but its result may be held back."""
    GUESSED = "guessed"
    """A result came that may be its own."""
    EARLY = "early"
    """It was aborted, and its result came before it ran: its output may still come."""
    DONE = "done"
    """It has its result."""


class Sign(enum.Enum):
    """A message of Claude's, by its meaning for a turn."""

    __hash__ = object.__hash__

    RUN = "run"
    """Text, tool calls or the state `running`: the turn is under way."""
    OPEN = "open"
    """An `init` after the prompt was `started`."""
    ANSWER = "answer"
    """The last message, where the result may be held back."""
    REST = "rest"
    OTHER = "other"
    """A result of another turn: when Claude becomes idle, that does not concern the prompt."""
    GUESS = "guess"
    """A result that belongs to another turn or to this one."""
    ABORT = "abort"
    """Its result, which reports that it was aborted."""
    RESULT = "result"


TURNS: Final[dict[Progress, dict[Sign, Progress]]] = {
    Progress.SENT: {
        Sign.RUN: Progress.RUNNING,
        Sign.OPEN: Progress.OPENED,
        Sign.ANSWER: Progress.ANSWERED,
        Sign.REST: Progress.SENT,
        Sign.OTHER: Progress.SENT,
        Sign.GUESS: Progress.SENT,
        Sign.ABORT: Progress.EARLY,
        Sign.RESULT: Progress.DONE,
    },
    Progress.RUNNING: {
        Sign.RUN: Progress.RUNNING,
        Sign.OPEN: Progress.OPENED,
        Sign.ANSWER: Progress.ANSWERED,
        Sign.REST: Progress.RESTED,
        Sign.OTHER: Progress.SENT,
        Sign.GUESS: Progress.GUESSED,
        Sign.ABORT: Progress.DONE,
        Sign.RESULT: Progress.DONE,
    },
    Progress.OPENED: {
        Sign.RUN: Progress.OPENED,
        Sign.OPEN: Progress.OPENED,
        Sign.ANSWER: Progress.OPENED,
        Sign.REST: Progress.RESTED,
        Sign.OTHER: Progress.OPENED,
        Sign.GUESS: Progress.OPENED,
        Sign.ABORT: Progress.DONE,
        Sign.RESULT: Progress.DONE,
    },
    Progress.RESTED: {
        Sign.RUN: Progress.RUNNING,
        Sign.OPEN: Progress.OPENED,
        Sign.ANSWER: Progress.ANSWERED,
        Sign.REST: Progress.RESTED,
        Sign.OTHER: Progress.RESTED,
        Sign.GUESS: Progress.GUESSED,
        Sign.ABORT: Progress.DONE,
        Sign.RESULT: Progress.DONE,
    },
    Progress.ANSWERED: {
        Sign.RUN: Progress.RUNNING,
        Sign.OPEN: Progress.OPENED,
        Sign.ANSWER: Progress.ANSWERED,
        Sign.REST: Progress.ANSWERED,
        Sign.OTHER: Progress.ANSWERED,
        Sign.GUESS: Progress.ANSWERED,
        Sign.ABORT: Progress.DONE,
        Sign.RESULT: Progress.DONE,
    },
    Progress.GUESSED: {
        Sign.RUN: Progress.RUNNING,
        Sign.OPEN: Progress.OPENED,
        Sign.ANSWER: Progress.ANSWERED,
        Sign.REST: Progress.GUESSED,
        Sign.OTHER: Progress.GUESSED,
        Sign.GUESS: Progress.GUESSED,
        Sign.ABORT: Progress.EARLY,
        Sign.RESULT: Progress.DONE,
    },
    Progress.EARLY: {
        Sign.RUN: Progress.EARLY,
        Sign.OPEN: Progress.EARLY,
        Sign.ANSWER: Progress.EARLY,
        Sign.REST: Progress.DONE,
        Sign.OTHER: Progress.EARLY,
        Sign.GUESS: Progress.EARLY,
        Sign.ABORT: Progress.EARLY,
        Sign.RESULT: Progress.DONE,
    },
    Progress.DONE: dict.fromkeys(Sign, Progress.DONE),
}


class Owed(enum.Enum):
    """Tracks whether Claude will continue by itself because background work has ended.

    Claude reacts to such an end in the running turn or in a turn about it. Either has ended by the
    next `idle` after it.
    """

    __hash__ = object.__hash__

    NOTHING = "nothing"
    RESULT = "result"
    """An `idle` before the next result may have been sent before the work ended."""
    IDLE = "idle"
    """The next `idle` comes after all of it."""


class OwedInput(enum.Enum):
    """An event that changes `Owed`."""

    __hash__ = object.__hash__

    WORK = "work"
    """Background work has ended while Claude was busy."""
    WORK_AT_REST = "work_at_rest"
    RESULT = "result"
    IDLE = "idle"
    FORGET = "forget"
    """The wait for it has ended."""


OWED: Final[dict[Owed, dict[OwedInput, Owed]]] = {
    Owed.NOTHING: {
        OwedInput.WORK: Owed.RESULT,
        OwedInput.WORK_AT_REST: Owed.IDLE,
        OwedInput.RESULT: Owed.NOTHING,
        OwedInput.IDLE: Owed.NOTHING,
        OwedInput.FORGET: Owed.NOTHING,
    },
    Owed.RESULT: {
        OwedInput.WORK: Owed.RESULT,
        OwedInput.WORK_AT_REST: Owed.IDLE,
        OwedInput.RESULT: Owed.IDLE,
        OwedInput.IDLE: Owed.RESULT,
        OwedInput.FORGET: Owed.NOTHING,
    },
    Owed.IDLE: {
        OwedInput.WORK: Owed.RESULT,
        OwedInput.WORK_AT_REST: Owed.IDLE,
        OwedInput.RESULT: Owed.IDLE,
        OwedInput.IDLE: Owed.NOTHING,
        OwedInput.FORGET: Owed.NOTHING,
    },
}

CANCELLED: Final = ResultVerdict("cancelled")
LOST: Final = ResultVerdict(
    "failed", error=ErrorInfo("no_result", "the agent became idle without a result for the prompt")
)
NO_WORD: Final = ResultVerdict("completed")
PRESUMED: Final = {"completed": NO_WORD, "cancelled": CANCELLED}
"""Outcome of a prompt without a result, by its lifecycle."""


class ClaudeTurn(Struct):
    """A turn that has not ended. `id` and `uuid` hold None for a turn that Claude began."""

    progress: Progress
    id: str | None = None
    uuid: str | None = None
    lifecycle: str | None = None
    """The last `command_lifecycle` state of the prompt: `queued`, `started`, …"""
    verdict: ResultVerdict | None = None
    """Its outcome, unless Claude continues it."""
    usage: Usage | None = None
    folded: tuple[str, ...] = ()

    def apply(self, sign: Sign) -> Progress:
        """Change the progress by a sign of Claude, and return the new progress."""
        self.progress = progress = TURNS[self.progress][sign]
        if progress is Progress.RUNNING:  # the guess was wrong
            self.verdict = self.usage = None
        return progress

    @property
    def decided(self) -> bool:
        """True if it has its result."""
        return self.progress is Progress.DONE or self.progress is Progress.EARLY

    @property
    def ran(self) -> bool:
        """True if some of Claude's output is known to belong to it."""
        return self.progress is not Progress.SENT and self.progress is not Progress.GUESSED

    def presumed(self, *, reports_states: bool) -> ResultVerdict | None:
        """Return the outcome if nothing more comes, or None if more must come.

        `reports_states`: this CLI reports when it becomes idle, so that the turn waits for that.
        """
        match self.progress:
            case Progress.SENT | Progress.RUNNING:
                return None
            case Progress.OPENED:
                return None if reports_states else PRESUMED.get(self.lifecycle or "")
            case Progress.RESTED:
                return PRESUMED.get(self.lifecycle or "", LOST)
            case Progress.ANSWERED:
                return self.verdict or NO_WORD
            case _:
                return self.verdict

    def decide(self, verdict: ResultVerdict) -> None:
        """End the turn with this outcome, by its result or without waiting for one."""
        self.apply(Sign.RESULT)
        self.verdict = verdict

    def finished(self) -> TurnFinished:
        """Return the effect that ends the turn. Raises `LookupError` if it is not decided."""
        verdict = self.verdict
        if verdict is None:
            raise LookupError(f"turn {self.id} is {self.progress.value}")
        return TurnFinished(
            turn=self.id,
            outcome=verdict.outcome,
            stop_reason=verdict.stop_reason,
            usage=self.usage,
            error=verdict.error,
            structured_output=verdict.structured_output,
            folded=self.folded,
        )
