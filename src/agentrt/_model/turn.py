"""THE turn: its states, the one table that moves it, and nothing else.

Everything that decides whether a turn runs, waits, is being cancelled or is over lives here; no
other room keeps a flag for it.
"""

from __future__ import annotations

import enum
from typing import Final

from .._errors import LocalProtocolError
from .events import CancelledBy, Origin, Phase


class TurnState(enum.Enum):
    __hash__ = object.__hash__  # in C; members are singletons

    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    ENDED = "ended"


class TurnInput(enum.Enum):
    __hash__ = object.__hash__

    ASK = "ask"
    """The agent asks something that a person or a policy must answer."""
    RESOLVE = "resolve"
    """The last open question is answered, withdrawn or expired."""
    CANCEL = "cancel"
    """Somebody wants the turn to stop."""
    END = "end"
    """It is over: by the agent's word, its death, or because nobody waits any longer."""


TABLE: Final[dict[TurnState, dict[TurnInput, TurnState]]] = {
    TurnState.RUNNING: {
        TurnInput.ASK: TurnState.WAITING,
        TurnInput.CANCEL: TurnState.CANCELLING,
        TurnInput.END: TurnState.ENDED,
    },
    TurnState.WAITING: {
        TurnInput.ASK: TurnState.WAITING,
        TurnInput.RESOLVE: TurnState.RUNNING,
        TurnInput.CANCEL: TurnState.CANCELLING,
        TurnInput.END: TurnState.ENDED,
    },
    TurnState.CANCELLING: {
        TurnInput.CANCEL: TurnState.CANCELLING,
        TurnInput.END: TurnState.ENDED,
    },
    TurnState.ENDED: {},
}

PHASES: Final[dict[TurnState, Phase]] = {
    TurnState.RUNNING: "running",
    TurnState.WAITING: "waiting",
    TurnState.CANCELLING: "cancelling",
}


class TurnMachine:
    """One turn from its start to its one end.

    An illegal input raises `LocalProtocolError` and changes nothing.
    """

    __slots__ = (
        "by",
        "cancel_deadline",
        "deadline",
        "explicit",
        "id",
        "origin",
        "since",
        "state",
    )

    def __init__(
        self,
        id: str,
        origin: Origin,
        since: float,
        deadline: float | None,
        *,
        explicit: bool = True,
    ) -> None:
        self.id = id
        self.origin: Origin = origin
        self.state = TurnState.RUNNING
        self.since = since
        self.deadline = deadline
        self.explicit = explicit
        """False for a turn of the agent's own that has no end on the wire."""
        self.cancel_deadline: float | None = None
        self.by: CancelledBy | None = None
        """Who cancelled first; set by `Conversation.cancel`."""

    def apply(self, input: TurnInput) -> TurnState:
        try:
            self.state = TABLE[self.state][input]
        except KeyError:
            raise LocalProtocolError(
                f"{input.value} is illegal in turn {self.id}, which is {self.state.value}"
            ) from None
        return self.state
