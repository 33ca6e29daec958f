"""The turns of one thread, by codex's own ids, and the state that decides when a cancel is sent.

The response to `turn/start` comes before the turn runs, and codex refuses an interrupt until it
does. So a cancel directly after its prompt waits for `turn/started`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ..model.driver import RecentKeys

REMEMBERED_TURNS: Final = 64
"""Ended turns of which late messages are still recognised: at least this many."""


class CodexTurnState(enum.Enum):
    """The state of a turn."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # implemented in C; members are singletons

    SENT = "sent"
    """The prompt was sent; codex's id of the turn is not known."""
    TAKEN = "taken"
    """Codex has accepted it, and it does not run yet."""
    RUNNING = "running"
    CANCELLED = "cancelled"
    """It must be interrupted as soon as it runs."""
    STOPPING = "stopping"
    """It was interrupted."""


class CodexTurnInput(enum.Enum):
    """An event that changes the state of a turn."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # implemented in C; members are singletons

    NAMED = "named"
    """Codex has reported its id, in the response to `turn/start`."""
    BEGAN = "began"
    """`turn/started`."""
    CANCEL = "cancel"
    """A request to stop it."""


TABLE: Final[dict[CodexTurnState, dict[CodexTurnInput, CodexTurnState]]] = {
    CodexTurnState.SENT: {
        CodexTurnInput.NAMED: CodexTurnState.TAKEN,
        CodexTurnInput.BEGAN: CodexTurnState.RUNNING,
        CodexTurnInput.CANCEL: CodexTurnState.CANCELLED,
    },
    CodexTurnState.TAKEN: {
        CodexTurnInput.NAMED: CodexTurnState.TAKEN,
        CodexTurnInput.BEGAN: CodexTurnState.RUNNING,
        CodexTurnInput.CANCEL: CodexTurnState.CANCELLED,
    },
    CodexTurnState.RUNNING: {
        CodexTurnInput.NAMED: CodexTurnState.RUNNING,
        CodexTurnInput.BEGAN: CodexTurnState.RUNNING,
        CodexTurnInput.CANCEL: CodexTurnState.STOPPING,
    },
    CodexTurnState.CANCELLED: {
        CodexTurnInput.NAMED: CodexTurnState.CANCELLED,
        CodexTurnInput.BEGAN: CodexTurnState.STOPPING,
        CodexTurnInput.CANCEL: CodexTurnState.CANCELLED,
    },
    CodexTurnState.STOPPING: {
        CodexTurnInput.NAMED: CodexTurnState.STOPPING,
        CodexTurnInput.BEGAN: CodexTurnState.STOPPING,
        CodexTurnInput.CANCEL: CodexTurnState.STOPPING,
    },
}

INTERRUPTS: Final = frozenset(
    {
        (CodexTurnState.RUNNING, CodexTurnInput.CANCEL),
        (CodexTurnState.CANCELLED, CodexTurnInput.BEGAN),
        (CodexTurnState.STOPPING, CodexTurnInput.CANCEL),
    }
)
"""Transitions at which `turn/interrupt` must be sent."""


class CodexTurn(Struct):
    """One turn of codex's: of a prompt (`prompt` is its id), or its own."""

    prompt: str | None
    id: str | None = None
    """Codex's id of the turn."""
    state: CodexTurnState = CodexTurnState.SENT
    steered: list[str] = field(default_factory=list)
    """Prompts that it has taken in addition to its own."""

    def apply(self, input: CodexTurnInput) -> bool:
        """Change the state. Returns True if the turn must be interrupted now."""
        before = self.state
        self.state = TABLE[before][input]
        return (before, input) in INTERRUPTS

    @property
    def runs(self) -> bool:
        """True if the turn runs, also if it was interrupted."""
        return self.state in (CodexTurnState.RUNNING, CodexTurnState.STOPPING)

    @property
    def cancelled(self) -> bool:
        """True if a cancel was requested."""
        return self.state in (CodexTurnState.CANCELLED, CodexTurnState.STOPPING)


class CodexTurns:
    """The prompt's turn, codex's own turn, and those that are over."""

    def __init__(self) -> None:
        self.prompt: CodexTurn | None = None
        self.own: CodexTurn | None = None
        self.reported_own = False
        """True if codex's own running turn was reported: within a prompt's turn it is not."""
        self._over = RecentKeys(REMEMBERED_TURNS)

    @property
    def current(self) -> CodexTurn | None:
        """The turn that a cancel stops."""
        return self.prompt or self.own

    def sent(self, prompt: str) -> CodexTurn:
        """Note that a prompt was sent, and return its turn."""
        self.prompt = CodexTurn(prompt)
        return self.prompt

    def named(self, id: str) -> bool:
        """Take the id in the response to `turn/start`. Returns True if the turn must be interrupted
        now."""
        turn = self.prompt
        if turn is None:
            return False
        if (
            turn.id is not None and turn.id != id
        ):  # the turn that began in the meantime was codex's own
            self.own = CodexTurn(None, turn.id, CodexTurnState.RUNNING)
            self.reported_own = False
            turn.state = CodexTurnState.CANCELLED if turn.cancelled else CodexTurnState.TAKEN
        turn.id = id
        return turn.apply(CodexTurnInput.NAMED)

    def began(self, id: str) -> tuple[CodexTurn, bool] | None:
        """Note that a turn runs.

        Returns the turn, and True if it must be interrupted now. Returns None if the turn is over.
        """
        if id in self._over:
            return None
        turn = self.prompt
        if turn is not None and turn.id in (None, id):
            turn.id = id
            return turn, turn.apply(CodexTurnInput.BEGAN)
        if self.own is None or self.own.id != id:
            self.own = CodexTurn(None, id, CodexTurnState.RUNNING)
            self.reported_own = False
        return self.own, False

    def is_over(self, id: str) -> bool:
        """Return True if the turn with this id has ended."""
        return id in self._over

    def live(self, id: str) -> bool:
        """True if messages of that turn belong to a running turn."""
        return any(turn is not None and turn.id == id for turn in (self.prompt, self.own))

    def ended(self, id: str) -> CodexTurn | None:
        """Note the end of a turn and return it, or None if it is not one that runs."""
        self._over.add(id)
        for turn in (self.prompt, self.own):
            if turn is not None and turn.id == id:
                self.forget(turn)
                return turn
        return None

    def forget(self, turn: CodexTurn) -> None:
        """Drop a turn."""
        if turn is self.prompt:
            self.prompt = None
        else:
            self.own = None
