"""The prompts that wait for their place, and whether they may go on by themselves."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from typing import Final

from .._errors import LocalProtocolError
from .content import Block
from .events import QueueEntry
from .turn import TurnMachine


class Flow(enum.Enum):
    OPEN = "open"
    HELD = "held"
    """A cancel holds back what waits: a prompt never starts because of a stop."""


class QueueInput(enum.Enum):
    PUT = "put"
    HOLD = "hold"
    RESUME = "resume"
    EMPTY = "empty"
    """No prompt waits (any more) that could be held back."""


TABLE: Final[dict[Flow, dict[QueueInput, Flow]]] = {
    Flow.OPEN: {
        QueueInput.PUT: Flow.OPEN,
        QueueInput.HOLD: Flow.HELD,
        QueueInput.RESUME: Flow.OPEN,
        QueueInput.EMPTY: Flow.OPEN,
    },
    Flow.HELD: {
        QueueInput.PUT: Flow.OPEN,
        QueueInput.HOLD: Flow.HELD,
        QueueInput.RESUME: Flow.OPEN,
        QueueInput.EMPTY: Flow.OPEN,
    },
}


class PromptQueue:
    """Waiting prompts in their order. `TurnMachine.entry` is a prompt's id here."""

    def __init__(self) -> None:
        self.waiting: deque[TurnMachine] = deque()
        """In their order. To be changed by the methods alone."""
        self._flow = Flow.OPEN

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Iterator[TurnMachine]:
        return iter(self.waiting)

    def __contains__(self, turn: TurnMachine) -> bool:
        return turn in self.waiting

    @property
    def paused(self) -> bool:
        """True while prompts are held back, until the next one is put or `resume`."""
        return self._flow is Flow.HELD

    @property
    def flows(self) -> bool:
        """True while a prompt waits that will be sent by itself."""
        return self.next is not None

    @property
    def next(self) -> TurnMachine | None:
        """The prompt that is sent next, unless all that wait are held back."""
        for turn in self.waiting:
            if self._flow is Flow.OPEN or not turn.held:
                return turn
        return None

    @property
    def entries(self) -> list[QueueEntry]:
        return [QueueEntry(turn.entry, turn.content or []) for turn in self.waiting]

    def find(self, entry: str) -> TurnMachine:
        """The waiting prompt of that id. Raises `LocalProtocolError` if none waits."""
        for turn in self.waiting:
            if turn.entry == entry:
                return turn
        raise LocalProtocolError(f"no prompt {entry!r} waits: it was started or taken back")

    def put(self, turn: TurnMachine, *, first: bool = False) -> None:
        (self.waiting.appendleft if first else self.waiting.append)(turn)
        if turn.held:
            self._apply(QueueInput.PUT)

    def edit(self, turn: TurnMachine, content: list[Block]) -> None:
        turn.content = content

    def promote(self, turn: TurnMachine) -> None:
        """Let it be the next one; whether it is held back stays as it is."""
        self.waiting.remove(turn)
        self.waiting.appendleft(turn)

    def remove(self, turn: TurnMachine) -> None:
        self.waiting.remove(turn)
        if not self._holdable:
            self._apply(QueueInput.EMPTY)

    @property
    def _holdable(self) -> bool:
        return any(turn.held for turn in self.waiting)

    def hold(self) -> None:
        if self._holdable:
            self._apply(QueueInput.HOLD)

    def resume(self) -> None:
        self._apply(QueueInput.RESUME)

    def _apply(self, input: QueueInput) -> None:
        self._flow = TABLE[self._flow][input]
