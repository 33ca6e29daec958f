"""What reaches the agent only when the events behind it are stored: prompts, and what is allowed.

Without a store all of it is sent at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from .._model.log import Log
from .._model.turn import TurnMachine

Kind: TypeAlias = Literal["prompt", "steer", "allow"]


class _Waiting(Struct):
    seq: int
    kind: Kind
    key: str
    turn: TurnMachine | None
    send: Callable[[], None]
    drop: Callable[[], None]


class Withheld:
    """What waits for the store, in its order."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: deque[_Waiting] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def send(
        self,
        kind: Kind,
        key: str,
        turn: TurnMachine | None,
        send: Callable[[], None],
        drop: Callable[[], None],
    ) -> None:
        """Call `send` when all that is logged so far is stored, or `drop` if the turn is stopped
        before; `key`: the prompt's id, or the question's; `turn`: None for what no turn's end
        concerns. To be called within a step."""
        keeper = self._log.keeper
        if keeper is None:
            send()
        else:
            keeper.hurry()
            self._waiting.append(_Waiting(self._log.seq, kind, key, turn, send, drop))

    def has_prompt_of(self, turn: TurnMachine) -> bool:
        """Whether the agent does not know of the turn yet."""
        return any(each.kind == "prompt" and each.turn is turn for each in self._waiting)

    def allows(self, key: str) -> bool:
        """Whether the question of that key was answered so, and the agent does not know it yet."""
        return any(each.kind == "allow" and each.key == key for each in self._waiting)

    def due(self, seq: int) -> bool:
        """Whether something may be sent when all up to event `seq` is stored."""
        return bool(self._waiting) and self._waiting[0].seq <= seq

    def release(self, seq: int) -> None:
        """All up to event `seq` is stored: send what waited for that."""
        while self.due(seq):
            self._waiting.popleft().send()

    def drop(self, turn: TurnMachine, *, ended: bool = False) -> None:
        """The turn is stopped, or has `ended`. A prompt that was to go into it may still begin the
        agent's next one, as one may that comes too late."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each.turn is not turn or (ended and each.kind == "steer"):
                self._waiting.append(each)
            else:
                each.drop()

    def clear(self) -> None:
        """The process is gone that it was for."""
        self._waiting.clear()
