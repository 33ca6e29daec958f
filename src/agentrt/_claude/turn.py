"""One turn of Claude's as far as Claude has shown it, and what it owes: two tables.

Nothing that Claude writes is illegal at any time, so that both have an entry for every input.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from .._model.driver import TurnFinished
from .._model.events import Error, Usage
from .outcome import Verdict


class Progress(enum.Enum):
    """How far a turn is, as far as Claude has shown."""

    __hash__ = object.__hash__

    SENT = "sent"
    """Nothing that Claude does is known to belong to it."""
    RUNNING = "running"
    OPENED = "opened"
    """It runs, and it is the prompt itself that runs, not a turn that it was taken into."""
    RESTED = "rested"
    """Claude went to rest after it ran, but no result has come."""
    ANSWERED = "answered"
    """Its last word was said, but its result may be held back."""
    GUESSED = "guessed"
    """A result came that may be its own."""
    EARLY = "early"
    """It was aborted, and its result came before it ran: what it says may still come."""
    DONE = "done"
    """It has its result."""


class Sign(enum.Enum):
    """What Claude writes, as far as it says something about a turn."""

    __hash__ = object.__hash__

    RUN = "run"
    """Words, calls, the state `running`: the turn is under way."""
    OPEN = "open"
    """An `init` after the prompt was `started`."""
    ANSWER = "answer"
    """The last word, said where the result may be held back."""
    REST = "rest"
    OTHER = "other"
    """A result of something else: Claude's going to rest says nothing about the prompt."""
    GUESS = "guess"
    """A result of something else, or it is this turn's."""
    ABORT = "abort"
    """Its result, which says that it was aborted."""
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
    """Whether Claude will go on by itself: it makes something of background work that has ended,
    in the running turn or in one about it. Either is over at the next `idle` behind it."""

    __hash__ = object.__hash__

    NOTHING = "nothing"
    RESULT = "result"
    """An `idle` before the next result may have been on its way when the work ended."""
    IDLE = "idle"
    """The next `idle` comes behind all of it."""


class OwedInput(enum.Enum):
    __hash__ = object.__hash__

    WORK = "work"
    """Background work has ended while Claude was at something."""
    WORK_AT_REST = "work_at_rest"
    RESULT = "result"
    IDLE = "idle"
    FORGET = "forget"
    """It is not waited for any more."""


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

CANCELLED: Final = Verdict("cancelled")
LOST: Final = Verdict(
    "failed", error=Error("no_result", "the agent went to rest without a result for the prompt")
)
NO_WORD: Final = Verdict("completed")
PRESUMED: Final = {"completed": NO_WORD, "cancelled": CANCELLED}
"""How a prompt ended that has no result, by its lifecycle."""


class ClaudeTurn(Struct):
    """A turn that has not ended. `id` and `uuid` are None for one that Claude began."""

    progress: Progress
    id: str | None = None
    uuid: str | None = None
    lifecycle: str | None = None
    """What `command_lifecycle` said last of the prompt: `queued`, `started`, …"""
    verdict: Verdict | None = None
    """How it ends, unless Claude goes on with it."""
    usage: Usage | None = None
    folded: tuple[str, ...] = ()

    def apply(self, sign: Sign) -> Progress:
        self.progress = progress = TURNS[self.progress][sign]
        if progress is Progress.RUNNING:  # what was guessed was wrong
            self.verdict = self.usage = None
        return progress

    @property
    def decided(self) -> bool:
        """Whether it has its result."""
        return self.progress is Progress.DONE or self.progress is Progress.EARLY

    @property
    def ran(self) -> bool:
        """Whether some of what Claude did is known to belong to it."""
        return self.progress is not Progress.SENT and self.progress is not Progress.GUESSED

    def presumed(self, *, reports_states: bool) -> Verdict | None:
        """How it has ended if nothing more comes; None if more must come.

        `reports_states`: this CLI says when it goes to rest, which is waited for then.
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

    def decide(self, verdict: Verdict) -> None:
        """End it that way: by its result, or because none is waited for."""
        self.apply(Sign.RESULT)
        self.verdict = verdict

    def finished(self) -> TurnFinished:
        """Raises `LookupError` for a turn that is not decided."""
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
