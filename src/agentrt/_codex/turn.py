"""The turns of one thread: which runs, by codex's own ids, and what a cancel has to wait for.

`turn/start` is answered before the turn runs, and an interrupt is refused until it does: so a
cancel right behind its prompt waits for `turn/started`.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import Final

from msgspec import Struct, field

REMEMBERED: Final = 64
"""Turns that are over and whose late words are still known as such."""


class TurnState(enum.Enum):
    SENT = "sent"
    """The prompt is on its way; codex's id of it is not known."""
    TAKEN = "taken"
    """Codex has taken it, and it does not run yet."""
    RUNNING = "running"
    CANCELLED = "cancelled"
    """To be interrupted as soon as it runs."""
    STOPPING = "stopping"
    """It was interrupted."""


class TurnInput(enum.Enum):
    NAMED = "named"
    """Codex has said its id, in the answer to `turn/start`."""
    BEGAN = "began"
    """`turn/started`."""
    CANCEL = "cancel"
    """Somebody wants it to stop."""


TABLE: Final[dict[TurnState, dict[TurnInput, TurnState]]] = {
    TurnState.SENT: {
        TurnInput.NAMED: TurnState.TAKEN,
        TurnInput.BEGAN: TurnState.RUNNING,
        TurnInput.CANCEL: TurnState.CANCELLED,
    },
    TurnState.TAKEN: {
        TurnInput.NAMED: TurnState.TAKEN,
        TurnInput.BEGAN: TurnState.RUNNING,
        TurnInput.CANCEL: TurnState.CANCELLED,
    },
    TurnState.RUNNING: {
        TurnInput.NAMED: TurnState.RUNNING,
        TurnInput.BEGAN: TurnState.RUNNING,
        TurnInput.CANCEL: TurnState.STOPPING,
    },
    TurnState.CANCELLED: {
        TurnInput.NAMED: TurnState.CANCELLED,
        TurnInput.BEGAN: TurnState.STOPPING,
        TurnInput.CANCEL: TurnState.CANCELLED,
    },
    TurnState.STOPPING: {
        TurnInput.NAMED: TurnState.STOPPING,
        TurnInput.BEGAN: TurnState.STOPPING,
        TurnInput.CANCEL: TurnState.STOPPING,
    },
}

INTERRUPTS: Final = frozenset(
    {
        (TurnState.RUNNING, TurnInput.CANCEL),
        (TurnState.CANCELLED, TurnInput.BEGAN),
        (TurnState.STOPPING, TurnInput.CANCEL),
    }
)
"""Where `turn/interrupt` is to be sent."""


class CodexTurn(Struct):
    """One turn of codex's: of a prompt (`prompt` is its id), or its own."""

    prompt: str | None
    id: str | None = None
    """Codex's."""
    state: TurnState = TurnState.SENT
    steered: list[str] = field(default_factory=list)
    """Prompts that it has taken beside its own."""

    def apply(self, input: TurnInput) -> bool:
        """Whether it is to be interrupted now."""
        before = self.state
        self.state = TABLE[before][input]
        return (before, input) in INTERRUPTS

    @property
    def runs(self) -> bool:
        return self.state in (TurnState.RUNNING, TurnState.STOPPING)

    @property
    def cancelled(self) -> bool:
        return self.state in (TurnState.CANCELLED, TurnState.STOPPING)


class Turns:
    """The prompt's turn, codex's own, and those that are over."""

    def __init__(self) -> None:
        self.prompt: CodexTurn | None = None
        self.own: CodexTurn | None = None
        self.reported_own = False
        """Whether the running one of its own was reported: within a prompt it is not."""
        self._over: OrderedDict[str, None] = OrderedDict()

    @property
    def current(self) -> CodexTurn | None:
        """The one that a cancel is about."""
        return self.prompt or self.own

    def sent(self, prompt: str) -> CodexTurn:
        self.prompt = CodexTurn(prompt)
        return self.prompt

    def named(self, id: str) -> bool:
        """The answer to `turn/start`. Whether the prompt's turn is to be interrupted now."""
        turn = self.prompt
        if turn is None:
            return False
        if turn.id is not None and turn.id != id:  # what has begun meanwhile was its own
            self.own = CodexTurn(None, turn.id, TurnState.RUNNING)
            self.reported_own = False
            turn.state = TurnState.CANCELLED if turn.cancelled else TurnState.TAKEN
        turn.id = id
        return turn.apply(TurnInput.NAMED)

    def began(self, id: str) -> tuple[CodexTurn, bool] | None:
        """A turn runs: which, and whether it is to be interrupted now. None: that one is over."""
        if id in self._over:
            return None
        turn = self.prompt
        if turn is not None and turn.id in (None, id):
            turn.id = id
            return turn, turn.apply(TurnInput.BEGAN)
        if self.own is None or self.own.id != id:
            self.own = CodexTurn(None, id, TurnState.RUNNING)
            self.reported_own = False
        return self.own, False

    def is_over(self, id: str) -> bool:
        return id in self._over

    def live(self, id: str) -> bool:
        """Whether words of that turn belong to what runs."""
        return any(turn is not None and turn.id == id for turn in (self.prompt, self.own))

    def ended(self, id: str) -> CodexTurn | None:
        """A turn is over: the one that it is, or None if it is none that runs."""
        self._over[id] = None
        if len(self._over) > REMEMBERED:
            self._over.popitem(last=False)
        for turn in (self.prompt, self.own):
            if turn is not None and turn.id == id:
                self.forget(turn)
                return turn
        return None

    def forget(self, turn: CodexTurn) -> None:
        if turn is self.prompt:
            self.prompt = None
        else:
            self.own = None
