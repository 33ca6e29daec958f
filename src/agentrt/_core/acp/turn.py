"""The turns of an ACP session: their states, the transition table, and what counts as late.

In version 1 the answer to `session/prompt` ends the turn. In version 2 that answer only reports
that the prompt has become part of the conversation, and the turn ends when the agent changes from
busy to `idle`. The agent also becomes busy by itself, and an `idle` names no prompt. So an `idle`
ends the turn of a prompt only after the prompt was inserted; one that came before is remembered,
and ends the turn if the agent had already shown the message that the answer then names.

An `idle` of an agent that is not busy is a repeated snapshot and ends nothing, whatever its reason.
Output counts as being busy after the insertion, because some agents do not report it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ..model.driver import RecentKeys

if TYPE_CHECKING:
    from .messages2 import StateUpdate

REMEMBERED_MESSAGES: Final = 64
"""Messages of ended turns that are recognised when they come late: at least this many."""


class AcpTurnState(enum.Enum):
    """The state of the prompt in flight and of the agent."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # implemented in C; members are singletons

    IDLE = "idle"
    """No prompt is in flight and the agent is not busy."""
    OWN = "own"
    """The agent works by itself."""
    SENT = "sent"
    """A prompt was sent; the agent has not answered it and is not busy."""
    UNSURE = "unsure"
    """As `sent`, but the agent is busy: with this prompt, or by itself."""
    INSERTED = "inserted"
    """The prompt is part of the conversation, and the agent is not busy with it yet."""
    RUNNING = "running"
    """The agent is busy with the prompt."""


class AcpTurnInput(enum.Enum):
    """An event that changes the state."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # implemented in C; members are singletons

    PROMPT = "prompt"
    """A prompt is sent."""
    DISCARD = "discard"
    """The prompt was never written."""
    INSERTED = "inserted"
    """The agent has answered the prompt with the id of its message (version 2)."""
    ANSWERED = "answered"
    """The agent has answered the prompt with the end of its turn (version 1), or with an error."""
    BUSY = "busy"
    """The agent reports any state other than `idle`."""
    IDLE = "idle"
    """The agent reports `idle`."""
    OUTPUT = "output"
    """The agent sends content."""


class AcpTurnStep(enum.Enum):
    """The consequence of a transition."""

    OWN_BEGINS = "own_begins"
    OWN_ENDS = "own_ends"
    PROMPT_ENDS = "prompt_ends"
    REMEMBER = "remember"
    """Keep this `idle`: the answer to the prompt tells whether it ended the prompt's turn."""


_S, _I, _C = AcpTurnState, AcpTurnInput, AcpTurnStep

TABLE: Final[dict[AcpTurnState, dict[AcpTurnInput, tuple[AcpTurnState, AcpTurnStep | None]]]] = {
    _S.IDLE: {
        _I.PROMPT: (_S.SENT, None),
        _I.BUSY: (_S.OWN, _C.OWN_BEGINS),
        _I.IDLE: (_S.IDLE, None),
        _I.OUTPUT: (_S.IDLE, None),
    },
    _S.OWN: {
        _I.PROMPT: (_S.UNSURE, None),
        _I.BUSY: (_S.OWN, None),
        _I.IDLE: (_S.IDLE, _C.OWN_ENDS),
        _I.OUTPUT: (_S.OWN, None),
    },
    _S.SENT: {
        _I.DISCARD: (_S.IDLE, None),
        _I.INSERTED: (_S.INSERTED, None),
        _I.ANSWERED: (_S.IDLE, _C.PROMPT_ENDS),
        _I.BUSY: (_S.UNSURE, None),
        _I.IDLE: (_S.SENT, None),
        _I.OUTPUT: (_S.SENT, None),
    },
    _S.UNSURE: {
        _I.DISCARD: (_S.OWN, _C.OWN_BEGINS),
        _I.INSERTED: (_S.RUNNING, None),
        _I.ANSWERED: (_S.OWN, _C.PROMPT_ENDS),
        _I.BUSY: (_S.UNSURE, None),
        _I.IDLE: (_S.SENT, _C.REMEMBER),
        _I.OUTPUT: (_S.UNSURE, None),
    },
    _S.INSERTED: {
        _I.BUSY: (_S.RUNNING, None),
        _I.IDLE: (_S.INSERTED, None),
        _I.OUTPUT: (_S.RUNNING, None),
    },
    _S.RUNNING: {
        _I.BUSY: (_S.RUNNING, None),
        _I.IDLE: (_S.IDLE, _C.PROMPT_ENDS),
        _I.OUTPUT: (_S.RUNNING, None),
    },
}
"""The next state and the consequence, by state and input. A missing input cannot occur."""

PROMPT_STATES: Final = frozenset({_S.SENT, _S.UNSURE, _S.INSERTED, _S.RUNNING})
"""States in which a prompt is in flight."""
UNANSWERED: Final = frozenset({_S.SENT, _S.UNSURE})
"""States in which the agent has not answered the prompt."""
BUSY_STATES: Final = frozenset({_S.OWN, _S.UNSURE, _S.RUNNING})
"""States in which the agent is busy."""


class AcpPrompt(Struct):
    """The prompt in flight."""

    turn: str
    id: int
    """Id of its request."""
    cancels: int = 0
    steered: list[str] = field(default_factory=list)
    """Ids of the steered prompts that the agent has taken into it."""
    shown: set[str] = field(default_factory=set)
    """Ids of the user messages that the agent has shown since it was sent."""
    foreign: set[str] = field(default_factory=set)
    """Ids of the agent's messages before any of these: the agent's own work, unless the prompt was
    inserted into it."""
    end: StateUpdate | None = None
    """The remembered `idle`."""
    shown_at_end: frozenset[str] = frozenset()
    """The ids in `shown` when it came."""


class AcpTurns:
    """The turns of one session."""

    def __init__(self) -> None:
        self.state = AcpTurnState.IDLE
        self.prompt: AcpPrompt | None = None
        self.own_reported = False
        """True if the beginning of the agent's own work was reported, and its end was not."""
        self._reports_busy = False
        """True if the last state that the agent reported is a busy one."""
        self._over = RecentKeys(REMEMBERED_MESSAGES)
        self._messages: dict[str, None] = {}
        """Ids of the messages of the running turn."""

    def apply(self, input: AcpTurnInput) -> AcpTurnStep | None:
        """Change the state, and return the consequence."""
        self.state, step = TABLE[self.state].get(input, (self.state, None))
        return step

    def stated(self, *, idle: bool) -> AcpTurnStep | None:
        """Take a state that the agent reports, and return the consequence."""
        self._reports_busy = not idle
        return self.apply(AcpTurnInput.IDLE if idle else AcpTurnInput.BUSY)

    def answered(self) -> None:
        """Take an answer to the prompt that ends its turn."""
        self.apply(AcpTurnInput.ANSWERED)
        if self.state is AcpTurnState.OWN and not self._reports_busy:
            self.state = AcpTurnState.IDLE  # only its output had shown that it worked

    def sent(self, turn: str, id: int) -> None:
        """Note that a prompt was sent."""
        self.prompt = AcpPrompt(turn, id)
        self.apply(AcpTurnInput.PROMPT)

    @property
    def unanswered(self) -> bool:
        """True if the agent has not answered the prompt in flight."""
        return self.state in UNANSWERED

    @property
    def busy(self) -> bool:
        """True if the agent has reported that it is busy."""
        return self.state in BUSY_STATES

    def user_message(self, id: str) -> bool:
        """Note a user message. Returns True if it repeats one of an ended turn."""
        if self.prompt is not None:
            self.prompt.shown.add(id)
        late = id in self._over
        if not late:
            self._messages[id] = None
        return late

    def output(self, message: str | None) -> bool:
        """Note output of the agent. Returns False if it is late: its message is one of a turn that
        has ended."""
        if message is not None:
            if message in self._over:
                return False
            self._messages[message] = None
            if self.unanswered and self.prompt is not None and not self.prompt.shown:
                self.prompt.foreign.add(message)
        shown = self.prompt is not None and bool(self.prompt.shown)
        begun = self.state is AcpTurnState.SENT and shown  # the prompt is shown: this is its work
        self.apply(AcpTurnInput.BUSY if begun else AcpTurnInput.OUTPUT)
        return True

    def remember(self, idle: StateUpdate) -> None:
        """Keep an `idle` that came before the answer to the prompt."""
        prompt = self.prompt
        assert prompt is not None
        prompt.end, prompt.shown_at_end = idle, frozenset(prompt.shown)

    def inserted(self, message: str) -> StateUpdate | None:
        """Take the answer to the prompt. Returns the remembered `idle` if that was its end."""
        prompt = self.prompt
        assert prompt is not None
        end = prompt.end
        self._messages[message] = None
        if self.state is AcpTurnState.SENT and end is not None and message in prompt.shown_at_end:
            self.state = AcpTurnState.IDLE
            return end
        self.apply(AcpTurnInput.INSERTED)
        return None

    def ended(self) -> None:
        """Forget the turn that has ended, except for the ids of its messages."""
        self.prompt = None
        self.forget(self._messages)
        self._messages = {}

    def forget(self, messages: Iterable[str]) -> None:
        """Treat these messages as those of an ended turn."""
        for id in messages:
            self._over.add(id)
