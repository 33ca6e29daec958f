"""The prompts that wait in a session's queue, and the rules for sending them.

Each prompt in the queue is either *ready*, so that it is sent when its turn comes, or *paused*, so
that it stays until the queue is resumed. The same rules apply to every interface:

- A Stop pauses all prompts that wait at that moment. So does the restart of the process.
- Only `resume` lets a paused prompt continue. Nothing else does, in particular no new prompt.
- A new prompt is ready. It is sent before all paused ones and after the ready ones, or before those
  too if it is put `first`.

The queue is therefore always a run of ready prompts followed by a run of paused ones, each in
sending order.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

from ..errors import LocalProtocolError
from .content import Block
from .events import QueueEntry
from .turn import TurnMachine


class QueuedState(enum.Enum):
    """The state of one prompt in the queue."""

    READY = "ready"
    """Sent as soon as no prompt before it is left."""
    PAUSED = "paused"
    """Not sent until the queue is resumed."""


class QueueInput(enum.Enum):
    """An input that each prompt in the queue gets."""

    PUT = "put"
    """Another prompt was added."""
    PAUSE = "pause"
    """The session was stopped, or its process is a new one."""
    RESUME = "resume"
    """The queue was resumed."""


TABLE: Final[dict[QueuedState, dict[QueueInput, QueuedState]]] = {
    QueuedState.READY: {
        QueueInput.PUT: QueuedState.READY,
        QueueInput.PAUSE: QueuedState.PAUSED,
        QueueInput.RESUME: QueuedState.READY,
    },
    QueuedState.PAUSED: {
        QueueInput.PUT: QueuedState.PAUSED,
        QueueInput.PAUSE: QueuedState.PAUSED,
        QueueInput.RESUME: QueuedState.READY,
    },
}
"""The transitions: the next state of a prompt by current state and input."""


class PromptQueue:
    """The queued prompts in sending order. A prompt's id is `TurnMachine.entry`."""

    def __init__(self) -> None:
        """Begin with an empty queue."""
        self.waiting: list[TurnMachine] = []
        """The prompts in order. Change it only through the methods."""
        self._ready = 0  # the number of ready prompts, which are at the front

    def __len__(self) -> int:
        """Return the number of prompts, paused ones included."""
        return len(self.waiting)

    def __iter__(self) -> Iterator[TurnMachine]:
        return iter(self.waiting)

    def __contains__(self, turn: TurnMachine) -> bool:
        """Return True if the prompt waits. Turns are compared by identity."""
        return turn in self.waiting

    @property
    def paused(self) -> bool:
        """True while a prompt waits for `resume`."""
        return self._ready < len(self.waiting)

    @property
    def flows(self) -> bool:
        """True while a ready prompt waits."""
        return self._ready > 0

    @property
    def next(self) -> TurnMachine | None:
        """The prompt that is sent next; None if all queued prompts are paused."""
        return self.waiting[0] if self._ready else None

    @property
    def entries(self) -> list[QueueEntry]:
        """The queue as viewers see it."""
        return [
            QueueEntry(turn.entry, turn.content or [], paused=number >= self._ready)
            for number, turn in enumerate(self.waiting)
        ]

    def find(self, entry: str) -> TurnMachine:
        """Return the queued prompt with that id.

        Raises `LocalProtocolError` if it is not queued.
        """
        for turn in self.waiting:
            if turn.entry == entry:
                return turn
        raise LocalProtocolError(f"no prompt {entry!r} is queued: it was started or removed")

    def put(self, turn: TurnMachine, *, first: bool = False) -> None:
        """Add a ready prompt: after the other ready ones, or before all if `first`."""
        self._apply(QueueInput.PUT)
        self.waiting.insert(0 if first else self._ready, turn)
        self._ready += 1

    def edit(self, turn: TurnMachine, content: list[Block]) -> None:
        """Replace the content of a prompt; it keeps its position."""
        turn.content = content

    def promote(self, turn: TurnMachine) -> None:
        """Move a prompt to the front of the ready ones, or of the paused ones if it is paused."""
        number = self.waiting.index(turn)
        self.waiting.remove(turn)
        self.waiting.insert(0 if number < self._ready else self._ready, turn)

    def remove(self, turn: TurnMachine) -> None:
        """Remove a prompt that is sent or dropped."""
        if self.waiting.index(turn) < self._ready:
            self._ready -= 1
        self.waiting.remove(turn)

    def pause(self) -> None:
        """Pause all prompts that wait now."""
        self._apply(QueueInput.PAUSE)

    def resume(self) -> None:
        """Let all paused prompts continue, in their order."""
        self._apply(QueueInput.RESUME)

    def _apply(self, input: QueueInput) -> None:
        """Apply an input to every prompt by the table, as one number: the ready ones are in
        front.
        """
        ready, paused = TABLE[QueuedState.READY][input], TABLE[QueuedState.PAUSED][input]
        count = self._ready * (ready is QueuedState.READY)
        count += (len(self.waiting) - self._ready) * (paused is QueuedState.READY)
        self._ready = count
